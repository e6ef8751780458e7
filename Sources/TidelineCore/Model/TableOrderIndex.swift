// TableOrderIndex: an index of a table on a device whose last column is in a localized order.

/// An index for queries in a localized order.
package struct TableOrderIndex: Hashable, Sendable {
    /// The columns; the last one contains strings in the order, and the others are compared by their values.
    package var columns: [String]
    /// The order of the last column.
    package var order: LocalizedOrder

    package init(columns: [String], order: LocalizedOrder) {
        (self.columns, self.order) = (columns, order)
    }
}
