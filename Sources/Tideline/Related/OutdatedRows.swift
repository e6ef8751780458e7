// OutdatedRows: the rows whose related records have changed.

import TidelineCore

/// The rows of a query whose entries are outdated because related records have changed.
struct OutdatedRows {
    /// The ids of rows.
    private(set) var ids: Set<ItemKey> = []
    /// The rows that have one of several keys in a column.
    private(set) var byColumn: [(column: String, keys: Set<ItemKey>)] = []

    /// No rows.
    init() {}

    /// The rows that have one of these keys in a column.
    init(_ keys: Set<ItemKey>, in column: String) {
        if column == SystemColumn.id {
            ids = keys
        } else if !keys.isEmpty {
            byColumn = [(column, keys)]
        }
    }

    var isEmpty: Bool { ids.isEmpty && byColumn.isEmpty }

    mutating func formUnion(_ other: OutdatedRows) {
        ids.formUnion(other.ids)
        byColumn += other.byColumn
    }

    /// Calls `body` with the index of each outdated row that is identified by a column.
    func forEach(in rows: [Row], _ body: (Int) -> Void) {
        for (column, keys) in byColumn {
            var member = RowMember(column)
            for (index, row) in rows.enumerated() {
                guard let key = member.value(in: row)?.text else { continue }
                if keys.contains(ItemKey(key)) { body(index) }
            }
        }
    }
}
