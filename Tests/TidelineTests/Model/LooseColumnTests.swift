// Columns that are declared more loosely than their properties, and properties whose types wrap a value: filters and
// orders use the values that a read shows.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct LooseColumnTests {
    /// Only the property `extra` may be nil; the declared columns are all nullable.
    struct Loose: SyncRecord, Hashable {
        var id = ""
        var rank = 0
        var note = ""
        var extra: Int?

        static var columns: [RecordColumn<Loose>] {
            [
                RecordColumn(\.rank, "rank", .integer),
                RecordColumn(\.note, "note", .string, default: "plain"),
                RecordColumn(\.extra, "extra", .integer, nullable: false, default: 5),
            ]
        }
    }

    @Test(
        "A filter finds the default value that a read shows for a missing column",
        arguments: [-5, 5]
    )
    func aFilterFindsTheValueThatAReadShows(rank: Int64) async throws {
        let device = try await Device(ScriptedTransport(), tables: [Loose.self])
        try await device.seed(
            [["id": "a"], ["id": "b", "rank": .integer(rank), "note": "other", "extra": 1]],
            "Loose"
        )
        let table = try device.client.syncTable(Loose.self)
        let read = try await table.read(sortedBy: [.ascending(\.id)])
        #expect(read.map(\.rank) == [0, Int(rank)])
        #expect(read.map(\.note) == ["plain", "other"])
        #expect(read.map(\.extra) == [nil, 1])
        #expect(try await table.read(where: { $0.note == "plain" }).map(\.id) == ["a"])
        #expect(try await table.count(where: { $0.rank == 0 }) == 1)
        #expect(try await table.count(where: { $0.extra == 5 }) == 0)
        #expect(try await table.count(where: { $0.extra == nil }) == 1)
        let order = try await table.read(sortedBy: [.ascending(\.rank)]).map(\.id)
        #expect(order == (rank < 0 ? ["b", "a"] : ["a", "b"]))
        try await table.purge(where: { $0.note == "plain" })
        #expect(try await table.read().map(\.id) == ["b"])
    }

    struct Key: Codable, Hashable {
        var id: UUID

        init(_ id: UUID) { self.id = id }

        init(from decoder: any Decoder) throws {
            id = try decoder.singleValueContainer().decode(UUID.self)
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(id)
        }
    }

    struct Day: Codable, Hashable {
        var day: LocalDate

        init(_ day: LocalDate) { self.day = day }

        init(from decoder: any Decoder) throws {
            day = try decoder.singleValueContainer().decode(LocalDate.self)
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(day)
        }
    }

    struct Wrapping: SyncRecord, Hashable {
        var id = ""
        var list = Key(Later.noKey)
        var day = Day(.zero)
    }

    @Test("A property of a wrapper type has the default of its wrapped value")
    func aWrapperHasTheDefaultOfItsWrappedValue() async throws {
        let device = try await Device(ScriptedTransport(), tables: [Wrapping.self])
        try await device.seed(
            [
                ["id": "a"],
                [
                    "id": "b", "list": "f1d2d2f9-24e9-4586-8ac1-9b1f0f1e2d3c", "day": "2026-11-20",
                ],
            ],
            "Wrapping"
        )
        let table = try device.client.syncTable(Wrapping.self)
        let none = Key(Later.noKey)
        let first = try #require(try await table.read(id: "a"))
        #expect(first.list == none && first.day == Day(.zero))
        #expect(try await table.read(where: { $0.list == none }).map(\.id) == ["a"])
        #expect(try await table.read(where: { $0.list != none }).map(\.id) == ["b"])
        #expect(try await table.read(where: { $0.day == Day(.zero) }).map(\.id) == ["a"])
    }
}
