// AbsentValues: what a filter over records means for a column that has no value.
//
// A property that may not be nil is read as its default there, so a condition holds for the row when it
// holds for that. Only on the device: a server is asked what is written.

import TidelineCore

/// The defaults of the columns that may not be nil, by their names.
struct AbsentValues: Sendable {
    private let defaults: [String: Value]
    private let table: TableSchema

    init(_ schema: RecordSchema, table: TableSchema) {
        self.table = table
        var defaults: [String: Value] = [:]
        for (column, given) in zip(schema.columns, schema.defaults(declared: table))
        where !column.isNullable && !SystemColumn.names.contains(column.name) {
            if let value = given.isNull ? Self.zero(column.type) : given {
                defaults[column.name] = value
            }
        }
        self.defaults = defaults
    }

    /// What a property is read as; nil for types whose values stand for more than one property type.
    private static func zero(_ type: ColumnType) -> Value? {
        switch type {
        case .string, .integer, .number, .decimal, .boolean, .dateTime: .some(type.zero)
        case .date, .time, .guid, .binary, .json, .enumeration: Optional.none
        }
    }

    /// The query as records of the model mean it.
    func meant(_ query: TableQuery) -> TableQuery {
        var result = query
        result.filter = meant(query.filter)
        return result
    }

    /// The condition as records of the model mean it.
    func meant(_ filter: Filter?) -> Filter? {
        filter.map { defaults.isEmpty ? $0 : Filter(meant($0.expression)) }
    }

    private func meant(_ expression: QueryExpression) -> QueryExpression {
        switch expression.kind {
        case .all(let parts): QueryExpression(.all(parts.map(meant)), at: expression.position)
        case .any(let parts): QueryExpression(.any(parts.map(meant)), at: expression.position)
        case .not(let part): QueryExpression(.not(meant(part)), at: expression.position)
        case .compare, .isIn, .call: atom(expression)
        // Alone it is a condition.
        case .field(let name) where defaults[name] == .bool(true):
            .or(expression, .compare(.eq, QueryExpression(.field(name)), .null))
        case .field, .value, .arithmetic, .negate, .position: expression
        }
    }

    /// A condition over one column: with or without the rows that have no value there.
    private func atom(_ expression: QueryExpression) -> QueryExpression {
        var names: Set<String> = []
        var asksForNull = false
        _ = expression.contains { kind in
            if case .field(let name) = kind { names.insert(name) }
            if case .value(.null) = kind { asksForNull = true }
            return false
        }
        guard !asksForNull, names.count == 1, let name = names.first, let value = defaults[name],
            let checked = try? FilterChecker(schema: table).filter(expression)
        else { return expression }
        let holds = FilterEvaluator.matches(checked) { $0 == name ? value : .null }
        guard holds != FilterEvaluator.matches(checked, value: { _ in .null }) else {
            return expression
        }
        let column = QueryExpression(.field(name))
        return holds
            ? .or(expression, .compare(.eq, column, .null))
            : .and(expression, .compare(.ne, column, .null))
    }
}
