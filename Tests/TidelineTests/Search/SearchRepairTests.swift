// SearchRepairTests: the search index after a repair of verify, and that of a table that stays on the device.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct SearchRepairTests {
    /// The table of the server, with a search index on the device.
    private struct Item: SyncRecord, Hashable {
        static let tableName = "Todo"
        static let search = SearchIndex(\Item.text)
        var id = ""
        var text = ""
        var complete = false
        var rank: Int?
        var updatedAt: Date?
    }

    /// A table that stays on the device.
    private struct Draft: SyncRecord, Hashable {
        static let isLocalOnly = true
        static let search = SearchIndex(\Draft.text)
        var id = ""
        var text = ""
    }

    @Test("The search index has the words of the rows that a verification has repaired")
    func repairs() async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            let remote = SyncClient(endpoint: Device.endpoint, transport: server.transport)
                .table(Todo.self)
            for id in ["a", "b", "c", "d"] {
                try await remote.insert(Todo(id: id, text: "lamp \(id)"))
            }
            let device = try await SearchScene.device(path, server.transport, Item.self)
            let items = try device.client.syncTable(Item.self)
            func found(_ text: String) async throws -> [String] {
                try await items.read(where: { $0.matching(text) }, sortedBy: [.ascending(\.id)])
                    .map(\.id)
            }
            try await items.pull(queryID: "all")
            #expect(try await found("lamp") == ["a", "b", "c", "d"])
            do {
                let database = try SearchScene.database(path)
                try database.execute("UPDATE Todo SET text = 'pump' WHERE id = 'b'")
                try database.execute("DELETE FROM Todo WHERE id = 'c'")
                try database.execute("UPDATE Todo SET id = 'x', text = 'pump' WHERE id = 'd'")
            }
            #expect(try await found("pump") == ["b", "x"])
            #expect(try await found("lamp") == ["a"])
            let result = try await items.verify(queryID: "all", repair: true)
            #expect(result.repaired == 4)
            #expect(try await found("pump") == [])
            #expect(try await found("lamp") == ["a", "b", "c", "d"])
            try SearchScene.checkIndex(path, "Todo")
        }
    }

    @Test("A table that stays on the device can be searched, and nothing of it is queued")
    func localOnly() async throws {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path, ScriptedTransport(), Draft.self)
            let drafts = try device.client.syncTable(Draft.self)
            var hits = drafts.observeSearch("oat*").makeAsyncIterator()
            #expect(try await hits.next()?.isEmpty == true)
            try await drafts.insert([
                Draft(id: "a", text: "Oatmeal"), Draft(id: "b", text: "lamp"),
            ])
            let first = try await hits.next()?.first
            let hit = try #require(first)
            #expect(hit.record.id == "a")
            let excerpt = try #require(hit.highlight(\.text))
            #expect(excerpt.matches.map { String(excerpt.text[$0]) } == ["Oatmeal"])
            try await drafts.update(id: "b") { $0.text = "oat milk" }
            #expect(try await drafts.search("milk").map(\.record.id) == ["b"])
            #expect(try await drafts.search("lamp").isEmpty)
            try await drafts.delete(id: "a")
            #expect(try await drafts.read(where: { $0.matching("oat*") }).map(\.id) == ["b"])
            #expect(try await device.queue() == [])
            try SearchScene.checkIndex(path, "Draft")
        }
    }
}
