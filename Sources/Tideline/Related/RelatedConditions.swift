// RelatedConditions: prepares conditions on related rows for a store.

import TidelineCore

/// The conditions on related rows in the filters of queries, in the form that a store receives.
struct RelatedConditions {
    let catalog: TableCatalog
    let store: any LocalStoreReader

    func resolved(_ query: TableQuery) throws -> TableQuery {
        guard query.filter?.expression.relates == true else { return query }
        var result = query
        result.filter = try resolved(query.filter)
        return result
    }

    /// Returns the filter with conditions that find the same rows as a comparison of decoded records.
    ///
    /// If the store does not evaluate conditions on related rows, they become conditions with lists
    /// of keys.
    func resolved(_ filter: Filter?) throws -> Filter? {
        guard let filter, filter.expression.relates else { return filter }
        return Filter(try resolved(filter.expression))
    }

    private func resolved(_ expression: QueryExpression) throws -> QueryExpression {
        try expression.replacing { kind in
            guard case .related(var rows) = kind else { return nil }
            guard let other = catalog.schema(rows.table) else {
                throw SyncError.unknownTable(rows.table, known: Array(catalog.schemas.keys))
            }
            rows.table = other.name
            if let condition = rows.condition {
                rows.condition = try resolved(catalog.applyingDefaults(condition, in: other.name))
            }
            return store.evaluatesRelatedRows ? .related(rows) : try list(rows)
        }
    }

    /// Returns the condition as a list of the keys that the other table has now.
    private func list(_ rows: RelatedRows) throws -> QueryExpression.Kind {
        var query = TableQuery(filter: rows.condition.map { Filter($0) })
        query.select = [rows.key]
        var keys: Set<Value> = []
        var values: [QueryExpression] = []
        for row in try store.rows(query, in: rows.table) {
            guard let key = row[rows.key], key.text != nil, keys.insert(key).inserted else {
                continue
            }
            values.append(QueryExpression(.value(key)))
        }
        return .isIn(QueryExpression(.field(rows.column)), values)
    }
}
