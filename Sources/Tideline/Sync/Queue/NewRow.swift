// NewRow: a row that is about to be inserted, with its id.

import TidelineCore

/// A row that is about to be inserted, with its id.
struct NewRow: Sendable {
    let row: Row
    /// Whether the id was generated on this device, so that no row can have it yet.
    let hasNewID: Bool

    /// Checks the row's id and values, and generates an id if the row has none.
    ///
    /// `declared` has the columns of a row without a model.
    init(
        _ row: Row,
        table: String,
        declared: TableSchema? = nil,
        _ environment: SyncEnvironment
    ) throws {
        try RowCheck.checkID(row)
        try RowCheck.check(row, table: table, schema: declared)
        let id = row.id
        hasNewID = id.isEmpty
        if hasNewID {
            var new = row
            new["id"] = .string(environment.makeID())
            self.row = new
        } else {
            self.row = row
            try ItemID.check(id)
        }
    }
}

/// A writer of the first stored form of new rows, which has the id but no other system column.
///
/// Rows with the same layout share their column names.
struct PayloadWriter {
    private var layout: RowLayout?
    private var places: [Int] = []
    private var payload = RowLayout.empty

    mutating func row(_ row: Row) -> Row {
        if layout !== row.rowLayout {
            layout = row.rowLayout
            let names = row.rowLayout.names
            places = names.indices.filter {
                names[$0] == SystemColumn.id || !SystemColumn.names.contains(names[$0])
            }
            payload = RowLayout(places.map { names[$0] })
        }
        let values = row.allValues
        return Row(layout: payload, values: places.map { values[$0] })
    }
}
