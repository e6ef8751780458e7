// RestoredOperations: finds the operations of a push whose rows have an older state on a restored server.
//
// Responses to writes do not contain the epoch. A state of a row older than the operation's base is proof by
// itself; if a row is missing, the client requests a list, which carries the epoch.

import TidelineCore

/// A search for operations whose rows a restored server has in an older state.
struct RestoredOperations {
    let engine: SyncEngine

    /// Returns the ids of the operations whose row has an older state on the server than their base, or does
    /// not exist there, because the server was restored from a backup.
    func find(among settlings: [PushSettling]) async throws -> Set<Int64> {
        guard let remote = try? engine.remote.get(), remote.dialect == .datasync else { return [] }
        let endpoint = remote.dialect.cursorScope(remote.endpoint.key)
        var restored: Set<Int64> = []
        for settling in settlings {
            let operation = settling.operation
            guard case .conflict(let server, _) = settling.decision, operation.kind != .insert,
                let base = operation.basis.base, operation.basisVersion == nil
            else { continue }
            let table = operation.table
            switch server {
            case .row(let row):
                guard base.version != row.version, base.isOlderOnServer(row),
                    try await epoch(table, endpoint) != nil
                else { continue }
                restored.insert(operation.id)
            case .deleted(version: nil, row: nil):
                // No other policy drops a change without an error.
                guard case .serverWins = engine.policy(table).kind, operation.kind == .update,
                    let known = try await epoch(table, endpoint),
                    let now = try await currentEpoch(table, remote), now != known
                else { continue }
                restored.insert(operation.id)
            case .deleted:
                continue
            }
        }
        return restored
    }

    private func epoch(_ table: String, _ endpoint: String) async throws -> String? {
        try await engine.read { try $0.epoch(table, endpoint: endpoint, otherThan: nil) }
    }

    /// Returns the epoch of the server; nil if it sends none.
    private func currentEpoch(_ table: String, _ remote: RemoteService) async throws -> String? {
        let text = try TableQuery().wireText(engine.catalog.schema(table), .datasync)
        let url = try remote.endpoint.url(table, query: text.isEmpty ? "" : "?" + text)
        let (response, _) = try await remote.once(.page(url, rows: 1), .datasync)
        return response.status == 200 ? response.headers["Tideline-Epoch"] : nil
    }
}

extension Row {
    /// Returns whether the server's state of this row was committed before this state.
    fileprivate func isOlderOnServer(_ server: Row) -> Bool { isLater(than: server) }
}
