// AbsentValues: rewrites filters and orders of records for columns that have no value.
//
// If a column has no value, a non-optional property has its default. A condition therefore matches such a row
// if it matches the default, and the row is ordered by the default. This applies only on the device: a server
// receives the query as it was written.

import TidelineCore

/// The default values of the columns whose properties are not optional, by column name.
struct AbsentValues: Sendable {
    private let defaults: [String: Value]
    private let table: TableSchema

    init(_ schema: RecordSchema, table: TableSchema) {
        self.table = table
        var defaults: [String: Value] = [:]
        for (column, given) in zip(schema.columns, schema.defaults(declared: table))
        where schema.neverNil.contains(column.name) && !SystemColumn.names.contains(column.name) {
            let zero = schema.zeros[column.name] ?? Self.zero(column.type)
            guard let value = given.isNull ? zero : given else { continue }
            let type = table.column(named: column.name)?.type ?? column.type
            defaults[column.name] = LiteralCoercion.value(value, as: ExpressionType(type)) ?? value
        }
        self.defaults = defaults
    }

    /// Returns the value that a missing value of this column type decodes to; nil for column types that represent
    /// several property types.
    private static func zero(_ type: ColumnType) -> Value? {
        switch type {
        case .string, .integer, .number, .decimal, .boolean, .dateTime: .some(type.zero)
        case .date, .time, .guid, .binary, .json, .enumeration: Optional.none
        }
    }

    /// Returns the default of the column that a query names.
    func value(_ name: String) -> Value? {
        defaults[name] ?? table.column(matching: name).flatMap { defaults[$0.name] }
    }

    /// Returns the query with the condition that finds the same rows as a comparison of decoded records; the
    /// order is unchanged.
    func applyingDefaults(_ query: TableQuery) -> TableQuery {
        var result = query
        result.filter = applyingDefaults(query.filter)
        return result
    }

    /// Returns the condition that finds the same rows as a comparison of decoded records.
    func applyingDefaults(_ filter: Filter?) -> Filter? {
        filter.map { defaults.isEmpty ? $0 : Filter(applyingDefaults($0.expression)) }
    }

    private func applyingDefaults(_ expression: QueryExpression) -> QueryExpression {
        switch expression.kind {
        case .all(let parts):
            QueryExpression(.all(parts.map(applyingDefaults)), at: expression.position)
        case .any(let parts):
            QueryExpression(.any(parts.map(applyingDefaults)), at: expression.position)
        case .not(let part): QueryExpression(.not(applyingDefaults(part)), at: expression.position)
        case .compare, .isIn, .call, .anyElement, .member, .localizedCompare: atom(expression)
        // A Boolean column is a condition on its own.
        case .field(let name) where value(name) == .bool(true):
            .or(expression, .compare(.eq, QueryExpression(.field(name)), .null))
        case .field, .value, .arithmetic, .negate, .position, .orElse, .elementCount, .element,
            .search, .related:
            expression
        }
    }

    /// Returns a condition over columns in which missing values are replaced by the defaults of the properties.
    ///
    /// For a single column, a null check is added, so that an index can still be used. For several columns,
    /// where no index helps, the defaults are substituted.
    private func atom(_ expression: QueryExpression) -> QueryExpression {
        let names = Self.columns(of: expression)
        let asksForNull = expression.contains { $0 == .value(.null) }
        guard !asksForNull, names.contains(where: { value($0) != nil }) else { return expression }
        // Only the store can evaluate a search.
        guard names.count == 1, let name = names.first, let value = value(name),
            !expression.searches
        else {
            return filled(expression) { _ in true }
        }
        guard let checked = try? FilterChecker(onDevice: table).filter(expression) else {
            return expression
        }
        let holds = FilterEvaluator.matches(checked) { _ in value }
        guard holds != FilterEvaluator.matches(checked, value: { _ in .null }) else {
            return expression
        }
        let column = QueryExpression(.field(name))
        return holds
            ? .or(expression, .compare(.eq, column, .null))
            : .and(expression, .compare(.ne, column, .null))
    }

    /// Returns the columns of an order whose missing values sort differently from the defaults of the
    /// properties.
    func columns(in order: [SortKey]) -> [String] {
        var columns: [String] = []
        for key in order {
            for name in Self.columns(of: key.expression)
            where value(name) != nil && !columns.contains(name) { columns.append(name) }
        }
        return columns
    }

    /// Returns the query in the order of its decoded records, for rows that have no value in some columns.
    func ordered(_ query: TableQuery, without columns: [String]) -> TableQuery {
        var result = query
        for index in query.order.indices {
            result.order[index].expression = filled(query.order[index].expression) {
                columns.contains($0)
            }
        }
        return result
    }

    /// Returns whether a row of a query's result has no value in a column; nil if the result does not show it.
    func isMissing(_ name: String, in rows: [Row], of query: TableQuery) -> Bool? {
        guard query.select == nil, query.offset == 0,
            let column = table.column(matching: name)
        else { return nil }
        let isNull = { (row: Row) in row[column.name]?.isNull ?? true }
        if query.limit == nil { return rows.contains(where: isNull) }
        // Nulls come first.
        guard let key = query.order.first, key.isAscending, case .field(name) = key.expression.kind
        else { return nil }
        guard query.limit != 0 else { return nil }
        guard let first = rows.first else { return false }
        if isNull(first) { return true }
        // The store keeps null for a value that the column cannot hold, so such a row is among the nulls.
        return first[column.name].map(CellKind(column.type).holds) == true ? false : nil
    }

    /// Returns the expression with the defaults of columns substituted for missing values.
    private func filled(
        _ expression: QueryExpression,
        _ isWanted: (String) -> Bool
    ) -> QueryExpression {
        expression.replacing { kind in
            guard case .field(let name) = kind, isWanted(name), let value = value(name) else {
                return nil
            }
            return .orElse(QueryExpression(kind), value)
        }
    }

    private static func columns(of expression: QueryExpression) -> [String] {
        var names: [String] = []
        _ = expression.contains { kind in
            if case .field(let name) = kind, !names.contains(name) { names.append(name) }
            return false
        }
        return names
    }
}
