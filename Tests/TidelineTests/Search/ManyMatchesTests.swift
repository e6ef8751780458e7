// Searches with more matches than are ordered by rank.

import Testing
import Tideline
import TidelineCore
import TidelineTestSupport

@Suite struct ManyMatchesTests {
    /// The ids of the tickets, those that were stored last first.
    private static let newest = (0..<3200).reversed().map { "t\($0)" }

    private func withTickets(_ body: (SyncTable<Ticket>) async throws -> Void) async throws {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            let rows: [Row] = (0..<3200).map {
                ["id": .string("t\($0)"), "title": .string("lamp \($0)"), "notes": "boiler"]
            }
            try await device.seed(rows, "Ticket")
            try await body(try SearchScene.tickets(device))
        }
    }

    @Test("More than 3,000 matches are ordered by age on each page")
    func pages() async throws {
        try await withTickets { tickets in
            let query = Query<Ticket>().matching("boil*")
            for (limit, offset) in [(3, 0), (5, 7), (10, 2995), (5, 3100), (10, 3195), (5, 3300)] {
                let page = try await tickets.read(query.limited(to: limit, offset: offset))
                #expect(page.items.map(\.id) == Array(Self.newest.dropFirst(offset).prefix(limit)))
            }
            #expect(try await tickets.read(query).items.map(\.id) == Self.newest)
            #expect(try await tickets.count(where: { $0.matching("boil*") }) == 3200)
        }
    }

    @Test("A second condition applies to all matches, and each hit has its own excerpts")
    func excerpts() async throws {
        try await withTickets { tickets in
            try await tickets.update(where: { $0.title == "lamp 20" || $0.title == "lamp 3000" }) {
                $0.isOpen = false
            }
            let closed = try await tickets.search("lamp boil*", where: { !$0.isOpen }, limit: 5)
            #expect(closed.map(\.record.id) == ["t3000", "t20"])
            let hits = try await tickets.search("lamp", limit: 4)
            #expect(hits.map(\.record.id) == Array(Self.newest.prefix(4)))
            for hit in closed + hits {
                let title = try #require(hit.highlight(\.title))
                #expect(title.text == hit.record.title)
                #expect(title.matches.map { title.text[$0] } == ["lamp"])
                #expect(hit.snippet(\.notes)?.text == "boiler")
            }
        }
    }
}
