// Requirements for bodies, and the stored values that a caller without read permission may test.

import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct BodyRuleTests {
    @Test(
        "A body with a content coding other than identity is rejected with 415",
        arguments: [
            ("gzip", false), ("GZIP", false), ("identity, gzip", false), ("br", false),
            ("x-unknown", false), ("identity", true), ("Identity , identity", true), ("", true),
            (" , ", true),
        ]
    )
    func bodiesWithAContentCodingAreRejected(_ coding: String, _ isTaken: Bool) async throws {
        let server = try await TestServer()
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        for (method, path, type) in [
            ("POST", "/tables/TodoItem", "application/json"),
            ("PATCH", "/tables/TodoItem/a", "application/json"),
            ("PATCH", "/tables/TodoItem/a", "application/json-patch+json"),
            ("PUT", "/tables/TodoItem/a", "application/json"),
        ] {
            for isClassic in [false, true] where !isClassic || !type.contains("patch") {
                let answer = await server.send(
                    method,
                    path,
                    type.contains("patch") ? "[]" : "{}",
                    classic: isClassic,
                    headers: ["Content-Encoding": coding, "Content-Type": type]
                )
                let success = method == "POST" ? 201 : 200
                #expect(answer.status == (isTaken ? success : 415), "\(answer.text)")
                guard !isTaken else { continue }
                #expect(answer.headers["Accept-Encoding"] == "identity")
                #expect(answer.headers["Content-Type"] == "application/problem+json")
                #expect(answer.error.contains("'identity'"))
            }
        }
    }

    @Test("Content codings in two header fields are one list")
    func contentCodingsInTwoFields() async throws {
        let server = try await TestServer()
        var headers: HTTPFields = ["Content-Encoding": "identity"]
        headers.append("content-encoding", "deflate")
        #expect(await server.send("POST", "/tables/TodoItem", "{}", headers: headers).status == 415)
        // If no body is read, there is nothing to decode.
        #expect(await server.send("GET", "/tables/TodoItem", headers: headers).status == 200)
    }

    @Test("A test in a JSON Patch needs read permission")
    func testsNeedReadPermission() async throws {
        var table = TestServer.todo
        func answers(_ read: TablePermissions.Access, _ headers: HTTPFields) async throws -> [Int] {
            table.permissions = TablePermissions(
                read: read,
                insert: .anonymous,
                update: .anonymous
            )
            let server = try await TestServer([table], authenticator: try Tokens.authenticator())
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"secret"}"#)
            var statuses: [Int] = []
            for body in [
                #"[{"op":"test","path":"/text","value":"secret"}]"#,
                #"[{"op":"add","path":"/rank","value":1},{"op":"test","path":"/id","value":"b"}]"#,
                #"[{"op":"add","path":"/rank","value":1}]"#,
            ] {
                var headers = headers
                headers.append("Content-Type", "application/json-patch+json")
                let answer = await server.send(
                    "PATCH",
                    "/tables/TodoItem/a",
                    body,
                    headers: headers
                )
                statuses.append(answer.status)
                if answer.status == 405 {
                    #expect(answer.headers["Allow"] == "PATCH, PUT, DELETE")
                    #expect(answer.error.contains("'test'"))
                }
            }
            return statuses
        }
        let anna = try Tokens.headers("anna")
        #expect(try await answers(.disabled, [:]) == [405, 405, 200])
        #expect(try await answers(.disabled, anna) == [405, 405, 200])
        #expect(try await answers(.authenticated, [:]) == [401, 401, 200])
        #expect(try await answers(.authenticated, anna) == [200, 409, 200])
        #expect(try await answers(.anonymous, [:]) == [200, 409, 200])
    }
}
