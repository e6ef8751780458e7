// TextSearchTests: a text search agrees with a naive search, and takes linear time for texts that
// are made to be slow.

import Foundation
import Testing
import TidelineCore
import TidelineTestKit

@Suite struct TextSearchTests {
    private static func naive(_ needle: [UInt8], in text: [UInt8], from start: Int) -> Int? {
        guard needle.count <= text.count else { return nil }
        return (start...max(start, text.count - needle.count)).first {
            text[$0...].starts(with: needle)
        }
    }

    @Test("Text search finds the same offsets as a naive search", arguments: UInt64(0)..<4)
    func agreesWithTryingEveryPlace(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        func text(_ count: Int) -> String {
            String((0..<count).map { _ in random.pick(["a", "b", "a", "\u{E9}"]) as Character })
        }
        for _ in 0..<2000 {
            let needle = text(1 + random.below(6))
            let haystack = text(random.below(30))
            let bytes = Array(haystack.utf8)
            let start = random.below(bytes.count + 1)
            let found = bytes.withUnsafeBufferPointer {
                TextSearch(needle).first(in: $0, from: start)
            }
            #expect(
                found == Self.naive(Array(needle.utf8), in: bytes, from: start),
                "\(needle) in \(haystack) from \(start)"
            )
            #expect(
                ScalarText.replace(haystack, needle, by: "xy")
                    == haystack.replacing(needle, with: "xy"),
                "\(needle) in \(haystack)"
            )
        }
    }

    /// Texts in which a match nearly succeeds at every position.
    private static let long = String(repeating: "a", count: 1 << 20)
    private static let needle = String(repeating: "a", count: 1 << 19)
    private static let hostile: [(String, String)] = [
        (long, needle + "b"), (long, "b" + needle),
        (long, needle + "b" + needle), (long, String(repeating: "ab", count: 1 << 18)),
        (String(repeating: "ab", count: 1 << 19), String(repeating: "ab", count: 1 << 18) + "b"),
    ]

    /// Quadratic time would exceed the time limit.
    @Test(
        "Text functions take linear time for long hostile texts",
        .timeLimit(.minutes(2)),
        arguments: hostile.indices
    )
    func longTextsTakeLinearTime(_ index: Int) throws {
        let (text, part) = Self.hostile[index]
        let row: Row = ["id": "1", "text": .string(text), "part": .string(part)]
        let schema = TableSchema(
            name: "t",
            columns: [ColumnDefinition("text", .string), ColumnDefinition("part", .string)]
        )
        let table = try TestTable(schema, [row], unit: .milliseconds)
        for filter in [
            "contains(text,part)", "indexof(text,part) ge 0", "startswith(text,part)",
            "endswith(text,part)", "replace(text,part,'') ne text",
        ] {
            let expression = try ODataParser.filter(filter, dialect: .v4)
            #expect(try table.ids(table.renderer.condition(expression)) == [], "\(filter)")
            #expect(!FilterEvaluator(row: row).matches(expression), "\(filter)")
        }
    }

    @Test("A text that exceeds the maximum length is null")
    func whatWouldGrowTooLongIsNull() throws {
        let row: Row = ["id": "1", "text": .string(Self.long)]
        let schema = TableSchema(name: "t", columns: [ColumnDefinition("text", .string)])
        let table = try TestTable(schema, [row], unit: .milliseconds)
        let twice = "concat(text,text)"
        let eight = "concat(concat(\(twice),\(twice)),concat(\(twice),\(twice)))"
        for (filter, isMatch) in [
            ("length(\(eight)) eq 8388608", true),
            ("concat(\(eight),'a') eq null", true),
            ("length(replace(text,'a','bbbbbbbb')) eq 8388608", true),
            ("replace(text,'a','bbbbbbbbb') eq null", true),
            ("length(text) eq 1048576", true),
        ] {
            let expression = try ODataParser.filter(filter, dialect: .v4)
            let ids = try table.ids(table.renderer.condition(expression))
            #expect(ids.isEmpty != isMatch, "\(filter.prefix(60))")
            #expect(FilterEvaluator(row: row).matches(expression) == isMatch)
        }
    }
}
