// RelatedRows: a condition on the rows of another table that are related to a row.

/// The related rows of another table, and a condition on them.
package struct RelatedRows: Hashable, Sendable {
    /// The column of the row itself, whose value the related rows share.
    package var column: String
    /// The other table.
    package var table: String
    /// The column of the other table that has the same value; rows in which it is null are related
    /// to no row.
    package var key: String
    /// The condition on the columns of the other table; nil if any row matches.
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
    /// Whether the expression or any part of it is a condition on related rows.
    package var relates: Bool { contains { if case .related = $0 { true } else { false } } }

    /// Whether the expression reads more than one row, that is, the search index or another table.
    package var readsTables: Bool { searches || relates }

    /// The tables whose rows occur in conditions on related rows, at any depth.
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
