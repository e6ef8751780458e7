// Properties that a later version of a model has, and that older rows do not have.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct LaterPropertyTests {
    /// The former version of the table.
    private struct Slim: SyncRecord, Hashable {
        static let tableName = "Todo"
        var id = ""
        var text = ""
    }

    /// Runs a device with the former version, with one row.
    private func before(_ server: InProcessServer, _ path: String) async throws {
        let device = try await Device(
            server.transport,
            store: SQLiteStore(path: path),
            tables: [Slim.self]
        )
        try await device.client.syncTable(Slim.self).insert(Slim(id: "a"))
    }

    private enum Weight: String, Codable { case light, heavy }

    private struct Weighed: SyncRecord {
        static let tableName = "Todo"
        var id = ""
        var weight = Weight.light
    }

    private struct Linked: SyncRecord {
        static let tableName = "Todo"
        struct Place: Codable { var name: String }
        var id = ""
        var place: Place
    }

    private struct Paged: SyncRecord {
        static let tableName = "Todo"
        var id = ""
        var page: URL
    }

    private struct Unknown: SyncRecord {
        static let tableName = "Todo"
        var id = ""
        var text: String
        var complete = true
    }

    @Test("A store whose model has a new property without a known default cannot be opened")
    func unknownDefaultsKeepTheStoreClosed() async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            try await before(server, path)
            func rejects(_ type: any SyncRecord.Type, _ property: String) async throws {
                let error = await #expect(throws: SyncError.self) {
                    _ = try await Device(
                        server.transport,
                        store: SQLiteStore(path: path),
                        tables: [type]
                    )
                }
                #expect(error?.code == .defaultRequired)
                #expect(error?.message.contains("'\(property)'") == true)
                #expect(error?.message.contains("static let defaults = \(type)(") == true)
            }
            try await rejects(Unknown.self, "complete")
            try await rejects(Linked.self, "place")
            try await rejects(Paged.self, "page")
            // The error stays, and the store is unchanged.
            try await rejects(Unknown.self, "complete")
            let later = try await Device(
                server.transport,
                store: SQLiteStore(path: path),
                tables: [Weighed.self]
            )
            let weights = try later.client.syncTable(Weighed.self)
            #expect(try await weights.read().map(\.weight) == [.light])
        }
    }

    private struct Later: SyncRecord, Hashable {
        static let tableName = "Todo"
        var id = ""
        var text = ""
        var rank = 0
        var note = "plain"
        var active = true
        static var columns: [RecordColumn<Later>] {
            [
                RecordColumn(\.note, "note", .string, nullable: false, default: "plain"),
                RecordColumn(\.active, "active", .boolean, nullable: false, default: true),
            ]
        }
    }

    @Test("A filter finds a missing value by the default that a read shows for it")
    func aFilterMatchesTheValuesThatAReadShows() async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            try await before(server, path)
            let later = try await Device(
                server.transport,
                store: SQLiteStore(path: path),
                tables: [Later.self]
            )
            let rows = try later.client.syncTable(Later.self)
            try await rows.insert(Later(id: "b", rank: 5, note: "other", active: false))
            let found: [(@Sendable (Columns<Later>) -> Condition, [String])] = [
                ({ $0.rank >= 0 }, ["a", "b"]), ({ $0.rank == 0 }, ["a"]), ({ $0.rank < 5 }, ["a"]),
                ({ $0.rank != 0 }, ["b"]), ({ !($0.rank == 0) }, ["b"]), ({ $0.rank > 0 }, ["b"]),
                ({ !($0.rank >= 0) }, []), ({ $0.note == "plain" }, ["a"]),
                ({ $0.note != "plain" }, ["b"]), ({ $0.note.contains("lai") }, ["a"]),
                ({ $0.rank == 0 || $0.note == "other" }, ["a", "b"]),
                ({ $0.active }, ["a"]), ({ !$0.active }, ["b"]), ({ $0.active == true }, ["a"]),
                ({ [0, 7].contains($0.rank) }, ["a"]), ({ (1...5).contains($0.rank) }, ["b"]),
            ]
            for (index, (condition, ids)) in found.enumerated() {
                let all = try await rows.read(where: condition, sortedBy: [.ascending(\.id)])
                #expect(all.map(\.id) == ids, "\(index)")
                #expect(try await rows.count(where: condition) == ids.count, "\(index)")
                for try await shown in rows.observe(where: condition) {
                    #expect(Set(shown.map(\.id)) == Set(ids), "\(index)")
                    break
                }
            }
            // Rows without a model, and filters for null, see the stored values.
            let plain = try later.client.syncTable(named: "Todo")
            #expect(try await plain.count(where: { $0["rank"] == .null }) == 1)
            #expect(try await plain.count(where: { $0["rank"] >= 0 }) == 1)
        }
    }
}
