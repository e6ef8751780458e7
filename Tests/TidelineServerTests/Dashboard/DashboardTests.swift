// The dashboard's routes: who may use them, what an operator may do there, and what the page receives.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct DashboardTests {
    static let page = DashboardFile(name: "index.html", type: "text/html", body: Array("<p>".utf8))

    private static func dashboard(
        mode: OperatorGate.Mode = .readWrite,
        users: Bool = false,
        loopback: Bool = true,
        operators: [String]? = ["olga"],
        devicesMax: Int = 1000,
        slowFrom: Int64 = .max
    ) -> Dashboard {
        Dashboard(
            gate: OperatorGate(
                mode: mode,
                hasAuthentication: users,
                isLoopback: loopback,
                host: "127.0.0.1",
                operators: Operators(operators)
            ),
            files: [page],
            settings: [DashboardSetting("loops", "2")],
            devicesMax: devicesMax,
            slow: SlowRequests(countMax: 3, microsecondsMin: slowFrom),
            migration: { ["a step"] }
        )
    }

    private func send(
        _ server: TestServer,
        _ method: String,
        _ target: String,
        _ body: String = "",
        host: String = "localhost:8080",
        headers fields: HTTPFields = [:]
    ) async -> ServerResponse {
        let parts = target.split(separator: "?", maxSplits: 1).map(String.init)
        var headers = fields
        headers.append("Host", host)
        if !body.isEmpty { headers.append("Content-Type", "application/json") }
        return await server.handler.handle(
            ServerRequest(
                method: method,
                path: parts[0],
                query: parts.count > 1 ? parts[1].replacing(" ", with: "%20") : "",
                headers: headers,
                body: Array(body.utf8)
            )
        )
    }

    // MARK: - Access

    @Test(
        "Without authentication only this machine and the dashboard's page have access",
        arguments: [
            ("localhost:8080", [:], 200), ("LOCALHOST", [:], 200), ("127.0.0.1:1", [:], 200),
            ("127.1.2.3", [:], 200), ("[::1]:8080", [:], 200),
            // A foreign host name that resolves to this machine.
            ("evil.example:8080", [:], 403), ("localhost.evil.example", [:], 403),
            ("127.0.0.1.evil.example", [:], 403), ("127.0.0.256", [:], 403), ("", [:], 403),
            // A page of another site.
            ("localhost:8080", ["Origin": "http://localhost:8080"], 200),
            ("localhost:8080", ["Origin": "http://localhost:9999"], 403),
            ("localhost:8080", ["Origin": "http://evil.example"], 403),
            ("localhost:8080", ["Origin": "null"], 403),
            ("localhost:8080", ["Sec-Fetch-Site": "same-origin"], 200),
            ("localhost:8080", ["Sec-Fetch-Site": "none"], 200),
            ("localhost:8080", ["Sec-Fetch-Site": "cross-site"], 403),
            ("localhost:8080", ["Sec-Fetch-Site": "same-site"], 403),
        ] as [(String, HTTPFields, Int)]
    )
    func withoutAuthenticationOnlyThisMachineAndThisPageHaveAccess(
        host: String,
        fields: HTTPFields,
        status: Int
    ) async throws {
        // Origins that may call the tables may not call the dashboard.
        let server = try await TestServer(
            crossOrigin: OriginPattern("*").map { CrossOrigin([$0]) },
            dashboard: Self.dashboard()
        )
        for path in ["/$admin/overview", "/$admin/tables/TodoItem", "/$ADMIN/migration"] {
            let answer = await send(server, "GET", path, host: host, headers: fields)
            #expect(answer.status == status, "\(path)")
        }
    }

    @Test("Table permissions apply to a dashboard without authentication")
    func withoutAuthenticationPermissionsApply() async throws {
        var table = TestServer.todo
        table.permissions = TablePermissions(delete: .disabled)
        let server = try await TestServer([table], dashboard: Self.dashboard())
        let created = await send(server, "POST", "/$admin/tables/TodoItem", #"{"id":"a"}"#)
        #expect(created.status == 201)
        #expect(await send(server, "DELETE", "/$admin/tables/TodoItem/a").status == 405)
        let overview = await send(server, "GET", "/$admin/overview")
        let tables = overview.row["tables"] as? [[String: Any]]
        #expect(
            tables?.first?["may"] as? [String: Bool]
                == ["read": true, "insert": true, "update": true, "delete": false]
        )
        #expect(overview.row["operator"] is NSNull)
    }

    @Test("A dashboard without authentication rejects remote callers")
    func remoteCallersWithoutAuthenticationAreRejected() async throws {
        let server = try await TestServer(dashboard: Self.dashboard(loopback: false))
        for path in ["/", "/$admin/overview", "/$admin/page/index.html"] {
            #expect(await send(server, "GET", path).status == 403)
        }
        let off = try await TestServer(dashboard: Self.dashboard(mode: .off))
        for path in ["/", "/$admin/overview", "/$admin/page/index.html"] {
            #expect(await send(off, "GET", path).status == 404)
        }
        let none = try await TestServer()
        #expect(await send(none, "GET", "/").status == 404)
        #expect(await send(none, "GET", "/$admin/overview").status == 404)
    }

    @Test("Only configured operators may use the dashboard")
    func operatorsAreConfiguredByName() async throws {
        for loopback in [true, false] {
            let server = try await TestServer(
                authenticator: try Tokens.authenticator(),
                dashboard: Self.dashboard(users: true, loopback: loopback)
            )
            for path in [
                "/$admin/overview", "/$admin/tables/TodoItem", "/$admin/events?tables=TodoItem",
            ] {
                #expect(await send(server, "GET", path).status == 401)
                #expect(
                    await send(server, "GET", path, headers: ["X-ZUMO-AUTH": "x"]).status == 401
                )
                #expect(
                    await send(server, "GET", path, headers: try Tokens.headers("anna")).status
                        == 403
                )
                let answer = await send(
                    server,
                    "GET",
                    path,
                    host: "data.example",
                    headers: try Tokens.headers("olga")
                )
                #expect(answer.status == 200)
            }
            #expect(await send(server, "GET", "/$admin/page/index.html").status == 200)
        }
        let nobody = try await TestServer(
            authenticator: try Tokens.authenticator(),
            dashboard: Self.dashboard(users: true, operators: nil)
        )
        let rejected = await send(
            nobody,
            "GET",
            "/$admin/overview",
            headers: try Tokens.headers("olga")
        )
        #expect(rejected.status == 403)
    }

    /// A browser sends no token when a user opens an address.
    @Test("A remote caller without a token gets the page that asks for one")
    func thePageAsksRemoteCallersForAToken() async throws {
        let near = try await TestServer(
            authenticator: try Tokens.authenticator(),
            dashboard: Self.dashboard(users: true)
        )
        #expect(await send(near, "GET", "/").status == 200)
        let far = try await TestServer(
            authenticator: try Tokens.authenticator(),
            dashboard: Self.dashboard(users: true, loopback: false)
        )
        let stranger = await send(far, "GET", "/", headers: ["If-None-Match": "*"])
        #expect(stranger.status == 401 && stranger.text == "<p>")
        #expect(stranger.headers["WWW-Authenticate"] != nil)
        #expect(await send(far, "GET", "/", headers: try Tokens.headers("anna")).status == 403)
        #expect(await send(far, "GET", "/", headers: try Tokens.headers("olga")).status == 200)
    }

    // MARK: - Rows

    private static var owned: TableDefinition {
        var table = TestServer.todo
        table.owner = "userId"
        table.permissions = TablePermissions(update: .disabled)
        return table
    }

    @Test("An operator bypasses owners and permissions on the dashboard's routes only")
    func anOperatorBypassesOwnersAndPermissions() async throws {
        let server = try await TestServer(
            [Self.owned],
            authenticator: try Tokens.authenticator(),
            dashboard: Self.dashboard(users: true)
        )
        let anna = try Tokens.headers("anna")
        let olga = try Tokens.headers("olga")
        let created = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#, headers: anna)
        #expect(created.status == 201)
        let path = "/$admin/tables/TodoItem"
        #expect(await send(server, "GET", path, headers: olga).ids == ["a"])
        var condition = olga
        condition.append("If-Match", created.headers["ETag"] ?? "")
        let changed = await send(
            server,
            "PATCH",
            path + "/a",
            #"{"text":"x","userId":"olga"}"#,
            headers: condition
        )
        #expect(changed.status == 200)
        #expect(changed.row["text"] as? String == "x" && changed.row["userId"] as? String == "anna")
        let late = await send(server, "PATCH", path + "/a", #"{"text":"y"}"#, headers: condition)
        #expect(late.status == 412 && late.row["text"] as? String == "x")
        // Replacing the whole row would write it with another owner.
        #expect(await send(server, "PUT", path + "/a", #"{"id":"a"}"#, headers: olga).status == 405)
        let given = await send(server, "POST", path, #"{"id":"b","userId":"anna"}"#, headers: olga)
        #expect(given.row["userId"] as? String == "anna")
        let own = await send(server, "POST", path, #"{"id":"c"}"#, headers: olga)
        #expect(own.row["userId"] as? String == "olga")
        #expect(await server.send("GET", "/tables/TodoItem", headers: anna).ids == ["a", "b"])
        #expect(await send(server, "DELETE", path + "/a", headers: olga).status == 204)
        let back = await send(
            server,
            "PATCH",
            path + "/a?__includeDeleted=true",
            #"{"deleted":false}"#,
            headers: olga
        )
        #expect(back.status == 200)
        // On other routes an operator is a user like any other.
        #expect(await server.send("GET", "/tables/TodoItem", headers: olga).ids == ["c"])
        let usual = await server.send(
            "PATCH",
            "/tables/TodoItem/c",
            #"{"text":"z"}"#,
            headers: olga
        )
        #expect(usual.status == 405)
        #expect(await send(server, "GET", path, headers: anna).status == 403)
    }

    @Test("An operator bypasses row filters on the dashboard's routes only")
    func anOperatorBypassesRowFilters() async throws {
        var hooks = TableHooks()
        hooks.rowFilter = { _ in "text eq 'shown'" }
        let server = try await TestServer(
            authenticator: try Tokens.authenticator(),
            hooks: ["TodoItem": hooks],
            dashboard: Self.dashboard(users: true)
        )
        let olga = try Tokens.headers("olga")
        for (id, text) in [("a", "shown"), ("b", "hidden")] {
            let body = #"{"id":"\#(id)","text":"\#(text)"}"#
            #expect(
                await send(server, "POST", "/$admin/tables/TodoItem", body, headers: olga).status
                    == 201
            )
        }
        #expect(
            await send(server, "GET", "/$admin/tables/TodoItem", headers: olga).ids == ["a", "b"]
        )
        #expect(await server.send("GET", "/tables/TodoItem", headers: olga).ids == ["a"])
    }

    @Test("A read-only dashboard rejects writes")
    func aReadOnlyDashboardRejectsWrites() async throws {
        let server = try await TestServer(dashboard: Self.dashboard(mode: .readOnly))
        #expect(await send(server, "GET", "/$admin/tables/TodoItem").status == 200)
        for (method, path) in [
            ("POST", "/$admin/tables/TodoItem"), ("PATCH", "/$admin/tables/TodoItem/a"),
            ("DELETE", "/$admin/tables/TodoItem/a"), ("POST", "/$admin/overview"),
        ] {
            let answer = await send(server, method, path, #"{"id":"a"}"#)
            #expect(answer.status == 403 && answer.error.contains("dashboard.mode"))
        }
        #expect(await send(server, "GET", "/$admin/overview").row["mode"] as? String == "readOnly")
    }

    // MARK: - What the page receives

    @Test("The page has security headers and an ETag")
    func filesHaveSecurityHeadersAndETags() async throws {
        let server = try await TestServer(dashboard: Self.dashboard())
        let page = await send(server, "GET", "/")
        #expect(page.status == 200 && page.text == "<p>")
        #expect(page.headers["Content-Type"] == "text/html")
        #expect(page.headers["Cache-Control"] == "no-cache")
        #expect(page.headers["X-Frame-Options"] == "DENY")
        #expect(page.headers["X-Content-Type-Options"] == "nosniff")
        let policy = try #require(page.headers["Content-Security-Policy"])
        #expect(policy.contains("default-src 'none'") && !policy.contains("unsafe"))
        let tag = try #require(page.headers["ETag"])
        let again = await send(server, "GET", "/", headers: ["If-None-Match": tag])
        #expect(again.status == 304 && again.body.isEmpty && again.headers["ETag"] == tag)
        #expect(await send(server, "GET", "/", headers: ["If-None-Match": "\"x\""]).status == 200)
        #expect(await send(server, "GET", "/$admin/page/other.js").status == 404)
        #expect(await send(server, "POST", "/", "{}").status == 405)
        #expect(await send(server, "HEAD", "/").status == 200)
    }

    @Test("The overview lists a limited number of devices and whether they are behind")
    func devicesAreListedAndFallBehind() async throws {
        let server = try await TestServer(dashboard: Self.dashboard(devicesMax: 10))
        let phone: HTTPFields = ["X-ZUMO-INSTALLATION-ID": "phone", "X-ZUMO-VERSION": "Client/1"]
        let laptop: HTTPFields = ["X-ZUMO-INSTALLATION-ID": "laptop"]
        func device(_ id: String) async throws -> [String: Any] {
            let overview = await send(server, "GET", "/$admin/overview")
            let all = try #require(overview.row["devices"] as? [[String: Any]])
            return try #require(all.first { $0["id"] as? String == id })
        }
        _ = await server.send("GET", "/tables/TodoItem", headers: phone)
        #expect(try await device("phone")["client"] as? String == "Client/1")
        #expect(try await device("phone")["behindSince"] is NSNull)
        #expect(try await device("phone")["lastPush"] is NSNull)
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#, headers: laptop)
        #expect(try await device("phone")["behindSince"] is String)
        #expect(try await device("laptop")["lastPush"] is String)
        _ = await server.send("GET", "/tables/TodoItem", headers: phone)
        #expect(try await device("phone")["behindSince"] is NSNull)
        for number in 0..<50 {
            let headers: HTTPFields = ["X-ZUMO-INSTALLATION-ID": "many-\(number)"]
            _ = await server.send("GET", "/tables/TodoItem", headers: headers)
        }
        let overview = await send(server, "GET", "/$admin/overview")
        #expect((overview.row["devices"] as? [Any])?.count == 10)
        #expect(try await device("many-49")["id"] as? String == "many-49")
    }

    @Test("Slow requests are reported without the values of their queries")
    func slowRequestsAreReportedWithoutValues() async throws {
        let server = try await TestServer(dashboard: Self.dashboard(slowFrom: 0))
        _ = await server.send("GET", "/tables/TodoItem?$filter=text eq 'secret' and rank gt 4711")
        let overview = await send(server, "GET", "/$admin/overview")
        let slow = try #require((overview.row["slow"] as? [[String: Any]])?.first)
        #expect(slow["query"] as? String == "$filter=text eq '…' and rank gt #")
        #expect(!overview.text.contains("secret") && !overview.text.contains("4711"))
        for _ in 0..<5 { _ = await server.send("GET", "/tables/TodoItem") }
        let later = await send(server, "GET", "/$admin/overview")
        #expect((later.row["slow"] as? [Any])?.count == 3)
    }

    @Test("The dashboard reports request counts, settings, sizes and migration steps")
    func theOverviewHasCountsAndQueryPlans() async throws {
        let server = try await TestServer(dashboard: Self.dashboard())
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        _ = await server.send("GET", "/tables/TodoItem?$filter=(")
        let overview = await send(server, "GET", "/$admin/overview")
        let traffic = try #require(overview.row["traffic"] as? [String: Any])
        #expect(traffic["rowsWritten"] as? Int == 1)
        let routes = try #require(traffic["routes"] as? [[String: Any]])
        let lists = try #require(routes.first { $0["route"] as? String == "list" })
        #expect(lists["requests"] as? Int == 1 && lists["refused"] as? Int == 1)
        let counts = try #require(lists["latencies"] as? [Int])
        #expect(counts.reduce(0, +) == 1)
        #expect(counts.count == (traffic["bounds"] as? [Int])?.count.advanced(by: 1))
        #expect(overview.row["settings"] as? [[String]] == [["loops", "2"]])
        let sizes = try #require(overview.row["sizes"] as? [[Any]])
        #expect(sizes.contains { $0.first as? String == "ledger" })
        let plan = await send(server, "GET", "/$admin/migration")
        #expect(plan.row["steps"] as? [String] == ["a step"])
    }

    // MARK: - Limits

    @Test("Texts of callers in the overview are limited in bytes, not in characters")
    func whatTheServerKeepsAboutCallersIsBounded() async throws {
        let long = "x" + String(repeating: "e" + String(repeating: "\u{301}", count: 500), count: 8)
        let server = try await TestServer(
            authenticator: try Tokens.authenticator(),
            dashboard: Self.dashboard(users: true, slowFrom: 0)
        )
        var headers = try Tokens.headers("anna")
        headers.append("X-ZUMO-INSTALLATION-ID", "phone")
        headers.append("X-ZUMO-VERSION", long)
        let path = "/tables/TodoItem?$filter=text eq \(long)"
        _ = await server.send("GET", "/tables/TodoItem", headers: headers)
        _ = await server.send("GET", path, headers: headers)
        _ = await server.send("GET", "/tables/" + long, headers: headers)
        let overview = await send(
            server,
            "GET",
            "/$admin/overview",
            headers: try Tokens.headers("olga")
        )
        let devices = try #require(overview.row["devices"] as? [[String: Any]])
        let slow = try #require(overview.row["slow"] as? [[String: Any]])
        #expect(devices.count == 1 && slow.count == 3)
        for text in (devices + slow).flatMap(\.values).compactMap({ $0 as? String }) {
            #expect(text.utf8.count <= 300)
        }
        let phone = try #require(devices.first)
        let client = try #require(phone["client"] as? String)
        #expect(client.utf8.count > 100)
        #expect(long.unicodeScalars.starts(with: client.unicodeScalars))
    }

    /// Planning uses a separate thread and connection.
    @Test("One migration is planned at a time") func oneMigrationIsPlannedAtATime() async throws {
        let plans = Mutex((running: 0, most: 0))
        let dashboard = Dashboard(
            gate: OperatorGate(hasAuthentication: false, isLoopback: true, host: "127.0.0.1"),
            files: [Self.page],
            migration: {
                plans.withLock { $0 = ($0.running + 1, max($0.most, $0.running + 1)) }
                for _ in 0..<2000 { await Task.yield() }
                plans.withLock { $0.running -= 1 }
                return ["a step"]
            }
        )
        let server = try await TestServer(dashboard: dashboard)
        await withTaskGroup(of: [String]?.self) { group in
            for _ in 0..<20 {
                group.addTask {
                    await send(server, "GET", "/$admin/migration").row["steps"] as? [String]
                }
            }
            for await steps in group { #expect(steps == ["a step"]) }
        }
        #expect(plans.withLock { $0.most } == 1)
        let later = await send(server, "GET", "/$admin/migration")
        #expect(later.row["steps"] as? [String] == ["a step"])
    }
}
