// Orders: what an index in the order of a language costs for inserts, and how long pages of a sorted list take.

import Foundation
import Tideline

/// A person whose name has no index.
struct UnindexedPerson: SyncRecord {
    static let tableName = "Person"

    var id = UUID().uuidString.lowercased()
    var name = ""
    var updatedAt: Date?
}

/// The same person with an index of the name in the order of a language.
struct IndexedPerson: SyncRecord {
    static let tableName = "Person"

    var id = UUID().uuidString.lowercased()
    var name = ""
    var updatedAt: Date?

    static let localizedIndexes = [LocalizedIndex(\IndexedPerson.name)]
}

struct Orders {
    let directory: String
    let rows: Int

    func measure() async throws {
        let plain = try await open(UnindexedPerson.self, "plain").syncTable(UnindexedPerson.self)
        let client = try await open(IndexedPerson.self, "indexed")
        let indexed = try client.syncTable(IndexedPerson.self)
        var (without, with) = (0.0, 0.0)
        for start in stride(from: 0, to: rows, by: 10_000) {
            let numbers = start..<min(start + 10_000, rows)
            let unindexed = numbers.map { UnindexedPerson(name: name($0)) }
            let people = numbers.map { IndexedPerson(name: name($0)) }
            let usage = Usage()
            try await plain.insert(unindexed)
            without += usage.seconds
            let other = Usage()
            try await indexed.insert(people)
            with += other.seconds
        }
        Bench.report("localized: insert, no index", without / Double(rows) * 1e6, "us")
        Bench.report("localized: insert, index", with / Double(rows) * 1e6, "us")
        let first = try Query<UnindexedPerson>().sorted(by: .ascending(\.name, .localized))
            .limited(to: 50)
        try await measure("first 50 of \(rows), no index", plain, first)
        let query = try Query<IndexedPerson>().sorted(by: .ascending(\.name, .localized)).limited(
            to: 50
        )
        let page = try await measure("first 50 of \(rows), index", indexed, query)
        _ = try await measure("next 50", indexed, query.after(page[49]))
        let middle = try await indexed.read(query.limited(to: 1, offset: rows / 2)).items[0]
        _ = try await measure("50 after the middle", indexed, query.after(middle))
        _ = try await measure(
            "50 at the middle by offset",
            indexed,
            query.limited(to: 50, offset: rows / 2)
        )
    }

    @discardableResult
    private func measure<Record: SyncRecord>(
        _ name: String,
        _ table: SyncTable<Record>,
        _ query: Query<Record>
    ) async throws -> [Record] {
        var (best, records) = (Double.infinity, [Record]())
        for _ in 0..<5 {
            let usage = Usage()
            records = try await table.read(query).items
            best = min(best, usage.seconds)
        }
        Bench.report("localized: \(name)", best * 1000, "ms")
        return records
    }

    /// A name like those of a list of customers, with some umlauts.
    private func name(_ number: Int) -> String {
        var state = UInt64(number) &* 0x9E37_79B9_7F4A_7C15 &+ 1
        let syllables = [
            "mül", "ler", "schmi", "dt", "Ä", "ber", "g", "hof", "mann", "stein", "wei", "ß",
        ]
        var name = ""
        for _ in 0..<4 {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            name += syllables[Int(state >> 16) % syllables.count]
        }
        return name.capitalized + " \(number % 100) GmbH"
    }

    private func open(_ table: any SyncRecord.Type, _ name: String) async throws -> SyncClient {
        guard let endpoint = URL(string: "http://127.0.0.1:9") else { throw URLError(.badURL) }
        let client = SyncClient(endpoint: endpoint)
        let store = try SQLiteStore(path: "\(directory)/\(name)-\(UUID().uuidString).sqlite")
        try await client.syncContext.initialize(store: store, tables: [table])
        return client
    }
}
