// TableQuery: a complete query as a value: filter, order, window, columns.

/// A condition on rows.
///
/// A filter is created from a closure over columns, a `Predicate`, or an OData string. A store
/// either evaluates the filter with ``matches(_:)`` or renders it as SQL.
public struct Filter: Hashable, Sendable {
    package var expression: QueryExpression

    package init(_ expression: QueryExpression) {
        self.expression = expression
    }

    package init(_ kind: QueryExpression.Kind) {
        expression = QueryExpression(kind)
    }
}

/// A sort key: one part of an order.
public struct SortKey: Hashable, Sendable {
    package var expression: QueryExpression

    /// Whether the smallest values come first; null is smaller than any other value.
    public var isAscending: Bool

    /// The order of strings by the rules of a language, which only a device supports; nil to order
    /// strings by Unicode scalar value.
    package var localized: LocalizedOrder?

    package init(
        _ expression: QueryExpression,
        ascending: Bool,
        localized: LocalizedOrder? = nil
    ) {
        self.expression = expression
        isAscending = ascending
        self.localized = localized
    }

    /// Creates a key that orders by a column.
    public init(column: String, ascending: Bool = true) {
        self.init(QueryExpression(.field(column)), ascending: ascending)
    }
}

/// A query over one table.
public struct TableQuery: Hashable, Sendable {
    /// The condition on the rows to return; nil to return all rows.
    public var filter: Filter?
    /// The order of the result; ties are ordered by `id`, ascending.
    public var order: [SortKey] = []
    /// The maximum number of rows to return.
    public var limit: Int?
    /// The number of rows to skip at the start of the result.
    public var offset = 0
    /// The columns to return; nil for all columns.
    public var select: [String]?
    /// Whether to count all rows that match the filter, regardless of limit and offset.
    public var includesTotalCount = false
    /// Whether the result includes tombstones.
    public var includesDeleted = false
    /// Additional parameters for the server, sent unchanged.
    public var parameters: [String: String] = [:]

    /// Creates a query for the rows that match a filter, or for all rows.
    public init(filter: Filter? = nil) {
        self.filter = filter
    }
}
