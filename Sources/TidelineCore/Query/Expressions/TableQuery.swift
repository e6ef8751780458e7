// TableQuery: a whole query as a value: filter, order, window, columns.

/// A condition on rows.
///
/// It is created from a closure over columns, a `Predicate`, or an OData string. A store evaluates it with
/// ``matches(_:)`` or renders it as SQL.
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

    /// Whether the smallest values come first; null is the smallest.
    public var isAscending: Bool

    /// The order of strings by the rules of a language, which only a device supports; nil to order them by scalars.
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
    /// The maximum number of rows to return.
    public var limit: Int?
    /// The number of rows to skip at the start of the result.
    public var offset = 0
    /// The columns to return; nil for all.
    public var select: [String]?
    /// Whether to count all rows that match the filter, ignoring limit and offset.
    public var includesTotalCount = false
    /// Whether the result includes tombstones.
    public var includesDeleted = false
    /// Additional parameters for the server, sent unchanged.
    public var parameters: [String: String] = [:]

    /// All rows.
    public init(filter: Filter? = nil) {
        self.filter = filter
    }
}
