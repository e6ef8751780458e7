// A constraint that an operator adds rejects one row with a code and the columns, on both databases.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineSQLite
import TidelineServerCore
import TidelineTestKit

@Suite struct OperatorConstraintTests {
    struct Case: Sendable {
        var sqlite: String
        var postgres: String
        var body: String
        var code: String
        var status = 400
        var words: [String]
    }

    static let cases = [
        Case(
            sqlite: "CREATE UNIQUE INDEX mine ON TodoItem (\"text\", \"rank\")",
            postgres: "CREATE UNIQUE INDEX mine ON \"TodoItem\" (\"text\", \"rank\")",
            body: #"{"text":"secret","rank":2}"#,
            code: "notUnique",
            status: 409,
            words: ["'text', 'rank'"]
        ),
        Case(
            sqlite: """
                CREATE TRIGGER mine BEFORE INSERT ON TodoItem WHEN NEW.rank > 5
                BEGIN SELECT RAISE(ABORT, 'secret'); END
                """,
            postgres: """
                CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF NEW.rank > 5 THEN RAISE EXCEPTION 'secret'; END IF; RETURN NEW; END $$;
                CREATE TRIGGER mine BEFORE INSERT ON "TodoItem" FOR EACH ROW EXECUTE FUNCTION mine()
                """,
            body: #"{"text":"secret","rank":9}"#,
            code: "triggerConstraint",
            words: []
        ),
        Case(
            sqlite: "ALTER TABLE TodoItem ADD COLUMN mine INTEGER CHECK (\"rank\" < 5)",
            postgres: "ALTER TABLE \"TodoItem\" ADD CONSTRAINT mine CHECK (\"rank\" < 5)",
            body: #"{"text":"secret","rank":9}"#,
            code: "checkConstraint",
            words: ["concerns: rank"]
        ),
        // PostgreSQL's message about a CHECK contains the row, including its `)=(`.
        Case(
            sqlite: """
                ALTER TABLE TodoItem ADD COLUMN mine TEXT
                CONSTRAINT small CHECK ("text" IS NULL OR rank IS NULL OR length("text") < [rank] + 5.5)
                """,
            postgres: """
                ALTER TABLE "TodoItem" ADD CONSTRAINT small
                CHECK (length("text") < "rank" + 5.5)
                """,
            body: #"{"text":"(secret)=(secret)","rank":9}"#,
            code: "checkConstraint",
            words: ["text, rank (constraint small)"]
        ),
        Case(
            sqlite: "CREATE UNIQUE INDEX mine ON TodoItem (lower(\"text\"))",
            postgres: "CREATE UNIQUE INDEX mine ON \"TodoItem\" (lower(\"text\"))",
            body: #"{"text":"SECRET","rank":1}"#,
            code: "uniqueConstraint",
            words: []
        ),
    ]

    private func check(_ example: Case, _ server: TestServer) async throws {
        let rejected = await server.send("POST", "/tables/TodoItem", example.body)
        #expect(rejected.status == example.status)
        #expect(rejected.row["code"] as? String == example.code)
        for word in example.words { #expect(rejected.error.contains(word)) }
        #expect(!rejected.text.contains("secret"))
        // Other writes continue, and nothing of the row is stored.
        #expect(await server.send("POST", "/tables/TodoItem", #"{"id":"c"}"#).status == 201)
        #expect(await server.send("GET", "/tables/TodoItem").ids.sorted() == ["a", "c"])
    }

    @Test(
        "A write that breaks a constraint of an SQLite file is rejected",
        arguments: cases.indices
    )
    func sqlite(_ index: Int) async throws {
        try await withTemporaryDirectory { directory in
            let example = Self.cases[index]
            let server = try await TestServer(path: directory + "/a.db")
            let first = #"{"id":"a","text":"secret","rank":2}"#
            #expect(await server.send("POST", "/tables/TodoItem", first).status == 201)
            try Database(path: directory + "/a.db", mode: .existing).execute(example.sqlite)
            try await check(example, server)
            await server.store.stop()
        }
    }

    @Test(
        "A write that breaks a constraint of a PostgreSQL database is rejected",
        .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"),
        arguments: cases.indices
    )
    func postgres(_ index: Int) async throws {
        let example = Self.cases[index]
        let url = try PostgresCluster.shared().database()
        let server = try await TestServer(onPostgres: true, database: url)
        let first = #"{"id":"a","text":"secret","rank":2}"#
        #expect(await server.send("POST", "/tables/TodoItem", first).status == 201)
        try PostgresConnection(PostgresAddress(url)).execute(example.postgres)
        try await check(example, server)
        await server.store.stop()
    }
}
