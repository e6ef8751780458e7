// SyncEngine: the open client. It has the state that the runners share, and access to the store.
//
// State machines contain the logic. A runner performs the effects of each machine.

import Foundation
import Synchronization
import TidelineCore

/// The shared state of a client's runners, and the transactions of its store.
final class SyncEngine: Sendable {
    let store: any LocalStore
    let catalog: TableCatalog
    let policies: [String: ConflictPolicy]
    let defaultPolicy: ConflictPolicy
    let lostRowPolicy: LostRowPolicy
    /// The service, or the error that says why the endpoint may not be used.
    ///
    /// The error is thrown by the first call that needs the server.
    let remote: Result<RemoteService, any Error>
    let calls: OutsideCalls
    /// The tokens of the account that is signed in; nil if the app has no authentication.
    let tokens: TokenKeeper?
    let environment: SyncEnvironment
    let limits: SyncLimits
    let events: SyncEvents
    let gate: SyncGate
    let projected: ProjectedRows
    /// The time at which the last pull of each table ended.
    ///
    /// If a pull stored rows, its time is also saved in the store.
    let lastPulls = Mutex<[String: Date]>([:])
    let pushMemory = PushMemory()
    /// The last comparison of the app's tables with the server's tables.
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

    /// Runs `body` in one transaction that includes the queue, never on the caller's actor.
    ///
    /// Set `isRepeatable` if everything that `body` writes can be requested again after a power
    /// loss.
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

    /// Renames the operations, cursors and query numbers of tables whose names an earlier version
    /// of the app spelled with different letter case.
    ///
    /// If the store's names are case-sensitive, nothing is renamed, and the operations stay in the
    /// queue; see ``SyncContext/operationErrors()``. If the store fails, the app's next call throws
    /// the error.
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

    /// The tables that the app pulls and pushes, parents before children, and otherwise by name.
    var syncedTableNames: [String] { catalog.references.parentsFirst(catalog.syncedNames) }

    /// The tables of the app, parents before children, and otherwise by name.
    var tableNames: [String] { catalog.references.parentsFirst(catalog.schemas.keys.sorted()) }

    /// Returns whether the queue has an operation that can be sent.
    func hasSendable() async throws -> Bool { try await read { try $0.hasSendable() } }

    /// Returns the account that is signed in.
    ///
    /// During a push or pull, returns the account that was signed in when it started.
    func account() async -> AccountView { await tokens?.view() ?? .unused }

    /// Runs a push or pull from start to end for the account that is signed in now.
    ///
    /// The push or pull does not use another account's token, and stores nothing for another
    /// account.
    func pinned<Result>(_ body: () async throws -> Result) async throws -> Result {
        guard let tokens else { return try await body() }
        return try await tokens.pinned(body)
    }

    /// Runs requests that change nothing on the device, for the account that is signed in now.
    ///
    /// - Throws: The errors of `body`, or ``SyncError`` with code `offline`, `suspended`, or
    ///   `cancelled`. The message of `cancelled` contains `what`.
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

    /// Waits for its turn among the other pushes, pulls and purges, and then runs `body`.
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
