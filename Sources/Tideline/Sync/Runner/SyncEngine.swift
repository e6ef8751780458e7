// SyncEngine: the client after its store is open. It runs the machines: they make every decision, and
// every effect is here and in the extensions in the folders of push, pull and the others.

import Foundation
import Synchronization
import TidelineCore

final class SyncEngine: Sendable {
    let store: any LocalStore
    let catalog: TableCatalog
    let policies: [String: ConflictPolicy]
    let defaultPolicy: ConflictPolicy
    let lostRowPolicy: LostRowPolicy
    /// The service, or why the endpoint may not be used; the error is thrown only when something is to be sent.
    let remote: Result<RemoteService, any Error>
    let calls: OutsideCalls
    /// The tokens of the account that is signed in; nil if the app has no authentication.
    let tokens: TokenKeeper?
    let environment: SyncEnvironment
    let limits: SyncLimits
    let events: SyncEvents
    let gate: SyncGate
    let projected: ProjectedRows
    /// When the last pulls of the tables ended; the times of pulls that brought rows are stored too.
    let lastPulls = Mutex<[String: Date]>([:])
    /// The batch sizes that the last push found to work.
    let budget = Mutex<PushBudget?>(nil)
    /// Operations that the server failed to process in the last push, until it processes another request.
    let failing = Mutex<[(operation: QueuedOperation, answer: PushAnswer)]>([])
    /// Notifies views that the account changed.
    let accountHub = ChangeHub<Set<String>>()
    /// Operations that something between client and server rejected in the last push; this affects only
    /// their order.
    let refusedInBetween = Mutex<[QueuedOperation]>([])

    init(
        store: any LocalStore,
        catalog: TableCatalog,
        conflicts: ConflictPolicy,
        tableConflicts: [String: ConflictPolicy],
        lostRows: LostRowPolicy,
        remote: Result<RemoteService, any Error>,
        calls: OutsideCalls,
        tokens: TokenKeeper?,
        environment: SyncEnvironment,
        limits: SyncLimits,
        events: SyncEvents,
        gate: SyncGate,
        projected: ProjectedRows
    ) {
        self.projected = projected
        self.store = store
        self.catalog = catalog
        policies = tableConflicts
        defaultPolicy = conflicts
        lostRowPolicy = lostRows
        self.remote = remote
        self.calls = calls
        self.tokens = tokens
        self.environment = environment
        self.limits = limits
        self.events = events
        self.gate = gate
    }

    func policy(_ table: String) -> ConflictPolicy { policies[table] ?? defaultPolicy }

    /// Runs `body` in one transaction with the queue, never on the caller's actor.
    ///
    /// `isRepeatable`: whether everything that it writes can be requested again if a power failure undoes it.
    @concurrent
    func transaction<Result: Sendable>(
        isRepeatable: Bool = false,
        _ body: @escaping @Sendable (QueueTransaction) throws -> Result
    ) async throws -> Result {
        let (catalog, account, makeID) = (catalog, await account(), environment.makeID)
        let turn = HeldTurn.current
        let run: @Sendable (any LocalStoreWriter) throws -> Result = {
            try turn?.check()
            let held = HeldRows($0, account: account)
            let queue = QueueTransaction(
                held: held,
                catalog: catalog,
                account: account,
                makeID: makeID
            )
            return try body(queue)
        }
        return try await wrapped {
            isRepeatable
                ? try await self.store.writeRepeatable(run) : try await self.store.write(run)
        }
    }

    /// Reads store and queue in one state, never on the caller's actor.
    @concurrent
    func read<Result: Sendable>(
        _ body: @escaping @Sendable (QueueReader) throws -> Result
    ) async throws -> Result {
        let (catalog, account) = (catalog, await account())
        return try await wrapped {
            try await self.store.read {
                let rows = HeldRowsReader(inner: $0)
                return try body(QueueReader(store: rows, catalog: catalog, account: account))
            }
        }
    }

    /// Renames the operations, cursors and query numbers of tables whose names an earlier version of the
    /// app wrote in another letter case.
    ///
    /// If the store tells two names apart by their letter case, nothing is renamed, and the operations wait; see
    /// ``SyncContext/operationErrors()``. If the store fails, the next call of the app throws the error.
    func takeOverRenamedTables() async {
        let found = try? await read { reader in
            try !reader.idsOfUnnamedTables().isEmpty || !reader.renamedRecords().isEmpty
        }
        guard found == true else { return }
        try? await transaction { queue in
            try queue.takeOverRenamedRecords()
            for id in try queue.reader.idsOfUnnamedTables() {
                guard var operation = try queue.reader.operation(id), operation.damage == nil,
                    let table = queue.catalog.schema(operation.table)?.name
                else { continue }
                let row = try queue.store.row(id: .string(operation.itemID), in: table)
                guard row != nil || operation.kind == .delete else { continue }
                operation.table = table
                try queue.put(operation)
            }
        }
    }

    /// Runs `body` when its turn comes among pushes, pulls and purges.
    ///
    /// - Throws: ``SyncError`` with code `cancelled` when the task is cancelled.
    func inTurn<Result>(
        _ job: SyncTurns.Job,
        _ what: String,
        _ body: () async throws -> Result
    ) async throws -> Result {
        do {
            return try await gate.withTurn(job) {
                try calls.check()
                return try await aloneOnStore(body)
            }
        } catch let error as CancellationError {
            throw SyncError.cancelled(what, error)
        }
    }

    /// Converts errors of the store to ``SyncError``; other errors stay as they are.
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
    /// Inserts a row; `declared` are the columns of a row without a model.
    func insert(
        _ row: Row,
        in table: String,
        declared: TableSchema? = nil
    ) async throws -> Row {
        let row = try NewRow(row, table: table, declared: declared, environment)
        return try await transaction { try LocalChanges(queue: $0, table: table).insert(row) }
    }

    func insert(
        _ rows: [Row],
        in table: String,
        declared: TableSchema? = nil
    ) async throws -> [Row] {
        guard !rows.isEmpty else { return [] }
        return try await TransactionWatch.during("insert", telling: events) { watch in
            let rows = try rows.map { row in
                try watch.check()
                return try NewRow(row, table: table, declared: declared, environment)
            }
            return try await transaction { queue in
                try watch.begin()
                var queue = queue
                queue.watch = watch
                let new = try LocalChanges(queue: queue, table: table).insert(rows)
                try watch.check()
                return new
            }
        }
    }

    /// Updates a row; `normalized` returns a stored row as its record type encodes it, or nil if it does not decode.
    func update(
        _ row: Row,
        in table: String,
        identity: RecordIdentity,
        declared: TableSchema? = nil,
        projection: Projection? = nil,
        normalized: @escaping @Sendable (Row) -> Row?
    ) async throws -> Row {
        try await transaction {
            try LocalChanges(queue: $0, table: table, declared: declared).update(
                row,
                identity: identity,
                projection: projection,
                normalized: normalized
            )
        }
    }

    /// Stores a change that was made to `stored`; returns nil if the row has changed since.
    func replace(
        _ stored: Row,
        with row: Row,
        in table: String,
        declared: TableSchema? = nil
    ) async throws -> Row? {
        try await transaction { queue in
            guard try queue.store.row(id: .string(stored.id), in: table) == stored else {
                return nil
            }
            return try LocalChanges(queue: queue, table: table, declared: declared)
                .change(stored, to: row)
        }
    }

    func delete(_ id: String, in table: String) async throws {
        try await transaction { try LocalChanges(queue: $0, table: table).delete(id) }
    }

    /// Deletes the row of a record; the record may have an older state of the row.
    func delete(_ record: Row, in table: String, identity: RecordIdentity) async throws {
        try await transaction {
            try LocalChanges(queue: $0, table: table).delete(record, identity: identity)
        }
    }
}
