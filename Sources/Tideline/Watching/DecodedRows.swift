// DecodedRows: what an observed query gave last, so that a run decodes only rows that have changed.

import TidelineCore

/// The records of an observed query as they were read last; a pure value.
package struct DecodedRows<Record: Sendable>: Sendable {
    private struct Item {
        var row: Row
        /// Nil where the row does not decode and is left out.
        var record: Record?
        /// The record as a row; the stored one may have more that the record does not show.
        var encoded: Row?
    }

    /// The ids of the rows that were read last.
    package private(set) var ids: Set<ItemKey> = []

    /// The ids of the rows that do not decode, in order.
    package var skipped: [ItemKey] {
        items.filter { $0.record == nil }.map { ItemKey($0.row.id) }
    }

    private var items: [Item] = []
    private var isFirst = true

    package init() {}

    /// Takes in what a run has read, and gives the records where they are others than before.
    ///
    /// `decode` gives nil for a row that is left out.
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
            // A push changes the version of a row, which the record may not show.
            isNews = isNews || items[index].encoded != before[index].encoded
        }
        if haveOtherIDs { ids = Set(rows.map { ItemKey($0.id) }) }
        let records = items.compactMap(\.record)
        if isNews, !isFirst,
            records.count < rows.count || before.contains(where: { $0.record == nil })
        {
            // What was left out may have moved the others.
            isNews = items.compactMap(\.encoded) != before.compactMap(\.encoded)
        }
        isFirst = false
        return isNews ? records : nil
    }
}
