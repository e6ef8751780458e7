// Authorization: tokens, permissions, and what a caller without a permission can find out.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTokens

@Suite struct AuthenticationTests {
    private func server(
        _ permissions: TablePermissions = TablePermissions(),
        dynamic: Bool = false,
        clock: TestClock = TestClock(),
        log: ServerLog = .silent
    ) async throws -> TestServer {
        var table = TestServer.todo
        table.permissions = permissions
        return try await TestServer(
            [table],
            dynamic: dynamic,
            clock: clock,
            log: log,
            authenticator: try Tokens.authenticator()
        )
    }

    @Test("Tables require a token by default if authentication is configured")
    func authenticatedIsTheDefaultWithAuthentication() async throws {
        let server = try await server()
        for (method, target) in [
            ("GET", "/tables/TodoItem"), ("POST", "/tables/todoitem"),
            ("GET", "/tables/TodoItem/a"), ("PATCH", "/tables/TodoItem/a"),
            ("PUT", "/tables/TodoItem/a"), ("DELETE", "/tables/TodoItem/a"),
        ] {
            let answer = await server.send(method, target, "{}")
            #expect(answer.status == 401)
            #expect(answer.headers["WWW-Authenticate"] == "Bearer realm=\"tideline\"")
            #expect(answer.headers["Content-Type"] == "application/problem+json")
            #expect(answer.row["title"] as? String == "Unauthorized")
        }
        let undelete = await server.send("POST", "/tables/TodoItem/a", classic: true)
        #expect(undelete.status == 401)
        #expect(await server.send("GET", "/tables/nosuch").status == 404)
        #expect(await server.send("GET", "/health").status == 200)
        let headers = try Tokens.headers("anna")
        #expect(await server.send("GET", "/tables/TodoItem", headers: headers).status == 200)
        let created = await server.send(
            "POST",
            "/tables/TodoItem",
            #"{"id":"a"}"#,
            headers: headers
        )
        #expect(created.status == 201)
    }

    @Test("A token is accepted in X-ZUMO-AUTH and in Authorization")
    func tokensAreAcceptedInEitherField() async throws {
        let server = try await server()
        let token = try Tokens.make("anna")
        let bad = "abc"
        for (fields, status) in [
            (["x-zumo-auth": token], 200), (["Authorization": "Bearer \(token)"], 200),
            (["authorization": "bearer  \(token)"], 200),
            (["X-ZUMO-AUTH": token, "Authorization": "Bearer \(bad)"], 200),
            (["X-ZUMO-AUTH": "", "Authorization": "Bearer \(token)"], 200),
            (["X-ZUMO-AUTH": "Bearer \(token)"], 401), (["X-ZUMO-AUTH": bad], 401),
            (["Authorization": "Bearer"], 401), (["Authorization": "Basic \(token)"], 401),
            (["Authorization": token], 401), (["X-ZUMO-AUTH": ""], 401),
        ] as [([String: String], Int)] {
            var headers = HTTPFields()
            for (name, value) in fields { headers.append(name, value) }
            let answer = await server.send("GET", "/tables/TodoItem", headers: headers)
            #expect(answer.status == status, "\(fields.keys)")
        }
        let twice: HTTPFields = ["X-ZUMO-AUTH": token, "x-zumo-auth": token]
        #expect(await server.send("GET", "/tables/TodoItem", headers: twice).status == 401)
    }

    @Test("An invalid token is rejected, even on a table that is open to all callers")
    func invalidTokensAreRejectedEverywhere() async throws {
        let open = TablePermissions(
            read: .anonymous,
            insert: .anonymous,
            update: .anonymous,
            delete: .disabled
        )
        let good = try Tokens.make("anna")
        let parts = good.split(separator: ".")
        let unsigned = "eyJhbGciOiJub25lIn0.\(parts[1])."
        let cases: [(String, String)] = [
            ("abc", "three parts"), (unsigned, "without signature"),
            (good.dropLast(4) + "AAAA", "signature"),
            (try Tokens.make("anna", secret: Array(repeating: 7, count: 32)), "signature"),
            (try Tokens.make("anna", issuer: "https://other"), "issuer"),
            (try Tokens.make("anna", issuer: nil), "issuer"),
            (try Tokens.make("anna", audience: "other"), "audience"),
            (try Tokens.make("anna", expires: -61), "expired"),
            (try Tokens.make("anna", notBefore: 120), "not valid yet"),
            (try Tokens.make("an\u{1}na"), "user in the token"),
            (try Tokens.make(String(repeating: "a", count: 1025)), "user in the token"),
        ]
        let lines = Mutex("")
        let log = ServerLog(
            level: .debug,
            now: { 0 },
            sink: { line in lines.withLock { $0 += String(decoding: line, as: UTF8.self) } }
        )
        let server = try await server(open, log: log)
        #expect(await server.send("GET", "/tables/TodoItem").status == 200)
        for (token, reason) in cases {
            for method in ["GET", "DELETE"] {
                let answer = await server.send(
                    method,
                    "/tables/TodoItem/a",
                    headers: ["X-ZUMO-AUTH": token]
                )
                #expect(answer.status == 401)
                #expect(answer.error.contains(reason), "\(answer.error)")
                let challenge = answer.headers["WWW-Authenticate"] ?? ""
                #expect(challenge.hasPrefix("Bearer error=\"invalid_token\""))
                #expect(challenge.contains(reason))
                #expect(!answer.text.contains(token) && !challenge.contains(token))
            }
            #expect(!lines.withLock { $0.contains(token) })
        }
        #expect(lines.withLock { $0.contains("status=401") })
        // A time within the leeway is valid.
        for token in [
            try Tokens.make("anna", expires: -50), try Tokens.make("anna", notBefore: 50),
            try Tokens.make("anna", expires: nil),
        ] {
            let answer = await server.send(
                "GET",
                "/tables/TodoItem",
                headers: ["X-ZUMO-AUTH": token]
            )
            #expect(answer.status == 200)
        }
    }

    @Test("A cached token still expires") func aCachedTokenStillExpires() async throws {
        let clock = TestClock()
        let server = try await server(clock: clock)
        let headers: HTTPFields = ["X-ZUMO-AUTH": try Tokens.make("anna", expires: 10)]
        for _ in 0..<3 {
            #expect(await server.send("GET", "/tables/TodoItem", headers: headers).status == 200)
        }
        clock.move(by: 71_000_000)
        let late = await server.send("GET", "/tables/TodoItem", headers: headers)
        #expect(late.status == 401 && late.error.contains("expired"))
    }

    @Test("A token is verified once while it is valid")
    func tokensAreVerifiedOnceWhileTheyAreValid() throws {
        let count = Mutex(0)
        let authenticator = Authenticator { (token, _) throws(TokenRejection) in
            count.withLock { $0 += 1 }
            guard token.hasPrefix("good") else { throw TokenRejection("no") }
            return CheckedToken(user: User(id: token), validFrom: 10, validUntil: 100)
        }
        func id(_ token: String, _ now: Int64) throws -> String? {
            try authenticator.user(of: ["X-ZUMO-AUTH": token], now: now)?.id
        }
        for now in [Int64(10), 50, 99] { #expect(try id("good1", now) == "good1") }
        #expect(count.withLock { $0 } == 1)
        _ = try id("good1", 100)
        _ = try id("good1", 9)
        #expect(count.withLock { $0 } == 3)
        for _ in 0..<2 { #expect(throws: ServerError.self) { try id("bad", 50) } }
        #expect(count.withLock { $0 } == 5)
        // Canonically equivalent to K, but different bytes.
        #expect(try id("goodK", 50) == "goodK")
        #expect(throws: ServerError.self) { try id("good\u{212A}", 50) }
        // The cache is bounded: a token that has not been used for long is verified again, one in use stays.
        count.withLock { $0 = 0 }
        for number in 0..<5000 {
            _ = try id("good-\(number)", 50)
            _ = try id("goodK", 50)
        }
        #expect(count.withLock { $0 } == 5000)
        _ = try id("good-0", 50)
        #expect(count.withLock { $0 } == 5001)
    }

    @Test("Each kind of request needs its own permission")
    func eachOperationHasItsPermission() async throws {
        let server = try await server(
            TablePermissions(
                read: .authenticated,
                insert: .anonymous,
                update: .anonymous,
                delete: .disabled
            )
        )
        let headers = try Tokens.headers("anna")
        #expect(await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#).status == 201)
        #expect(await server.send("GET", "/tables/TodoItem/a").status == 401)
        #expect(await server.send("GET", "/tables/TodoItem/a", headers: headers).status == 200)
        // A caller without read permission sees no stored row.
        for (fields, isShown) in [(HTTPFields(), false), (headers, true)] {
            let twice = await server.send(
                "POST",
                "/tables/TodoItem",
                #"{"id":"a"}"#,
                headers: fields
            )
            #expect(twice.status == 409 && twice.body.isEmpty != isShown)
            var stale = fields
            stale.append("If-Match", "\"x\"")
            let failed = await server.send("PATCH", "/tables/TodoItem/a", "{}", headers: stale)
            #expect(failed.status == 412 && failed.body.isEmpty != isShown)
        }
        let disabled = await server.send("DELETE", "/tables/TodoItem/a", headers: headers)
        #expect(disabled.status == 405)
        #expect(disabled.headers["Allow"] == "GET, HEAD, PATCH, PUT")
    }

    @Test(
        "A write that sets deleted in its body needs the permission to delete",
        arguments: ["PATCH", "PUT", "patch document"]
    )
    func deletedInABodyNeedsThePermission(_ way: String) async throws {
        let isDocument = way == "patch document"
        func set(
            _ server: TestServer,
            _ deleted: Bool,
            _ headers: HTTPFields
        ) async -> ServerResponse {
            var headers = headers
            if isDocument { headers.append("Content-Type", "application/json-patch+json") }
            let operation = #"[{"op":"replace","path":"/deleted","value":\#(deleted)}]"#
            return await server.send(
                isDocument ? "PATCH" : way,
                "/tables/TodoItem/a?__includeDeleted=true",
                isDocument ? operation : #"{"deleted":\#(deleted)}"#,
                headers: headers
            )
        }
        let headers = try Tokens.headers("anna")
        let open = TablePermissions(read: .anonymous, insert: .anonymous, update: .anonymous)
        var noDelete = open
        noDelete.delete = .disabled
        var server = try await server(noDelete)
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        let rejected = await set(server, true, headers)
        #expect(rejected.status == 405 && rejected.error.contains("'deleted'"))
        #expect(rejected.headers["Allow"] == "GET, HEAD, PATCH, PUT")
        #expect(await set(server, false, [:]).status == 200)
        #expect(await server.send("GET", "/tables/TodoItem/a").status == 200)
        // Deletes are for authenticated users, other changes for all callers.
        server = try await self.server(open)
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        #expect(await set(server, true, [:]).status == 401)
        #expect(await server.send("GET", "/tables/TodoItem/a").status == 200)
        #expect(await set(server, true, headers).status == 200)
        #expect(await server.send("GET", "/tables/TodoItem/a").status == 410)
        #expect(await set(server, false, [:]).status == 200)
        #expect(await server.send("GET", "/tables/TodoItem/a").status == 200)
    }

    @Test("The deleted column cannot be set in a table without soft delete")
    func withoutSoftDeleteDeletedCannotBeSet() async throws {
        var table = TestServer.todo
        table.softDelete = false
        let server = try await TestServer([table])
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        for method in ["PATCH", "PUT"] {
            let answer = await server.send(method, "/tables/TodoItem/a", #"{"deleted":true}"#)
            #expect(answer.status == 400 && answer.error.contains("'deleted'"))
            let kept = await server.send(method, "/tables/TodoItem/a", #"{"deleted":false}"#)
            #expect(kept.status == 200)
        }
    }

    @Test("A table of a dynamic schema requires a token")
    func dynamicTablesNeedAuthenticationToo() async throws {
        let server = try await server(dynamic: true)
        #expect(await server.send("POST", "/tables/new", #"{"a":1}"#).status == 401)
        #expect(await server.send("GET", "/tables/new").status == 401)
        let headers = try Tokens.headers("anna")
        #expect(
            await server.send("POST", "/tables/new", #"{"a":1}"#, headers: headers).status == 201
        )
        #expect(await server.send("GET", "/tables/new").status == 401)
        #expect(await server.send("GET", "/tables/new", headers: headers).rows.count == 1)
    }

    @Test("The metrics require a token when the server does not listen on loopback")
    func metricsNeedAuthenticationOffLoopback() async throws {
        let server = try await TestServer(
            exposesMetrics: false,
            authenticator: try Tokens.authenticator()
        )
        #expect(await server.send("GET", "/metrics").status == 401)
        let bad = await server.send("GET", "/metrics", headers: ["X-ZUMO-AUTH": "abc"])
        #expect(bad.status == 401)
        let headers = try Tokens.headers("anna")
        #expect(await server.send("GET", "/metrics", headers: headers).status == 200)
        #expect(await server.send("GET", "/health").status == 200)
    }

    @Test("Tokens are ignored if no authentication is configured")
    func withoutAuthenticationTokensAreIgnored() async throws {
        let server = try await TestServer()
        let headers: HTTPFields = ["X-ZUMO-AUTH": "abc", "Authorization": "Bearer x y"]
        #expect(await server.send("GET", "/tables/TodoItem", headers: headers).status == 200)
    }

    @Test("Access rules that the server cannot check are rejected")
    func rulesThatCannotBeCheckedAreRejected() async throws {
        var table = TestServer.todo
        table.permissions.read = .authenticated
        await #expect(throws: SchemaError.self) { _ = try await TestServer([table]) }
        table = TestServer.todo
        table.owner = "userId"
        await #expect(throws: SchemaError.self) { _ = try await TestServer([table]) }
        table.permissions.read = .anonymous
        await #expect(throws: SchemaError.self) {
            _ = try await TestServer([table], authenticator: try Tokens.authenticator())
        }
    }
}
