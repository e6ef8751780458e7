// RowDeletes: the deletes of a simulation's users that must reach the server.

/// A delete of a row by the user of a device.
private struct RowDelete: Hashable {
    var id: String
    var device: String
}

/// Deletes that have not reached the server yet.
package struct PendingDeletes {
    private var deletes: Set<RowDelete> = []

    package init() {}

    /// Records that the user of a device deletes a row that the server has.
    package mutating func deletes(_ id: String, by device: String) {
        deletes.insert(RowDelete(id: id, device: device))
    }

    /// Records a response to a DELETE of a row.
    ///
    /// A row that is gone need not be deleted by any device. The 404 of a server without the table proves nothing about
    /// the row.
    package mutating func answered(
        _ id: String,
        status: Int,
        code: String?,
        tookEffect: Bool
    ) {
        let wasGone = status == 410 || status == 404 && code != "noSuchTable"
        guard tookEffect || wasGone else { return }
        deletes = deletes.filter { $0.id != id }
    }

    package func contains(_ id: String, by device: String) -> Bool {
        deletes.contains(RowDelete(id: id, device: device))
    }
}

/// Deletes that need not reach the server, because a restored server lost the row, and the device that
/// deletes it never stored it there again.
///
/// A row that another device inserts later with the same id is not the deleted one.
package struct UnneededDeletes {
    /// Whether the restored server lacked the row, by delete.
    private var deletes: [RowDelete: Bool] = [:]

    package init() {}

    package mutating func deletes(_ id: String, by device: String, isThere: Bool) {
        deletes[RowDelete(id: id, device: device)] = !isThere
    }

    /// Records that the server was restored and has only these rows.
    package mutating func restored(to ids: Set<String>) {
        for delete in deletes.keys where !ids.contains(delete.id) { deletes[delete] = true }
    }

    /// Records that a request of this device changed a row.
    package mutating func changed(_ id: String, by device: String) {
        let delete = RowDelete(id: id, device: device)
        if deletes[delete] != nil { deletes[delete] = false }
    }

    package func contains(_ id: String, by device: String) -> Bool {
        deletes[RowDelete(id: id, device: device)] == true
    }
}
