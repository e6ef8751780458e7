// ConflictHandling: asks the app to resolve a conflict, outside any transaction.
//
// The server's state has already been stored with the operation, and the operation stays attempted.
// If the app is terminated here, it resends the same bytes, finds the same conflict and calls the
// handler again.

import TidelineCore

/// The input of a handler, which has to be unchanged when the handler's resolution is stored.
struct ConflictView: Sendable, Hashable {
    /// The operation that is in conflict, and the one that follows it.
    let operation: QueuedOperation
    let later: QueuedOperation?
    let local: Row?
    let server: ServerState

    /// Reads the input; nil if the operation was removed or cannot be decoded.
    init?(_ reader: QueueReader, of sent: QueuedOperation) throws {
        let operations = try reader.operations(sent.table, sent.itemID)
        guard let operation = operations.first(where: { $0.id == sent.id }),
            operation.damage == nil, let server = operation.basis.latest
        else { return nil }
        self.operation = operation
        self.server = server
        later = operations.first { $0.id > sent.id }
        local = try reader.store.row(id: .string(sent.itemID), in: sent.table)
    }

    /// The conflict as the handler sees it, without the columns that stay on the device.
    func conflict(_ schema: TableSchema?) -> Conflict {
        func synced(_ row: Row?) -> Row? { row.map { schema?.synced($0) ?? $0 } }
        return Conflict(
            table: operation.table,
            itemID: operation.itemID,
            kind: operation.kind,
            base: synced(operation.knownBase),
            local: synced(local),
            server: server.row.map(JSONRowReader.withoutDeleted)
        )
    }
}

/// A runner of custom conflict policies, which calls the app's handler and stores its resolution.
struct CustomPolicyRunner {
    let engine: SyncEngine

    /// Calls the handler until the row stays unchanged during a call, and stores the resolution.
    func ask(_ decided: DecidedOperation) async throws -> SettlementResult {
        let sent = decided.operation
        guard case .custom(let handler) = engine.policy(sent.table).kind else { return .gone }
        for _ in 0..<max(1, engine.limits.conflictsMax) {
            guard let view = try await engine.read({ try ConflictView($0, of: sent) }) else {
                return .gone
            }
            let conflict = view.conflict(engine.catalog.schema(sent.table))
            var resolution = Resolution.fail
            var failure: String?
            do {
                let gate = engine.gate
                resolution = try await engine.calls.run {
                    try await handler.decide(conflict, at: gate)
                }
                if case .write(let row) = resolution {
                    try checkRules(row, view)
                    try RowCheck.check(
                        row,
                        changing: [conflict.local, conflict.server],
                        table: sent.table,
                        id: sent.itemID,
                        schema: engine.catalog.schema(sent.table)
                    )
                }
            } catch {
                // If there is no resolution, the next push calls the handler again.
                if Task.isCancelled || engine.calls.isSuspended { return .gone }
                (resolution, failure) = (.fail, SyncError.failedHandler(sent, error))
            }
            let result = try await store(resolution, view, text(failure, decided, view.server))
            if let result { return result }
        }
        return try await park(decided)
    }

    /// Throws an error if the resolution has a value that breaks a rule and is not the server's
    /// value.
    private func checkRules(_ item: Row, _ view: ConflictView) throws {
        let (table, catalog) = (view.operation.table, engine.catalog)
        let server = view.server.row.map(JSONRowReader.withoutDeleted)
        let known = catalog.row(server ?? Row(), of: table, withLocalColumnsOf: view.local)
        let row = catalog.row(known, of: table, with: item)
        try catalog.rules(of: table)?
            .check(row, inPlaceOf: server == nil ? nil : known, table: table)
    }

    /// Parks the operation because its row was edited during every call of the handler.
    private func park(_ decided: DecidedOperation) async throws -> SettlementResult {
        let sent = decided.operation
        let text = text(SyncError.restlessRow(sent), decided, nil)
        return try await engine.transaction { queue in
            guard let view = try ConflictView(queue.reader, of: sent) else { return .gone }
            return try Settlement(queue: queue).resolve(view, .fail, text)
        }
    }

    private func text(
        _ failure: String?,
        _ decided: DecidedOperation,
        _ server: ServerState?
    ) -> ParkText {
        var text = SettlementRules(engine: engine).parkText(
            decided.operation,
            server,
            decided.answer
        )
        if let failure { text.message = failure }
        return text
    }

    /// Stores the resolution; returns nil if the row has changed since the handler was called.
    private func store(
        _ resolution: Resolution,
        _ view: ConflictView,
        _ text: ParkText
    ) async throws -> SettlementResult? {
        try await engine.transaction { queue in
            guard let now = try ConflictView(queue.reader, of: view.operation) else { return .gone }
            guard now == view else { return nil }
            return try Settlement(queue: queue).resolve(view, resolution, text)
        }
    }
}
