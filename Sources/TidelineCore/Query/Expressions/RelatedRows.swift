// RelatedRows: a condition on the rows of another table that belong to a row.

/// The rows of another table that belong to a row, and a condition on them.
package struct RelatedRows: Hashable, Sendable {
    /// The column of the row itself.
    package var column: String
    /// The other table.
    package var table: String
    /// The column of the other table that has the same value; no null belongs to anything.
    package var key: String
    /// The condition on the columns of the other table; nil for any row.
    package var condition: QueryExpression?
    /// The other table, once the store has checked the condition against it.
    package var schema: TableSchema?

    /// Creates a condition.
    package init(column: String, table: String, key: String, condition: QueryExpression?) {
        (self.column, self.table, self.key) = (column, table, key)
        self.condition = condition
    }

    /// Returns the rows with a different condition.
    package func with(_ condition: QueryExpression?) -> RelatedRows {
        var copy = self
        copy.condition = condition
        return copy
    }
}

extension QueryExpression {
    /// Whether the expression, or a part of it at any depth, is a condition on related rows.
    package var relates: Bool { contains { if case .related = $0 { true } else { false } } }

    /// Whether the expression reads more than one row of its table: the search index, or another table.
    package var readsTables: Bool { searches || relates }

    /// The tables on whose rows the expression has conditions, at any depth.
    package var relatedTables: Set<String> {
        var tables: Set<String> = []
        _ = contains { kind in
            if case .related(let rows) = kind {
                tables.insert(rows.table)
                tables.formUnion(rows.condition?.relatedTables ?? [])
            }
            return false
        }
        return tables
    }
}
