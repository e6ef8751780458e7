// MergeRule: the result for a column that both sides changed.

import Foundation
import Testing
import Tideline
import TidelineCore

@Suite struct MergeRuleTests {
    struct Case: Sendable {
        var rule: MergeRule
        var base: Value?
        var local: Value
        var server: Value
        var result: Value?

        init(_ rule: MergeRule, _ base: Value?, _ local: Value, _ server: Value, _ result: Value?) {
            (self.rule, self.base, self.local) = (rule, base, local)
            (self.server, self.result) = (server, result)
        }
    }

    private static func json(_ text: String) -> Value {
        (try? JSON(text)).map(Value.json) ?? .null
    }

    static let cases = [
        Case(.max, 1, 3, 2, 3),
        Case(.max, 9, 3, 4, 4),
        Case(.max, nil, 3, 3.5, 3.5),
        Case(.min, 1, 3, 2, 2),
        Case(.max, "a", "é", "z", "é"),
        Case(
            .min,
            nil,
            .date(Date(timeIntervalSince1970: 5)),
            .date(Date(timeIntervalSince1970: 4)),
            .date(Date(timeIntervalSince1970: 4))
        ),
        Case(.max, 1, .null, 2, 2),
        Case(.min, 1, 3, .null, 3),
        Case(.max, 1, "3", 2, nil),
        Case(.max, nil, json("[1]"), json("[2]"), nil),
        Case(.local, 1, 2, 3, 2),
        Case(.server, 1, 2, 3, 3),
        Case(.union, json("[1,2]"), json("[1,2,3]"), json("[2,1,4]"), json("[2,1,4,3]")),
        // Elements that one side removed are gone.
        Case(.union, json("[1,2,3]"), json("[1,2]"), json("[1,3,4]"), json("[1,4]")),
        // Elements are compared by value.
        Case(
            .union,
            nil,
            json(#"[{"a":1,"b":2},1.0]"#),
            json(#"[{"b":2,"a":1},1]"#),
            json(#"[{"b":2,"a":1},1]"#)
        ),
        Case(.union, .null, json("[1]"), json("[2]"), json("[2,1]")),
        Case(.union, json("[1]"), .null, json("[1,2]"), json("[2]")),
        Case(.union, nil, json(#"{"a":1}"#), json("[2]"), nil),
        Case(.union, nil, 1, 2, nil),
        Case(.union, "a\nb\n", "a\nb\nc\n", "a\nb\nd\n", "a\nb\nd\nc\n"),
        Case(.union, "a", "a\r\nb", "a", "a\r\nb"),
        Case(.append, json("[1]"), json("[1,2]"), json("[1,1]"), json("[1,1,2]")),
        Case(.append, json("[1,2]"), json("[2,3]"), json("[1,2,4]"), json("[1,2,4,3]")),
        Case(.append, nil, json("[1]"), json("[1,2]"), json("[1,2]")),
        Case(.append, "log:", "log: mine.", "log: theirs.", "log: theirs. mine."),
        Case(.append, "log:", "lag: mine.", "log: theirs.", nil),
        Case(.append, 1, 2, 3, nil),
        Case(.custom { _, local, _ in local }, 1, 2, 3, 2),
        Case(.custom { _, _, _ in nil }, 1, 2, 3, nil),
    ]

    @Test("A merge rule decides by the base, local and server values", arguments: cases)
    func rulesDecide(_ one: Case) {
        let value = one.rule.value(base: one.base, local: one.local, server: one.server)
        #expect(value == one.result)
    }

    /// The server and its filters compare them in the same way.
    @Test("Merge rules compare enumeration members by position")
    func membersOfAnEnumerationAreComparedByPosition() {
        let type = ColumnType.enumeration(["low", "mid", "high"])
        let (max, min) = (MergeRule.max, MergeRule.min)
        #expect(max.value(base: "low", local: "mid", server: "high", in: type) == "high")
        #expect(max.value(base: "low", local: "high", server: "mid", in: type) == "high")
        #expect(min.value(base: "low", local: "mid", server: "high", in: type) == "mid")
        #expect(max.value(base: "low", local: "mid", server: "high", in: .string) == "mid")
        // A member that this version does not know.
        #expect(max.value(base: "low", local: "mid", server: "never", in: type) == "never")
    }

    @Test("Merge rules are compared by value, and a closure equals only itself")
    func rulesAreComparedByValue() {
        let custom = MergeRule.custom { _, local, _ in local }
        #expect(custom == custom)
        #expect(custom != .custom { _, local, _ in local })
        #expect(ConflictPolicy.merge(["a": .max]) == .merge(["a": .max]))
        #expect(ConflictPolicy.merge(["a": .max]) != .merge)
    }
}
