// Reading page by page: the records after the last one of a page, in any order, while other changes are made.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct PagingTests {
    private struct Entry: SyncRecord, Hashable {
        struct Place: Codable, Hashable {
            var city: String?
        }
        enum Kind: String, Codable { case small, large }

        var id = ""
        var name = ""
        var nickname: String?
        var rank = 0
        var points: Int?
        var price: Double?
        var due: Date?
        var day: LocalDate?
        var isOpen = true
        var flag: Bool?
        var kind = Kind.small
        var place = Place()
        var updatedAt: Date?

        static let german = TextOrder.localized(Locale(identifier: "de_DE"))
        static let indexes: [[PropertyPath<Entry>]] = [
            [\.rank], [\.due], [\.name], [\.points, \.name],
        ]
        static let localizedIndexes = [
            LocalizedIndex(\Entry.name, order: german),
            LocalizedIndex(\.rank, \.nickname, order: german),
        ]
    }

    private static let terms: [SortTerm<Entry>] = [
        .ascending(\.name), .descending(\.name), .ascending(\.name, Entry.german),
        .descending(\.name, Entry.german), .ascending(\.nickname, Entry.german),
        .descending(\.nickname, Entry.german), .ascending(\.nickname), .descending(\.nickname),
        .ascending(\.rank), .descending(\.rank), .ascending(\.points), .descending(\.points),
        .ascending(\.price), .descending(\.price), .ascending(\.due), .descending(\.due),
        .ascending(\.day), .descending(\.day), .ascending(\.isOpen), .descending(\.isOpen),
        .ascending(\.flag), .descending(\.flag), .ascending(\.kind), .descending(\.kind),
        .ascending(\.place.city), .descending(\.place.city), .ascending(\.id), .descending(\.id),
    ]

    private static let texts = [
        "é", "e\u{301}", "E", "e", "ch", "Ärger", "", "10", "2", "02", "zeta",
    ]

    private static func entry(_ id: String, _ random: inout SeededGenerator) -> Entry {
        func maybe<Value>(_ value: Value) -> Value? { Bool.random(using: &random) ? value : nil }
        func text() -> String { texts.randomElement(using: &random) ?? "" }
        func small() -> Int { Int.random(in: -1...2, using: &random) }
        return Entry(
            id: id,
            name: text(),
            nickname: maybe(text()),
            rank: small(),
            points: maybe(small()),
            price: maybe(Double(small()) / 4),
            due: maybe(Date(timeIntervalSince1970: Double(small()) / 8)),
            day: maybe(20 + small()).flatMap { LocalDate(year: 2026, month: 11, day: $0) },
            isOpen: Bool.random(using: &random),
            flag: maybe(Bool.random(using: &random)),
            kind: Bool.random(using: &random) ? .small : .large,
            place: Entry.Place(city: maybe(text()))
        )
    }

    private func devices(_ path: String) async throws -> [Device] {
        var devices: [Device] = []
        for store in [MemoryStore(), try SQLiteStore(path: path)] as [any LocalStore] {
            devices.append(
                try await Device(ScriptedTransport(), store: store, tables: [Entry.self])
            )
        }
        return devices
    }

    /// Reads all pages of a query; `between` runs after each page.
    private func pages(
        _ query: Query<Entry>,
        _ table: SyncTable<Entry>,
        between: () async throws -> Void = {}
    ) async throws -> [Entry] {
        var all: [Entry] = []
        var next = query
        while true {
            let page = try await table.read(next).items
            all += page
            guard let last = page.last else { return all }
            try await between()
            next = try query.after(last)
        }
    }

    @Test(
        "Pages in any order return the same records as a single read",
        arguments: 0..<40 as Range<UInt64>
    )
    func samePages(seed: UInt64) async throws {
        try await withTemporaryFile { path in
            for device in try await devices(path) {
                var random = SeededGenerator(seed: seed)
                let table = try device.client.syncTable(Entry.self)
                try await table.insert((0..<40).map { Self.entry("e\(10 + $0)", &random) })
                if seed.isMultiple(of: 2) {
                    // Rows without values, which records read as defaults.
                    try await device.seed((0..<5).map { ["id": .string("s\($0)")] }, "Entry")
                }
                for _ in 0..<6 {
                    let count = Int.random(in: 1...3, using: &random)
                    let terms = Array(Self.terms.shuffled(using: &random).prefix(count))
                    var query = try Query<Entry>().sorted(by: terms)
                    if Bool.random(using: &random) { query = try query.filter { $0.rank >= 0 } }
                    let all = try await table.read(query).items
                    let size = Int.random(in: 1...7, using: &random)
                    let paged = try await pages(query.limited(to: size), table)
                    #expect(paged == all, "seed \(seed), \(query.order)")
                    if let middle = all.dropFirst(all.count / 2).first {
                        let rest = try await table.read(query.after(middle)).items
                        #expect(rest == Array(all.dropFirst(all.count / 2 + 1)), "seed \(seed)")
                        #expect(try await table.count(query.after(middle)) == rest.count)
                    }
                }
            }
        }
    }

    @Test(
        "Paging skips and repeats no record while other records are added and removed",
        arguments: 0..<30 as Range<UInt64>
    )
    func concurrentChanges(seed: UInt64) async throws {
        try await withTemporaryFile { path in
            for device in try await devices(path) {
                var random = SeededGenerator(seed: seed)
                let table = try device.client.syncTable(Entry.self)
                let kept = (0..<20).map { Self.entry("k\(10 + $0)", &random) }
                try await table.insert(kept)
                var others: [String] = []
                var count = 0
                let terms = Array(Self.terms.shuffled(using: &random).prefix(2))
                let query = try Query<Entry>().sorted(by: terms).limited(to: 3)
                let paged = try await pages(query, table) {
                    guard count < 30 else { return }
                    for _ in 0..<3 {
                        count += 1
                        others.append("o\(count)")
                        try await table.insert(Self.entry("o\(count)", &random))
                    }
                    let gone = others.remove(at: Int.random(in: 0..<others.count, using: &random))
                    try await table.delete(id: gone)
                }
                let ids = paged.map(\.id)
                #expect(Set(ids).count == ids.count, "seed \(seed)")
                #expect(ids.filter { $0.hasPrefix("k") }.sorted() == kept.map(\.id), "seed \(seed)")
            }
        }
    }

    @Test("A page can follow a record that was deleted")
    func removedRecord() async throws {
        try await withTemporaryFile { path in
            for device in try await devices(path) {
                let table = try device.client.syncTable(Entry.self)
                try await table.insert(["a", "b", "c"].map { Entry(id: $0, name: $0) })
                let query = try Query<Entry>().sorted(by: .descending(\.name, Entry.german))
                let found = try await table.read(query).items
                try await table.delete(id: "b")
                #expect(try await table.read(query.after(found[1])).items.map(\.id) == ["a"])
                let observed = try query.after(found[0])
                var lists = table.observe(observed).makeAsyncIterator()
                #expect(try await lists.next()?.map(\.id) == ["a"])
                try await table.insert(Entry(id: "d", name: "D"))
                try await table.insert(Entry(id: "0", name: "B"))
                #expect(try await lists.next()?.map(\.id) == ["0", "a"])
            }
        }
    }

    @Test("A page after a record requires the properties of its order, and no order by rank")
    func rejects() throws {
        let record = Entry(id: "a", name: "b")
        let part = try Query<Entry>().sorted(by: .ascending(\.name)).selecting(\.rank)
        #expect(throws: SyncError.self) { try part.after(record) }
        _ = try Query<Entry>().sorted(by: .ascending(\.rank)).selecting(\.rank).after(record)
        let unknown = try Query<Entry>().sorted(by: .ascending("createdAt"))
        #expect(throws: SyncError.self) { try unknown.after(record) }
        #expect(throws: SyncError.self) { try Query<Entry>().matching("b").after(record) }
        let ranked = try Query<Entry>().matching("b").sorted(by: .rank)
        #expect(throws: SyncError.self) { try ranked.after(record) }
    }

    @Test("A position is sent as a filter, but a position in a localized order is rejected")
    func remote() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport, tables: [Entry.self])
        let remote = device.client.table(Entry.self)
        let record = Entry(id: "a", name: "b", points: 3)
        let localized = try Query<Entry>().sorted(by: .ascending(\.name, Entry.german)).after(
            record
        )
        #expect(await code { _ = try await remote.read(localized) } == .unsupportedQuery)
        var filter = localized
        filter.order = []
        #expect(await code { _ = try await remote.read(filter) } == .unsupportedQuery)
        let table = try device.client.syncTable(Entry.self)
        #expect(await code { try await table.pull(queryID: "q", filter) } == .unsupportedQuery)
        #expect(transport.sent.isEmpty)
        let query = try Query<Entry>().sorted(by: .descending(\.points), .ascending(\.name)).after(
            record
        )
        #expect(
            try query.filter.map { try ODataWriter(.v4).filter($0.expression) }
                == "(points le 3 or points eq null) and (points lt 3 or points eq null or (points eq 3 and "
                + "(name gt 'b' or (name eq 'b' and id gt 'a'))))"
        )
    }
}
