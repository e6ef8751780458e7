// JSONTests: tables of documents for JSONReader and JSONWriter.

import Foundation
import Testing
import TidelineCore

@Suite struct JSONTests {
    static let accepted: [(String, String)] = [
        (" { \"a\" : [ 1 , 2 ] } ", "{\"a\":[1,2]}"), ("[]", "[]"), ("{}", "{}"),
        ("\"a b\"", "\"a b\""),
        ("-0.5e+10", "-0.5e+10"), ("0", "0"), ("null", "null"),
        ("\t[\ntrue , false\r]", "[true,false]"),
        ("\"\\u00e9\\ud83d\\ude00\\\\ \\\"\"", "\"\\u00e9\\ud83d\\ude00\\\\ \\\"\""),
        ("\"\u{1F600}\u{7F}\"", "\"\u{1F600}\u{7F}\""), ("[[[[]]],{}]", "[[[[]]],{}]"),
        ("{\"a\":{\"a\":1}}", "{\"a\":{\"a\":1}}"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
    ]

    @Test("A valid JSON text is parsed and written compactly", arguments: accepted)
    func accepts(_ text: String, _ compact: String) throws {
        #expect(try JSON(text).text == compact)
    }

    /// Invalid texts, and the offsets of their first errors.
    static let rejected: [(String, Int)] = [
        ("", 0), (" ", 1), ("[1,]", 3), ("[,1]", 1), ("{\"a\":1,}", 7), ("{a:1}", 1), ("[1 2]", 3),
        ("{\"a\" 1}", 5), ("01", 1), ("-", 1), ("+1", 0), (".5", 0), ("1.", 2), ("1e", 2),
        ("1x", 1),
        ("nul", 3), ("True", 0), ("NaN", 0), ("'a'", 0), ("\"a", 0), ("\"\u{1}\"", 1),
        ("\"\\x\"", 1),
        ("\"\\u12G4\"", 1), ("\"\\ud800\"", 1), ("\"\\udc00\"", 1), ("\"\\ud800\\u0041\"", 1),
        ("[1] x", 4), ("{\"a\":1,\"a\":2}", 8), ("{\"a\":1,\"\\u0061\":2}", 8), ("[", 1), ("{", 1),
        ("{\"a\":", 5), ("]", 0), ("[1}", 2), ("\u{FEFF}1", 0), ("\"\\", 1), ("\"\\u00", 1),
        (String(repeating: "[", count: 65), 64), (String(repeating: "[", count: 100_000), 64),
    ]

    @Test("An invalid JSON text is rejected with its position", arguments: rejected)
    func rejects(_ text: String, _ position: Int) {
        let error = #expect(throws: JSONError.self) { try JSON(text) }
        #expect(error?.position == position, "\(error?.description ?? "")")
    }

    @Test(
        "Invalid UTF-8 is rejected with its position",
        arguments: [
            ([0x22, 0xC0, 0x80, 0x22], 1), ([0x22, 0xED, 0xA0, 0x80, 0x22], 1),
            ([0x22, 0x61, 0xFF, 0x22], 2),
            ([0x22, 0xE2, 0x82, 0x22], 1), ([0x22, 0xF4, 0x90, 0x80, 0x80, 0x22], 1),
            ([0x22, 0xC3], 0),
            ([0x80], 0),
        ] as [([UInt8], Int)]
    )
    func rejectsInvalidUTF8(_ bytes: [UInt8], _ position: Int) {
        let error = #expect(throws: JSONError.self) {
            try bytes.withUnsafeBufferPointer { buffer in
                var reader = JSONReader(buffer)
                _ = try reader.rawValue()
                try reader.end()
            }
        }
        #expect(error?.position == position)
    }

    @Test(
        "Escapes in a JSON string are decoded",
        arguments: [
            (
                "\"a\\n\\u00e9\\ud83d\\ude00\\/\\b\\f\\t\\r\\\\\\\"\"",
                "a\n\u{E9}\u{1F600}/\u{8}\u{C}\t\r\\\""
            ),
            ("\"\\u0000\"", "\0"), ("\"plain \u{1F600}\"", "plain \u{1F600}"), ("\"\"", ""),
        ]
    )
    func unescapes(_ json: String, _ expected: String) throws {
        let bytes = Array(json.utf8)
        let text = try bytes.withUnsafeBufferPointer { buffer in
            var reader = JSONReader(buffer)
            guard case .string(let span) = try reader.value() else { return "" }
            #expect(reader.matches(span, Array(expected.utf8)))
            #expect(!reader.matches(span, Array((expected + "x").utf8)))
            return reader.text(span)
        }
        #expect(Value.string(text) == .string(expected))
    }

    @Test(
        "JSON numbers are read as integers only if they are exact",
        arguments: [
            ("0", 0), ("-0", 0), ("42", 42), ("-42", -42), ("9223372036854775807", .max),
            ("-9223372036854775808", .min), ("9223372036854775808", nil),
            ("-9223372036854775809", nil),
            ("1.0", nil), ("1e3", nil), ("99999999999999999999", nil),
        ] as [(String, Int64?)]
    )
    func readsIntegers(_ text: String, _ expected: Int64?) throws {
        let bytes = Array(text.utf8)
        let value = try bytes.withUnsafeBufferPointer { buffer -> Int64? in
            var reader = JSONReader(buffer)
            guard case .number(let range) = try reader.value() else { return nil }
            #expect(reader.text(range) == text)
            return reader.integer(range)
        }
        #expect(value == expected)
    }

    static let written: [(Value, String)] = [
        (nil, "null"), (true, "true"), (0, "0"), (9, "9"), (10, "10"), (-5, "-5"),
        (.integer(.min), "-9223372036854775808"),
        (1.5, "1.5"), (2.0, "2"), (.number(-0.0), "-0.0"), (1e300, "1e+300"),
        (.number(9_007_199_254_740_992), "9007199254740992.0"),
        (.number(.infinity), "null"), (decimal("12.50"), "12.5"),
        (.decimal(Decimal.nan), "null"),
        (decimal("1e30"), "1000000000000000000000000000000"),
        ("a\"\\\n\r\t\u{1}\u{1F600}/", "\"a\\\"\\\\\\n\\r\\t\\u0001\u{1F600}/\""), ("", "\"\""),
        (.data(Data([0, 255])), "\"AP8=\""),
        (.date(Timestamp(microseconds: 1999).date), "\"1970-01-01T00:00:00.001Z\""),
    ]

    @Test("A value is written as JSON", arguments: written)
    func writes(_ value: Value, _ expected: String) throws {
        var writer = JSONWriter()
        writer.value(value)
        #expect(writer.text == expected)
        #expect(throws: Never.self) { try JSON(writer.text) }
    }

    @Test("Rows and objects are written with escaped names") func writesRows() {
        var writer = JSONWriter()
        writer.row(["b": 1, "a\"": nil])
        #expect(writer.text == "{\"b\":1,\"a\\\"\":null}")
        #expect(JSONWriter.object([("a", "b")]) == Array("{\"a\":\"b\"}".utf8))
    }
}
