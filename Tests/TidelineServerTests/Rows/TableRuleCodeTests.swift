// TableRuleCodeTests: each rule of a table rejects a row with its code and columns, on both databases.

import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTestKit

@Suite struct TableRuleCodeTests {
    static let databases = PostgresCluster.reasonToSkip == nil ? [false, true] : [false]

    static let visits = TableDefinition(
        "Visit",
        columns: [
            ColumnDefinition("title", .string, rules: ColumnRules(maxLength: 5, required: true)),
            ColumnDefinition("minutes", .integer, rules: ColumnRules(min: 1, max: 60)),
            ColumnDefinition("code", .string, rules: ColumnRules(pattern: "[A-Z]+")),
            ColumnDefinition("start", .dateTime),
            ColumnDefinition("end", .dateTime),
            ColumnDefinition("number", .integer),
            ColumnDefinition("room", .string),
        ],
        rules: TableRules(
            unique: [["number"], ["room", "start"]],
            comparisons: [ColumnComparison("start", .lessOrEqual, "end")]
        )
    )

    private func insert(_ server: TestServer, _ body: String) async -> ServerResponse {
        await server.send("POST", "/tables/Visit", body)
    }

    @Test(
        "A row that breaks a rule is rejected with the rule's code and columns",
        arguments: [
            (#"{}"#, "valueRequired", ["title"]),
            (#"{"title":null}"#, "valueRequired", ["title"]),
            (#"{"title":""}"#, "valueRequired", ["title"]),
            (#"{"title":"abcdef"}"#, "valueTooLong", ["title"]),
            (#"{"title":"a","minutes":0}"#, "valueTooSmall", ["minutes"]),
            (#"{"title":"a","minutes":61}"#, "valueTooLarge", ["minutes"]),
            (#"{"title":"a","code":"a"}"#, "patternMismatch", ["code"]),
            (
                #"{"title":"a","start":"2026-01-02T00:00:00Z","end":"2026-01-01T00:00:00Z"}"#,
                "comparisonFailed", ["start", "end"]
            ),
        ]
    )
    func localRules(_ body: String, _ code: String, _ columns: [String]) async throws {
        let server = try await TestServer([Self.visits])
        let answer = await insert(server, body)
        #expect(answer.status == 400)
        #expect(answer.code == code)
        #expect(answer.row["columns"] as? [String] == columns)
        #expect(answer.headers["Content-Type"] == "application/problem+json")
        #expect(answer.error.hasPrefix("Member '\(columns[0])': "))
        #expect(await server.send("GET", "/tables/Visit").ids.isEmpty)
    }

    @Test(
        "Every code of a rule violation is an error code of the server",
        arguments: RuleViolation.Code.allCases
    )
    func codes(_ code: RuleViolation.Code) {
        #expect(ErrorCode(rawValue: code.rawValue) != nil)
    }

    @Test(
        "A stale change that breaks a comparison with a later value is a conflict",
        arguments: [ConflictRule.merge, .clientWins]
    )
    func staleComparisons(_ rule: ConflictRule) async throws {
        var visits = Self.visits
        visits.conflict = rule
        let server = try await TestServer([visits])
        let row =
            #"{"id":"a","title":"a","start":"2026-01-01T10:00:00Z","end":"2026-01-01T12:00:00Z"}"#
        let first = await insert(server, row).headers["ETag"] ?? ""
        func patch(_ body: String) async -> ServerResponse {
            await server.send("PATCH", "/tables/Visit/a", body, headers: ["If-Match": first])
        }
        #expect(await patch(#"{"end":"2026-01-01T11:00:00Z"}"#).status == 200)
        let conflict = await patch(#"{"start":"2026-01-01T11:30:00Z"}"#)
        #expect(conflict.status == 412)
        #expect(conflict.row["start"] as? String == "2026-01-01T10:00:00.000Z")
        #expect(conflict.row["end"] as? String == "2026-01-01T11:00:00.000Z")
        if rule == .clientWins {
            // Both values are the caller's, so the change is wrong on any row.
            let own = await patch(
                #"{"start":"2026-01-01T11:30:00Z","end":"2026-01-01T11:00:00Z"}"#
            )
            #expect(own.code == "comparisonFailed")
        }
        #expect(await patch(#"{"start":"2026-01-01T10:30:00Z"}"#).status == 200)
    }

    @Test("A comparison applies to the row after a change of one of its columns")
    func comparisons() async throws {
        let server = try await TestServer([Self.visits])
        let row =
            #"{"id":"a","title":"a","start":"2026-01-01T00:00:00Z","end":"2026-01-01T00:00:00.0009Z"}"#
        #expect(await insert(server, row).status == 201)
        func patch(_ body: String) async -> ServerResponse {
            await server.send("PATCH", "/tables/Visit/a", body)
        }
        // The wire has milliseconds, in which both are equal.
        #expect(await patch(#"{"start":"2026-01-01T00:00:00.0009Z"}"#).status == 200)
        #expect(await patch(#"{"start":"2026-01-01T00:00:01Z"}"#).code == "comparisonFailed")
        #expect(await patch(#"{"title":"b"}"#).status == 200)
        #expect(await patch(#"{"end":null}"#).status == 200)
        #expect(await patch(#"{"start":"2026-01-01T00:00:01Z"}"#).status == 200)
        #expect(await patch(#"{"end":"2026-01-01T00:00:00Z"}"#).code == "comparisonFailed")
    }

    @Test(
        "A row with the unique values of another row is rejected with 409",
        arguments: databases
    )
    func unique(onPostgres: Bool) async throws {
        let server = try await TestServer([Self.visits], onPostgres: onPostgres)
        #expect(await insert(server, #"{"id":"a","title":"a","number":1}"#).status == 201)
        let twice = await insert(server, #"{"id":"b","title":"a","number":1}"#)
        #expect(twice.status == 409)
        #expect(twice.code == "notUnique")
        #expect(twice.row["columns"] as? [String] == ["number"])
        #expect(twice.error == "Member 'number': another row has the same value.")
        // The row's own values and null are accepted.
        #expect(await server.send("PATCH", "/tables/Visit/a", #"{"number":1}"#).status == 200)
        #expect(await insert(server, #"{"id":"c","title":"a"}"#).status == 201)
        #expect(await insert(server, #"{"id":"d","title":"a"}"#).status == 201)
        let changed = await server.send("PATCH", "/tables/Visit/c", #"{"number":1}"#)
        #expect(changed.status == 409 && changed.code == "notUnique")
        // The id comes before the values.
        let known = await insert(server, #"{"id":"c","title":"a","number":1}"#)
        #expect(known.status == 409 && known.code == nil && known.row["id"] as? String == "c")
    }

    @Test("A deleted row frees its values, until it is undeleted", arguments: databases)
    func tombstones(onPostgres: Bool) async throws {
        let server = try await TestServer([Self.visits], onPostgres: onPostgres)
        #expect(await insert(server, #"{"id":"a","title":"a","number":1}"#).status == 201)
        #expect(await server.send("DELETE", "/tables/Visit/a").status == 204)
        #expect(await insert(server, #"{"id":"b","title":"a","number":1}"#).status == 201)
        let back = await server.send("PATCH", "/tables/Visit/a", #"{"deleted":false}"#)
        #expect(back.status == 409 && back.code == "notUnique")
        #expect(await server.send("DELETE", "/tables/Visit/b").status == 204)
        let again = await server.send("PATCH", "/tables/Visit/a", #"{"deleted":false}"#)
        #expect(again.status == 200)
    }

    @Test("In a batch only the write that breaks the rule is rejected", arguments: databases)
    func batches(onPostgres: Bool) async throws {
        let server = try await TestServer([Self.visits], onPostgres: onPostgres)
        func part(_ id: String, _ number: Int, group: String? = nil) -> BatchPart {
            let body = #"{"id":"\#(id)","title":"a","number":\#(number)}"#
            return BatchPart(id, "post", "tables/Visit", body, group: group)
        }
        let answer = await server.batch(
            [part("a", 1), part("b", 1), part("c", 2)],
            headers: ["Prefer": "continue-on-error"]
        )
        #expect(answer.partStatuses == [201, 409, 201])
        #expect(answer.partBody(1)["code"] as? String == "notUnique")
        let group = await server.batch([part("d", 3, group: "g"), part("e", 2, group: "g")])
        #expect(group.partStatuses == [424, 409])
        #expect(await server.send("GET", "/tables/Visit").ids.sorted() == ["a", "c"])
        // A row may take the value that another one of the same batch gives up.
        let moved = await server.batch([
            BatchPart("1", "patch", "tables/Visit/a", #"{"number":9}"#, group: "g"),
            BatchPart("2", "patch", "tables/Visit/c", #"{"number":1}"#, group: "g"),
        ])
        #expect(moved.partStatuses == [200, 200])
    }

    @Test("Rows of another owner do not count for a unique rule", arguments: databases)
    func owners(onPostgres: Bool) async throws {
        var table = Self.visits
        table.owner = "ownerID"
        let server = try await TestServer(
            [table],
            onPostgres: onPostgres,
            authenticator: try Tokens.authenticator()
        )
        for (user, id, status) in [("anna", "a", 201), ("ben", "b", 201), ("anna", "c", 409)] {
            let answer = await server.send(
                "POST",
                "/tables/Visit",
                #"{"id":"\#(id)","title":"a","number":1}"#,
                headers: try Tokens.headers(user)
            )
            #expect(answer.status == status, "\(answer.text)")
            if status == 409 { #expect(answer.row["columns"] as? [String] == ["number"]) }
        }
    }

    @Test("A rule that stored rows break prevents the start, and the error counts the rows")
    func startsNot() async throws {
        try await withTemporaryDirectory { directory in
            var table = Self.visits
            table.schema.rules = TableRules()
            let before = try await TestServer([table], path: directory + "/a.db")
            for id in ["a", "b", "c"] {
                let body = #"{"id":"\#(id)","title":"a","number":1}"#
                #expect(await insert(before, body).status == 201)
            }
            await before.store.stop()
            let error = await #expect(throws: SchemaError.self) {
                _ = try await TestServer([Self.visits], path: directory + "/a.db")
            }
            #expect(
                error?.description.contains("unique (number): 3 rows have the same values") == true
            )
        }
    }

    @Test("Rules of a table declared in code are checked at the start")
    func faults() async throws {
        for rules in [
            TableRules(unique: [[]]), TableRules(unique: [["nothing"]]),
            TableRules(comparisons: [ColumnComparison("title", .less, "minutes")]),
        ] {
            var table = Self.visits
            table.schema.rules = rules
            await #expect(throws: SchemaError.self) { _ = try await TestServer([table]) }
        }
    }
}
