// ValueTests: ids, texts and numbers from one device through the server to another.

import Foundation
import Testing
import Tideline

struct ValueTests {
    /// Ids that must be encoded in a path, or that could be mistaken for something else in it.
    static let ids = [
        "\u{E4}", "日本語", "👩‍👩‍👧", "a b", "50%", "a#b", "a&b=c", "it's", "...", "a:b", "(x)",
        "null", "%2F", "a;b", "a|b", "~", "@$!*,", "[x]", "{y}", "<z>", "^", "A", "a", "-", "_",
        String(repeating: "x", count: 255), String(repeating: "日", count: 255),
    ]

    @Test("IDs arrive unchanged at the other device", arguments: BackendKind.allCases)
    func idsArriveUnchanged(through kind: BackendKind) async throws {
        try await withBackend(kind) { backend in
            let (one, two) = (try await backend.device(), try await backend.device())
            for id in Self.ids { try await one.notes.insert(Note(id: id, text: id)) }
            try await one.context.push()
            try await two.sync()
            for id in Self.ids { try await two.notes.update(id: id) { $0.rank = 1 } }
            try await two.context.push()
            try await one.sync()
            for id in Self.ids {
                let note = try #require(try await one.notes.read(id: id))
                #expect(note.rank == 1 && note.text.map { Array($0.utf8) } == Array(id.utf8))
                let remote = try await one.client.table(Note.self).read(id: id)
                #expect(remote?.rank == 1)
            }
            try await expectAgreement(one, two)
            for id in Self.ids { try await one.notes.delete(id: id) }
            try await one.context.push()
            try await two.sync()
            #expect(try await two.notes.count() == 0)
        }
    }

    @Test(
        "An insert with a forbidden ID is rejected and queues no operation",
        arguments: [".", "..", "a/b", "a\\b", "a?b", "a\"b", "a+b", "a`b", "a\u{1}", "a\u{308}"]
    )
    func forbiddenIDsAreRejected(id: String) async throws {
        try await withBackend(.inProcess) { backend in
            let device = try await backend.device()
            let error = await #expect(throws: SyncError.self) {
                try await device.notes.insert(Note(id: id))
            }
            #expect(error?.code == .invalidID)
            #expect(try await device.context.pendingOperationCount == 0)
        }
    }

    static let texts: [String?] = [
        nil, "", " ", "null", "it's \"quoted\" \\ / \n\t\r", "\u{1}\u{1F}\u{7F}", "e\u{301}",
        "\u{E9}", "👩‍👩‍👧 \u{10FFFF}", "\u{FEFF}mark", "\u{2028}\u{2029}", "\u{FFFD}\u{FFFF}",
        "{\"a\":1}", "<b>&amp;</b>", "עברית \u{202E}abc", String(repeating: "日本", count: 100_000),
    ]

    @Test("Texts arrive unchanged at the other device", arguments: BackendKind.ours)
    func textsArriveUnchanged(through kind: BackendKind) async throws {
        try await withBackend(kind) { backend in
            let (one, two) = (try await backend.device(), try await backend.device())
            for (number, text) in Self.texts.enumerated() {
                try await one.notes.insert(Note(id: "n\(number)", text: text))
            }
            try await one.sync()
            try await two.sync()
            for (number, text) in Self.texts.enumerated() {
                let note = try #require(try await two.notes.read(id: "n\(number)"))
                #expect(note.text.map { Array($0.utf8) } == text.map { Array($0.utf8) })
            }
            // Every text replaces every other: null, empty and large texts are changes, too.
            for number in Self.texts.indices {
                try await two.notes.update(id: "n\(number)") {
                    $0.text = Self.texts[(number + 1) % Self.texts.count]
                }
            }
            try await two.sync()
            try await one.sync()
            for number in Self.texts.indices {
                let note = try #require(try await one.notes.read(id: "n\(number)"))
                let text = Self.texts[(number + 1) % Self.texts.count]
                #expect(note.text.map { Array($0.utf8) } == text.map { Array($0.utf8) })
            }
            try await expectAgreement(one, two)
        }
    }

    @Test(
        "Numbers, dates and Booleans arrive unchanged at the other device",
        arguments: BackendKind.ours
    )
    func numbersAndDatesArriveUnchanged(through kind: BackendKind) async throws {
        let ranks: [Int?] = [nil, 0, -1, .max, .min, 9_007_199_254_740_993]
        let weights: [Double?] = [
            nil, 0, 0.1, -1.5, 1e308, .leastNonzeroMagnitude, .pi, 1e21, 123_456_789.123_456_79,
        ]
        let dates: [Date?] = [
            nil, Date(timeIntervalSince1970: 0), Date(timeIntervalSince1970: 1_700_000_000.123),
            Date(timeIntervalSince1970: -0.001), Date(timeIntervalSince1970: 253_402_300_799.999),
        ]
        try await withBackend(kind) { backend in
            let (one, two) = (try await backend.device(), try await backend.device())
            var notes: [Note] = []
            for number in 0..<9 {
                let note = Note(
                    id: "n\(number)",
                    done: number % 2 == 0,
                    rank: ranks[number % ranks.count],
                    weight: weights[number],
                    due: dates[number % dates.count]
                )
                notes.append(try await one.notes.insert(note))
            }
            try await one.sync()
            try await two.sync()
            for note in notes {
                let read = try #require(try await two.notes.read(id: note.id))
                #expect(read.rank == note.rank)
                #expect(read.weight == note.weight)
                #expect(read.due == note.due)
                #expect(read.done == note.done)
            }
            try await expectAgreement(one, two)
        }
    }

    @Test(
        "A rejected operation is parked, other rows continue, and an edit unparks it",
        arguments: BackendKind.ours
    )
    func rejectedRowsAreParked(through kind: BackendKind) async throws {
        let rejected: [(id: String, text: String, status: Int)] = [
            ("large", String(repeating: "x", count: 1_200_000), 413),
            ("larger", String(repeating: "y", count: 1_300_000), 413),
        ]
        try await withBackend(kind) { backend in
            let (one, two) = (try await backend.device(), try await backend.device())
            for row in rejected { try await one.notes.insert(Note(id: row.id, text: row.text)) }
            try await one.notes.insert(Note(id: "good", text: "good"))
            let error = await #expect(throws: PushError.self) { try await one.context.push() }
            #expect(error?.status == .operationErrors)
            #expect(error?.completed == 1)
            for row in rejected {
                let found = error?.errors.first { $0.itemID == row.id }
                #expect(found?.statusCode == row.status)
                #expect(found?.item?["text"] == .string(row.text))
            }
            for row in rejected { try await one.notes.update(id: row.id) { $0.text = "short" } }
            try await one.sync()
            try await two.sync()
            try await expectAgreement(one, two)
            #expect(try await two.notes.count() == 3)
        }
    }
}
