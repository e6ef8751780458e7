// CodeScannerTests: a table of texts and their code.

import Foundation
import Testing

struct CodeScannerTests {
    @Test(
        "The scanner removes comments and string literals and preserves line breaks",
        arguments: [
            ("let a = 1 // try! b", "let a = 1"),
            ("/// print(\"x\")\nlet a = 1", "let a = 1"),
            ("a /* b /* c */ d */ e", "a e"),
            (#"let a = "try! b" + c"#, "let a = + c"),
            (#"let a = "say \"hi\" now" + c"#, "let a = + c"),
            (#"f("a \(try! b("c")) d") + e"#, "f( try! b( ) ) + e"),
            (##"let a = #"say "hi" \(b) \#(c)"# + d"##, "let a = c + d"),
            ("let a = \"\"\"\n    \"b\" // c\n    \"\"\"\nlet d = 1", "let a = let d = 1"),
            (##"let a = #"""b", "c""# + d"##, "let a = + d"),
            ("let a = \"open\nlet b = 1", "let a = let b = 1"),
            ("a) b) c", "a) b) c"),
            ("#if os(Linux)\n#endif", "#if os(Linux) #endif"),
            ("", ""),
        ]
    )
    func keepsOnlyCode(text: String, code: String) {
        let scanned = CodeScanner.code(of: text)
        #expect(scanned.split(whereSeparator: \.isWhitespace).joined(separator: " ") == code)
        #expect(scanned.filter(\.isNewline) == text.filter(\.isNewline))
    }
}
