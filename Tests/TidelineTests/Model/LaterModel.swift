// A model with properties that older rows do not have, and such rows from a seed.

import Foundation
import Tideline
import TidelineCore
import TidelineTestKit

/// Every property except the id was added later; only `other` may be nil.
struct Later: SyncRecord, Hashable {
    enum Weight: String, Codable { case heavy, light, medium }

    var id = ""
    var rank = 0
    var least = 0
    var other: Int?
    var ratio = 0.0
    var price = Decimal(0)
    var text = ""
    var note = "plain"
    var active = true
    var isDone = false
    var due = Date(timeIntervalSince1970: 0)
    var start = Date(timeIntervalSince1970: 1_000_000)
    var weight = Weight.light
    var level = "middle"
    var day = LocalDate.zero
    var noon = LocalTime.zero
    var key = Later.noKey
    var data = Data()

    static let levels = ["low", "middle", "high"]
    static let noKey = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))

    static var columns: [RecordColumn<Later>] {
        [
            RecordColumn(\.least, "least", .integer, nullable: false, default: 2),
            RecordColumn(\.note, "note", .string, nullable: false, default: "plain"),
            RecordColumn(\.active, "active", .boolean, nullable: false, default: true),
            RecordColumn(\.weight, "weight", .string, nullable: false, default: "light"),
            RecordColumn(
                \.level,
                "level",
                .enumeration(levels),
                nullable: false,
                default: "middle"
            ),
            RecordColumn(
                \.start,
                "start",
                .dateTime,
                nullable: false,
                default: .date(Date(timeIntervalSince1970: 1_000_000))
            ),
        ]
    }

    /// Returns a row with values in some of the columns.
    static func row(_ id: String, _ random: inout SeededGenerator) -> Row {
        let seconds = [-5_000_000.0, 0, 1_000_000, 1_800_000_000.25]
        let keys = ["00000000-0000-0000-0000-000000000001", "f1d2d2f9-24e9-4586-8ac1-9b1f0f1e2d3c"]
        let values: [(String, [Value])] = [
            ("rank", [-5, -1, 0, 1, 7]), ("least", [-5, 1, 2, 3, 9]), ("other", [-1, 0, 3]),
            ("ratio", [-2.5, 0.0, 0.25]),
            ("price", [-10, 0, 2, 12].map { .decimal(Decimal($0)) }),
            ("text", ["", "a", "Z", "\u{e9}"]), ("note", ["other", "plain", "zebra", ""]),
            ("active", [true, false]), ("isDone", [true, false]),
            ("due", seconds.map { .date(Date(timeIntervalSince1970: $0)) }),
            ("start", seconds.map { .date(Date(timeIntervalSince1970: $0)) }),
            ("weight", ["heavy", "light", "medium"]), ("level", levels.map(Value.string)),
            ("day", ["0001-01-01", "1994-10-14", "2026-11-20"]),
            ("noon", ["00:00:00.000", "07:14:00.000"]), ("key", keys.map(Value.string)),
            ("data", [.data(Data()), .data(Data([0])), .data(Data([1, 2]))]),
        ]
        var row: Row = ["id": .string(id)]
        for (name, choices) in values where !random.chance(40) {
            row[name] = choices.randomElement(using: &random) ?? .null
        }
        return row
    }

    static func rows(_ count: Int, seed: UInt64) -> [Row] {
        var random = SeededGenerator(seed: seed)
        return (0..<count).map { row("r\(100 + $0)", &random) }
    }
}
