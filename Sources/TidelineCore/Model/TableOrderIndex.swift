// TableOrderIndex: an index on a device whose last column has a localized order.

/// An index for queries with a localized order.
package struct TableOrderIndex: Hashable, Sendable {
    /// The columns; the last one contains strings in the localized order, and the others are
    /// compared by value.
    package var columns: [String]
    /// The order of the last column.
    package var order: LocalizedOrder

    package init(columns: [String], order: LocalizedOrder) {
        (self.columns, self.order) = (columns, order)
    }
}
