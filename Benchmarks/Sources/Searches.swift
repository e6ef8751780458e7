// Searches: what a search index costs for inserts, and how long searches take.

import Foundation
import Tideline

/// An item of about 200 bytes of words, without a search index.
struct PlainPaper: SyncRecord {
    static let tableName = "Paper"

    var id = UUID().uuidString.lowercased()
    var title = ""
    var text = ""
    var updatedAt: Date?
}

/// The same item with a search index.
struct Paper: SyncRecord {
    var id = UUID().uuidString.lowercased()
    var title = ""
    var text = ""
    var updatedAt: Date?

    static let search = SearchIndex(\Paper.title, \Paper.text)
}

struct Searches {
    let directory: String
    let rows: Int
    /// The number of rows that the measured prefix finds.
    private static let hits = 1112

    func measure() async throws {
        let plain = try await device(PlainPaper.self)
        let indexed = try await device(Paper.self)
        var (without, with) = (0.0, 0.0)
        for start in stride(from: 0, to: rows, by: 10_000) {
            let numbers = start..<min(start + 10_000, rows)
            let plainPapers = numbers.map { number in
                PlainPaper(title: title(number), text: text(number))
            }
            let papers = numbers.map { Paper(title: title($0), text: text($0)) }
            let usage = Usage()
            try await plain.client.syncTable(PlainPaper.self).insert(plainPapers)
            without += usage.seconds
            let other = Usage()
            try await indexed.client.syncTable(Paper.self).insert(papers)
            with += other.seconds
        }
        Bench.report("search: insert, no index", without / Double(rows) * 1e6, "us")
        Bench.report("search: insert, index", with / Double(rows) * 1e6, "us")
        Bench.report("search: insert, times no index", with / without, "x")
        try await measureQueries(indexed.client.syncTable(Paper.self))
        let usage = Usage()
        _ = try await Self.open(plain.path, Paper.self)
        Bench.report("search: index \(rows) rows", usage.seconds, "s")
    }

    private func measureQueries(_ papers: SyncTable<Paper>) async throws {
        for text in ["key7x*", "\"key7x 7\" wor*", "wor*", "word1*"] {
            let query = Query<Paper>().matching(text).limited(to: 20)
            let count = try await papers.count(query)
            var best = Double.infinity
            for _ in 0..<10 {
                let usage = Usage()
                _ = try await papers.read(query)
                best = min(best, usage.seconds)
            }
            Bench.report("search: first 20 of \(count), \(text)", best * 1000, "ms")
            let usage = Usage()
            _ = try await papers.search(text, limit: 20)
            Bench.report("search: 20 with snippets, \(text)", usage.seconds * 1000, "ms")
        }
    }

    private func title(_ number: Int) -> String {
        "key\(number % max(1, rows / Self.hits))x \(number)"
    }

    /// About 170 bytes of words, some of which are frequent.
    private func text(_ number: Int) -> String {
        var state = UInt64(number) &* 0x9E37_79B9_7F4A_7C15 &+ 1
        var words: [String] = []
        for _ in 0..<22 {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            let limit: UInt64 = state % 3 == 0 ? 100 : 30_000
            words.append("word\((state >> 16) % limit)")
        }
        return words.joined(separator: " ")
    }

    private func device(
        _ table: any SyncRecord.Type
    ) async throws -> (client: SyncClient, path: String) {
        let path = "\(directory)/\(UUID().uuidString).sqlite"
        return (try await Self.open(path, table), path)
    }

    private static func open(
        _ path: String,
        _ table: any SyncRecord.Type
    ) async throws -> SyncClient {
        guard let endpoint = URL(string: "http://127.0.0.1:9") else { throw URLError(.badURL) }
        let client = SyncClient(endpoint: endpoint)
        try await client.syncContext.initialize(store: try SQLiteStore(path: path), tables: [table])
        return client
    }
}
