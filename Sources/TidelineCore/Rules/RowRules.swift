// RowRules: the rules of a table, compiled, as the server checks them for each write and a device before it queues one.
//
// Only `unique` needs the other rows, so it is checked by the server's database.

/// The compiled rules of a table.
package struct RowRules: Sendable {
    /// A comparison with the places of its columns.
    private struct Comparison: Sendable {
        let rule: ColumnComparison
        let left: Int
        let right: Int
        let type: ColumnType
    }

    private let columns: [ColumnDefinition]
    /// The rules by column; nil for a column without rules.
    private let checks: [ColumnCheck?]
    private let comparisons: [Comparison]
    /// The columns of each `unique` rule, by place.
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
            return Comparison(rule: rule, left: left, right: right, type: columns[left].type)
        }
        unique = schema.rules.unique.map { $0.compactMap(place) }
            .filter { !$0.isEmpty }
    }

    /// Whether rules compare two columns.
    package var hasComparisons: Bool { !comparisons.isEmpty }

    /// Returns the rule of a column that a value breaks; nil if it breaks none.
    package func check(_ place: Int, _ value: SQLValue) -> RuleViolation? {
        checks[place]?.check(value, of: columns[place])
    }

    /// Returns the first comparison that a row does not fulfill.
    ///
    /// - Parameters:
    ///   - values: The values of the row, by column.
    ///   - isChanged: Whether the write sets a column. A comparison without such a column is not checked, as
    ///     a rule that became stricter leaves stored rows alone.
    /// - Returns: Nil if the row fulfills all of them.
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

    /// Returns the first rule that a row breaks; an absent member has the column's default.
    ///
    /// It covers every rule but `unique`.
    package func check(_ row: Row) -> RuleViolation? {
        let values = columns.map { column in
            row[column.name].map { SQLValue($0, type: column.type) } ?? column.storedDefault
        }
        for place in columns.indices {
            if let violation = check(place, values[place]) { return violation }
        }
        return compare(values)
    }

    /// Returns the names of the columns of a `unique` rule.
    package func names(ofUnique rule: Int) -> [String] { unique[rule].map { columns[$0].name } }
}
