// RowRules: the compiled rules of a table. The server checks them for each write, and a device
// before it queues a write.
//
// Only `unique` needs other rows, so the server's database checks it.

import Foundation

/// The compiled rules of a table.
package struct RowRules: Sendable {
    /// A comparison with the indices of its columns.
    private struct Comparison: Sendable {
        let rule: ColumnComparison
        let left: Int
        let right: Int
        let type: ColumnType
    }

    private let columns: [ColumnDefinition]
    /// The rules by column position; nil for a column without rules.
    private let checks: [ColumnCheck?]
    private let comparisons: [Comparison]
    /// The indices of the columns of each `unique` rule.
    package let unique: [[Int]]

    package init(_ schema: TableSchema) {
        let columns = schema.columns
        self.columns = columns
        checks = columns.map { ColumnCheck($0) }
        func place(of name: String) -> Int? { columns.firstIndex { $0.name == name } }
        comparisons = schema.rules.comparisons.compactMap { rule in
            guard let left = place(of: rule.left), let right = place(of: rule.right) else {
                return nil
            }
            let type = schema.rules.members[rule.left].map(ColumnType.enumeration)
            return Comparison(
                rule: rule,
                left: left,
                right: right,
                type: type ?? columns[left].type
            )
        }
        unique = schema.rules.unique.map { $0.compactMap(place) }
            .filter { !$0.isEmpty }
    }

    /// Whether there are no rules that can be checked without other rows.
    package var isEmpty: Bool { comparisons.isEmpty && checks.allSatisfy { $0 == nil } }

    /// Whether there are rules that compare two columns.
    package var hasComparisons: Bool { !comparisons.isEmpty }

    /// Returns the column's rule that a value breaks; nil if the value breaks none.
    package func check(_ place: Int, _ value: SQLValue) -> RuleViolation? {
        checks[place]?.check(value, of: columns[place])
    }

    /// Returns the first comparison that a row does not satisfy.
    ///
    /// - Parameters:
    ///   - values: The values of the row, by column.
    ///   - isChanged: Returns whether the write sets a column. A comparison without such a column
    ///     is not checked, so that a rule that became stricter does not affect stored rows.
    /// - Returns: The violation; nil if the row satisfies all comparisons.
    package func compare(
        _ values: [SQLValue],
        isChanged: (Int) -> Bool = { _ in true }
    ) -> RuleViolation? {
        for comparison in comparisons
        where isChanged(comparison.left) || isChanged(comparison.right) {
            let (one, two) = (values[comparison.left], values[comparison.right])
            if !comparison.rule.holds(one, two, comparison.type) {
                return comparison.rule.violation
            }
        }
        return nil
    }

    /// Returns the first rule that an inserted row breaks.
    ///
    /// A column that is absent, or null although the column is not nullable, is not sent and gets
    /// its default. Checks every rule except `unique`.
    package func check(_ row: Row) -> RuleViolation? { check(row, changing: nil) }

    /// Returns the first rule that a row breaks in the columns that a write sets; pass nil to check
    /// all columns.
    ///
    /// Checks every rule except `unique`.
    package func check(_ row: Row, changing names: Set<String>?) -> RuleViolation? {
        for place in columns.indices where checks[place] != nil && isChanged(place, names) {
            let value = value(place, in: row, isInserted: names == nil)
            if let violation = check(place, value) { return violation }
        }
        return compare(row, changing: names)
    }

    /// Returns the first comparison that a row does not satisfy.
    ///
    /// Checks only comparisons with a column that the write sets; checks all comparisons if `names`
    /// is nil.
    package func compare(_ row: Row, changing names: Set<String>?) -> RuleViolation? {
        guard hasComparisons else { return nil }
        let values = columns.indices.map { value($0, in: row, isInserted: names == nil) }
        return compare(values) { isChanged($0, names) }
    }

    private func isChanged(_ place: Int, _ names: Set<String>?) -> Bool {
        names?.contains(columns[place].name) ?? true
    }

    private func value(_ place: Int, in row: Row, isInserted: Bool) -> SQLValue {
        let column = columns[place]
        guard let value = row[column.name],
            !isInserted || column.isNullable || !value.isNull
        else { return column.storedDefault }
        return SQLValue(converted: value, type: column.type)
    }

    /// Returns the names of the columns of a `unique` rule.
    package func names(ofUnique rule: Int) -> [String] { unique[rule].map { columns[$0].name } }
}

extension SQLValue {
    /// Creates the stored value for a value from an app, whose type may differ from the column's
    /// type.
    ///
    /// A value that the column cannot store is not converted.
    fileprivate init(converted value: Value, type: ColumnType) {
        self = Self.converted(value, type) ?? SQLValue(value, type: type)
    }

    private static func converted(_ value: Value, _ type: ColumnType) -> SQLValue? {
        switch (type, value) {
        case (.decimal, .integer(let number)): .text(String(number))
        case (.decimal, .number(let number)):
            DecimalText.decimal(number).map { .text(DecimalText.canonical($0)) }
        case (.decimal, .string(let text)):
            DecimalText.parse(text).map { .text(DecimalText.canonical($0)) }
        case (.number, .decimal(let number)): .real(DecimalText.double(number))
        case (.integer, .number(let number)): Int64(exactly: number).map(SQLValue.integer)
        case (.integer, .decimal(let number)):
            Int64(DecimalText.canonical(number)).map(SQLValue.integer)
        case (.dateTime, .string(let text)): Timestamp(text).map { .integer($0.microseconds) }
        case (.binary, .string(let text)): Data(base64Encoded: text).map(SQLValue.blob)
        case (.guid, .string(let text)): GuidText.canonical(text).map(SQLValue.text)
        case (.date, .string(let text)): DayText.canonical(text).map(SQLValue.text)
        case (.time, .string(let text)): TimeText.canonical(text).map(SQLValue.text)
        case (.string, _), (.integer, _), (.number, _), (.decimal, _), (.boolean, _),
            (.dateTime, _), (.date, _), (.time, _), (.guid, _), (.binary, _), (.json, _),
            (.enumeration, _):
            nil
        }
    }
}
