// ItemKey, RowKey: ids and rows as keys of sets and dictionaries.

import TidelineCore

/// A key for an id; two ids are equal if they have the same UTF-8 bytes.
package struct ItemKey: Hashable, Sendable {
    fileprivate let id: String

    package init(_ id: String) { self.id = id }

    /// The id.
    package var text: String { id }

    package static func == (left: ItemKey, right: ItemKey) -> Bool {
        left.id.hasSameBytes(as: right.id)
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(id) }
}

/// The key of a row: its table and its id.
package struct RowKey: Hashable, Sendable {
    package let table: String
    private let item: ItemKey

    package var itemID: String { item.id }

    package init(_ table: String, _ itemID: String) {
        self.table = table
        item = ItemKey(itemID)
    }
}
