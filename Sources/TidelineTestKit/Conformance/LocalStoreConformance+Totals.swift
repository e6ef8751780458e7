// LocalStoreConformance+Totals: checks for counts and sums, for all rows and per group.

import Foundation
import Tideline
import TidelineCore

extension LocalStoreConformance {
    static let totalsChecks: [Check] = [
        Check("totals of no rows are zero without groups, and empty with groups") { probe in
            let all = TotalsQuery(value: whole)
            try await probe.expect(all, [RowTotals(count: 0)])
            try await probe.expect(TotalsQuery(), [RowTotals(count: 0)])
            try await probe.expect(TotalsQuery(value: whole, group: flag), [])
        },
        Check("each kind of number can be added") { probe in
            try await probe.put(numbers)
            try await probe.expect(TotalsQuery(), [RowTotals(count: 4)])
            try await probe.expect(TotalsQuery(value: whole), [RowTotals(count: 3, sum: 8)])
            try await probe.expect(TotalsQuery(value: real), [RowTotals(count: 2, sum: 2.5)])
            let exactSum = Decimal(sign: .plus, exponent: -2, significand: 375)
            try await probe.expect(
                TotalsQuery(value: exact),
                [RowTotals(count: 2, sum: .decimal(exactSum))]
            )
        },
        Check("totals can have a condition") { probe in
            try await probe.put(numbers)
            let filter = try Filter { $0["whole"] >= 3 }
            try await probe.expect(
                TotalsQuery(filter: filter, value: whole),
                [RowTotals(count: 2, sum: 10)]
            )
            let none = try Filter { $0["whole"] > 100 }
            try await probe.expect(
                TotalsQuery(filter: none, value: whole),
                [RowTotals(count: 0)]
            )
        },
        Check("rows are grouped by the values of each type of column") { probe in
            try await probe.put([Sample.row("1"), Sample.row("2"), ["id": "3"]])
            for column in Sample.columns where column.type != .json {
                let totals = try await probe.totals(
                    TotalsQuery(group: TotalsQuery.Column(column.name, column.type))
                )
                let wanted: Set = [
                    RowTotals(group: Sample.row("1")[column.name] ?? .null, count: 2),
                    RowTotals(count: 1),
                ]
                try probe.expect(
                    Set(totals) == wanted && totals.count == 2,
                    "'\(column.name)': \(totals) instead of \(wanted)"
                )
            }
        },
        Check("sums have groups, and texts are grouped by their bytes") { probe in
            try await probe.put([
                ["id": "1", "text": "\u{e9}", "whole": 1, "exact": .decimal(1)],
                ["id": "2", "text": "e\u{301}", "whole": 2],
                ["id": "3", "text": "\u{e9}", "whole": 3, "exact": .decimal(2)],
                ["id": "4", "whole": nil],
            ])
            try await probe.expect(
                TotalsQuery(value: whole, group: text),
                [
                    RowTotals(group: "\u{e9}", count: 2, sum: 4),
                    RowTotals(group: "e\u{301}", count: 1, sum: 2), RowTotals(count: 0),
                ]
            )
            try await probe.expect(
                TotalsQuery(value: exact, group: text),
                [
                    RowTotals(group: "\u{e9}", count: 2, sum: .decimal(3)),
                    RowTotals(group: "e\u{301}", count: 0), RowTotals(count: 0),
                ]
            )
        },
        Check("a row without a value counts with the value of the request") { probe in
            try await probe.put(numbers)
            let whole = TotalsQuery.Column("whole", .integer, absent: 100)
            let real = TotalsQuery.Column("real", .number, absent: .number(0.5))
            let exact = TotalsQuery.Column("exact", .decimal, absent: .decimal(7))
            try await probe.expect(TotalsQuery(value: whole), [RowTotals(count: 4, sum: 108)])
            try await probe.expect(TotalsQuery(value: real), [RowTotals(count: 4, sum: 3.5)])
            let exactSum = Decimal(sign: .plus, exponent: -2, significand: 1775)
            try await probe.expect(
                TotalsQuery(value: exact),
                [RowTotals(count: 4, sum: .decimal(exactSum))]
            )
            try await probe.expect(
                TotalsQuery(group: whole),
                [
                    RowTotals(group: -2, count: 1), RowTotals(group: 3, count: 1),
                    RowTotals(group: 7, count: 1), RowTotals(group: 100, count: 1),
                ]
            )
        },
        Check("a value that does not fit its column counts as missing") { probe in
            try await probe.put([["id": "1", "whole": "many"], ["id": "2", "whole": 2]])
            try await probe.expect(TotalsQuery(value: whole), [RowTotals(count: 1, sum: 2)])
            try await probe.expect(
                TotalsQuery(group: whole),
                [RowTotals(group: 2, count: 1), RowTotals(count: 1)]
            )
        },
        Check("a sum of integers that is out of range is an exact decimal") { probe in
            try await probe.put([
                ["id": "1", "whole": .integer(.max), "flag": true],
                ["id": "2", "whole": .integer(.max), "flag": true],
                ["id": "3", "whole": .integer(.min), "flag": false],
                ["id": "4", "whole": -1, "flag": false],
            ])
            let max = Decimal(Int64.max)
            try await probe.expect(
                TotalsQuery(value: whole, group: flag),
                [
                    RowTotals(group: true, count: 2, sum: .decimal(max + max)),
                    RowTotals(group: false, count: 2, sum: .decimal(Decimal(Int64.min) - 1)),
                ]
            )
            // The total is in range, but intermediate sums are not.
            try await probe.expect(
                TotalsQuery(value: whole),
                [RowTotals(count: 4, sum: .integer(.max - 2))]
            )
        },
        Check("totals include the changes of their transaction") { probe in
            try await probe.put(numbers)
            let sum = try await probe.store.write { writer in
                try writer.put([["id": "9", "whole": 92]], in: Sample.name)
                return try writer.totals(TotalsQuery(value: whole), in: Sample.name)
            }
            try probe.expect(sum == [RowTotals(count: 4, sum: 100)], "the totals are \(sum)")
        },
        Check("a store without SQL says so, and another one confines it") { probe in
            try await probe.put(numbers)
            let changed = await probe.throwsError {
                _ = try await probe.store.read { reader in
                    try reader.sql(SQLRequest("DELETE FROM Sample", tables: [Sample.name]))
                }
            }
            try probe.expect(changed, "a DELETE is accepted")
            let other = await probe.throwsError {
                _ = try await probe.store.read { reader in
                    try reader.sql(SQLRequest("SELECT * FROM Other", tables: [Sample.name]))
                }
            }
            try probe.expect(other, "another table can be read")
        },
    ]

    private static let numbers: [Row] = [
        [
            "id": "1", "whole": 3, "real": 1.5,
            "exact": .decimal(Decimal(sign: .plus, exponent: -1, significand: 15)),
        ],
        ["id": "2", "whole": -2, "real": 1.0],
        [
            "id": "3", "whole": 7,
            "exact": .decimal(Decimal(sign: .plus, exponent: -2, significand: 225)),
        ],
        ["id": "4"],
    ]

    private static let text = TotalsQuery.Column("text", .string)
    private static let whole = TotalsQuery.Column("whole", .integer)
    private static let real = TotalsQuery.Column("real", .number)
    private static let exact = TotalsQuery.Column("exact", .decimal)
    private static let flag = TotalsQuery.Column("flag", .boolean)
}

extension LocalStoreConformance.Probe {
    fileprivate func totals(_ query: TotalsQuery) async throws -> [RowTotals] {
        try await store.read { try $0.totals(query, in: LocalStoreConformance.Sample.name) }
    }

    /// Compares totals with the expected ones, in any order.
    fileprivate func expect(_ query: TotalsQuery, _ wanted: [RowTotals]) async throws {
        let found = try await totals(query)
        let isSame = found.count == wanted.count && Set(found) == Set(wanted)
        try expect(isSame, "\(found) instead of \(wanted)")
    }
}
