// RowDeletes: the deletes of simulated users that must reach the server.

/// A delete of a row by a device's user.
private struct RowDelete: Hashable {
    var id: String
    var device: String
}

/// The deletes that have not reached the server yet.
package struct PendingDeletes {
    private var deletes: Set<RowDelete> = []

    package init() {}

    /// Records that a device's user deletes a row that the server has.
    package mutating func deletes(_ id: String, by device: String) {
        deletes.insert(RowDelete(id: id, device: device))
    }

    /// Records a response to the DELETE of a row.
    ///
    /// If the row is gone, no device has to delete it anymore. A 404 from a server without the
    /// table says nothing about the row.
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

/// The deletes that do not have to reach the server, because a restored server lost the row and the
/// deleting device has not stored it there again.
///
/// If another device later inserts a row with the same id, that row is not the deleted one.
package struct UnneededDeletes {
    /// Whether the restored server lacks the row, for each delete.
    private var deletes: [RowDelete: Bool] = [:]

    package init() {}

    package mutating func deletes(_ id: String, by device: String, isThere: Bool) {
        deletes[RowDelete(id: id, device: device)] = !isThere
    }

    /// Records that the server was restored and has only the given rows.
    package mutating func restored(to ids: Set<String>) {
        for delete in deletes.keys where !ids.contains(delete.id) { deletes[delete] = true }
    }

    /// Records that a request from a device changed a row.
    package mutating func changed(_ id: String, by device: String) {
        let delete = RowDelete(id: id, device: device)
        if deletes[delete] != nil { deletes[delete] = false }
    }

    package func contains(_ id: String, by device: String) -> Bool {
        deletes[RowDelete(id: id, device: device)] == true
    }
}
