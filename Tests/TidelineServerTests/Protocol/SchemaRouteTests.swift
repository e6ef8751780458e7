// SchemaRouteTests: GET /$schema tells each caller the contract of the tables that it may read.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct SchemaRouteTests {
    private static let jobs = TableDefinition(
        "Job",
        columns: [
            ColumnDefinition(
                "title",
                .string,
                nullable: false,
                default: "",
                rules: ColumnRules(maxLength: 80, pattern: "[^<]*", required: true)
            ),
            ColumnDefinition("status", .enumeration(["open", "done"]), nullable: false),
            ColumnDefinition("start", .dateTime),
            ColumnDefinition("end", .dateTime),
            ColumnDefinition(
                "price",
                .decimal,
                rules: ColumnRules(min: .decimal(0), max: .decimal(100))
            ),
        ],
        rules: TableRules(
            unique: [["title"]],
            comparisons: [ColumnComparison("start", .lessOrEqual, "end")]
        )
    )

    @Test("The schema document contains columns, rules and fingerprints")
    func document() async throws {
        let server = try await TestServer([Self.jobs, TestServer.todo])
        let answer = await server.send("GET", "/$schema")
        #expect(answer.status == 200)
        #expect(answer.headers["Content-Type"] == "application/json; charset=utf-8")
        let document = try SchemaDocument(answer.body)
        #expect(document.tables.map(\.name) == ["Job", "TodoItem"])
        #expect(document.tables[0].schema == Self.jobs.schema)
        #expect(answer.row["fingerprint"] as? String == document.fingerprint)
        #expect(document.fingerprint.count == 64)
        let tables = try #require(answer.row["tables"] as? [String: [String: Any]])
        let job = try #require(tables["Job"])
        #expect(job["fingerprint"] as? String == document.tables[0].fingerprint)
        #expect(job["compare"] as? [[String]] == [["start", "<=", "end"]])
        #expect(job["unique"] as? [[String]] == [["title"]])
        let columns = try #require(job["columns"] as? [String: [String: Any]])
        #expect(columns["title"]?["maxLength"] as? Int == 80)
        #expect(columns["title"]?["required"] as? Bool == true)
        #expect(columns["status"]?["enum"] as? [String] == ["open", "done"])
        #expect(columns["start"]?["nullable"] as? Bool == true)
    }

    @Test("Both generations get the schema document, and other methods and versions are rejected")
    func generations() async throws {
        let server = try await TestServer()
        let classic = await server.send("GET", "/$schema", classic: true)
        let datasync = await server.send("GET", "/$schema")
        #expect(classic.status == 200 && classic.text == datasync.text)
        #expect(await server.send("GET", "/$schema?ZUMO-API-VERSION=9").status == 400)
        for method in ["POST", "PATCH", "PUT", "DELETE"] {
            let answer = await server.send(method, "/$schema", "{}")
            #expect(answer.status == 405 && answer.headers["Allow"] == "GET, HEAD")
        }
        #expect(await server.send("HEAD", "/$schema").status == 200)
        #expect(await server.send("OPTIONS", "/$schema").headers["Allow"] == "GET, HEAD")
    }

    @Test("An unchanged document is not sent again")
    func caching() async throws {
        let server = try await TestServer()
        let first = await server.send("GET", "/$schema")
        let tag = try #require(first.headers["ETag"])
        #expect(first.headers["Cache-Control"] == "private, no-cache")
        for list in [tag, "W/" + tag, "\"a\", \(tag)", "*"] {
            let same = await server.send("GET", "/$schema", headers: ["If-None-Match": list])
            #expect(same.status == 304 && same.body.isEmpty && same.headers["ETag"] == tag)
        }
        let other = await server.send("GET", "/$schema", headers: ["If-None-Match": "\"a\""])
        #expect(other.status == 200)
    }

    @Test("A caller learns nothing about tables that it may not read")
    func permissions() async throws {
        var hidden = Self.jobs
        hidden.permissions = TablePermissions(read: .disabled)
        var open = TestServer.todo
        open.permissions = TablePermissions(read: .anonymous)
        let closed = TableDefinition("Note", columns: [ColumnDefinition("text", .string)])
        let authenticator = try Tokens.authenticator()
        let server = try await TestServer([hidden, open, closed], authenticator: authenticator)
        func tables(_ headers: HTTPFields) async throws -> [String] {
            let answer = await server.send("GET", "/$schema", headers: headers)
            return try SchemaDocument(answer.body).tables.map(\.name)
        }
        #expect(try await tables([:]) == ["TodoItem"])
        #expect(try await tables(Tokens.headers("anna")) == ["Note", "TodoItem"])
        let wrong = await server.send("GET", "/$schema", headers: ["X-ZUMO-AUTH": "x"])
        #expect(wrong.status == 401)
        let signedIn = try await TestServer([closed], authenticator: authenticator)
        #expect(await signedIn.send("GET", "/$schema").status == 401)
    }

    @Test("A reference to a table that the caller may not read is left out")
    func references() async throws {
        func table(
            _ name: String,
            _ read: TablePermissions.Access,
            _ references: [TableReference] = []
        ) -> TableDefinition {
            var table = TableDefinition(
                name,
                columns: references.map { ColumnDefinition($0.column, .string) },
                references: references
            )
            table.permissions = TablePermissions(read: read)
            return table
        }
        let tables = [
            table("Secret", .disabled), table("Customer", .authenticated),
            table(
                "Job",
                .anonymous,
                [
                    TableReference("secretID", to: "Secret"),
                    TableReference("customerID", to: "Customer", onDelete: .cascade),
                    TableReference("nextID", to: "Job", onDelete: .setNull),
                ]
            ),
        ]
        let server = try await TestServer(tables, authenticator: try Tokens.authenticator())
        // Callers with different rights alternate: each gets the document of its own tables.
        var tags: Set<String> = []
        for _ in 0..<2 {
            for headers: HTTPFields in [[:], try Tokens.headers("anna")] {
                let answer = await server.send("GET", "/$schema", headers: headers)
                tags.insert(try #require(answer.headers["ETag"]))
                #expect(!answer.text.contains("Secret"))
                let isSignedIn = headers["X-ZUMO-AUTH"] != nil
                #expect(answer.text.contains("\"table\":\"Customer\"") == isSignedIn)
                let document = try SchemaDocument(answer.body)
                let job = try #require(document.table(matching: "Job"))
                let expected = isSignedIn ? ["customerID", "nextID"] : ["nextID"]
                #expect(job.references.keys.sorted() == expected)
                // An app with all references, and without the hidden tables, fits this document.
                let app = SchemaDocument([SchemaDocument.Table(tables[2])])
                #expect(app.differences(from: document).isEmpty)
            }
        }
        #expect(tags.count == 2)
    }

    @Test("The document changes when a write adds a column")
    func growth() async throws {
        let server = try await TestServer([], dynamic: true)
        #expect(await server.send("POST", "/tables/Note", #"{"id":"a","text":"x"}"#).status == 201)
        let first = await server.send("GET", "/$schema")
        #expect(await server.send("GET", "/$schema").text == first.text)
        #expect(await server.send("POST", "/tables/Note", #"{"id":"b","rank":1}"#).status == 201)
        let second = await server.send("GET", "/$schema")
        #expect(second.text.contains("\"rank\"") && second.headers["ETag"] != first.headers["ETag"])
    }

    @Test("Tideline-Schema changes with rules, and not with the order of columns")
    func header() async throws {
        func value(_ change: (inout TableDefinition) -> Void) async throws -> (String?, String) {
            var table = Self.jobs
            change(&table)
            let server = try await TestServer([table])
            let answer = await server.send("GET", "/$schema")
            let list = await server.send("GET", "/tables/Job")
            #expect(list.headers["Tideline-Schema"] == answer.headers["Tideline-Schema"])
            let print = try SchemaDocument(answer.body).fingerprint
            return (answer.headers["Tideline-Schema"], print)
        }
        let usual = try await value { _ in }
        #expect(try await value { $0.schema.columns.reverse() } == usual)
        let changes: [(inout TableDefinition) -> Void] = [
            { $0.schema.rules.unique = [] },
            { $0.schema.rules.comparisons = [] },
            { $0.schema.columns[0].rules.maxLength = 81 },
            { $0.schema.columns[1].isNullable = true },
            { $0.schema.columns[4].type = .number },
        ]
        for change in changes {
            let other = try await value(change)
            #expect(other.0 != usual.0 && other.1 != usual.1)
        }
    }
}
