// Properties that a later version of a model has, and the rows of before have not.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit

@Suite struct LaterPropertyTests {
    /// The table as it was before.
    private struct Slim: SyncRecord, Hashable {
        static let tableName = "Todo"
        var id = ""
        var text = ""
    }

    /// A device of before, with one row.
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

    /// What is missing in the rows of before and has no empty value: the error says what to do.
    @Test func aPropertyWithoutAnEmptyValueSaysSo() async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            try await before(server, path)
            func reads<Record: SyncRecord>(_ type: Record.Type, _ column: String) async throws {
                let later = try await Device(
                    server.transport,
                    store: SQLiteStore(path: path),
                    tables: [type]
                )
                let error = await #expect(throws: SyncError.self) {
                    try await later.client.syncTable(type).read()
                }
                #expect(error?.code == .rowDoesNotFit)
                #expect(error?.message.contains("'\(column)'") == true)
                #expect(error?.message.contains("make the property optional") == true)
                #expect(error?.message.contains("declare a default") == true)
            }
            try await reads(Weighed.self, "weight")
            try await reads(Linked.self, "place")
            try await reads(Paged.self, "page")
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

    /// What a read shows as the default is found as that, by reads, counts and observers.
    @Test func aFilterMeansWhatAReadShows() async throws {
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
            // Rows without a model, and whoever asks for null, see what is stored.
            let plain = try later.client.syncTable(named: "Todo")
            #expect(try await plain.count(where: { $0["rank"] == .null }) == 1)
            #expect(try await plain.count(where: { $0["rank"] >= 0 }) == 1)
        }
    }
}
