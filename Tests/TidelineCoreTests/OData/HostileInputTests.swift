// HostileInputTests: malicious filters are rejected with a position, and none crashes the parser.

import Foundation
import Testing
import TidelineCore
import TidelineTestKit

@Suite struct HostileInputTests {
    static let texts: [String] = [
        String(repeating: "(", count: 60_000),
        String(repeating: "(", count: 2_000) + "a eq 1" + String(repeating: ")", count: 2_000),
        String(repeating: "not ", count: 15_000) + "a",
        String(repeating: "-", count: 60_000) + "a eq 1",
        String(repeating: "- ", count: 5_000) + "1 eq 1",
        String(repeating: "tolower(", count: 5_000),
        "a in " + String(repeating: "(", count: 3_000),
        Array(repeating: "1", count: 10_000).joined(separator: " add "),
        Array(repeating: "1", count: 500).joined(separator: " eq "),
        Array(repeating: "a eq 1", count: 5_000).joined(separator: " or "),
        "a in (" + Array(repeating: "1", count: 20_000).joined(separator: ",") + ")",
        "a eq '" + String(repeating: "x", count: 600_000) + "'",
        String(repeating: "x", count: 600_000),
        "a eq " + String(repeating: "9", count: 60_000) + "m",
        "a eq " + String(repeating: "9", count: 60_000) + "L",
        "a eq 1\0", "\0", "a\u{7F}eq 1", "\u{FEFF}a eq 1", "a eq \u{2019}x\u{2019}", "a eq 1\u{A0}",
        "a eq \u{1F600}", "'", "'''", "datetime'", "X'", "cast(", "cast(1,", "cast(1,Edm", "a eq -",
        "a eq 1.", "a eq .5", "a eq 2021-", "a eq 2021-01-01T", "a eq 07:", "a desc",
        "substringof(",
        "a eq 1;drop table x", "a eq 1 --", "a eq $b", "a eq {1}", "a eq [1]", "a eq #", "a eq \\",
    ]

    @Test(
        "Hostile text is rejected as a filter and as a selection",
        arguments: texts.indices,
        ODataDialect.allCases
    )
    func rejects(_ index: Int, _ dialect: ODataDialect) {
        let text = Self.texts[index]
        let error = #expect(throws: ODataError.self) {
            try ODataParser.filter(text, dialect: dialect)
        }
        #expect((0...text.utf8.count).contains(error?.position ?? -1))
        #expect(throws: ODataError.self) { try ODataParser.select(text, dialect: dialect) }
    }

    @Test(
        "Random bytes and random sequences of tokens never crash the parser",
        arguments: UInt64(0)..<8
    )
    func survives(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let words = [
            "a", "eq", "and", "or", "not", "(", ")", ",", "'x'", "1", "2.5m", "in", "add", "-",
            "year", "contains", "cast", "Edm.Date", "null", "datetime'", "2021-01-01", "07:00", "/",
            "desc", " ", "'", "X'0'", "substring", "\u{E9}", "replace",
        ]
        for _ in 0..<400 {
            let text: String
            if random.chance(1, in: 2) {
                let bytes = (0..<random.below(60)).map { _ in UInt8(random.below(256)) }
                text = String(decoding: bytes, as: UTF8.self)
            } else {
                text = (0..<random.below(25)).map { _ in random.pick(words) }
                    .joined(separator: random.pick([" ", ""]))
            }
            for dialect in ODataDialect.allCases {
                guard let parsed = try? ODataParser.filter(text, dialect: dialect),
                    let written = try? ODataWriter(dialect).filter(parsed)
                else { continue }
                // The writer replaces an empty list with false, and any list with a chain in v3.
                if String(describing: parsed).contains("isIn") { continue }
                let again = try? ODataParser.filter(written, dialect: dialect)
                #expect(again == parsed, "\(text) -> \(written)")
            }
        }
    }

    @Test("A filter with 600 alternatives or 78 nested groups is parsed")
    func longChainsAreFine() throws {
        let chain = Array(repeating: "a eq 1", count: 600).joined(separator: " or ")
        let parsed = try ODataParser.filter(chain, dialect: .v4)
        guard case .any(let parts) = parsed.kind else {
            Issue.record("not a chain")
            return
        }
        #expect(parts.count == 600)
        let schema = TableSchema(name: "t", columns: [ColumnDefinition("a", .integer)])
        let table = try TestTable(schema, [["id": "1", "a": 1]], unit: .milliseconds)
        #expect(try table.ids(table.renderer.condition(parsed)) == ["1"])
        let nested =
            String(repeating: "(", count: 78) + "a eq 1"
            + String(repeating: " or a eq 2)", count: 78)
        #expect(throws: Never.self) { try ODataParser.filter(nested, dialect: .v3) }
    }

    /// Threads on Apple platforms have 512 KiB of stack, and a debug build uses the most.
    @Test("The deepest filter fits the small stack of a thread")
    func theDeepestTreeFitsASmallStack() async {
        let depth = ODataLimits().depthMax
        let texts = [
            String(repeating: "(", count: depth - 1) + "a eq 1"
                + String(repeating: " or a eq 2)", count: depth - 2) + ")",
            String(repeating: "not ", count: depth - 1) + "b",
            String(repeating: "tolower(", count: depth - 2) + "'X'"
                + String(repeating: ")", count: depth - 2) + " eq 'x'",
        ]
        let schema = TableSchema(
            name: "t",
            columns: [ColumnDefinition("a", .integer), ColumnDefinition("b", .boolean)]
        )
        let matched = await withCheckedContinuation { continuation in
            let thread = Thread {
                let matched = texts.map { text -> Bool in
                    guard let parsed = try? ODataParser.filter(text, dialect: .v4),
                        let checked = try? FilterChecker(schema: schema).filter(parsed),
                        (try? ODataWriter(.v4).filter(checked)) != nil
                    else { return false }
                    let renderer = FilterRenderer(schema: schema, dateUnit: .milliseconds)
                    _ = renderer.condition(checked).text(for: .sqlite)
                    return Filter(checked).matches(["a": 1, "b": false])
                }
                continuation.resume(returning: matched)
            }
            thread.stackSize = 512 * 1024
            thread.start()
        }
        #expect(matched == [true, true, true])
    }
}
