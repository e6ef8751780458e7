// Authorization: tokens, permissions, and what a caller without a permission can find out.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTokens

@Suite struct AuthenticationTests {
    private func door(
        _ permissions: TablePermissions = TablePermissions(),
        dynamic: Bool = false,
        clock: TestClock = TestClock(),
        log: ServerLog = .silent
    ) async throws -> Door {
        var table = Door.todo
        table.permissions = permissions
        return try await Door(
            [table],
            dynamic: dynamic,
            clock: clock,
            log: log,
            authenticator: try Tokens.authenticator()
        )
    }

    @Test("Tables require a token by default if authentication is configured")
    func authenticatedIsTheDefaultWithAuthentication() async throws {
        let door = try await door()
        for (method, target) in [
            ("GET", "/tables/TodoItem"), ("POST", "/tables/todoitem"),
            ("GET", "/tables/TodoItem/a"), ("PATCH", "/tables/TodoItem/a"),
            ("PUT", "/tables/TodoItem/a"), ("DELETE", "/tables/TodoItem/a"),
        ] {
            let answer = await door.send(method, target, "{}")
            #expect(answer.status == 401)
            #expect(answer.headers["WWW-Authenticate"] == "Bearer realm=\"tideline\"")
            #expect(answer.headers["Content-Type"] == "application/problem+json")
            #expect(answer.row["title"] as? String == "Unauthorized")
        }
        let undelete = await door.send("POST", "/tables/TodoItem/a", classic: true)
        #expect(undelete.status == 401)
        #expect(await door.send("GET", "/tables/nosuch").status == 404)
        #expect(await door.send("GET", "/health").status == 200)
        let headers = try Tokens.headers("anna")
        #expect(await door.send("GET", "/tables/TodoItem", headers: headers).status == 200)
        let made = await door.send("POST", "/tables/TodoItem", #"{"id":"a"}"#, headers: headers)
        #expect(made.status == 201)
    }

    @Test("A token is accepted in X-ZUMO-AUTH and in Authorization")
    func tokensAreAcceptedInEitherField() async throws {
        let door = try await door()
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
            let answer = await door.send("GET", "/tables/TodoItem", headers: headers)
            #expect(answer.status == status, "\(fields.keys)")
        }
        let twice: HTTPFields = ["X-ZUMO-AUTH": token, "x-zumo-auth": token]
        #expect(await door.send("GET", "/tables/TodoItem", headers: twice).status == 401)
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
        let door = try await door(open, log: log)
        #expect(await door.send("GET", "/tables/TodoItem").status == 200)
        for (token, reason) in cases {
            for method in ["GET", "DELETE"] {
                let answer = await door.send(
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
            let answer = await door.send(
                "GET",
                "/tables/TodoItem",
                headers: ["X-ZUMO-AUTH": token]
            )
            #expect(answer.status == 200)
        }
    }

    @Test("A cached token still expires") func aCachedTokenStillExpires() async throws {
        let clock = TestClock()
        let door = try await door(clock: clock)
        let headers: HTTPFields = ["X-ZUMO-AUTH": try Tokens.make("anna", expires: 10)]
        for _ in 0..<3 {
            #expect(await door.send("GET", "/tables/TodoItem", headers: headers).status == 200)
        }
        clock.move(by: 71_000_000)
        let late = await door.send("GET", "/tables/TodoItem", headers: headers)
        #expect(late.status == 401 && late.error.contains("expired"))
    }

    @Test("A token is verified once while it is valid")
    func tokensAreVerifiedOnceWhileTheyAreValid() throws {
        let count = Mutex(0)
        let authenticator = Authenticator { (token, _) throws(TokenRefusal) in
            count.withLock { $0 += 1 }
            guard token.hasPrefix("good") else { throw TokenRefusal("no") }
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
        let door = try await door(
            TablePermissions(
                read: .authenticated,
                insert: .anonymous,
                update: .anonymous,
                delete: .disabled
            )
        )
        let headers = try Tokens.headers("anna")
        #expect(await door.send("POST", "/tables/TodoItem", #"{"id":"a"}"#).status == 201)
        #expect(await door.send("GET", "/tables/TodoItem/a").status == 401)
        #expect(await door.send("GET", "/tables/TodoItem/a", headers: headers).status == 200)
        // A caller without read permission sees no stored row.
        for (fields, isShown) in [(HTTPFields(), false), (headers, true)] {
            let twice = await door.send(
                "POST",
                "/tables/TodoItem",
                #"{"id":"a"}"#,
                headers: fields
            )
            #expect(twice.status == 409 && twice.body.isEmpty != isShown)
            var stale = fields
            stale.append("If-Match", "\"x\"")
            let failed = await door.send("PATCH", "/tables/TodoItem/a", "{}", headers: stale)
            #expect(failed.status == 412 && failed.body.isEmpty != isShown)
        }
        let disabled = await door.send("DELETE", "/tables/TodoItem/a", headers: headers)
        #expect(disabled.status == 405)
        #expect(disabled.headers["Allow"] == "GET, HEAD, PATCH, PUT")
    }

    @Test(
        "A write that sets deleted in its body needs the permission to delete",
        arguments: ["PATCH", "PUT", "patch document"]
    )
    func deletedInABodyNeedsThePermission(_ way: String) async throws {
        let isDocument = way == "patch document"
        func set(_ door: Door, _ deleted: Bool, _ headers: HTTPFields) async -> ServerResponse {
            var headers = headers
            if isDocument { headers.append("Content-Type", "application/json-patch+json") }
            let operation = #"[{"op":"replace","path":"/deleted","value":\#(deleted)}]"#
            return await door.send(
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
        var door = try await door(noDelete)
        _ = await door.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        let refused = await set(door, true, headers)
        #expect(refused.status == 405 && refused.error.contains("'deleted'"))
        #expect(refused.headers["Allow"] == "GET, HEAD, PATCH, PUT")
        #expect(await set(door, false, [:]).status == 200)
        #expect(await door.send("GET", "/tables/TodoItem/a").status == 200)
        // Deletes are for authenticated users, other changes for all callers.
        door = try await self.door(open)
        _ = await door.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        #expect(await set(door, true, [:]).status == 401)
        #expect(await door.send("GET", "/tables/TodoItem/a").status == 200)
        #expect(await set(door, true, headers).status == 200)
        #expect(await door.send("GET", "/tables/TodoItem/a").status == 410)
        #expect(await set(door, false, [:]).status == 200)
        #expect(await door.send("GET", "/tables/TodoItem/a").status == 200)
    }

    @Test("The deleted column cannot be set in a table without soft delete")
    func withoutSoftDeleteDeletedCannotBeSet() async throws {
        var table = Door.todo
        table.softDelete = false
        let door = try await Door([table])
        _ = await door.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        for method in ["PATCH", "PUT"] {
            let answer = await door.send(method, "/tables/TodoItem/a", #"{"deleted":true}"#)
            #expect(answer.status == 400 && answer.error.contains("'deleted'"))
            let kept = await door.send(method, "/tables/TodoItem/a", #"{"deleted":false}"#)
            #expect(kept.status == 200)
        }
    }

    @Test("A table of a dynamic schema requires a token")
    func dynamicTablesNeedAuthenticationToo() async throws {
        let door = try await door(dynamic: true)
        #expect(await door.send("POST", "/tables/new", #"{"a":1}"#).status == 401)
        #expect(await door.send("GET", "/tables/new").status == 401)
        let headers = try Tokens.headers("anna")
        #expect(await door.send("POST", "/tables/new", #"{"a":1}"#, headers: headers).status == 201)
        #expect(await door.send("GET", "/tables/new").status == 401)
        #expect(await door.send("GET", "/tables/new", headers: headers).rows.count == 1)
    }

    @Test("The metrics require a token when the server does not listen on loopback")
    func metricsNeedAuthenticationOffLoopback() async throws {
        let door = try await Door(exposesMetrics: false, authenticator: try Tokens.authenticator())
        #expect(await door.send("GET", "/metrics").status == 401)
        let bad = await door.send("GET", "/metrics", headers: ["X-ZUMO-AUTH": "abc"])
        #expect(bad.status == 401)
        let headers = try Tokens.headers("anna")
        #expect(await door.send("GET", "/metrics", headers: headers).status == 200)
        #expect(await door.send("GET", "/health").status == 200)
    }

    @Test("Tokens are ignored if no authentication is configured")
    func withoutAuthenticationTokensAreIgnored() async throws {
        let door = try await Door()
        let headers: HTTPFields = ["X-ZUMO-AUTH": "abc", "Authorization": "Bearer x y"]
        #expect(await door.send("GET", "/tables/TodoItem", headers: headers).status == 200)
    }

    @Test("Access rules that the server cannot check are rejected")
    func rulesThatCannotBeCheckedAreRejected() async throws {
        var table = Door.todo
        table.permissions.read = .authenticated
        await #expect(throws: SchemaError.self) { _ = try await Door([table]) }
        table = Door.todo
        table.owner = "userId"
        await #expect(throws: SchemaError.self) { _ = try await Door([table]) }
        table.permissions.read = .anonymous
        await #expect(throws: SchemaError.self) {
            _ = try await Door([table], authenticator: try Tokens.authenticator())
        }
    }
}
