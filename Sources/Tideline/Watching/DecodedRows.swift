// DecodedRows: the last result of an observed query, so that a run decodes only rows that have changed.

import TidelineCore

/// The records of an observed query as they were last read.
package struct DecodedRows<Record: Sendable>: Sendable {
    private struct Item {
        var row: Row
        /// The record; nil if the row does not decode and is skipped.
        var record: Record?
        /// The record as a row.
        ///
        /// The stored row may have more values than the record.
        var encoded: Row?
    }

    /// The ids of the rows that were last read.
    package private(set) var ids: Set<ItemKey> = []

    /// The ids of the rows that do not decode, in order.
    package var skipped: [ItemKey] {
        items.filter { $0.record == nil }.map { ItemKey($0.row.id) }
    }

    private var items: [Item] = []
    private var isFirst = true

    package init() {}

    /// Updates the state with the rows of a run, and returns the records if they differ from those of the last run.
    ///
    /// `decode` returns nil for a row to skip.
    package mutating func update(
        _ rows: [Row],
        decode: (Row) throws -> Record?,
        encode: (Record) throws -> Row
    ) rethrows -> [Record]? {
        let before = items
        var places: [ItemKey: Int]?
        func place(of row: Row, at index: Int) -> Int? {
            if index < before.count, before[index].row == row { return index }
            if places == nil {
                places = Dictionary(
                    before.indices.map { (ItemKey(before[$0].row.id), $0) },
                    uniquingKeysWith: { first, _ in first }
                )
            }
            guard let place = places?[ItemKey(row.id)], before[place].row == row else { return nil }
            return place
        }
        let isAsLong = rows.count == before.count
        var (haveOtherIDs, isNews) = (isFirst || !isAsLong, isFirst || !isAsLong)
        items = []
        items.reserveCapacity(rows.count)
        for (index, row) in rows.enumerated() {
            let place = place(of: row, at: index)
            if let place {
                items.append(before[place])
            } else {
                let record = try decode(row)
                items.append(Item(row: row, record: record, encoded: try record.map(encode)))
            }
            guard isAsLong, place != index else { continue }
            haveOtherIDs = haveOtherIDs || ItemKey(row.id) != ItemKey(before[index].row.id)
            // A push changes the version of a row, but the record may have no property for it.
            isNews = isNews || items[index].encoded != before[index].encoded
        }
        if haveOtherIDs { ids = Set(rows.map { ItemKey($0.id) }) }
        let records = items.compactMap(\.record)
        if isNews, !isFirst,
            records.count < rows.count || before.contains(where: { $0.record == nil })
        {
            // A skipped row may have shifted the other rows.
            isNews = items.compactMap(\.encoded) != before.compactMap(\.encoded)
        }
        isFirst = false
        return isNews ? records : nil
    }
}
