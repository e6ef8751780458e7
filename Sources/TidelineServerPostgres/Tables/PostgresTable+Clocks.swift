// PostgresTable: the clocks that stamp a table's rows.

import TidelineCore
import TidelineServerCore

extension PostgresTable {
    /// Whether its rows are stamped by the clocks of their owners.
    var hasOwnerClocks: Bool { table.definition.clock == .owner && table.ownerPlace != nil }

    /// The clock of a row.
    func clockKey(of image: RowImage) -> ClockKey {
        guard hasOwnerClocks, let place = table.ownerPlace else {
            return clockKey(of: nil as String?)
        }
        if case .text(let owner) = image.values[place] { return clockKey(of: owner) }
        return clockKey(of: "")
    }

    /// Returns the clock of the row that a write inserts.
    func clockKey(of operation: WriteOperation) -> ClockKey {
        guard hasOwnerClocks, let place = table.ownerPlace else {
            return clockKey(of: nil as String?)
        }
        var value = operation.values.indices.contains(place) ? operation.values[place] : nil
        if value == nil, operation.fillsDefaults { value = table.columns[place].storedDefault }
        if case .text(let owner)? = value { return clockKey(of: owner) }
        return clockKey(of: "")
    }

    /// The clock that a read is about.
    func clockKey(of owner: ClockOwner) -> ClockKey {
        guard hasOwnerClocks, case .user(let name) = owner else {
            return clockKey(of: nil as String?)
        }
        return clockKey(of: name)
    }

    private func clockKey(of owner: String?) -> ClockKey { ClockKey(table: clock, owner: owner) }

    /// The owner of a row, as SQL with an alias before the column.
    func ownerCell(of alias: String) -> String {
        OwnerClocks.cell(table.ownerPlace.map { table.columns[$0].name } ?? SystemColumn.id, alias)
    }
}
