// Tables with an owner column: each user has separate rows, and learns nothing about the rows of other users.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServerCore
import TidelineServerSQLite

@Suite struct OwnerTests {
    private static func table(
        _ change: (inout TableDefinition) -> Void = { _ in }
    )
        -> TableDefinition
    {
        var table = TestServer.todo
        table.owner = "userId"
        change(&table)
        return table
    }

    private func server(
        path: String? = nil,
        _ change: (inout TableDefinition) -> Void = { _ in }
    ) async throws -> TestServer {
        try await TestServer(
            [Self.table(change)],
            path: path,
            authenticator: try Tokens.authenticator()
        )
    }

    @Test("The response for another user's row is the one for a row that does not exist")
    func rowsOfOtherUsersAreAbsent() async throws {
        let server = try await server()
        let anna = try Tokens.headers("anna")
        let bert = try Tokens.headers("bert")
        let created = await server.send(
            "POST",
            "/tables/TodoItem",
            #"{"id":"a","text":"hers","userId":"bert"}"#,
            headers: anna
        )
        #expect(created.status == 201 && created.row["userId"] as? String == "anna")
        for (method, body) in [
            ("GET", nil), ("PATCH", #"{"text":"x"}"#), ("PUT", #"{"text":"x"}"#), ("DELETE", nil),
            ("PATCH", #"{"userId":"bert"}"#),
        ] as [(String, String?)] {
            for fields in [
                [:], ["If-Match": "*"], ["If-Match": created.headers["ETag"] ?? ""],
                ["If-None-Match": "*"],
            ] as [HTTPFields] {
                var headers = bert
                for field in fields { headers.append(field.name, field.value) }
                let answer = await server.send(method, "/tables/TodoItem/a", body, headers: headers)
                let absent = await server.send(method, "/tables/TodoItem/z", body, headers: headers)
                #expect(answer.status == 404)
                #expect(answer.body == absent.body)
            }
        }
        let undelete = await server.send(
            "POST",
            "/tables/TodoItem/a",
            classic: true,
            headers: bert
        )
        #expect(undelete.status == 404)
        let taken = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#, headers: bert)
        #expect(taken.status == 409 && taken.body.isEmpty)
        #expect(taken.headers["ETag"] == nil && taken.headers["Last-Modified"] == nil)
        for query in ["?$count=true", "?$filter=userId eq 'anna'&$count=true"] {
            let list = await server.send("GET", "/tables/TodoItem" + query, headers: bert)
            #expect(list.status == 200 && list.rows.isEmpty && list.row["count"] as? Int == 0)
        }
        let own = await server.send("GET", "/tables/TodoItem?$count=true", headers: anna)
        #expect(own.ids == ["a"] && own.row["count"] as? Int == 1)
        #expect(await server.send("GET", "/tables/TodoItem/a", headers: anna).body == created.body)
    }

    @Test(
        "An update never changes the owner of a row",
        arguments: [
            ("PATCH", "application/json", #"{"text":"new","userId":"bert"}"#),
            ("PATCH", "application/json", #"{"text":"new","USERID":null}"#),
            ("PUT", "application/json", #"{"text":"new","userId":"bert"}"#),
            ("PUT", "application/json", #"{"text":"new"}"#),
            (
                "PATCH", "application/json-patch+json",
                #"[{"op":"replace","path":"/userId","value":"bert"},{"op":"add","path":"/text","value":"new"}]"#
            ),
            (
                "PATCH", "application/json-patch+json",
                #"[{"op":"add","path":"/text","value":"new"},{"op":"copy","from":"/text","path":"/userId"}]"#
            ),
            (
                "PATCH", "application/json-patch+json",
                #"[{"op":"remove","path":"/userId"},{"op":"add","path":"/text","value":"new"}]"#
            ),
        ]
    )
    func noCallerCanChangeTheOwner(_ method: String, _ type: String, _ body: String) async throws {
        let server = try await server()
        var headers = try Tokens.headers("anna")
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#, headers: headers)
        headers.append("Content-Type", type)
        let answer = await server.send(method, "/tables/TodoItem/a", body, headers: headers)
        #expect(answer.status == 200, "\(answer.text)")
        #expect(answer.row["userId"] as? String == "anna")
        #expect(answer.row["text"] as? String == "new")
    }

    @Test("User names that are equal in Swift but differ in bytes are different users")
    func usersAreComparedByBytes() async throws {
        let server = try await server()
        let one = try Tokens.headers("caf\u{E9}")
        let two = try Tokens.headers("cafe\u{301}")
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#, headers: one)
        #expect(await server.send("GET", "/tables/TodoItem/a", headers: two).status == 404)
        #expect(await server.send("DELETE", "/tables/TodoItem/a", headers: two).status == 404)
        #expect(await server.send("GET", "/tables/TodoItem", headers: two).ids.isEmpty)
        #expect(await server.send("GET", "/tables/TodoItem/a", headers: one).status == 200)
        for name in ["' OR 1=1 --", "%", "ANNA", "anna ", "?1"] {
            let other = try Tokens.headers(name)
            #expect(await server.send("GET", "/tables/TodoItem", headers: other).ids.isEmpty)
            let id = "of " + name.replacing("?", with: "")
            let answer = await server.send(
                "POST",
                "/tables/TodoItem",
                #"{"text":"\#(id)"}"#,
                headers: other
            )
            #expect(answer.status == 201 && answer.row["userId"] as? String == name)
        }
    }

    @Test("A row from before the owner column belongs to no user")
    func rowsFromBeforeTheOwnerColumnHaveNoOwner() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let before = try await TestServer([TestServer.todo], path: path)
            _ = await before.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
            await before.store.stop()
            let server = try await server(path: path)
            let anna = try Tokens.headers("anna")
            #expect(await server.send("GET", "/tables/TodoItem/a", headers: anna).status == 404)
            #expect(await server.send("GET", "/tables/TodoItem", headers: anna).ids.isEmpty)
            let taken = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#, headers: anna)
            #expect(taken.status == 409 && taken.body.isEmpty)
            let created = await server.send(
                "POST",
                "/tables/TodoItem",
                #"{"id":"b"}"#,
                headers: anna
            )
            #expect(created.status == 201)
            await server.store.stop()
            // A pull by one user scans the owner's index, in its order.
            let database = try Database(path: path, mode: .readOnly)
            let plan = try database.prepare(
                """
                EXPLAIN QUERY PLAN SELECT * FROM "TodoItem"
                WHERE "deleted" = 0 AND ("userId" = 'anna') AND ("updatedAt" > 5)
                ORDER BY "updatedAt", "id" LIMIT 51
                """
            )
            #expect(try plan.step())
            #expect(plan.text(3).contains("tideline_TodoItem.userId.updatedAt.id"))
            #expect(try !plan.step(), "there is a sort")
            plan.reset()
        }
    }

    @Test("A declared owner column keeps the spelling of its declaration")
    func declaredOwnersKeepTheirSpelling() async throws {
        let server = try await server { table in
            table.owner = "USER"
            table.schema.columns.insert(
                ColumnDefinition("user", .string, nullable: false),
                at: 0
            )
        }
        let answer = await server.send(
            "POST",
            "/tables/TodoItem",
            #"{"text":"a"}"#,
            headers: try Tokens.headers("anna")
        )
        #expect(answer.row["user"] as? String == "anna" && answer.row["USER"] == nil)
    }

    @Test(
        "An owner column that is not a string or has an invalid name is rejected",
        arguments: [
            ColumnDefinition("userId", .integer), ColumnDefinition("userId", .guid),
        ]
    )
    func anOwnerColumnMustBeAString(_ column: ColumnDefinition) async throws {
        await #expect(throws: SchemaError.self) {
            _ = try await server { $0.schema.columns.append(column) }
        }
        for name in ["id", "Version", "__x", "a b", ""] {
            await #expect(throws: SchemaError.self) { _ = try await server { $0.owner = name } }
        }
    }
}

/// Random operations of two users on ids that both use.
///
/// The response that a user gets for a row of the other user is the one for a row that does not exist, and neither user
/// changes the other's rows.
@Suite struct OwnerPropertyTests {
    private static let ids = ["a", "b", "c", "d", "e"]

    private func pick<Element>(_ dice: inout Dice, _ elements: [Element]) -> Element {
        elements[dice.roll(elements.count)]
    }

    private struct Call {
        var method: String
        var path: String
        var query = ""
        var body: String?
        var isClassic = false
        var headers = HTTPFields()
    }

    /// A request for the row with this id.
    private func row(_ dice: inout Dice, _ id: String, tags: [String]) -> Call {
        var call = Call(method: "GET", path: "/tables/TodoItem/\(id)")
        call.isClassic = dice.roll(3) == 0
        switch dice.roll(7) {
        case 0: break
        case 1: call.method = "DELETE"
        case 2:
            call.method = "PUT"
            call.body = pick(&dice, [#"{"text":"p"}"#, #"{"text":"p","deleted":true}"#, "{", "[]"])
        case 3:
            call.method = "POST"
            call.isClassic = true
        case 4:
            call.method = "PATCH"
            call.isClassic = false
            call.headers.append("Content-Type", "application/json-patch+json")
            call.body = pick(
                &dice,
                [
                    #"[{"op":"test","path":"/text","value":"p"}]"#,
                    #"[{"op":"replace","path":"/userId","value":"bert"}]"#,
                    #"[{"op":"replace","path":"/deleted","value":true}]"#,
                ]
            )
        default:
            call.method = "PATCH"
            call.body = pick(
                &dice,
                [
                    #"{"text":"q"}"#, #"{"userId":"bert"}"#, #"{"deleted":false}"#,
                    #"{"deleted":true}"#, #"{"version":"\#(pick(&dice, tags))"}"#, "{}",
                    #"{"no":1}"#,
                ]
            )
        }
        if dice.roll(3) == 0 { call.query = "__includeDeleted=true" }
        switch dice.roll(5) {
        case 0: call.headers.append("If-Match", "\"\(pick(&dice, tags))\"")
        case 1: call.headers.append("If-Match", "*")
        case 2: call.headers.append("If-None-Match", "\"\(pick(&dice, tags))\"")
        case 3: call.headers.append("If-Unmodified-Since", "Thu, 01 Jan 2026 00:00:00 GMT")
        default: break
        }
        return call
    }

    private func send(
        _ call: Call,
        _ server: TestServer,
        as user: HTTPFields
    ) async -> ServerResponse {
        var headers = user
        for field in call.headers { headers.append(field.name, field.value) }
        let target = call.query.isEmpty ? call.path : call.path + "?" + call.query
        return await server.send(
            call.method,
            target,
            call.body,
            classic: call.isClassic,
            headers: headers
        )
    }

    private func all(_ server: TestServer, _ user: HTTPFields) async -> ServerResponse {
        await server.send(
            "GET",
            "/tables/TodoItem?__includeDeleted=true&$count=true&$top=100",
            headers: user
        )
    }

    private func expectSame(_ one: ServerResponse, _ two: ServerResponse, _ call: Call) {
        func comparable(_ answer: ServerResponse) -> [String] {
            answer.headers.filter { $0.name != "X-Request-ID" }.map { $0.name + ":" + $0.value }
        }
        let context: Comment = "\(call)"
        #expect(one.status == two.status, context)
        #expect(one.body == two.body, context)
        #expect(comparable(one) == comparable(two), context)
    }

    @Test(
        "Random operations of a user neither reveal nor change rows of another user",
        arguments: UInt64(1)...12
    )
    func usersLearnNothingAboutEachOther(_ seed: UInt64) async throws {
        var dice = Dice(seed)
        var table = TestServer.todo
        table.owner = "userId"
        table.softDelete = seed % 3 != 0
        table.conflict = pick(&dice, ConflictRule.allCases)
        let server = try await TestServer([table], authenticator: try Tokens.authenticator())
        let users = [try Tokens.headers("anna"), try Tokens.headers("bert")]
        var owners: [String: Int] = [:]
        var tags = ["AAAAAAAAAAA="]
        for step in 0..<150 {
            let user = dice.roll(2)
            let other = 1 - user
            let before = await all(server, users[other])
            let id = pick(&dice, Self.ids)
            var call = row(&dice, id, tags: tags)
            if dice.roll(3) == 0 {
                call = Call(method: "POST", path: "/tables/TodoItem", isClassic: dice.roll(2) == 0)
                call.body = #"{"id":"\#(id)","text":"\#(step)"}"#
            }
            let answer = await send(call, server, as: users[user])
            if let tag = answer.row["version"] as? String { tags.append(tag) }
            switch (call.path.hasSuffix("TodoItem"), owners[id]) {
            case (true, nil):
                #expect(answer.status == 201)
                owners[id] = user
            case (true, user): #expect(answer.status == 409 && answer.row["id"] as? String == id)
            case (true, _):
                #expect(answer.status == 409 && answer.body.isEmpty)
                #expect(answer.headers["ETag"] == nil)
            case (false, other):
                // The same request for a row that never existed.
                var absent = call
                absent.path = "/tables/TodoItem/never"
                expectSame(answer, await send(absent, server, as: users[user]), call)
            case (false, _):
                if call.method == "DELETE", answer.status == 204, !table.softDelete {
                    owners[id] = nil
                }
            }
            let after = await all(server, users[other])
            #expect(after.body == before.body, "\(call)")
            let own = await all(server, users[user])
            let expected = owners.filter { $0.value == user }.keys.sorted()
            #expect(own.ids == expected && own.row["count"] as? Int == expected.count)
            #expect(own.rows.allSatisfy { $0["userId"] as? String == ["anna", "bert"][user] })
        }
    }

    /// Every way to page and count, for both users, with the same query strings one after the other.
    @Test("Lists and counts cover only the caller's rows, however they are paged")
    func listsContainTheRowsOfOneUser() async throws {
        var table = TestServer.todo
        table.owner = "userId"
        table.pageSize = 3
        let server = try await TestServer([table], authenticator: try Tokens.authenticator())
        let users = ["anna", "bert"]
        var dice = Dice(7)
        var expected: [String: [String]] = [:]
        for number in 0..<40 {
            let user = pick(&dice, users)
            let id = "r" + String(100 + number)
            expected[user, default: []].append(id)
            let body = #"{"id":"\#(id)","rank":\#(number % 4)}"#
            let headers = try Tokens.headers(user)
            _ = await server.send("POST", "/tables/TodoItem", body, headers: headers)
        }
        for query in [
            "", "$orderby=updatedAt", "$orderby=rank desc", "$filter=rank ge 0",
            "$filter=rank ge 0 or userId ne 'x'", "$select=id", "$orderby=userId,updatedAt desc",
            "$filter=updatedAt ge datetimeoffset'2020-01-01T00:00:00.000Z'&$orderby=updatedAt",
            "$count=true", "$skip=0&$orderby=rank",
        ] {
            for isClassic in [true, false] {
                for user in users + users {
                    let headers = try Tokens.headers(user)
                    var ids: [String] = []
                    var next: String? = query
                    while let query = next, ids.count <= 40 {
                        let page = await server.send(
                            "GET",
                            "/tables/TodoItem?" + query,
                            classic: isClassic,
                            headers: headers
                        )
                        #expect(page.status == 200, "\(page.text)")
                        ids += page.ids
                        if let count = page.row["count"] as? Int {
                            #expect(count == expected[user]?.count)
                        }
                        let link = page.headers["Link"]?.split(separator: ";").first
                        next =
                            isClassic
                            ? link?.split(separator: "?").last.map(String.init)
                            : page.row["nextLink"] as? String
                    }
                    #expect(ids.sorted() == expected[user], "\(query) \(user)")
                }
            }
        }
    }
}
