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
        var seen: Set<ItemKey> = []
        for row in rows {
            guard let id = row[SystemColumn.id], case .string(let text) = id, !text.isEmpty else {
                continue
            }
            let key = ItemKey(text)
            if !pending.isEmpty, pending.contains(key) {
                try keep(ServerState(row), text)
                continue
            }
            if let since, try isKnown(row, id, since) { continue }
            if !seen.insert(key).inserted {
                try flush(&puts, &deletes, &counts)
                seen = [key]
            }
            if row[SystemColumn.deleted] == true {
                deletes.append(id)
            } else {
                puts.append(JSONRowReader.withoutDeleted(row))
            }
        }
        try flush(&puts, &deletes, &counts)
        return counts
    }

    private func isKnown(_ row: Row, _ id: Value, _ since: Timestamp) throws -> Bool {
        guard case .date(let date) = row[SystemColumn.updatedAt], Timestamp(date) <= since else {
            return false
        }
        let stored = try queue.store.row(id: id, in: table)
        if row[SystemColumn.deleted] == true { return stored == nil }
        return stored?.version != nil && stored?.version == row.version
    }

    private func flush(_ puts: inout [Row], _ deletes: inout [Value], _ counts: inout Counts) throws
    {
        if !puts.isEmpty { try queue.store.put(puts, in: table) }
        if !deletes.isEmpty {
            counts.removed += try queue.store.delete(ids: deletes, in: table)
        }
        counts.applied += puts.count
        puts.removeAll()
        deletes.removeAll()
    }

    /// Remembers news of a row with pending operations.
    private func keep(_ server: ServerState, _ id: String) throws {
        var basis = try queue.reader.basis(table, id) ?? RowBasis()
        if let known = basis.base?.version, known == server.version { return }
        basis.latest = Settlement.newer(basis.latest, server)
        try queue.put(basis, table, id)
    }
}
