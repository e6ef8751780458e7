// GrownReferenceTests: groups that add columns to a table and then read or delete its rows because of references.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct GrownReferenceTests {
    private static let tables = [
        TableDefinition("Parent", columns: [ColumnDefinition("name", .string)]),
        TableDefinition(
            "Child",
            columns: [ColumnDefinition("parentID", .string), ColumnDefinition("note", .string)],
            references: [TableReference("parentID", to: "Parent", onDelete: .cascade)]
        ),
    ]

    /// Sends requests as one group; returns their status codes.
    private static func send(
        _ requests: [(method: String, path: String, body: String?)],
        _ server: TestServer
    ) async -> [Int?] {
        let parts = requests.enumerated().map { number, request in
            """
            {"id":"\(number)","method":"\(request.method)","url":"/tables/\(request.path)",\
            "atomicityGroup":"g","headers":{"content-type":"application/json"}\
            \(request.body.map { ",\"body\":\($0)" } ?? "")}
            """
        }
        let body = "{\"requests\":[\(parts.joined(separator: ","))]}"
        let answer = await server.send("POST", "/$batch", body)
        let answers = answer.row["responses"] as? [[String: Any]] ?? []
        return answers.map { $0["status"] as? Int }
    }

    private static func with(
        _ onPostgres: Bool,
        _ body: (TestServer) async throws -> Void
    ) async throws {
        let server = try await TestServer(tables, onPostgres: onPostgres, dynamic: true)
        for id in ["p1", "p2"] {
            #expect(await server.send("POST", "/tables/Parent", #"{"id":"\#(id)"}"#).status == 201)
        }
        for (id, parent) in [("c1", "null"), ("c2", "null"), ("c3", "\"p1\"")] {
            let child = #"{"id":"\#(id)","parentID":\#(parent)}"#
            #expect(await server.send("POST", "/tables/Child", child).status == 201)
        }
        try await body(server)
        await server.store.stop()
    }

    @Test(
        "A group adds a column to parents, refers to one of them, and changes it",
        arguments: FieldService.backends
    )
    func parent(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres) { server in
            let statuses = await Self.send(
                [
                    ("PATCH", "Parent/p1", #"{"color":"red"}"#),
                    ("POST", "Child", #"{"id":"c4","parentID":"p2"}"#),
                    ("PATCH", "Parent/p2", #"{"color":"blue"}"#),
                ],
                server
            )
            #expect(statuses == [200, 201, 200])
            let row = await server.send("GET", "/tables/Parent/p2").row
            #expect(row["color"] as? String == "blue")
        }
    }

    @Test(
        "A group adds a column to children, deletes their parent, and changes other children",
        arguments: FieldService.backends,
        [1, 2]
    )
    func children(_ onPostgres: Bool, deletePosition: Int) async throws {
        try await Self.with(onPostgres) { server in
            var requests: [(method: String, path: String, body: String?)] = [
                ("PATCH", "Child/c1", #"{"color":"red"}"#),
                ("PATCH", "Child/c2", #"{"color":"blue"}"#),
            ]
            requests.insert(("DELETE", "Parent/p1", nil), at: deletePosition)
            let statuses = await Self.send(requests, server)
            #expect(statuses == requests.map { $0.method == "DELETE" ? 204 : 200 })
            let answer = await server.send("GET", "/tables/Child?$orderby=id")
            #expect(answer.ids == ["c1", "c2"])
            let second = await server.send("GET", "/tables/Child/c2").row
            #expect(second["color"] as? String == "blue")
        }
    }
}
