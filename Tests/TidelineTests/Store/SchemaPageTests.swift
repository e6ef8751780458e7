// SchemaPageTests: docs/database-schema.md names the tables and columns of a server's file and of a store.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct SchemaPageTests {
    private struct TodoItem: SyncRecord {
        var id = ""
        var text = ""
        var complete = false
    }

    private struct Job: SyncRecord {
        var id = ""
        var title = ""
        var notes = ""

        static let search = SearchIndex(\Job.title, \Job.notes)
        static let localizedIndexes = [
            LocalizedIndex(\Job.title, order: TextOrder.localized(Locale(identifier: "de_DE")))
        ]
    }

    /// The columns of each table, by its name.
    private typealias Columns = [String: Set<String>]

    private static func tables(_ database: Database) throws -> Columns {
        let statement = try database.prepare(
            """
            SELECT t."name", c."name" FROM "sqlite_master" AS t, pragma_table_info(t."name") AS c
            WHERE t."type" = 'table' AND t."name" NOT GLOB 'sqlite_*'
            """
        )
        defer { statement.reset() }
        var tables: Columns = [:]
        while try statement.step() {
            tables[statement.text(0), default: []].insert(statement.text(1))
        }
        return tables
    }

    /// Returns the tables that a section of the page creates.
    private static func page(_ heading: String) throws -> Columns {
        let lines = try ProjectFile.text("docs/database-schema.md").components(separatedBy: "\n")
        let section = lines.drop { $0 != heading }.dropFirst().prefix { !$0.hasPrefix("## ") }
        let database = try Database(path: ":memory:")
        var statement: [String] = []
        for line in section where line.hasPrefix("CREATE TABLE ") || !statement.isEmpty {
            statement.append(line)
            if line.hasPrefix(")") {
                try database.execute(statement.joined(separator: "\n"))
                statement = []
            }
        }
        return try tables(database)
    }

    @Test("The page names the tables and columns of a server's file")
    func serverOnSQLite() async throws {
        try await withTemporaryFile { path in
            let table = TableDefinition(
                "Note",
                columns: [ColumnDefinition("title", .string), ColumnDefinition("userId", .string)],
                owner: "userId"
            )
            let store = try SQLiteTableStore(path: path)
            _ = try await store.prepare([table], filtered: [], isComplete: true)
            await store.stop()
            let found = try Self.tables(Database(path: path))
            #expect(try Self.page("## The server on SQLite") == found)
        }
    }

    @Test(
        "The page names the tables and columns of a store",
        .enabled(if: (try? Database(path: ":memory:").hasFullTextSearch) == true)
    )
    func storeOfClient() async throws {
        try await withTemporaryFile { path in
            _ = try await Device(
                ScriptedTransport(),
                store: SQLiteStore(path: path),
                tables: [TodoItem.self, Job.self]
            )
            // The table of the model is like that of the other one, and FTS5 has tables of its own.
            let found = try Self.tables(Database(path: path)).filter { name, _ in
                name != "Job" && name != "tideline.Job.search"
                    && !name.hasPrefix("tideline.Job.search_")
            }
            #expect(try Self.page("## The store of a client") == found)
        }
    }
}
