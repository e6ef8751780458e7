// SyncEngine: the opened client, with the state that its runners share, and access to its store.
//
// State machines contain the logic; for each of them, a runner performs its effects.

import Foundation
import Synchronization
import TidelineCore

/// The state that the runners of a client share, and the transactions of its store.
final class SyncEngine: Sendable {
    let store: any LocalStore
    let catalog: TableCatalog
    let policies: [String: ConflictPolicy]
    let defaultPolicy: ConflictPolicy
    let lostRowPolicy: LostRowPolicy
    /// The service, or the reason why the endpoint may not be used; the error is thrown when something is to be
    /// sent.
    let remote: Result<RemoteService, any Error>
    let calls: OutsideCalls
    /// The tokens of the account that is signed in; nil if the app has no authentication.
    let tokens: TokenKeeper?
    let environment: SyncEnvironment
    let limits: SyncLimits
    let events: SyncEvents
    let gate: SyncGate
    let projected: ProjectedRows
    /// When the last pulls of the tables ended; the times of pulls that stored rows are also saved in the
    /// store.
    let lastPulls = Mutex<[String: Date]>([:])
    let pushMemory = PushMemory()
    /// The last comparison of the app's tables with those of the server.
    let schemaFinding = SharedSchemaFinding()
    /// Notifies views that the account changed.
    let accountHub = ChangeHub<Set<String>>()

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
    /// `isRepeatable` is true if everything that it writes can be requested again after a loss of power.
    @concurrent
    func transaction<Result: Sendable>(
        isRepeatable: Bool = false,
        _ body: @escaping @Sendable (QueueTransaction) throws -> Result
    ) async throws -> Result {
        let (catalog, account, makeID) = (catalog, await account(), environment.makeID)
        let limits = limits
        let turn = ActiveTurn.current
        let local = catalog.localColumns
        let run: @Sendable (any LocalStoreWriter) throws -> Result = {
            try turn?.check()
            let local = local.isEmpty ? nil : LocalColumnWriter($0, local)
            let unmasked = UnmaskedWriter(
                local ?? $0,
                account: account,
                catalog: catalog,
                local: local
            )
            let queue = QueueTransaction(
                unmasked: unmasked,
                catalog: catalog,
                account: account,
                limits: limits,
                makeID: makeID
            )
            return try body(queue)
        }
        return try await wrapped {
            isRepeatable
                ? try await self.store.writeRepeatable(run) : try await self.store.write(run)
        }
    }

    /// Runs `body` on one snapshot of the store and the queue, never on the caller's actor.
    @concurrent
    func read<Result: Sendable>(
        _ body: @escaping @Sendable (QueueReader) throws -> Result
    ) async throws -> Result {
        let (catalog, account) = (catalog, await account())
        return try await wrapped {
            try await self.store.read {
                let rows = UnmaskedReader(inner: $0, catalog: catalog)
                return try body(QueueReader(store: rows, catalog: catalog, account: account))
            }
        }
    }

    /// Renames the operations, cursors and query numbers of tables whose names an earlier version of the app
    /// wrote in another letter case.
    ///
    /// If the store's names are case-sensitive, nothing is renamed, and the operations stay in the queue; see
    /// ``SyncContext/operationErrors()``. If the store fails, the next call of the app throws the error.
    func takeOverRenamedTables() async {
        let found = try? await read { try $0.renamedTables.exist() }
        guard found == true else { return }
        try? await transaction { try $0.renamedTables.takeOver() }
    }

    /// Returns the table with this name.
    func schema(_ name: String) throws -> TableSchema {
        guard let schema = catalog.schema(name) else {
            throw SyncError.unknownTable(name, known: Array(catalog.schemas.keys))
        }
        return schema
    }

    /// The tables of the app that are pulled and pushed, parents before children, and otherwise by name.
    var syncedTableNames: [String] { catalog.references.parentsFirst(catalog.syncedNames) }

    /// The tables of the app, parents before children, and otherwise by name.
    var tableNames: [String] { catalog.references.parentsFirst(catalog.schemas.keys.sorted()) }

    /// Returns whether an operation that can be sent is in the queue.
    func hasSendable() async throws -> Bool { try await read { try $0.hasSendable() } }

    /// Returns the account that is signed in.
    ///
    /// During a push or pull, it is the one that was signed in at the start.
    func account() async -> AccountView { await tokens?.view() ?? .unused }

    /// Runs a push or pull for the account that is signed in now, until it ends.
    ///
    /// It sends nothing with another account's token, and stores nothing for another account.
    func pinned<Result>(_ body: () async throws -> Result) async throws -> Result {
        guard let tokens else { return try await body() }
        return try await tokens.pinned(body)
    }

    /// Runs requests that change nothing on the device, for the account that is signed in now.
    ///
    /// - Throws: ``SyncError`` with code `offline`, `suspended`, or `cancelled` with the description `what`, and the
    ///   errors of `body`.
    func asking<Result>(
        _ what: String,
        _ body: () async throws -> Result
    ) async throws -> Result {
        do {
            try calls.check()
            return try await pinned(body)
        } catch let error as TransportError {
            throw SyncError.offline(error)
        } catch let error as CancellationError {
            throw SyncError.cancelled(what, error)
        }
    }

    /// Runs `body` in turn with the other pushes, pulls and purges.
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
                return try await ExclusiveTurn(engine: self).run(body)
            }
        } catch let error as CancellationError {
            throw SyncError.cancelled(what, error)
        }
    }

    /// Converts errors of the store to ``SyncError``; other errors are rethrown.
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

    // MARK: - Parts

    var localEdits: LocalEdits { LocalEdits(engine: self) }
    var transactions: TransactionRunner { TransactionRunner(engine: self) }
    var operationErrors: OperationErrors { OperationErrors(engine: self) }
    var parkedOperations: ParkedOperations { ParkedOperations(engine: self) }
    var pushRunner: PushRunner { PushRunner(engine: self) }
    var pullRunner: PullRunner { PullRunner(engine: self) }
    var purgeRunner: PurgeRunner { PurgeRunner(engine: self) }
    var verifyRunner: VerifyRunner { VerifyRunner(engine: self) }
    var lostRows: LostRows { LostRows(engine: self) }
    var accountChanges: AccountChanges { AccountChanges(engine: self) }
    var serverFacts: ServerFacts { ServerFacts(engine: self) }
    var schemaCheck: SchemaCheck { SchemaCheck(engine: self) }
    var serverWait: ServerWait { ServerWait(engine: self) }
}
