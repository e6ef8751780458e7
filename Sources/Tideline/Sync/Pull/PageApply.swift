// PageApply: a page goes into the store, with its cursor, in one transaction.

import TidelineCore

struct PageApply {
    let queue: QueueTransaction
    let table: String

    /// How many rows were stored and how many were removed.
    struct Counts: Sendable, Hashable {
        var applied = 0
        var removed = 0
    }

    /// Stores the rows of a page, in order.
    ///
    /// `since` is the time that the page was asked from: the rows of that very time were stored by
    /// the pull before, and count only when they differ.
    /// A row with pending operations stays as it is; the server's row is kept beside it, so that
    /// the cursor may pass it and it is not forgotten. Rows without a usable id are left out.
    func apply(_ rows: [Row], since: Timestamp?) throws -> Counts {
        let pending = try queue.reader.pendingIDs(table)
        var counts = Counts()
        var puts: [Row] = []
        puts.reserveCapacity(rows.count)
        var deletes: [Value] = []
        var (ids, deleted) = (RowMember(SystemColumn.id), RowMember(SystemColumn.deleted))
        var updatedAt = RowMember(SystemColumn.updatedAt)
        for row in rows {
            guard let id = ids.value(in: row), case .string(let text) = id, !text.isEmpty else {
                continue
            }
            if !pending.isEmpty, pending.contains(ItemKey(text)) {
                try keep(ServerState(row), text)
                continue
            }
            if let since, case .date(let date) = updatedAt.value(in: row), Timestamp(date) <= since,
                try isKnown(row, id)
            {
                continue
            }
            // Puts and deletes go in runs, so that of two rows with one id the later one stays.
            if deleted.value(in: row) == true {
                try store(&puts, &counts)
                deletes.append(id)
            } else {
                try remove(&deletes, &counts)
                puts.append(deleted.removed(from: row))
            }
        }
        try store(&puts, &counts)
        try remove(&deletes, &counts)
        return counts
    }

    private func isKnown(_ row: Row, _ id: Value) throws -> Bool {
        let stored = try queue.store.row(id: id, in: table)
        if row[SystemColumn.deleted] == true { return stored == nil }
        return stored?.version != nil && stored?.version == row.version
    }

    private func store(_ rows: inout [Row], _ counts: inout Counts) throws {
        guard !rows.isEmpty else { return }
        try queue.store.put(rows, in: table)
        counts.applied += rows.count
        rows.removeAll(keepingCapacity: true)
    }

    private func remove(_ ids: inout [Value], _ counts: inout Counts) throws {
        guard !ids.isEmpty else { return }
        counts.removed += try queue.store.delete(ids: ids, in: table)
        ids.removeAll(keepingCapacity: true)
    }

    /// Remembers news of a row with pending operations.
    private func keep(_ server: ServerState, _ id: String) throws {
        var basis = try queue.reader.basis(table, id) ?? RowBasis()
        if let known = basis.base?.version, known == server.version { return }
        basis.latest = Settlement.newer(basis.latest, server)
        try queue.put(basis, table, id)
    }
}
