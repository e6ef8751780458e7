// RestoredOperations: finds out from the responses to a push that the server was restored, and which operations have
// rows of which it has an older state or none.
//
// A state of a row older than the operation's base is proof by itself. If a row is missing, or a response has another
// epoch, the client requests a list, because only a list has the epoch of the state that it shows.

import TidelineCore

/// A search for operations whose rows a restored server has in an older state.
struct RestoredOperations {
    let engine: SyncEngine

    /// The key of the endpoint; nil if the server does not use the datasync dialect.
    var endpoint: String? {
        guard let remote = try? engine.remote.get(), remote.dialect == .datasync else { return nil }
        return remote.dialect.cursorScope(remote.endpoint.key)
    }

    /// Returns the ids of the operations whose row has an older state on the server than their base, or does
    /// not exist there, because the server was restored from a backup.
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
                // No other policy drops a change without an error. If the row is missing, the base does not matter, and
                // may be unknown: the app may have changed an older copy of the row.
                guard case .serverWins = engine.policy(table).kind, operation.kind == .update
                else { continue }
                // A row that the app deleted and inserted again has no mark. The server has no row that could win.
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
                    // A row that was deleted after the restore stays deleted.
                    isRestored = base.isOlderOnServer(tombstone)
                }
                if isRestored { restored.insert(operation.id) }
            case .deleted:
                continue
            }
        }
        return restored
    }

    /// Returns the epoch of each table whose responses have a different one from that of the table's rows.
    ///
    /// A server that shares its database with others may learn of a restore after them, so the epoch of a write counts
    /// only if a list has it, too. It does not count either if only some of the responses have it, because the others
    /// may be from before the restore.
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
                // If the list fails, the outcomes are stored nevertheless; the next pull finds out.
                (try? await currentEpoch(table, remote)) == epoch
            else { continue }
            result.epochs[table] = epoch
        }
        return result.epochs.isEmpty ? nil : result
    }

    /// Returns the ids of the accepted operations whose row the server resolved from a state that does not include the
    /// base, because it has lost the base.
    ///
    /// The server's `conflict` rule lets such a write succeed, so the response is not a conflict. If it has all values
    /// that were sent, nothing is lost.
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

    /// Whether the restored server never had the base of an operation, or has it no longer.
    private func hasLost(
        _ base: Row,
        of operation: QueuedOperation,
        _ row: Row,
        _ new: NewEpochs?
    ) async throws -> Bool {
        // A pull may have shown the older state.
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

    /// Whether the app inserted the row, and the server has not sent it since.
    private func isInserted(_ table: String, _ id: String) async throws -> Bool {
        try await engine.read { reader in
            try reader.store.row(id: .string(id), in: table).map { !$0.isFromServer } ?? false
        }
    }

    /// Whether the server has not sent the row since it was restored.
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

    /// Returns the epoch of the table's rows; before the first pull, the epoch of the first responses to a push.
    private func earliestEpoch(_ table: String, _ endpoint: String) async throws -> String? {
        try await engine.read { reader in
            try reader.epochs.epoch(of: table, endpoint: endpoint, otherThan: nil)
                ?? reader.config(table, endpoint, PullCursor.firstSentEpochType)
        }
    }

    /// Returns the epoch of the server; nil if it sends none, or if the user may not read the table.
    private func currentEpoch(_ table: String, _ remote: RemoteService) async throws -> String? {
        try await list(TableQuery(), of: table, remote).headers["Tideline-Epoch"]
    }

    /// Returns the server's row, deleted or not; nil if it has none, or if the user may not read it.
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
    /// - Throws: If the server does not answer. Without an answer, an operation must not be treated as one on a deleted
    ///   row: it stays in the queue, and the next push sends it again.
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

/// The new epochs of tables that the responses to a push have shown.
struct NewEpochs: Sendable {
    var endpoint: String
    var epochs: [String: String] = [:]
}

extension Row {
    /// Returns whether the server's state of this row was committed before this state.
    fileprivate func isOlderOnServer(_ server: Row) -> Bool { isLater(than: server) }
}
