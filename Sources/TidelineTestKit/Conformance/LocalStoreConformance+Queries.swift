// LocalStoreConformance+Queries: checks for filters, orders, limits, and counts.

import Foundation
import Tideline
import TidelineCore

extension LocalStoreConformance {
    static let queryChecks: [Check] = [
        Check("filters select rows") { probe in
            try await probe.put(mixed)
            for (name, filter, ids) in try filters() {
                let found = try await probe.ids(TableQuery(filter: filter))
                try probe.expect(found, ids, name)
                let count = try await probe.store.read { try $0.count(filter, in: Sample.name) }
                try probe.expect(count == ids.count, "\(name): the count is \(count)")
            }
        },
        Check("rows without an order are sorted by id") { probe in
            let ids = ["b", "B", "a", "\u{e9}", "10", "9", "e\u{301}"]
            try await probe.put(ids.map { ["id": .string($0)] })
            let wanted = ["10", "9", "B", "a", "b", "e\u{301}", "\u{e9}"]
            try probe.expect(try await probe.ids(TableQuery()), wanted, "the order")
        },
        Check("null is sorted first, and equal keys by id") { probe in
            try await probe.put([
                ["id": "4", "whole": 2], ["id": "2", "whole": nil], ["id": "3", "whole": 2],
                ["id": "1", "whole": -5], ["id": "5"],
            ])
            let up = try await probe.ids(ordered(SortKey(column: "whole")))
            try probe.expect(up, ["2", "5", "1", "3", "4"], "ascending")
            let down = try await probe.ids(ordered(SortKey(column: "whole", ascending: false)))
            try probe.expect(down, ["3", "4", "1", "2", "5"], "descending")
        },
        Check("rows can be sorted by several keys") { probe in
            try await probe.put([
                ["id": "1", "flag": true, "real": 1.0], ["id": "2", "flag": false, "real": 2.0],
                ["id": "3", "flag": false, "real": 9.0], ["id": "4", "flag": true, "real": 10.0],
            ])
            let query = ordered(
                SortKey(column: "flag"),
                SortKey(column: "real", ascending: false)
            )
            try probe.expect(try await probe.ids(query), ["3", "2", "4", "1"], "the order")
        },
        Check("every column type has an order") { probe in
            for (column, low, high) in pairs {
                try await probe.put([Sample.row("1", column, high), Sample.row("2", column, low)])
                let ids = try await probe.ids(ordered(SortKey(column: column)))
                try probe.expect(ids, ["2", "1"], "by '\(column)'")
            }
        },
        Check("limit and offset select a part of the sorted rows") { probe in
            try await probe.put((1...5).map { ["id": .string("\($0)")] })
            for (limit, offset, ids) in windows {
                var query = TableQuery()
                query.limit = limit
                query.offset = offset
                let found = try await probe.ids(query)
                try probe.expect(found, ids, "limit \(limit ?? -1) offset \(offset)")
            }
            var query = TableQuery()
            query.limit = 2
            query.offset = 1
            query.order = [SortKey(column: "id", ascending: false)]
            try probe.expect(try await probe.ids(query), ["4", "3"], "with an order")
        },
        Check("a selection returns the columns that it names") { probe in
            try await probe.put([Sample.row("1")])
            var query = TableQuery()
            query.select = ["id", "text"]
            let rows = try await probe.rows(query)
            try probe.expect(rows == [["id": "1", "text": "milk"]], "the rows are \(rows)")
        },
        Check("an unknown column in a filter is an error") { probe in
            let filter = try Filter { $0["nowhere"] == 1 }
            let isRejected = await probe.throwsError {
                _ = try await probe.rows(TableQuery(filter: filter))
            }
            try probe.expect(isRejected, "the filter is accepted")
        },
    ]

    private static func ordered(_ keys: SortKey...) -> TableQuery {
        var query = TableQuery()
        query.order = keys
        return query
    }

    private static let windows: [(Int?, Int, [String])] = [
        (2, 0, ["1", "2"]), (2, 3, ["4", "5"]), (9, 4, ["5"]), (0, 0, []),
        (nil, 2, ["3", "4", "5"]),
        (3, 9, []),
    ]

    private static let mixed: [Row] = [
        ["id": "1", "text": "Milk", "whole": 1, "flag": true, "instant": .date(day)],
        ["id": "2", "text": "milk", "whole": 2, "flag": false, "key": .string(key)],
        [
            "id": "3", "text": "100%",
            "exact": .decimal(Decimal(sign: .plus, exponent: -1, significand: 15)),
        ],
        ["id": "4", "text": "caf\u{e9}", "real": 0.5, "level": "high"],
        ["id": "5", "text": "cafe\u{301}", "whole": 4],
    ]

    private static let day = Date(timeIntervalSince1970: 1_700_000_000)
    private static let key = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

    private static func filters() throws -> [(String, Filter?, [String])] {
        [
            ("nothing", nil, ["1", "2", "3", "4", "5"]),
            ("equal", try Filter { $0["text"] == "milk" }, ["2"]),
            ("equal by bytes", try Filter { $0["text"] == "caf\u{e9}" }, ["4"]),
            ("contains", try Filter { $0["text"].contains("ilk") }, ["1", "2"]),
            ("no wildcards", try Filter { $0["text"].contains("%") }, ["3"]),
            ("lower case", try Filter { $0["text"].lowercased() == "milk" }, ["1", "2"]),
            ("null", try Filter { $0["whole"] == nil }, ["3", "4"]),
            ("not null", try Filter { $0["whole"] != nil }, ["1", "2", "5"]),
            ("not equal has null", try Filter { $0["whole"] != 1 }, ["2", "3", "4", "5"]),
            ("less has no null", try Filter { $0["whole"] < 3 }, ["1", "2"]),
            ("not less has null", try Filter { !($0["whole"] < 3) }, ["3", "4", "5"]),
            ("boolean", try Filter { $0["flag", as: Bool.self] }, ["1"]),
            ("not", try Filter { !$0["flag", as: Bool.self] }, ["2", "3", "4", "5"]),
            (
                "and, or",
                try Filter { $0["whole"] == 1 || $0["real"] > 0.1 && $0["whole"] == nil },
                ["1", "4"]
            ),
            ("in", try Filter { $0["id"].isIn(["5", "1", "9"]) }, ["1", "5"]),
            ("instant", try Filter { $0["instant", as: Date.self] >= day }, ["1"]),
            ("decimal", try Filter { $0["exact"] < 2 }, ["3"]),
            ("guid", try Filter { $0["key"] == Value.string(key) }, ["2"]),
            ("enumeration", try Filter { $0["level"] == "high" }, ["4"]),
            ("arithmetic", try Filter { $0["whole", as: Int.self] % 2 == 0 }, ["2", "5"]),
        ]
    }

    /// Pairs of a lower and a higher value, each with the column for them.
    private static let pairs: [(String, Value, Value)] = [
        ("text", "B", "a"), ("text", "z", "\u{e9}"), ("text", "\u{ffff}", "\u{1f600}"),
        ("whole", 9, 10), ("whole", -10, -9), ("real", 9.5, 10.5),
        ("exact", .decimal(9), .decimal(10)),
        ("exact", .decimal(-10), .decimal(-9)), ("flag", false, true),
        ("instant", .date(Date(timeIntervalSince1970: 9)), .date(Date(timeIntervalSince1970: 10))),
        ("day", "2026-09-30", "2026-10-01"), ("clock", "09:00:00.000", "10:00:00.000"),
        ("level", "low", "high"), ("updatedAt", .date(Date(timeIntervalSince1970: -1)), .date(day)),
    ]
}
