// SyncEngine: what a client is once its store is open. It runs the machines: every decision is
// theirs, every effect is here and in the two files beside it (push, pull).

import Foundation
import Synchronization
import TidelineCore

final class SyncEngine: Sendable {
    let store: any LocalStore
    let catalog: TableCatalog
    let policies: [String: ConflictPolicy]
    let defaultPolicy: ConflictPolicy
    /// Or why the endpoint may not be used, which matters only when something is to be sent.
    let remote: Result<RemoteService, any Error>
    let environment: SyncEnvironment
    let limits: SyncLimits
    let events: SyncEvents
    let gate: SyncGate
    let handedOut: HandedOutRows

    init(
        store: any LocalStore,
        catalog: TableCatalog,
        conflicts: ConflictPolicy,
        tableConflicts: [String: ConflictPolicy],
        remote: Result<RemoteService, any Error>,
        environment: SyncEnvironment,
        limits: SyncLimits,
        events: SyncEvents,
        gate: SyncGate
    ) {
        self.store = store
        self.catalog = catalog
        policies = tableConflicts
        defaultPolicy = conflicts
        self.remote = remote
        self.environment = environment
        self.limits = limits
        self.events = events
        self.gate = gate
        handedOut = HandedOutRows(limit: limits.handedOutRowsMax)
    }

    func policy(_ table: String) -> ConflictPolicy { policies[table] ?? defaultPolicy }

    /// Runs `body` in one transaction with the queue at hand.
    func transaction<Result: Sendable>(
        _ body: @escaping @Sendable (QueueTransaction) throws -> Result
    ) async throws -> Result {
        let catalog = catalog
        return try await wrapped {
            try await self.store.write { try body(QueueTransaction(store: $0, catalog: catalog)) }
        }
    }

    /// Reads one state of store and queue.
    func read<Result: Sendable>(
        _ body: @escaping @Sendable (QueueReader) throws -> Result
    ) async throws -> Result {
        let catalog = catalog
        return try await wrapped {
            try await self.store.read { try body(QueueReader(store: $0, catalog: catalog)) }
        }
    }

    /// Takes in which generation of server earlier runs met at this endpoint.
    func recallGeneration() async throws {
        guard let service = try? remote.get() else { return }
        let key = service.endpoint.key
        service.generation.recall(try await read { try $0.generation(key) })
    }

    /// Keeps what was learned of the server's generation for later runs.
    func keepGeneration() async throws {
        guard let service = try? remote.get(), let learned = service.generation.unkept else {
            return
        }
        let key = service.endpoint.key
        try await transaction { try $0.setGeneration(learned, key) }
        service.generation.markKept(learned)
    }

    /// Runs `body` in its turn among pushes, pulls and purges.
    ///
    /// - Throws: ``SyncError`` with code `cancelled` when the task is cancelled.
    func inTurn<Result>(
        _ job: SyncTurns.Job,
        _ what: String,
        _ body: () async throws -> Result
    ) async throws -> Result {
        do {
            return try await gate.withTurn(job, body)
        } catch let error as CancellationError {
            throw SyncError.cancelled(what, error)
        }
    }

    /// Errors of the store become ``SyncError``; others pass.
    private func wrapped<Result>(_ body: () async throws -> Result) async throws -> Result {
        do {
            return try await body()
        } catch let error as SyncError {
            throw error
        } catch let error as CancellationError {
            throw error
        } catch {
            throw SyncError.storeFailure(error)
        }
    }
}

// MARK: - Local changes

extension SyncEngine {
    func insert(_ row: Row, in table: String) async throws -> Row {
        var new = row
        if new.id.isEmpty { new["id"] = .string(environment.makeID()) }
        try ItemID.check(new.id)
        let inserted = new
        return try await transaction {
            try LocalChanges(queue: $0, table: table).insert(inserted)
        }
    }

    /// `normalized` is a stored row as its record type encodes it, or nil where it does not fit.
    func update(
        _ row: Row,
        in table: String,
        normalized: @escaping @Sendable (Row) -> Row?
    ) async throws -> Row {
        let before = handedOut[table, row.id]
        return try await transaction {
            try LocalChanges(queue: $0, table: table)
                .update(row, handedOut: before, normalized: normalized)
        }
    }

    /// Stores a change that was made to `stored`, unless the row has changed since; nil then.
    func replace(_ stored: Row, with row: Row, in table: String) async throws -> Row? {
        try await transaction { queue in
            guard try queue.store.row(id: .string(stored.id), in: table) == stored else {
                return nil
            }
            return try LocalChanges(queue: queue, table: table).change(stored, to: row)
        }
    }

    func delete(_ id: String, version: String? = nil, in table: String) async throws {
        try await transaction {
            try LocalChanges(queue: $0, table: table).delete(id, version: version)
        }
    }

    /// Removes local rows; see ``SyncTable/purge(force:)``.
    func purge(_ filter: Filter?, force: Bool, in table: String) async throws {
        let filter = filter?.bound(now: environment.now())
        try await inTurn(.purge, "purge") {
            try await transaction { queue in
                let reader = queue.reader
                if !force, try reader.count(table: table) > 0 {
                    throw SyncError.pendingOperations(table: table)
                }
                let ids = try queue.store.rows(TableQuery(filter: filter), in: table).map(\.id)
                let purged = Set(ids.map(ItemKey.init))
                if force {
                    for operation in try reader.operations() where operation.table == table {
                        guard filter == nil || purged.contains(ItemKey(operation.itemID)) else {
                            continue
                        }
                        try queue.remove(operation)
                        try queue.removeBasis(table, operation.itemID)
                    }
                }
                try queue.store.delete(ids: ids.map(Value.string), in: table)
                // The purged rows are older than the cursors: without this they would stay away.
                try queue.resetCursors(table)
            }
        }
        handedOut.forget(table)
    }
}

// MARK: - Errors

extension SyncEngine {
    func operationErrors() async throws -> [TableOperationError] {
        let catalog = catalog
        let stored = try await read { reader in
            var query = TableQuery()
            query.order = [SortKey(column: "operationId")]
            return try reader.store.rows(query, in: SystemTables.errors).compactMap { row in
                try StoredError(row: row, catalog: catalog).map { error in
                    (error, try reader.basis(error.table, error.itemID)?.lastKnown)
                }
            }
        }
        return stored.map { TableOperationError($0, known: $1, engine: self) }
    }

    func discard(_ error: TableOperationError) async throws {
        try await settle(error) { queue, operation in
            let basis = try queue.reader.basis(operation.table, operation.itemID)
            try queue.remove(operation)
            try queue.removeBasis(operation.table, operation.itemID)
            switch basis?.lastKnown {
            case .row(let row):
                try queue.store.put([JSONRowReader.withoutDeleted(row)], in: operation.table)
            default:
                try queue.store.delete(ids: [.string(operation.itemID)], in: operation.table)
            }
        }
    }

    func cancel(_ error: TableOperationError, _ item: Row) async throws {
        try await settle(error) { queue, operation in
            let basis = try queue.reader.basis(operation.table, operation.itemID)
            try queue.remove(operation)
            try queue.removeBasis(operation.table, operation.itemID)
            let row = Self.item(item, operation, known: basis?.lastKnown?.row)
            try queue.store.put([row], in: operation.table)
        }
    }

    func retry(_ error: TableOperationError, _ item: Row) async throws {
        try await settle(error) { queue, operation in
            let basis = try queue.reader.basis(operation.table, operation.itemID) ?? RowBasis()
            var again = operation
            if let latest = basis.latest {
                again = ConflictRules.onTop(operation, latest)
                again.conflicts = 0
            } else {
                again.thaw()
            }
            try queue.put(again)
            try queue.removeErrors(of: operation.id)
            guard operation.kind != .delete else { return }
            let row = Self.item(item, operation, known: basis.lastKnown?.row)
            try queue.store.put([row], in: operation.table)
        }
    }

    /// The app's item as a local row: with the operation's id and the server's system columns.
    private static func item(_ item: Row, _ operation: QueuedOperation, known: Row?) -> Row {
        var row = known.map(JSONRowReader.withoutDeleted) ?? Row()
        for (name, value) in RowMerge.payload(item) { row[name] = value }
        row["id"] = .string(operation.itemID)
        return row
    }

    private func settle(
        _ error: TableOperationError,
        _ body: @escaping @Sendable (QueueTransaction, QueuedOperation) throws -> Void
    ) async throws {
        let (id, operationID) = (error.id, error.operationID)
        try await transaction { queue in
            guard try queue.store.row(id: .string(id), in: SystemTables.errors) != nil,
                let operation = try queue.reader.operation(operationID),
                operation.state == .parked
            else { throw SyncError.errorSettled() }
            try body(queue, operation)
        }
    }
}

extension TableOperationError {
    init(_ stored: StoredError, known: ServerState?, engine: SyncEngine) {
        id = stored.id
        table = stored.table
        itemID = stored.itemID
        kind = stored.kind
        statusCode = stored.statusCode
        item = stored.item
        serverItem = stored.serverItem
        message = stored.message
        operationID = stored.operationID
        switch known {
        case .row(let row): serverCopy = .row(JSONRowReader.withoutDeleted(row))
        case .deleted: serverCopy = .deleted
        case nil: serverCopy = .neverSeen
        }
        self.engine = engine
    }
}

/// The rows that were last handed out without a version.
///
/// Without it a record read before a pull would write its old values over newer ones. All are
/// forgotten above the limit; then every column of the record counts as changed.
final class HandedOutRows: Sendable {
    private struct State {
        var rows: [ItemKey: Row] = [:]
    }

    private let state = Mutex<[String: State]>([:])
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    subscript(table: String, id: String) -> Row? {
        state.withLock { $0[table]?.rows[ItemKey(id)] }
    }

    func remember(_ rows: [Row], _ table: String) {
        state.withLock { tables in
            var own = tables[table] ?? State()
            tables[table] = nil
            if own.rows.count + rows.count > limit { own.rows.removeAll(keepingCapacity: true) }
            for row in rows.suffix(limit) { own.rows[ItemKey(row.id)] = row }
            tables[table] = own
        }
    }

    func forget(_ table: String) {
        state.withLock { $0[table] = nil }
    }
}
