// TableQuery: a whole query as a value: filter, order, window, columns.

/// A condition on rows.
///
/// Made by a closure over columns, a `Predicate`, or OData text; a store asks it of a row with
/// ``matches(_:)`` or reads it as SQL.
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
    /// Which rows; nil for all.
    public var filter: Filter?
    /// In what order; ties go by `id`, ascending.
    public var order: [SortKey] = []
    /// At most so many rows.
    public var limit: Int?
    /// How many rows of the result to leave out first.
    public var offset = 0
    /// Which columns; nil for all.
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
