// SyncContext: the store of a client, its operation queue, and push.

import Synchronization
public import TidelineCore

/// The store of a client and its operation queue.
///
/// Pushes that overlap are one push; pulls of different tables run beside each other; a purge waits
/// for both. Local reads and changes never wait for the network.
public actor SyncContext {
    private let remote: @Sendable () throws -> RemoteService
    private let calls: OutsideCalls
    private let tokens: TokenKeeper?
    private let environment: SyncEnvironment
    private let limits: SyncLimits
    private nonisolated let opened = Mutex<SyncEngine?>(nil)
    private nonisolated let broadcast: SyncEvents
    private let projected: ProjectedRows
    /// Of the context, so that tables of an earlier `initialize` wait for those of a later one.
    private let gate: SyncGate

    init(
        remote: @escaping @Sendable () throws -> RemoteService,
        calls: OutsideCalls,
        tokens: TokenKeeper?,
        environment: SyncEnvironment,
        limits: SyncLimits,
        log: (any SyncLog)?,
        projected: ProjectedRows
    ) {
        self.projected = projected
        broadcast = SyncEvents(log: log)
        self.remote = remote
        self.calls = calls
        gate = SyncGate(pullsMax: limits.parallelPulls)
        self.tokens = tokens
        self.environment = environment
        self.limits = limits
    }

    /// Opens the store and makes its tables; to be called once, before any sync table is asked for.
    ///
    /// What an earlier run of the app left in the queue is there again.
    ///
    /// ```swift
    /// try await client.syncContext.initialize(
    ///     store: try SQLiteStore(path: "todo.sqlite"),
    ///     tables: [TodoItem.self, TodoList.self],
    ///     conflicts: .merge
    /// )
    /// ```
    ///
    /// - Parameters:
    ///   - store: Where rows and queue are kept; see ``SQLiteStore``.
    ///   - tables: The record types to synchronise.
    ///   - schemas: Tables without a type, and declared columns and defaults for tables with one.
    ///   - conflicts: Who wins a conflict.
    ///   - tableConflicts: Who wins in single tables, by table name.
    ///   - lostRows: Whether rows that a restored server lost wait for the app.
    /// - Throws: ``SyncError`` with code `invalidModel` for a type whose columns cannot be found and
    ///   for merge rules of columns that their table does not have, `defaultRequired` for a property that was
    ///   added to a table with rows and whose default is not known, `newerStore` or `storeFailure` for a
    ///   store that cannot be opened, `cancelled` when the task is cancelled while rows are brought into
    ///   the columns of other models; nothing is changed then, and another call begins anew.
    public func initialize(
        store: any LocalStore,
        tables: [any SyncRecord.Type],
        schemas: [TableSchema] = [],
        conflicts: ConflictPolicy = .fail,
        tableConflicts: [String: ConflictPolicy] = [:],
        lostRows: LostRowPolicy = .ask
    ) async throws {
        let catalog = try TableCatalog(
            declared: schemas,
            models: tables.map { try RecordSchema.of($0).table }
        ).with(models: tables)
        var policies: [String: ConflictPolicy] = [:]
        for (name, policy) in tableConflicts {
            guard let schema = catalog.schema(name) else {
                throw SyncError.unknownTable(name, known: Array(catalog.schemas.keys))
            }
            let unknown = policy.ruledColumns.filter { schema.column(named: $0) == nil }
            guard unknown.isEmpty || schema.columns.isEmpty else {
                throw SyncError.unknownMergeColumns(unknown, table: schema.name)
            }
            policies[schema.name] = policy
        }
        let ruled = conflicts.ruledColumns.filter { column in
            !catalog.schemas.values.contains {
                $0.columns.isEmpty || $0.column(named: column) != nil
            }
        }
        guard ruled.isEmpty || catalog.schemas.isEmpty else {
            throw SyncError.unknownMergeColumns(ruled)
        }
        let own = catalog.schemas.values.sorted {
            $0.name.utf8.lexicographicallyPrecedes($1.name.utf8)
        }
        for schema in own {
            if SystemTables.owns(schema.name) { throw SyncError.reservedTable(schema.name) }
            if let fault = SystemTables.nameFault(schema.name) {
                throw SyncError.tableName(schema.name, fault)
            }
            if let fault = schema.columnFault {
                throw SyncError.columns(of: schema.name, fault)
            }
        }
        (store as? any CheckTeller)?.checks.add(broadcast)
        do {
            try await store.open(tables: own.map(\.held) + SystemTables.schemas)
            try await RequiredDefaults(catalog, models: tables).check(store)
        } catch let error as SyncError {
            throw error
        } catch {
            throw SyncError.storeFailure(error)
        }
        let engine = SyncEngine(
            store: store,
            catalog: catalog,
            conflicts: conflicts,
            tableConflicts: policies,
            lostRows: lostRows,
            remote: Result { try remote() },
            calls: calls,
            tokens: tokens,
            environment: environment,
            limits: limits,
            events: broadcast,
            gate: gate,
            projected: projected
        )
        await engine.takeOverRenamedTables()
        await engine.recallServer()
        opened.withLock { $0 = engine }
        // A suspension that came before could not tell the store.
        if calls.isSuspended {
            await store.suspend()
            if !calls.isSuspended { store.resume() }
        }
    }

    /// Whether ``initialize(store:tables:schemas:conflicts:tableConflicts:lostRows:)`` has ended well.
    public var isInitialized: Bool { opened.withLock { $0 != nil } }

    /// Sends the pending operations of all tables, in their order.
    ///
    /// What the server accepts leaves the queue in the same transaction in which its answer enters
    /// the store. A rejected operation is parked and those of other rows go on.
    ///
    /// ```swift
    /// do {
    ///     try await client.syncContext.push()
    /// } catch let error as PushError where error.status == .operationErrors {
    ///     for conflict in error.errors { try await conflict.cancelOperationAndDiscardItem() }
    /// }
    /// ```
    ///
    /// - Throws: ``PushError`` when something stayed behind; ``SyncError`` with code
    ///   `storeNotInitialized`, or `insecureEndpoint` when there is something to send and the
    ///   endpoint may not be used.
    @discardableResult
    public func push() async throws -> PushResult { try await engine().push() }

    /// How many operations of the account that is signed in wait in the queue, the parked ones too.
    ///
    /// Without a signed-in account, and in an app without accounts, these are the operations that belong to
    /// no account. ``pendingOperationCounts`` has those of other accounts, too.
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized` or `storeFailure`.
    public var pendingOperationCount: Int {
        get async throws { try await pendingOperationCounts.own }
    }

    /// How many operations wait in the queue, by the account that they belong to.
    ///
    /// ```swift
    /// let counts = try await client.syncContext.pendingOperationCounts
    /// if counts.otherAccounts > 0 { print("Changes of another account wait for its next sign-in.") }
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized` or `storeFailure`.
    public var pendingOperationCounts: PendingCounts {
        get async throws { try await engine().read { try $0.pendingCounts() } }
    }

    /// The operations in the queue, in order.
    ///
    /// They are those of all accounts; the parked ones are among them.
    ///
    /// ```swift
    /// for operation in try await client.syncContext.pendingOperations() {
    ///     print(operation.kind, operation.table, operation.itemID)
    /// }
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized` or `storeFailure`.
    public func pendingOperations() async throws -> [PendingOperation] {
        try await engine().read { try $0.operations().map(\.pending) }
    }

    /// The operations that the server rejected, or that cannot be sent, and nobody has settled.
    ///
    /// They are durable. Operations of a table that the app does not name are among them.
    ///
    /// ```swift
    /// for error in try await client.syncContext.operationErrors() {
    ///     print(error.message)
    ///     try await error.cancelOperationAndDiscardItem()
    /// }
    /// ```
    ///
    /// - Returns: The errors, in the order of the queue; those of other accounts are left out.
    /// - Throws: ``SyncError`` with code `storeNotInitialized` or `storeFailure`.
    public func operationErrors() async throws -> [TableOperationError] {
        try await engine().operationErrors()
    }

    /// Sends parked operations again with the next push, unchanged.
    ///
    /// ```swift
    /// let count = try await client.syncContext.retryParked { $0.table == "TodoItem" }
    /// ```
    ///
    /// - Parameter condition: Which errors are retried; all if it is left out.
    /// - Returns: How many operations were released.
    /// - Throws: What the condition throws, and ``SyncError`` with code `storeNotInitialized` or
    ///   `storeFailure`; nothing is changed then.
    @discardableResult
    public func retryParked(
        where condition: (TableOperationError) throws -> Bool = { _ in true }
    ) async throws -> Int {
        let engine = try engine()
        let errors = try await engine.operationErrors().filter { try condition($0) }
        return try await engine.retry(errors)
    }

    /// Takes over what was done while nobody was signed in, for the account that is signed in now.
    ///
    /// Without this call such operations stay in the queue, and are sent for nobody.
    ///
    /// ```swift
    /// try await signIn()
    /// try await client.syncContext.adopt(anonymousWork: true)
    /// try await client.syncContext.push()
    /// ```
    ///
    /// - Parameter anonymousWork: False drops it: the rows become what the server is known to have.
    /// - Returns: How many operations there were.
    /// - Throws: ``SyncError`` with code `unauthorized` while nobody is signed in.
    @discardableResult
    public func adopt(anonymousWork: Bool = true) async throws -> Int {
        try await engine().adopt(anonymousWork)
    }

    /// Removes what is on the device for an account, whether it is signed in or not.
    ///
    /// The positions of its pulls go, its operations, and every row that no other account's query
    /// holds and that no other account has changed; what an account without pulls by query id has
    /// here comes again with its next pull. ``SQLiteStore`` overwrites what goes, and empties its log unless
    /// that is in use.
    ///
    /// ```swift
    /// try await client.syncContext.purge(account: "anna", force: true)
    /// ```
    ///
    /// - Parameters:
    ///   - account: An ``Authentication/accountID``.
    ///   - force: Drops its pending operations too. Without it they are an error.
    /// - Throws: ``SyncError`` with code `pendingOperations`, or `cancelled` when the task is cancelled
    ///   before all are gone; nothing is removed then.
    public func purge(account: String, force: Bool = false) async throws {
        try await engine().purge(account: account, force: force)
    }

    /// Why a row is on this device as it is, is missing, is old, or was not sent.
    ///
    /// It asks nothing of the server and changes nothing.
    ///
    /// ```swift
    /// print(try await client.syncContext.explain(table: "TodoItem", id: milk.id))
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized` or `unknownTable`.
    public func explain(table: String, id: String) async throws -> RowExplanation {
        let engine = try engine()
        guard let schema = engine.catalog.schema(table) else {
            throw SyncError.unknownTable(table, known: Array(engine.catalog.schemas.keys))
        }
        return try await engine.explain(id, in: schema.name)
    }

    /// Progress of push, pull, verification, purge, check and long changes, from now on; each use is a listener of
    /// its own.
    ///
    /// A listener that does not keep up loses the oldest events.
    ///
    /// ```swift
    /// for await event in client.syncContext.events { print(event) }
    /// ```
    public nonisolated var events: some AsyncSequence<SyncEvent, Never> { broadcast.stream() }

    nonisolated func engine() throws -> SyncEngine {
        guard let engine = opened.withLock({ $0 }) else { throw SyncError.storeNotInitialized() }
        return engine
    }

    nonisolated func schema(_ table: String) -> TableSchema? {
        opened.withLock { $0 }?.catalog.schema(table)
    }
}
