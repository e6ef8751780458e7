// The texts of searches: no text is an error of SQLite's syntax.

import Foundation
import Testing
import TidelineCore
import TidelineSQLite
import TidelineTestKit

@Suite struct SearchTextTests {
    private static let parts = [
        "\"", "*", "-", "(", ")", "^", ":", "{", "}", "+", " ", "\t", "\0", "\n", ",", "'", "\\",
        "a",
        "B", "1", "ä",
        "ß", "e\u{301}", "\u{301}", "日", "\u{1F600}", "\u{E000}", " AND ", " OR ", " NOT ",
        " NEAR(",
        "c0", "\u{200D}",
    ]

    @Test("SQLite accepts the search for any text", arguments: 0..<10 as Range<UInt64>)
    func neverFails(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let database = try Database(path: ":memory:")
        try database.execute(
            """
            CREATE VIRTUAL TABLE words USING fts5(
                c0, c1, tokenize="unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
            )
            """
        )
        try database.execute("INSERT INTO words VALUES ('a B 1 ä ß é 日', 'AND OR NOT NEAR c0')")
        for _ in 0..<500 {
            let text = (0..<Int.random(in: 0...14, using: &random))
                .map { _ in Self.parts.randomElement(using: &random) ?? "" }.joined()
            let words = try SearchText(text)
            for expression in [words.required, words.excluded].compactMap({ $0 }) {
                let found = try database.integer(
                    "SELECT count(*) FROM words WHERE words MATCH ?1",
                    [.text(expression)]
                )
                #expect(found != nil, "seed \(seed): \(text)")
            }
            #expect((words.required == nil && words.excluded == nil) == words.terms.isEmpty)
        }
    }

    @Test("A search text of too many bytes or words is rejected")
    func limits() throws {
        #expect(try SearchText(String(repeating: "a ", count: 32)).terms.count == 32)
        #expect(throws: SearchText.Failure.self) {
            try SearchText(String(repeating: "a ", count: 33))
        }
        #expect(try SearchText(String(repeating: "a", count: 1000)).terms.count == 1)
        #expect(throws: SearchText.Failure.self) {
            try SearchText(String(repeating: "a", count: 1001))
        }
    }
}
