// JSONMembersTests: tables of edits that are applied to a newer document, and of merges.

import Testing
import TidelineCore

@Suite struct JSONMembersTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var base, edited, current, result: String
        var ofModel = true
        var testDescription: String { "\(base) -> \(edited) on \(current)" }
    }

    @Test(
        "An edit of an object changes only the edited JSON members",
        arguments: [
            Case(base: "{}", edited: "{}", current: #"{"a":1}"#, result: #"{"a":1}"#),
            Case(
                base: #"{"a":1}"#,
                edited: #"{"a":2}"#,
                current: #"{"b":1,"a":1}"#,
                result: #"{"b":1,"a":2}"#
            ),
            Case(base: #"{"a":1}"#, edited: "{}", current: #"{"a":1,"b":1}"#, result: #"{"b":1}"#),
            Case(
                base: #"{"a":{"x":1}}"#,
                edited: "{}",
                current: #"{"a":{"x":1,"y":2}}"#,
                result: "{}"
            ),
            Case(
                base: #"{"a":{"x":1}}"#,
                edited: #"{"a":{"x":2,"z":3}}"#,
                current: #"{"a":{"x":1.0,"y":2}}"#,
                result: #"{"a":{"x":2,"y":2,"z":3}}"#
            ),
            Case(
                base: #"{"c":{"r":1}}"#,
                edited: #"{"s":{"e":2}}"#,
                current: #"{"c":{"r":1,"k":0}}"#,
                result: #"{"s":{"e":2}}"#
            ),
            // A number that does not fit into a Double keeps its digits.
            Case(
                base: #"{"a":1}"#,
                edited: #"{"a":2}"#,
                current: #"{"n":12345678901234567890.5,"a":1}"#,
                result: #"{"n":12345678901234567890.5,"a":2}"#
            ),
            // Elements of arrays are matched by id, by value, by position, by common members.
            Case(
                base: #"[{"id":1,"a":1},{"id":2,"a":1}]"#,
                edited: #"[{"id":2,"a":5},{"id":3,"a":1}]"#,
                current: #"[{"id":1,"a":1,"u":1},{"id":2,"a":1,"u":2}]"#,
                result: #"[{"id":2,"a":5,"u":2},{"id":3,"a":1}]"#
            ),
            Case(
                base: #"[{"a":1},{"a":2},{"a":3}]"#,
                edited: #"[{"a":3},{"a":9}]"#,
                current: #"[{"a":1,"u":1},{"a":2,"u":2},{"a":3,"u":3}]"#,
                result: #"[{"a":3,"u":3},{"a":9}]"#
            ),
            Case(
                base: #"[{"a":1,"b":1},{"a":2,"b":2}]"#,
                edited: #"[{"a":2,"b":5}]"#,
                current: #"[{"a":1,"b":1,"u":1},{"a":2,"b":2,"u":2}]"#,
                result: #"[{"a":2,"b":5,"u":2}]"#
            ),
            Case(base: "[1,2]", edited: "[2,3]", current: "[1,2]", result: "[2,3]"),
            Case(base: "[1,2]", edited: "[2,3]", current: "[1,2,9]", result: "[2,3]"),
            Case(
                base: #"[{"a":1}]"#,
                edited: #"[{"a":2}]"#,
                current: #"[{"a":1,"u":1}]"#,
                result: #"[{"a":2}]"#,
                ofModel: false
            ),
            // The current document lacks the member, or has it already.
            Case(
                base: #"{"a":1,"b":1}"#,
                edited: #"{"a":1,"b":2}"#,
                current: "{}",
                result: #"{"b":2}"#,
                ofModel: false
            ),
            Case(
                base: "{}",
                edited: #"{"a":1}"#,
                current: #"{"a":2}"#,
                result: #"{"a":1}"#,
                ofModel: false
            ),
            Case(base: #"{"a":1}"#, edited: "null", current: #"{"a":1,"b":1}"#, result: "null"),
            Case(base: "null", edited: #"{"a":1}"#, current: "null", result: #"{"a":1}"#),
        ]
    )
    func edits(_ one: Case) throws {
        let result = try JSON(one.current)
            .applying(from: JSON(one.base), to: JSON(one.edited), ofModel: one.ofModel)
        #expect(result.text == one.result)
    }

    @Test(
        "The JSON members of both sides are merged, or their change is a conflict",
        arguments: [
            (#"{"a":1,"b":1}"#, #"{"a":2,"b":1}"#, #"{"a":1,"b":2}"#, #"{"a":2,"b":2}"#),
            (#"{"a":1}"#, #"{"a":2}"#, #"{"a":3}"#, nil),
            (#"{"a":1}"#, #"{"a":2}"#, #"{"a":2.0,"c":1}"#, #"{"a":2.0,"c":1}"#),
            (#"{"a":1}"#, "{}", #"{"a":1,"c":1}"#, #"{"c":1}"#),
            (#"{"a":1}"#, "{}", #"{"a":2}"#, nil),
            ("{}", #"{"x":1}"#, #"{"y":1}"#, #"{"y":1,"x":1}"#),
            (
                #"{"o":{"a":1,"b":1}}"#, #"{"o":{"a":2,"b":1}}"#, #"{"o":{"a":1,"b":2}}"#,
                #"{"o":{"a":2,"b":2}}"#
            ),
            (#"{"l":[1]}"#, #"{"l":[1,2]}"#, #"{"l":[1,3]}"#, nil),
            (#"{"circle":{}}"#, #"{"square":{}}"#, #"{"triangle":{}}"#, nil),
            (#"{"circle":{}}"#, #"{"square":{}}"#, #"{"square":{}}"#, #"{"square":{}}"#),
            ("[1]", "[2]", "[3]", nil),
        ] as [(String, String, String, String?)]
    )
    func merges(base: String, mine: String, theirs: String, result: String?) throws {
        let merged = try JSON.merged(base: JSON(base), mine: JSON(mine), theirs: JSON(theirs))
        #expect(merged?.text == result)
    }
}
