// Orders by properties that older rows have no value for: a row is sorted like its decoded record.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct LaterOrderTests {
    /// A sort key, and its comparison for records.
    private struct Key: Sendable {
        var up: SortTerm<Later>
        var down: SortTerm<Later>
        var compare: @Sendable (Later, Later) -> Int

        init<Content>(
            _ path: any KeyPath<Later, Content> & Sendable,
            _ isLess: @escaping @Sendable (Content, Content) -> Bool
        ) {
            up = .ascending(path)
            down = .descending(path)
            compare = { one, two in
                let (left, right) = (one[keyPath: path], two[keyPath: path])
                return isLess(left, right) ? -1 : isLess(right, left) ? 1 : 0
            }
        }
    }

    private static func text(_ one: String, _ two: String) -> Bool {
        one.utf8.lexicographicallyPrecedes(two.utf8)
    }

    private static func levelIndex(_ level: String) -> Int {
        Later.levels.firstIndex(of: level) ?? Later.levels.count
    }

    private static let keys: [Key] = [
        Key(\.rank) { $0 < $1 }, Key(\.least) { $0 < $1 }, Key(\.ratio) { $0 < $1 },
        Key(\.other) { ($0 ?? .min) < ($1 ?? .min) }, Key(\.price) { $0 < $1 },
        Key(\.text, text), Key(\.note, text), Key(\.active) { !$0 && $1 },
        Key(\.isDone) { !$0 && $1 }, Key(\.due) { $0 < $1 }, Key(\.start) { $0 < $1 },
        Key(\.weight) { text($0.rawValue, $1.rawValue) },
        Key(\.level) { levelIndex($0) < levelIndex($1) }, Key(\.day) { $0 < $1 },
        Key(\.noon) { $0 < $1 },
        Key(\.key) { text($0.uuidString.lowercased(), $1.uuidString.lowercased()) },
        Key(\.data) { $0.lexicographicallyPrecedes($1) },
    ]

    private func sorted(_ records: [Later], _ keys: [(key: Key, isUp: Bool)]) -> [Later] {
        records.sorted { one, two in
            for (key, isUp) in keys {
                let order = key.compare(one, two)
                if order != 0 { return isUp == (order < 0) }
            }
            return Self.text(one.id, two.id)
        }
    }

    private func device(_ store: any LocalStore, _ rows: [Row]) async throws -> Device {
        let device = try await Device(ScriptedTransport(), store: store, tables: [Later.self])
        try await device.seed(rows, "Later")
        return device
    }

    /// Each key alone, ascending and descending, with and without a window, and random keys together.
    @Test(
        "Rows are sorted by the values of their decoded records",
        arguments: StoreKind.allCases,
        [1, 2, 3] as [UInt64]
    )
    func anOrderMatchesTheDecodedRecords(kind: StoreKind, seed: UInt64) async throws {
        try await withTemporaryFile { path in
            let store = try await kind.stores(in: path)("one")
            let device = try await device(store, Later.rows(40, seed: seed))
            let table = try device.client.syncTable(Later.self)
            let records = try await table.read()
            var random = SeededGenerator(seed: seed)
            var orders: [[(key: Key, isUp: Bool)]] = Self.keys.flatMap { key in
                [[(key, true)], [(key, false)]]
            }
            for _ in 0..<30 {
                orders.append(
                    try (0..<3).map { _ in
                        (
                            try #require(Self.keys.randomElement(using: &random)),
                            .random(using: &random)
                        )
                    }
                )
            }
            for (index, order) in orders.enumerated() {
                let terms = order.map { $0.isUp ? $0.key.up : $0.key.down }
                let wanted = sorted(records, order).map(\.id)
                #expect(try await table.read(sortedBy: terms).map(\.id) == wanted, "\(index)")
                let window = try await table.read(
                    where: { $0.id != "r107" },
                    sortedBy: terms,
                    limit: 5,
                    offset: 3
                )
                let few = wanted.filter { $0 != "r107" }[3..<8]
                #expect(window.map(\.id) == Array(few), "\(index)")
                let inside = try await device.context.transaction { transaction in
                    try transaction.table(Later.self)
                        .read(where: { _ in true }, sortedBy: terms, limit: 7).map(\.id)
                }
                #expect(inside == Array(wanted[..<7]), "\(index)")
            }
        }
    }

    @Test("An observed list with a limit shows the right records, also after changes")
    func anObservedListHasTheOrderOfTheRecords() async throws {
        try await withTemporaryFile { path in
            let rows: [Row] = [["id": "a", "rank": -5], ["id": "b"], ["id": "c", "rank": 3]]
            let device = try await device(SQLiteStore(path: path), rows)
            let table = try device.client.syncTable(Later.self)
            var lists = table.observe(sortedBy: [.ascending(\.rank)], limit: 2)
                .makeAsyncIterator()
            #expect(try await lists.next()?.map(\.id) == ["a", "b"])
            let live = await LiveQuery(
                table,
                where: { $0.rank < 10 },
                sortedBy: [.ascending(\.rank)],
                limit: 2
            )
            try await until { await !live.isLoading }
            #expect(await live.items.map(\.id) == ["a", "b"])
            try await table.insert(Later(id: "d", rank: -1))
            #expect(try await lists.next()?.map(\.id) == ["a", "d"])
            try await until { await live.items.map(\.id) == ["a", "d"] }
            try await table.delete(id: "a")
            #expect(try await lists.next()?.map(\.id) == ["d", "b"])
            try await until { await live.items.map(\.id) == ["d", "b"] }
        }
    }

    @Test("Untyped rows sort by stored values, and a server gets the order as written")
    func untypedRowsAndServersGetTheOrderAsWritten() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport, tables: [Later.self])
        try await device.seed([["id": "a", "rank": -5], ["id": "b"]], "Later")
        let plain = try device.client.syncTable(named: "Later")
        #expect(try await plain.read(sortedBy: [.ascending("rank")]).map(\.id) == ["b", "a"])
        transport.add(page([]))
        _ = try await device.client.table(Later.self).read(
            where: { $0.rank > $0.least },
            sortedBy: [.ascending(\.rank)]
        )
        let query = try #require(transport.sent.first?.query)
        #expect(query.contains("$orderby=rank"))
        #expect(query.contains("rank gt least"))
    }

    @Test("Rows without a value are counted only if the rows that were read cannot show them")
    func anOrderNeedsNoSecondScan() async throws {
        let store = RecordingStore(MemoryStore())
        let device = try await device(store, [["id": "a", "rank": 1], ["id": "b", "rank": 0]])
        let table = try device.client.syncTable(Later.self)
        func isCountRead(_ order: [SortTerm<Later>], _ limit: Int?) async throws -> [Bool] {
            store.forget()
            _ = try await table.read(sortedBy: order, limit: limit)
            return store.reads.map(\.isCount)
        }
        #expect(try await isCountRead([.ascending(\.other)], 1) == [false])
        #expect(try await isCountRead([.ascending(\.rank)], nil) == [false])
        #expect(try await isCountRead([.descending(\.rank)], nil) == [false])
        #expect(try await isCountRead([.ascending(\.rank)], 1) == [false])
        #expect(try await isCountRead([.descending(\.rank)], 1) == [false, true])
        #expect(
            try await isCountRead([.ascending(\.other), .ascending(\.rank)], 1) == [false, true]
        )
        try await device.seed([["id": "c"]], "Later")
        #expect(try await isCountRead([.ascending(\.rank)], 1) == [false, false])
        #expect(try await isCountRead([.descending(\.rank)], 1) == [false, true, false])
    }

    @Test("If every row has a value, rows are sorted by the column itself and its index")
    func anIndexIsStillUsedIfEveryRowHasAValue() async throws {
        let store = RecordingStore(MemoryStore())
        let device = try await device(store, [["id": "a", "rank": 1], ["id": "b", "rank": 0]])
        let table = try device.client.syncTable(Later.self)
        func key() async throws -> String {
            store.forget()
            _ = try await table.read(sortedBy: [.ascending(\.rank)])
            let read = try #require(store.reads.last?.order.first)
            return "\(read.expression.kind)"
        }
        let plain = "\(SortKey(column: "rank").expression.kind)"
        #expect(try await key() == plain)
        try await device.seed([["id": "c"]], "Later")
        #expect(try await key() != plain)
        #expect(try await table.read(sortedBy: [.ascending(\.rank)]).map(\.id) == ["b", "c", "a"])
    }
}
