// TableQuery: a whole query as a value: filter, order, window, columns.

/// A condition on rows.
///
/// Created from a closure over columns, a `Predicate`, or OData text; a store evaluates it for a
/// row with ``matches(_:)`` or renders it as SQL.
public struct Filter: Hashable, Sendable {
    package var expression: QueryExpression

    package init(_ expression: QueryExpression) {
        self.expression = expression
    }

    package init(_ kind: QueryExpression.Kind) {
        expression = QueryExpression(kind)
    }
}

/// One key of an order.
public struct SortKey: Hashable, Sendable {
    package var expression: QueryExpression

    /// Whether small values come first; nulls are the smallest.
    public var isAscending: Bool

    package init(_ expression: QueryExpression, ascending: Bool) {
        self.expression = expression
        isAscending = ascending
    }

    /// Orders by a column.
    public init(column: String, ascending: Bool = true) {
        self.init(QueryExpression(.field(column)), ascending: ascending)
    }
}

/// A query over one table.
public struct TableQuery: Hashable, Sendable {
    /// The rows to return; nil for all.
    public var filter: Filter?
    /// The order of the result; ties are ordered by `id`, ascending.
    public var order: [SortKey] = []
    /// The most rows to return.
    public var limit: Int?
    /// The number of rows of the result to skip first.
    public var offset = 0
    /// The columns to return; nil for all.
    public var select: [String]?
    /// Whether to count all rows of the filter, whatever the window.
    public var includesTotalCount = false
    /// Whether tombstones belong to the result.
    public var includesDeleted = false
    /// Further parameters for the server, sent as they are.
    public var parameters: [String: String] = [:]

    /// All rows.
    public init(filter: Filter? = nil) {
        self.filter = filter
    }
}
