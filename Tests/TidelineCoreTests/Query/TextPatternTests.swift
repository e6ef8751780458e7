// TextPatternTests: regular expressions: matches, syntax errors, and bounded time.

import Testing
import TidelineCore

@Suite struct TextPatternTests {
    @Test(
        "A pattern matches whole texts",
        arguments: [
            ("", [""], ["a"]), ("abc", ["abc"], ["ab", "abcd", "xabc"]),
            ("^abc$", ["abc"], ["abcd"]), ("a|bc|", ["a", "bc", ""], ["ab", "b"]),
            ("a*b+c?", ["b", "aabb", "abc"], ["a", "c", "bcc"]), ("a{2}", ["aa"], ["a", "aaa"]),
            ("a{2,}", ["aa", "aaaa"], ["a"]), ("a{1,3}", ["a", "aaa"], ["", "aaaa"]),
            ("(ab){2}", ["abab"], ["ab"]), ("(?:a|b)*", ["", "abba"], ["abc"]),
            (".", ["a", "é", "\n"], ["", "ab"]), ("[a-c]", ["b"], ["d", "-"]),
            ("[^a-c]", ["d", "😀"], ["a"]), ("[-a]", ["-", "a"], ["b"]), ("[a-]", ["-"], ["b"]),
            ("[]a]", ["]", "a"], ["b"]), (#"\d+"#, ["0123"], ["a", "١"]),
            (#"\w+"#, ["aZ_9"], ["é"]),
            (#"[\d.]+"#, ["1.5"], ["1,5"]), (#"\."#, ["."], ["a"]), (#"[^\s]+"#, ["ab"], ["a b"]),
            (#"\S\D\W"#, ["aa-"], ["a1-"]), (#"[^\D]"#, ["5"], ["a"]),
            ("(a*)*", ["", "aaa"], ["b"]), ("a+?b*?c??", ["aab", "ac"], ["b"]),
            (#"\x41\u00e9\t"#, ["A\u{E9}\t"], ["A"]), (#"a\b b\Bb"#, ["a bb"], ["ab b"]),
            ("[^@]+@[^@]+\\.[a-z]{2,}", ["a@b.de"], ["a@b", "a@@b.de"]),
        ] as [(String, [String], [String])]
    )
    func match(_ pattern: String, _ yes: [String], _ no: [String]) throws {
        let matcher = try TextPattern(pattern)
        for text in yes { #expect(matcher.matches(text), "\(pattern) \(text)") }
        for text in no { #expect(!matcher.matches(text), "\(pattern) \(text)") }
    }

    @Test(
        "An invalid or too large pattern is rejected",
        arguments: [
            "(", ")", "a)", "[", "[]", "[b-a]", "*", "a**", "a{", "a{2", "a{3,2}", "a{,2}",
            "a{501}",
            "\\", "\\q", "\\1", "(?=a)", "(?<n>a)", "(a{100}){100}", "((){500}){500}",
            String(repeating: "(", count: 100), String(repeating: "a", count: 600),
        ]
    )
    func cannotBeRead(_ pattern: String) {
        #expect(throws: TextPattern.Fault.self) { try TextPattern(pattern) }
    }

    @Test(
        "A search finds a pattern within a text",
        arguments: [
            ("b", ["abc", "b"], ["", "a"]), ("^b", ["bc"], ["ab"]), ("b$", ["ab"], ["ba"]),
            ("", ["", "a"], []), ("a|^$", ["", "ba"], ["b"]), ("a.c", ["xabcx"], ["a\nc", "ac"]),
            (#"\bcat\b"#, ["a cat.", "cat"], ["cats", "scat"]), ("(ab)+$", ["xabab"], ["aba"]),
            (#"[\s\S]$"#, ["\n"], [""]),
        ] as [(String, [String], [String])]
    )
    func finds(_ pattern: String, _ yes: [String], _ no: [String]) throws {
        let matcher = try TextPattern(searching: pattern)
        for text in yes { #expect(matcher.isFound(in: text), "\(pattern) \(text)") }
        for text in no { #expect(!matcher.isFound(in: text), "\(pattern) \(text)") }
    }

    @Test("A watch that reports its deadline ends a long search") func aWatchEndsASearch() throws {
        let matcher = try TextPattern(searching: "(a|aa)+b")
        var looks = 0
        let watch = EvaluationWatch { _ in
            looks += 1
            return looks == 3
        }
        #expect(!matcher.isFound(in: String(repeating: "a", count: 100_000), watch))
        #expect(looks == 3 && watch.isOver)
    }

    @Test("The work of a search grows at most linearly with the text")
    func takesNoMoreThanLinearTime() throws {
        let matcher = try TextPattern(searching: "(a*)*(a|aa)+(a+)+b")
        /// Returns the work that a search reports to its watch.
        func work(_ count: Int) -> Int {
            var total = 0
            let watch = EvaluationWatch { bytes in
                total += bytes
                return false
            }
            #expect(!matcher.isFound(in: String(repeating: "a", count: count), watch))
            return total
        }
        let (one, two) = (work(10_000), work(20_000))
        #expect(one > 0 && two < 3 * one)
    }
}
