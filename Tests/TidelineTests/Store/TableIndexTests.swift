// The indexes that a model declares: created, used, and removed with the declaration.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestSupport

@Suite struct TableIndexTests {
    private struct Plain: SyncRecord {
        static let tableName = "Item"
        var id = ""
        var rank = 0
        var text = ""
    }

    private struct Indexed: SyncRecord {
        static let tableName = "Item"
        static let indexes: [[PropertyPath<Indexed>]] = [
            [\.rank], [\.text, \.rank],
        ]
        var id = ""
        var rank = 0
        var text = ""
    }

    /// The column of an index has another type now.
    private struct Retyped: SyncRecord {
        static let tableName = "Item"
        static let indexes: [[PropertyPath<Retyped>]] = [[\.rank]]
        var id = ""
        var rank = ""
        var text = ""
    }

    private struct Wrong: SyncRecord {
        static let indexes: [[PropertyPath<Wrong>]] = [[\.text.count]]
        var id = ""
        var text = ""
    }

    private func indexes(_ path: String) throws -> [String] {
        let database = try Database(path: path)
        let statement = try database.prepare(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND sql NOT NULL "
                + "AND tbl_name = 'Item' ORDER BY name"
        )
        var names: [String] = []
        while try statement.step() { names.append(statement.text(0)) }
        return names
    }

    private func open(_ path: String, _ table: any SyncRecord.Type) async throws -> SyncContext {
        let store = try SQLiteStore(path: path)
        return try await Device(ScriptedTransport(), store: store, tables: [table]).context
    }

    @Test("The indexes of a table follow its model, and the app's own index stays")
    func indexesFollowTheModel() async throws {
        try await withTemporaryFile { path in
            _ = try await open(path, Plain.self)
            #expect(try indexes(path) == [])
            try Database(path: path).execute("CREATE INDEX own ON Item (text)")
            _ = try await open(path, Indexed.self)
            let created = ["own", "tideline.Item.rank", "tideline.Item.text.rank"]
            #expect(try indexes(path) == created)
            let plan = try Database(path: path).prepare(
                "EXPLAIN QUERY PLAN SELECT * FROM Item WHERE rank > 3 ORDER BY rank, id"
            )
            #expect(try plan.step())
            #expect(plan.text(3).contains("tideline.Item.rank"))
            #expect(try !plan.step())
            _ = try await open(path, Retyped.self)
            #expect(try indexes(path) == ["own", "tideline.Item.rank"])
            _ = try await open(path, Plain.self)
            #expect(try indexes(path) == ["own"])
        }
    }

    @Test("An index of an unknown column is rejected")
    func anIndexOfAnUnknownColumnIsRejected() async throws {
        let error = await #expect(throws: SyncError.self) { try await open(":memory:", Wrong.self) }
        #expect(error?.message.contains("Wrong") == true)
    }
}
