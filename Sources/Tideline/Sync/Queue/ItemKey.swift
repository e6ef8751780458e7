// ItemKey, RowKey: an id, and a row of a table, as keys of sets and dictionaries.

import TidelineCore

/// An id as a key; two ids are equal if their UTF-8 bytes are.
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
