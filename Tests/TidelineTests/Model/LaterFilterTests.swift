// Filters on properties that older rows have no value for, compared with filters of the decoded records.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct LaterFilterTests {
    private typealias Case = (
        condition: @Sendable (Columns<Later>) -> Condition, holds: @Sendable (Later) -> Bool
    )

    private static let day = LocalDate("1994-10-14") ?? .zero
    private static let noon = LocalTime("07:14:00") ?? .zero

    /// Conditions on two columns, and on columns of every type.
    private static let cases: [Case] = [
        ({ $0.rank > $0.least }, { $0.rank > $0.least }),
        ({ $0.rank == $0.least }, { $0.rank == $0.least }),
        ({ !($0.rank > $0.least) }, { !($0.rank > $0.least) }),
        ({ $0.rank + $0.least > 2 }, { $0.rank + $0.least > 2 }),
        ({ $0.rank == $0.other }, { $0.rank == $0.other }),
        ({ $0.rank != $0.other }, { $0.rank != $0.other }),
        ({ $0.least > ($0.other ?? 1) }, { $0.least > ($0.other ?? 1) }),
        ({ $0.due < $0.start }, { $0.due < $0.start }),
        ({ $0.text < $0.note }, { $0.text.utf8.lexicographicallyPrecedes($0.note.utf8) }),
        ({ $0.active != $0.isDone }, { $0.active != $0.isDone }),
        (
            { $0.rank > $0.least || $0.active && $0.text == $0.note },
            { $0.rank > $0.least || $0.active && $0.text == $0.note }
        ),
        ({ $0.price < 1 }, { $0.price < 1 }), ({ $0.ratio >= 0 }, { $0.ratio >= 0 }),
        ({ $0.day < day }, { $0.day < day }), ({ $0.day == .zero }, { $0.day == .zero }),
        ({ $0.noon < noon }, { $0.noon < noon }), ({ $0.noon != .zero }, { $0.noon != .zero }),
        ({ $0.key == Later.noKey }, { $0.key == Later.noKey }),
        ({ $0.key != Later.noKey }, { $0.key != Later.noKey }),
        ({ $0.data == Data() }, { $0.data == Data() }),
        ({ $0.data != Data([0]) }, { $0.data != Data([0]) }),
        ({ $0.weight == .light }, { $0.weight == .light }),
        ({ $0.level == "middle" }, { $0.level == "middle" }),
        ({ $0.level < "high" }, { $0.level != "high" }),
        (
            { $0.start > Date(timeIntervalSince1970: 10) },
            { $0.start > Date(timeIntervalSince1970: 10) }
        ),
    ]

    @Test(
        "A filter returns the rows whose decoded records match it",
        arguments: StoreKind.allCases,
        [1, 2] as [UInt64]
    )
    func aFilterMatchesTheDecodedRecords(kind: StoreKind, seed: UInt64) async throws {
        try await withTemporaryFile { path in
            let store = try await kind.stores(in: path)("one")
            let device = try await Device(ScriptedTransport(), store: store, tables: [Later.self])
            try await device.seed(Later.rows(40, seed: seed), "Later")
            let table = try device.client.syncTable(Later.self)
            let records = try await table.read(sortedBy: [.ascending(\.id)])
            for (index, (condition, holds)) in Self.cases.enumerated() {
                let wanted = records.filter(holds).map(\.id)
                #expect(!wanted.isEmpty && wanted.count < records.count, "\(index) proves little")
                #expect(try await table.read(where: condition).map(\.id) == wanted, "\(index)")
                #expect(try await table.count(where: condition) == wanted.count, "\(index)")
                let inside = try await device.context.transaction { transaction in
                    let table = try transaction.table(Later.self)
                    let ids = try table.read(where: condition).map(\.id)
                    #expect(try table.count(where: condition) == ids.count)
                    return ids
                }
                #expect(inside == wanted, "\(index)")
                for try await shown in table.observe(where: condition) {
                    #expect(shown.map(\.id) == wanted, "\(index)")
                    break
                }
            }
        }
    }

    @Test(
        "A purge removes exactly the records that a read with its filter returns",
        arguments: 0..<5
    )
    func aPurgeRemovesTheRowsThatAReadShows(index: Int) async throws {
        let device = try await Device(ScriptedTransport(), tables: [Later.self])
        try await device.seed(Later.rows(40, seed: 3), "Later")
        let table = try device.client.syncTable(Later.self)
        let (condition, holds) = Self.cases[index * 4]
        let left = try await table.read(sortedBy: [.ascending(\.id)]).filter { !holds($0) }
        try await table.purge(where: condition)
        #expect(try await table.read(sortedBy: [.ascending(\.id)]) == left)
    }
}
