// Several models of one table on one file, as an app and its widget have them: in any order of opening, no program
// reads, writes or sends a value that was not stored.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct SharedColumnsTests {
    /// The widget's model of the table.
    private struct Slim: SyncRecord, Hashable {
        static let tableName = "Todo"
        var id = ""
        var text = ""
    }

    /// The same table with a type that SQLite stores differently.
    private struct Other: SyncRecord, Hashable {
        static let tableName = "Todo"
        var id = ""
        var rank: String?
    }

    private func slim(_ server: InProcessServer, _ path: String) async throws -> Device {
        try await Device(server.transport, store: SQLiteStore(path: path), tables: [Slim.self])
    }

    private func full(_ server: InProcessServer, _ path: String) async throws -> Device {
        try await Device(server.transport, store: SQLiteStore(path: path), tables: [Plain.self])
    }

    @Test("A model with fewer columns removes none from a shared file")
    func aModelWithFewerColumnsRemovesNone() async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            let app = try await full(server, path)
            let items = try app.client.syncTable(Plain.self)
            try await items.insert(Plain(id: "a", text: "app", complete: true, rank: 3))
            let widget = try await slim(server, path)
            let notes = try widget.client.syncTable(Slim.self)
            try await notes.insert(Slim(id: "w", text: "widget"))

            #expect(try await items.read(id: "w") == Plain(id: "w", text: "widget"))
            #expect(try await items.read(where: { $0.rank == nil }).map(\.id) == ["w"])
            #expect(try await items.read(where: { $0.rank == 3 && $0.complete }).map(\.id) == ["a"])
            try await items.insert(Plain(id: "b", text: "later", rank: 4))
            try await items.update(id: "a") { $0.rank = 5 }
            try await notes.update(id: "a") { $0.text = "both" }
            let a = Plain(id: "a", text: "both", complete: true, rank: 5)
            #expect(try await items.read(id: "a") == a)
            #expect(try await notes.count() == 3)

            // Both push and pull; columns that the widget does not name are sent and kept.
            #expect(try await widget.push() == nil)
            try await app.client.table(Plain.self).update(id: "b") { $0.rank = 9 }
            try await notes.pull(queryID: "all")
            #expect(try await items.read(where: { $0.rank == 9 }).map(\.id) == ["b"])
            try await notes.update(id: "b") { $0.text = "again" }
            #expect(try await app.push() == nil)
            try await items.pull(queryID: "all")
            let rows = try await app.client.table(Plain.self).read(sortedBy: [.ascending(\.id)])
            #expect(
                rows == [
                    a, Plain(id: "b", text: "again", rank: 9), Plain(id: "w", text: "widget"),
                ]
            )
            #expect(try await items.read(sortedBy: [.ascending(\.id)]) == rows)
        }
    }

    @Test("A model with more columns loses no values to a model with fewer columns")
    func moreColumnsLoseNothingByAModelWithFewer() async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            let remote = try await Device(server.transport).client.table(Plain.self)
            try await remote.insert(Plain(id: "s", text: "server", complete: true, rank: 7))
            let widget = try await slim(server, path)
            let notes = try widget.client.syncTable(Slim.self)
            try await notes.pull(queryID: "all")
            let app = try await full(server, path)
            let items = try app.client.syncTable(Plain.self)
            #expect(try await items.read(where: { $0.rank >= 7 }).map(\.id) == ["s"])

            // The widget's file is older than the columns.
            try await items.update(id: "s") { $0.rank = 8 }
            try await notes.update(id: "s") { $0.text = "widget" }
            let s = Plain(id: "s", text: "widget", complete: true, rank: 8)
            #expect(try await items.read(id: "s") == s)
            try await remote.insert(Plain(id: "t", text: "more", rank: 1))
            try await notes.pull(queryID: "all")
            #expect(try await items.read(where: { $0.rank == 1 }).map(\.id) == ["t"])
            #expect(try await notes.read(where: { $0.text == "more" }).map(\.id) == ["t"])
            #expect(try await widget.push() == nil)
            #expect(try await remote.read(id: "s") == s)
            try await notes.delete(id: "t")
            #expect(try await app.push() == nil)
            #expect(try await remote.read().map(\.id) == ["s"])
        }
    }

    @Test("A column that is added again has the values that were pulled in between")
    func aColumnThatIsAddedAgainHasItsValues() async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            let first = try await full(server, path)
            let items = try first.client.syncTable(Plain.self)
            try await items.insert(Plain(id: "a", text: "x", rank: 1))
            try await first.store.close()
            let second = try await slim(server, path)
            let remote = second.client.table(Plain.self)
            try await remote.insert(Plain(id: "b", text: "y", rank: 2))
            try await second.client.syncTable(Slim.self).pull(queryID: "all")
            try await second.client.syncTable(Slim.self).update(id: "b") { $0.text = "z" }
            let report = try await (second.store as? SQLiteStore)?.check()
            #expect(report?.problems == [])
            try await second.store.close()
            let third = try await full(server, path)
            let again = try third.client.syncTable(Plain.self)
            #expect(try await again.read(where: { $0.rank >= 1 }).count == 2)
            #expect(try await again.read(id: "b") == Plain(id: "b", text: "z", rank: 2))
        }
    }

    @Test("A store with the former type of a column throws an error that names the column")
    func anotherTypeIsAClearErrorForAStoreWithTheFormerOne() async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            let app = try await full(server, path)
            let items = try app.client.syncTable(Plain.self)
            try await items.insert(Plain(id: "a", text: "app", rank: 3))
            let other = try await Device(
                server.transport,
                store: SQLiteStore(path: path),
                tables: [Other.self]
            )
            #expect(try await other.client.syncTable(Other.self).read(id: "a")?.rank == "3")
            for body: () async throws -> Void in [
                { _ = try await items.read() }, { try await items.insert(Plain(id: "b")) },
                { try await items.update(id: "a") { $0.text = "x" } },
                { _ = try await items.count(where: { $0.rank == 3 }) },
            ] {
                let error = await #expect(throws: SyncError.self) { try await body() }
                #expect(error?.code == .storeFailure)
                #expect(error?.message.contains("'rank' of 'Todo'") == true)
                #expect(error?.message.contains("Create a new store") == true)
            }
            let again = try await full(server, path)
            #expect(try await again.client.syncTable(Plain.self).read(id: "a")?.rank == 3)
        }
    }

    @Test(
        "A column that another program removed is an error and is not read as text",
        .enabled(if: Database.movesColumns)
    )
    func aRemovedColumnIsAClearError() async throws {
        try await withTemporaryFile { path in
            let app = try await full(try await makeServer(), path)
            let items = try app.client.syncTable(Plain.self)
            try await items.insert(Plain(id: "a", text: "app"))
            try Database(path: path).execute(#"ALTER TABLE "Todo" DROP COLUMN "text""#)
            let error = await #expect(throws: SyncError.self) { try await items.read() }
            #expect(error?.code == .storeFailure)
            #expect(error?.message.contains("'text' of 'Todo'") == true)
        }
    }

    /// SQLite reads a quoted name of an unknown column as text, unless this is switched off.
    @Test(
        "A quoted name of an unknown column is an error and not text",
        .enabled(if: Database.movesColumns)
    )
    func aQuotedNameIsNotAText() throws {
        let database = try Database(path: ":memory:")
        try database.execute(#"CREATE TABLE "t" ("a" TEXT)"#)
        #expect(throws: SQLiteError.self) { try database.integer(#"SELECT "b" FROM "t""#) }
        #expect(throws: SQLiteError.self) { try database.integer(#"SELECT count("b") FROM "t""#) }
    }
}
