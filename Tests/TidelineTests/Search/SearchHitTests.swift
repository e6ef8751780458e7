// SearchHitTests: the excerpts of the records that a search finds, and the weights of their properties.

import Testing
import Tideline
import TidelineCore
import TidelineTestSupport

@Suite struct SearchHitTests {
    /// Returns a text of 80 words, of which one is `Müller`.
    private static func text(place: Int) -> String {
        (0..<80).map { $0 == place ? "Müller" : "w\($0)" }.joined(separator: " ")
    }

    private static func words(_ excerpt: SearchExcerpt) -> [String] {
        excerpt.matches.map { String(excerpt.text[$0]) }
    }

    @Test(
        "A snippet has the match within at most 32 words, and '…' for the text before and after it",
        arguments: [(0, false, true), (40, true, true), (79, true, false)]
    )
    func snippets(place: Int, isCutBefore: Bool, isCutAfter: Bool) async throws {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            let tickets = try SearchScene.tickets(device)
            let text = Self.text(place: place)
            try await tickets.insert(Ticket(id: "a", title: "short", notes: text))
            let hit = try #require(try await tickets.search("mül*").first)
            let snippet = try #require(hit.snippet(\.notes))
            #expect(snippet.text.hasPrefix("…") == isCutBefore)
            #expect(snippet.text.hasSuffix("…") == isCutAfter)
            #expect(snippet.text.split(separator: " ").count <= 32)
            #expect(text.contains(snippet.text.replacing("…", with: "")))
            #expect(Self.words(snippet) == ["Müller"])
            let highlight = try #require(hit.highlight(\.notes))
            #expect(highlight.text == text)
            #expect(Self.words(highlight) == ["Müller"])
            let title = try #require(hit.snippet(\.title))
            #expect(title.text == "short" && title.matches.isEmpty)
        }
    }

    @Test("A search without words has snippets of the first 32 words, without matches")
    func snippetsWithoutWords() async throws {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            let tickets = try SearchScene.tickets(device)
            try await tickets.insert(Ticket(id: "a", title: "short", notes: Self.text(place: 0)))
            let hit = try #require(try await tickets.search("").first)
            let snippet = try #require(hit.snippet(\.notes))
            #expect(snippet.text.hasPrefix("Müller w1 ") && snippet.text.hasSuffix(" w31…"))
            #expect(snippet.matches.isEmpty)
            #expect(hit.snippet(\.title)?.text == "short")
        }
    }

    @Test("Control characters, such as those of a scanned code, stay in the text of an excerpt")
    func controlCharacters() async throws {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            let tickets = try SearchScene.tickets(device)
            let notes = "code \u{2}A1\u{3} and \u{3}B2\u{2}"
            try await tickets.insert(Ticket(id: "a", title: "scan", notes: notes))
            let hit = try #require(try await tickets.search("a1").first)
            for part in [hit.snippet(\.notes), hit.highlight(\.notes)] {
                let excerpt = try #require(part)
                #expect(excerpt.text == notes)
                #expect(Self.words(excerpt) == ["A1"])
            }
        }
    }

    @Test(
        "Matches are the found words, whatever accents they and the search have",
        arguments: [
            ("mül*", ["Müller", "Mülheim"]), ("mul*", ["Müller", "Mülheim"]),
            ("MÜLLER", ["Müller"]), ("mu\u{308}ller", ["Müller"]),
        ]
    )
    func accents(search: String, found: [String]) async throws {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            let tickets = try SearchScene.tickets(device)
            let notes = "👍🏽 Café Müller, Mülheim"
            // The title has combining accents.
            try await tickets.insert(Ticket(id: "a", title: "Frau Mu\u{308}ller", notes: notes))
            let hit = try #require(try await tickets.search(search).first)
            for part in [hit.snippet(\.notes), hit.highlight(\.notes)] {
                let excerpt = try #require(part)
                #expect(excerpt.text == notes)
                #expect(Self.words(excerpt) == found)
            }
            let title = try #require(hit.snippet(\.title))
            #expect(Self.words(title) == ["Mu\u{308}ller"])
        }
    }

    // MARK: - Weights

    private struct Titled: SyncRecord {
        static let tableName = "Ticket"
        static let search = SearchIndex(\Titled.title, \Titled.notes, weights: [10, 1])
        var id = ""
        var title = ""
        var notes: String?
    }

    private struct Noted: SyncRecord {
        static let tableName = "Ticket"
        static let search = SearchIndex(\Noted.title, \Noted.notes, weights: [1, 10])
        var id = ""
        var title = ""
        var notes: String?
    }

    /// Returns the ids of two records, one with the word in its title and one with it in its notes, as a search
    /// returns them.
    private func order<Record: SyncRecord>(_ type: Record.Type) async throws -> [String] {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path, ScriptedTransport(), type)
            var rows: [Row] = [
                ["id": "title", "title": "red lamp", "notes": "old oak"],
                ["id": "notes", "title": "old oak", "notes": "red lamp"],
            ]
            for number in 0..<8 {
                rows.append(["id": .string("t\(number)"), "title": "elm", "notes": "ash"])
            }
            try await device.seed(rows, "Ticket")
            return try await device.client.syncTable(type).search("lamp").map(\.record.id)
        }
    }

    @Test("The weights of properties decide which of two records comes first")
    func weights() async throws {
        #expect(try await order(Titled.self) == ["title", "notes"])
        #expect(try await order(Noted.self) == ["notes", "title"])
    }
}
