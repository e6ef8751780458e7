// RowRules: the rules of a table on rows, as a device checks them before it queues an operation.

import Foundation
import Testing
import TidelineCore

@Suite struct RowRuleTests {
    private static func rules(
        _ comparison: ColumnComparison.Operator,
        _ type: ColumnType
    ) -> RowRules {
        var schema = TableSchema(
            name: "T",
            columns: [ColumnDefinition("a", type), ColumnDefinition("b", type)]
        )
        schema.rules.comparisons = [ColumnComparison("a", comparison, "b")]
        return RowRules(schema)
    }

    private static let instant = Date(timeIntervalSince1970: 1)

    @Test(
        "Values of each type are compared",
        arguments: [
            (ColumnType.integer, Value.integer(2), Value.integer(10)),
            (.number, .number(-1), .number(0.5)), (.decimal, .decimal(9), .decimal(10)),
            (.string, "B", "a"), (.date, "2026-01-31", "2026-02-01"),
            (.time, "07:00:00.000", "10:00:00.000"),
            (.enumeration(["z", "a"]), "z", "a"),
            (.dateTime, .date(instant), .date(instant.addingTimeInterval(0.001))),
        ]
    )
    func comparisons(_ type: ColumnType, _ less: Value, _ greater: Value) {
        let expected: [(ColumnComparison.Operator, [Bool])] = [
            (.less, [true, false, false]), (.lessOrEqual, [true, true, false]),
            (.equal, [false, true, false]), (.different, [true, false, true]),
            (.greaterOrEqual, [false, true, true]), (.greater, [false, false, true]),
        ]
        for (comparison, holds) in expected {
            let rules = Self.rules(comparison, type)
            let rows = [
                ["a": less, "b": greater], ["a": less, "b": less], ["a": greater, "b": less],
            ]
            for (members, isKept) in zip(rows, holds) {
                var row = Row()
                for (name, value) in members { row[name] = value }
                let violation = rules.check(row)
                #expect((violation == nil) == isKept, "\(comparison) \(members)")
                if let violation {
                    #expect(violation.code == .comparison && violation.columns == ["a", "b"])
                }
            }
            var row = Row()
            row["a"] = less
            #expect(rules.check(row) == nil)
        }
    }

    @Test("An inserted null that is not sent has the default of its column")
    func insertedNull() {
        let rule = ColumnRules(required: true)
        let schema = TableSchema(
            name: "T",
            columns: [
                ColumnDefinition(
                    "a",
                    .string,
                    nullable: false,
                    default: .string("normal"),
                    rules: rule
                ),
                ColumnDefinition("b", .string, rules: rule),
            ]
        )
        let rules = RowRules(schema)
        var row = Row()
        row["a"] = .null
        row["b"] = "x"
        #expect(rules.check(row) == nil)
        #expect(rules.check(row, changing: ["a"])?.columns == ["a"])
        row["b"] = .null
        #expect(rules.check(row)?.columns == ["b"])
    }

    @Test("Two instants within one millisecond are equal")
    func milliseconds() {
        var row = Row()
        row["a"] = .date(Date(timeIntervalSince1970: -0.0004))
        row["b"] = .date(Date(timeIntervalSince1970: -0.0006))
        #expect(Self.rules(.equal, .dateTime).check(row) == nil)
        row["b"] = .date(Date(timeIntervalSince1970: 0.0004))
        #expect(Self.rules(.less, .dateTime).check(row) == nil)
    }

    @Test("The first broken rule is reported with the server's message")
    func columns() {
        let schema = TableSchema(
            name: "T",
            columns: [
                ColumnDefinition(
                    "title",
                    .string,
                    rules: ColumnRules(maxLength: 3, pattern: "[a-z]+", required: true)
                ),
                ColumnDefinition("count", .integer, rules: ColumnRules(min: 1, max: 3)),
            ]
        )
        for (title, count, words) in [
            (Value.null, Value.integer(1), "Member 'title': a value is expected."),
            ("", .integer(1), "Member 'title': a value is expected."),
            ("abcd", .integer(1), "Member 'title': at most 3 characters are allowed."),
            ("A", .integer(1), "Member 'title': it does not match the pattern of the column."),
            ("a", .integer(0), "Member 'count': at least 1 is expected."),
            ("a", .integer(4), "Member 'count': at most 3 is expected."),
        ] {
            var row = Row()
            row["title"] = title
            row["count"] = count
            let violation = RowRules(schema).check(row)
            #expect(violation?.message == words)
        }
        var row = Row()
        row["title"] = "abc"
        #expect(RowRules(schema).check(row) == nil)
        #expect(RowRules(schema).check(Row())?.code == .required)
    }
}
