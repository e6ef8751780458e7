// EvaluatorTests: the semantics of filters for which databases differ: nulls, division, overflow, text, order.

import Foundation
import Testing
import TidelineCore

@Suite struct EvaluatorTests {
    static let row: Row = [
        "id": "1", "text": "Z\u{301}e\u{301}bra \u{1F600}", "n": 7, "m": -7, "x": 2.5, "none": nil,
        "flag": false, "most": .integer(.max), "least": .integer(.min),
        "price": decimal("0.1"), "when": "2021-03-05T07:08:09.120Z",
    ]

    static let cases: [(String, Bool)] = [
        ("none eq null", true), ("none ne 1", true), ("none lt 1", false),
        ("not (none lt 1)", true),
        ("none", false), ("not none", true), ("not flag", true), ("none in (1,null)", true),
        ("none in (1)", false), ("contains(none,'a')", false), ("not contains(none,'a')", true),
        ("length(none) eq null", true), ("none add 1 eq null", true), ("missing eq null", true),
        ("n div 2 eq 3", true), ("m div 2 eq -3", true), ("m mod 2 eq -1", true),
        ("n div 2.0 eq 3.5", true), ("n mod 2.5 eq 2", true), ("n div 0 eq null", true),
        ("x div 0 eq null", true), ("n mod 0 eq null", true), ("most add 1 eq null", true),
        ("least div -1 eq null", true), ("least mod -1 eq 0", true), ("-least eq null", true),
        ("most mul 2.0 gt 1.8e19", true), ("x mul 1e308 eq null", true),
        ("most eq 9223372036854775807", true), ("most lt 9223372036854775808.0", true),
        ("price add 0.2m eq 0.3m", true), ("price mul 3 eq 0.3m", true), ("price eq 0.1", true),
        ("length(text) eq 9", true), ("indexof(text,'bra') eq 4", true),
        ("indexof(text,'') eq 0", true), ("substring(text,8) eq '\u{1F600}'", true),
        ("substring(text,99) eq ''", true), ("substring(text,-1,1) eq 'Z'", true),
        ("substring(text,0,-1) eq ''", true), ("startswith(text,'')", true),
        ("startswith(text,'Z')", true), ("text eq '\u{17B}'", false),
        ("toupper('straße') eq 'STRASSE'", true), ("tolower('ŻÓŁW') eq 'żółw'", true),
        ("trim('\u{2003} a\u{A0}') eq 'a'", true), ("'é' eq 'e\u{301}'", false),
        ("'\u{FF21}' lt '\u{1F600}'", true), ("replace('aaa','aa','b') eq 'ba'", true),
        ("replace(text,'','b') eq text", true), ("year(when) eq 2021", true),
        ("when eq 2021-03-05T07:08:09.120Z", true), ("fractionalseconds(when) eq 0.12", true),
        ("date(when) eq '2021-03-05'", true), ("year(1969-07-20T20:17:40Z) eq 1969", true),
        ("date(1969-12-31T23:59:59.999Z) eq 1969-12-31", true),
        ("time(1969-12-31T23:59:59.5Z) eq 23:59:59.500", true),
        ("second(1969-12-31T23:59:59.999Z) eq 59", true), ("month(1994-10-14) eq 10", true),
        ("minute(07:14:00) eq 14", true), ("round(2.5) eq 2", true), ("round(2.5m) eq 2", true),
        ("round(-3.5m) eq -4", true), ("floor(-1.5m) eq -2", true), ("ceiling(-1.5m) eq -1", true),
        ("text eq 5", false), ("text ne 5", true), ("text lt 5", false),
    ]

    @Test("The evaluator decides whether a filter matches a row", arguments: cases)
    func evaluates(_ text: String, _ expected: Bool) throws {
        let filter = try ODataParser.filter(text, dialect: .v4)
        let row = Self.row
        // A Row literal omits columns that are nil, but a table has all columns.
        #expect(FilterEvaluator.matches(filter) { row[$0] ?? .null } == expected)
        #expect(Filter(filter).matches(row) == expected)
    }

    @Test("A query applies its order, offset, limit, selection and deleted rows")
    func appliesWholeQueries() throws {
        let rows: [Row] = [
            ["id": "b", "n": 1, "deleted": false], ["id": "a", "n": 1], ["id": "c", "n": nil],
            ["id": "B", "n": 2], ["id": "d", "n": 0, "deleted": true],
        ]
        var query = TableQuery()
        #expect(query.apply(to: rows).rows.map(\.id) == ["B", "a", "b", "c"])
        query.order = [SortKey(column: "n", ascending: false)]
        #expect(query.apply(to: rows).rows.map(\.id) == ["B", "a", "b", "c"])
        query.order = [SortKey(column: "n")]
        query.includesDeleted = true
        #expect(query.apply(to: rows).rows.map(\.id) == ["c", "d", "a", "b", "B"])
        query.offset = 1
        query.limit = 2
        query.select = ["n"]
        let (window, total) = query.apply(to: rows)
        #expect(window == [["n": 0], ["n": 1]])
        #expect(total == 5)
        query.limit = 0
        #expect(query.apply(to: rows).rows.isEmpty)
    }

    @Test(
        "A decimal text is parsed into its canonical text or rejected",
        arguments: [
            ("15.00", "15"), ("-0.0", "0"), ("1e3", "1000"), ("0.10", "0.1"), ("100", "100"),
            ("-12.50", "-12.5"), ("1e-10", "0.0000000001"),
            ("1e30", "1" + String(repeating: "0", count: 30)),
            ("99999999999999999999999999999999999999", "99999999999999999999999999999999999999"),
            ("12abc", nil), ("", nil), (".", nil), ("0x10", nil), ("nan", nil), ("1 ", nil),
            ("123456789012345678901234567890123456789.5", nil),
        ] as [(String, String?)]
    )
    func decimalTextIsCanonical(_ text: String, _ expected: String?) {
        #expect(DecimalText.parse(text).map(DecimalText.canonical) == expected)
    }

    @Test("Decimal texts are compared by value") func decimalTextsCompareByValue() {
        let sorted = [
            "-100", "-99.5", "-1", "-0.5", "-0.05", "0", "0.05", "0.5", "1", "1.5", "9", "10",
        ]
        for (index, one) in sorted.enumerated() {
            for (place, two) in sorted.enumerated() {
                let order = DecimalText.compare(one.utf8, two.utf8)
                #expect(order == (index < place ? -1 : index > place ? 1 : 0), "\(one) \(two)")
            }
        }
    }
}
