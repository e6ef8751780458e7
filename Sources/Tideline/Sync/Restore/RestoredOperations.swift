// RestoredOperations: uses the responses to a push to find out whether the server was restored, and
// for which operations it has an older state of the row or no row.
//
// If the server's state of a row is older than the operation's base row, this alone is proof. If a
// row is missing, or if a response has another epoch, the client requests a list, because only a
// list has the epoch of the state that it shows.

import TidelineCore

/// A search for operations whose rows a restored server has lost, or has only in an older state.
struct RestoredOperations {
    let engine: SyncEngine

    /// The key of the endpoint; nil if the server does not use the datasync dialect.
    var endpoint: String? {
        guard let remote = try? engine.remote.get(), remote.dialect == .datasync else { return nil }
        return remote.dialect.cursorScope(remote.endpoint.key)
    }

    /// Returns the ids of the operations whose row is missing or older than their base row on the
    /// server, because the server was restored from a backup.
    func find(among decidedOperations: [DecidedOperation]) async throws -> Set<Int64> {
        guard let remote = try? engine.remote.get(), remote.dialect == .datasync else { return [] }
        let endpoint = remote.dialect.cursorScope(remote.endpoint.key)
        var restored: Set<Int64> = []
        for decided in decidedOperations {
            let operation = decided.operation
            guard case .conflict(let server, _) = decided.decision, operation.kind != .insert
            else { continue }
            let table = operation.table
            switch server {
            case .row(let row):
                guard let base = operation.basis.base, operation.basisVersion == nil,
                    base.version != row.version, base.isOlderOnServer(row),
                    try await earliestEpoch(table, endpoint) != nil
                else { continue }
                restored.insert(operation.id)
            case .deleted(version: nil, row: nil):
                // Other policies never drop a change without an error. If the row is missing, the
                // base row does not matter, and may be unknown because the app changed an older
                // copy of the row.
                guard case .serverWins = engine.policy(table).kind, operation.kind == .update
                else { continue }
                // A row that the app deleted and inserted again has no flag. The server has no row
                // that could win.
                if decided.answer.status == 404, try await isInserted(table, operation.itemID) {
                    restored.insert(operation.id)
                    continue
                }
                guard let known = try await earliestEpoch(table, endpoint) else { continue }
                var isRestored = try await isFormer(table, operation.itemID)
                if !isRestored, let now = try await currentEpoch(table, remote) {
                    isRestored = now != known
                }
                if isRestored, decided.answer.status == 410, let base = operation.basis.base,
                    let tombstone = try await row(operation.itemID, of: table, remote)
                {
                    // A row that was deleted after the restore remains deleted.
                    isRestored = base.isOlderOnServer(tombstone)
                }
                if isRestored { restored.insert(operation.id) }
            case .deleted:
                continue
            }
        }
        return restored
    }

    /// Returns the new epoch of each table, if the responses for a table have another epoch than
    /// the table's rows.
    ///
    /// If several servers share a database, one of them may learn of a restore later than the
    /// others. Therefore the epoch in the response to a write counts only if a list has it, too. It
    /// also does not count if only some of the responses have it, because the others may come from
    /// before the restore.
    func newEpochs(of decidedOperations: [DecidedOperation]) async throws -> NewEpochs? {
        guard let remote = try? engine.remote.get(), remote.dialect == .datasync else { return nil }
        var result = NewEpochs(endpoint: remote.dialect.cursorScope(remote.endpoint.key))
        var epochs: [String: Set<String?>] = [:]
        for decided in decidedOperations {
            epochs[decided.operation.table, default: []].insert(decided.answer.epoch)
        }
        for (table, ofTable) in epochs {
            guard ofTable.count == 1, let epoch = ofTable.first ?? nil,
                let known = try await self.epoch(table, result.endpoint), known != epoch,
                // If the request for the list fails, the outcomes are stored anyway. The next pull
                // then finds the new epoch.
                (try? await currentEpoch(table, remote)) == epoch
            else { continue }
            result.epochs[table] = epoch
        }
        return result.epochs.isEmpty ? nil : result
    }

    /// Returns the ids of the accepted operations that the server resolved against a state that
    /// does not include their base row, because it has lost the base row.
    ///
    /// The server's `conflict` rule lets such a write succeed, so the response is not a conflict.
    /// If the response has all values that were sent, nothing is lost.
    func resolved(
        among decidedOperations: [DecidedOperation],
        _ new: NewEpochs?
    ) async throws -> Set<Int64> {
        guard let remote = try? engine.remote.get(), remote.dialect == .datasync else { return [] }
        let endpoint = remote.dialect.cursorScope(remote.endpoint.key)
        var resolved: Set<Int64> = []
        for decided in decidedOperations where decided.answer.isResolved {
            let operation = decided.operation
            guard case .accepted(.row(let row)) = decided.decision, operation.kind == .update,
                operation.basisVersion == nil, let base = operation.basis.base,
                base.version != row.version, let sent = operation.frozen?.sentRow,
                !RowMerge.holds(row, sent),
                try await earliestEpoch(operation.table, endpoint) != nil,
                try await hasLost(base, of: operation, row, new)
            else { continue }
            resolved.insert(operation.id)
        }
        return resolved
    }

    /// Returns whether the restored server has never had the base row of an operation, or has lost
    /// it.
    private func hasLost(
        _ base: Row,
        of operation: QueuedOperation,
        _ row: Row,
        _ new: NewEpochs?
    ) async throws -> Bool {
        // A pull may have returned the older state.
        if [row, operation.basis.latest?.row].contains(where: {
            $0.map(base.isOlderOnServer) == true
        }) {
            return true
        }
        if let epoch = new?.epochs[operation.table], RestorePoint(epoch: epoch).isBefore(base) {
            return true
        }
        guard try await isFormer(operation.table, operation.itemID) else { return false }
        let former = try await engine.read { try $0.epochs.formerRows(of: operation.table) }
        return former?.restore.isBefore(base) == true
    }

    /// Returns whether the app inserted the row and the server has not sent it since then.
    private func isInserted(_ table: String, _ id: String) async throws -> Bool {
        try await engine.read { reader in
            try reader.store.row(id: .string(id), in: table).map { !$0.isFromServer } ?? false
        }
    }

    /// Returns whether the server has not sent the row since it was restored.
    private func isFormer(_ table: String, _ id: String) async throws -> Bool {
        var query = TableQuery(filter: .equal(SystemColumn.id, .string(id)))
        query.select = [SystemColumn.id, MembershipMask.name]
        return try await engine.read { [query] reader in
            let row = try reader.store.rows(query, in: table).first
            return (row.flatMap(MembershipMask.bits) ?? 0) & MembershipMask.former != 0
        }
    }

    private func epoch(_ table: String, _ endpoint: String) async throws -> String? {
        try await engine.read { try $0.epochs.epoch(of: table, endpoint: endpoint, otherThan: nil) }
    }

    /// Returns the epoch of the table's rows; before the first pull, the epoch of the first
    /// responses to a push.
    private func earliestEpoch(_ table: String, _ endpoint: String) async throws -> String? {
        try await engine.read { reader in
            try reader.epochs.epoch(of: table, endpoint: endpoint, otherThan: nil)
                ?? reader.config(table, endpoint, PullCursor.firstSentEpochType)
        }
    }

    /// Returns the server's epoch; nil if the server sends none, or if the user may not read the
    /// table.
    private func currentEpoch(_ table: String, _ remote: RemoteService) async throws -> String? {
        try await list(TableQuery(), of: table, remote).headers["Tideline-Epoch"]
    }

    /// Returns the server's row, even if it is deleted; nil if there is none, or if the user may
    /// not read it.
    private func row(
        _ id: String,
        of table: String,
        _ remote: RemoteService
    ) async throws -> Row? {
        var query = TableQuery(filter: .equal(SystemColumn.id, .string(id)))
        query.includesDeleted = true
        let response = try await list(query, of: table, remote)
        return PulledPage(response, schema: engine.catalog.schema(table))?.rows
            .first { ItemKey($0.id) == ItemKey(id) }
    }

    /// Returns the response to a request for a list.
    ///
    /// - Throws: An error if the server does not respond. The operation must then not be treated as
    ///   one on a deleted row; it stays in the queue, and the next push resends it.
    private func list(
        _ query: TableQuery,
        of table: String,
        _ remote: RemoteService
    ) async throws -> TransportResponse {
        let text = try query.wireText(engine.catalog.schema(table), .datasync)
        let url = try remote.endpoint.url(table, query: text.isEmpty ? "" : "?" + text)
        let (response, _) = try await remote.once(.page(url, rows: 1), .datasync)
        if AnswerProof.wantsSignIn(response) {
            throw SyncError.signInWanted("list of '\(table)'", reason: response.problem)
        }
        let isFailure = response.status == 408 || response.status == 429 || response.status >= 500
        guard !isFailure, AnswerProof.isServers(response) else {
            throw SyncError.noEpoch(table, status: response.status)
        }
        return response
    }
}

extension SyncError {
    fileprivate static func noEpoch(_ table: String, status: Int) -> SyncError {
        SyncError(
            .offline,
            """
            The server does not have a row that was updated, and it is not known whether the server was restored \
            from a backup: a list of '\(table)' failed (\(status)). Nothing is lost. Push again later.
            """,
            statusCode: status
        )
    }
}

/// The new epochs of tables, as the responses to a push show them.
struct NewEpochs: Sendable {
    var endpoint: String
    var epochs: [String: String] = [:]
}

extension Row {
    /// Returns whether the server's state of this row was committed before this state.
    fileprivate func isOlderOnServer(_ server: Row) -> Bool { isLater(than: server) }
}
