// SyncContext: the store of a client, its operation queue, and push.

import Synchronization
public import TidelineCore

/// The store of a client and its operation queue.
///
/// Pushes that overlap share one run, pulls of different tables run concurrently, and a purge waits
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
    /// The gate that all tables of the context share, even if `initialize` is called more than once.
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

    /// Opens the store and creates its tables.
    ///
    /// Call this once, before you ask for a sync table.
    ///
    /// The queue keeps the operations of earlier runs of the app.
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
    ///   - store: The store for the rows and the queue; see ``SQLiteStore``.
    ///   - tables: The record types to synchronize.
    ///   - schemas: The schemas of tables without a record type, and declared columns and defaults
    ///     for tables with a record type.
    ///   - conflicts: The policy that resolves conflicts.
    ///   - tableConflicts: The policies of individual tables, by table name.
    ///   - lostRows: The policy for rows that a restored server has lost.
    /// - Throws: ``SyncError`` with code `invalidModel` if the columns of a type cannot be found or a merge rule names
    ///   a column that its table does not have, `unknownTable` if `tableConflicts` names an undeclared table,
    ///   `defaultRequired` if a property without a known default was added to a table with rows, `newerStore` or
    ///   `storeFailure` if the store cannot be opened, and `cancelled` if the task is cancelled while rows are moved to
    ///   the columns of a changed model. In that case nothing is changed, and another call restarts the move.
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
        let localTables = Set(own.filter(\.isLocalOnly).map { $0.name.lowercased() })
        for schema in own {
            if SystemTables.owns(schema.name) { throw SyncError.reservedTable(schema.name) }
            if let fault = SystemTables.nameFault(schema.name) {
                throw SyncError.tableName(schema.name, fault)
            }
            if let fault = schema.columnFault {
                throw SyncError.columns(of: schema.name, fault)
            }
            if let fault = schema.referenceFault(localTables: localTables) {
                throw SyncError.references(of: schema.name, fault)
            }
        }
        store.checkListeners?.add(broadcast)
        do {
            try await store.open(tables: own.map(\.withMembershipMask) + SystemTables.schemas)
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
        try await engine.takeOverLocalNames()
        await engine.serverFacts.recall()
        await engine.schemaCheck.recall()
        opened.withLock { $0 = engine }
        // A suspension that began before this call could not suspend the store.
        if calls.isSuspended {
            await store.suspend()
            if !calls.isSuspended { store.resume() }
        }
    }

    /// Whether ``initialize(store:tables:schemas:conflicts:tableConflicts:lostRows:)`` has succeeded.
    public var isInitialized: Bool { opened.withLock { $0 != nil } }

    /// Sends the pending operations of all tables, in queue order.
    ///
    /// An accepted operation is removed from the queue in the same transaction that stores the server's answer. A
    /// rejected operation is parked, and the push continues with the operations of other rows.
    ///
    /// ```swift
    /// do {
    ///     try await client.syncContext.push()
    /// } catch let error as PushError where error.status == .operationErrors {
    ///     for conflict in error.errors { try await conflict.cancelOperationAndDiscardItem() }
    /// }
    /// ```
    ///
    /// - Throws: ``PushError`` if an operation could not be sent or was rejected; ``SyncError`` with code
    ///   `storeNotInitialized`, or `insecureEndpoint` if operations are pending and the client may not use
    ///   the endpoint.
    @discardableResult
    public func push() async throws -> PushResult { try await engine().pushRunner.push() }

    /// The number of queued operations of the signed-in account, including parked operations.
    ///
    /// Without a signed-in account, and in an app without accounts, these are the operations that belong to no account.
    /// ``pendingOperationCounts`` also includes the operations of other accounts.
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized` or `storeFailure`.
    public var pendingOperationCount: Int {
        get async throws { try await pendingOperationCounts.own }
    }

    /// The numbers of queued operations, by account.
    ///
    /// ```swift
    /// let counts = try await client.syncContext.pendingOperationCounts
    /// if counts.otherAccounts > 0 { print("Changes of another account wait for its next sign-in.") }
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized` or `storeFailure`.
    public var pendingOperationCounts: PendingCounts {
        get async throws { try await engine().read { try PendingCounts($0) } }
    }

    /// Returns the operations in the queue, in order.
    ///
    /// The result includes parked operations and the operations of all accounts.
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

    /// Returns the operations that wait for the app: the server rejected them, or they cannot be sent.
    ///
    /// These errors are stored durably, and include operations of tables that the app does not declare.
    ///
    /// ```swift
    /// for error in try await client.syncContext.operationErrors() {
    ///     print(error.message)
    ///     try await error.cancelOperationAndDiscardItem()
    /// }
    /// ```
    ///
    /// - Returns: The errors, in the order of the queue, without errors of other accounts.
    /// - Throws: ``SyncError`` with code `storeNotInitialized` or `storeFailure`.
    public func operationErrors() async throws -> [TableOperationError] {
        try await engine().operationErrors.all()
    }

    /// Releases parked operations, so that the next push retries them unchanged.
    ///
    /// ```swift
    /// let count = try await client.syncContext.retryParked { $0.table == "TodoItem" }
    /// ```
    ///
    /// - Parameter condition: Returns whether to retry an error's operation; by default, all are retried.
    /// - Returns: The number of operations that were released.
    /// - Throws: The errors of the condition, and ``SyncError`` with code `storeNotInitialized` or
    ///   `storeFailure`. On an error, nothing is changed.
    @discardableResult
    public func retryParked(
        where condition: (TableOperationError) throws -> Bool = { _ in true }
    ) async throws -> Int {
        let engine = try engine()
        let errors = try await engine.operationErrors.all().filter { try condition($0) }
        return try await engine.operationErrors.retry(errors)
    }

    /// Assigns the changes made without a signed-in account to the account that is signed in now.
    ///
    /// Without this call, such operations stay in the queue, and are sent only by an app without accounts.
    ///
    /// ```swift
    /// try await signIn()
    /// try await client.syncContext.adopt(anonymousWork: true)
    /// try await client.syncContext.push()
    /// ```
    ///
    /// - Parameter anonymousWork: Whether to keep these changes. If false, they are discarded, and the rows
    ///   return to the server's last known state.
    /// - Returns: The number of operations that were assigned or discarded.
    /// - Throws: ``SyncError`` with code `unauthorized` if no account is signed in.
    @discardableResult
    public func adopt(anonymousWork: Bool = true) async throws -> Int {
        try await engine().accountChanges.adopt(anonymousWork)
    }

    /// Removes an account's data from the device, whether the account is signed in or not.
    ///
    /// This removes the account's operations, the cursors of its pulls, and every row that is in no other account's
    /// query and that no other account has changed. If a row belonged to an account that pulls without query ids, that
    /// account's next pull fetches it again. ``SQLiteStore`` overwrites the removed data and truncates its write-ahead
    /// log unless another connection uses the log.
    ///
    /// ```swift
    /// try await client.syncContext.purge(account: "anna", force: true)
    /// ```
    ///
    /// - Parameters:
    ///   - account: An ``Authentication/accountID``.
    ///   - force: Whether to discard the account's pending operations. If false, they are an error.
    /// - Throws: ``SyncError`` with code `pendingOperations`, or `cancelled` if the task is cancelled
    ///   before everything is removed. On an error, nothing is removed.
    public func purge(account: String, force: Bool = false) async throws {
        try await engine().purgeRunner.purge(account: account, force: force)
    }

    /// Explains why a row has its current state on this device, is missing, is outdated, or was not sent.
    ///
    /// Sends nothing to the server and changes nothing.
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
        return try await RowExplanation(id, in: schema.name, engine)
    }

    /// Reads several tables from one committed state.
    ///
    /// The closure runs off the caller's actor, on its own connection, while other tasks write. All of its reads see
    /// the same committed state, even if transactions are committed in the meantime. Keep the closure short, because
    /// the store keeps that state until the closure returns.
    ///
    /// ```swift
    /// let (list, items) = try await client.syncContext.read { reader in
    ///     (
    ///         try reader.table(TodoList.self).read(id: id),
    ///         try reader.table(TodoItem.self).read(where: { $0.list == id })
    ///     )
    /// }
    /// ```
    ///
    /// - Returns: The result of the closure.
    /// - Throws: The errors of the closure, and ``SyncError`` with code `storeNotInitialized`, `storeFailure`,
    ///   or `cancelled` if the task is cancelled before the last read.
    @concurrent
    public nonisolated func read<Result: Sendable>(
        _ body: @escaping @Sendable (SyncReader) throws -> Result
    ) async throws -> Result {
        try await ReadRunner(engine: engine()).run(body).result
    }

    /// Emits the result of a closure that reads several tables, now and after every change to the data that it read.
    ///
    /// The closure runs as in ``read(_:)``, so that its result never shows half of a transaction. The closure runs
    /// again after each commit that may change the result. Such a commit changes a row that the closure read by id, a
    /// row that one of its queries returned or now matches, or any row of a table that it read with a sum or SQL. The
    /// closure must depend only on the reader. A closure that reads nothing runs once.
    ///
    /// ```swift
    /// for try await overview in client.syncContext.observe({ try Overview($0, list: id) }) {
    ///     show(overview)
    /// }
    /// ```
    ///
    /// A sequence may be iterated any number of times. Each iteration begins with the current result, and ends when its
    /// task is cancelled. No change is missed. While changes keep coming, the closure runs once every
    /// ``SyncLimits/observeInterval``, and a listener that does not keep up gets only the newest result. While the
    /// store cannot be read, the observation waits. If the closure throws, the iteration ends with its error.
    ///
    /// An `Equatable` result is not emitted if it equals the previous result.
    ///
    /// - Parameter body: The closure that reads.
    /// - Returns: The results, as an asynchronous sequence.
    public nonisolated func observe<Value: Sendable>(
        _ body: @escaping @Sendable (SyncReader) throws -> Value
    ) -> some AsyncSequence<Value, any Error> & Sendable {
        observed(isSame: nil, body)
    }

    /// Emits the result of a closure that reads several tables, now and whenever the result changes.
    ///
    /// See the overload for results that are not `Equatable`.
    public nonisolated func observe<Value: Sendable & Equatable>(
        _ body: @escaping @Sendable (SyncReader) throws -> Value
    ) -> some AsyncSequence<Value, any Error> & Sendable {
        observed(isSame: { $0 == $1 }, body)
    }

    nonisolated func observed<Value: Sendable>(
        isSame: (@Sendable (Value, Value) -> Bool)?,
        _ body: @escaping @Sendable (SyncReader) throws -> Value
    ) -> ObservedValues<Value> {
        ObservedValues(deferred: { [self] in
            let engine = try engine()
            return QueryObservation(engine: engine).observe {
                ObservedReads(engine, isSame: isSame, body)
            }
        })
    }

    /// The events of pushes, pulls, verifications, purges, checks and long changes, from now on.
    ///
    /// Each access creates a separate listener.
    ///
    /// A listener that does not keep up loses the oldest events.
    ///
    /// ```swift
    /// for await event in client.syncContext.events { print(event) }
    /// ```
    public nonisolated var events: some AsyncSequence<SyncEvent, Never> & Sendable {
        broadcast.stream()
    }

    nonisolated func engine() throws -> SyncEngine {
        guard let engine = opened.withLock({ $0 }) else { throw SyncError.storeNotInitialized() }
        return engine
    }

    nonisolated func schema(_ table: String) -> TableSchema? {
        opened.withLock { $0 }?.catalog.schema(table)
    }
}

extension SyncContext {
    /// Returns the records of a query with their related records, all from one committed state.
    ///
    /// ```swift
    /// let customers = try Query<Customer>().including(Query<Job>())
    /// for entry in try await client.syncContext.read(customers) { show((entry.record, entry.related)) }
    /// ```
    ///
    /// - Parameters:
    ///   - query: A ``Query`` or a ``RelatedQuery``, as for ``SyncReader/read(_:onDecodingFailure:)``.
    ///   - onDecodingFailure: Whether a row that does not decode, in any of the tables, is an error or is skipped.
    /// - Returns: The records, or values of type ``WithRelated``.
    /// - Throws: The errors of ``SyncReader/read(_:onDecodingFailure:)``, or ``SyncError`` with code
    ///   `storeNotInitialized`, `storeFailure` or `cancelled`.
    public nonisolated func read<Related: IncludableQuery>(
        _ query: Related,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) async throws -> [Related.Entry] {
        try await read { try $0.read(query, onDecodingFailure: onDecodingFailure) }
    }

    /// Emits the records of a query with their related records, now and after every change to them.
    ///
    /// Each value shows one committed state. The guarantees and errors are the same as for `observe(_:)` with a
    /// closure. However, if the store knows which records a commit changed and the query permits it, only the changed
    /// records and their related records are read again; <doc:ViewsOverSeveralTables> lists the exceptions.
    ///
    /// - Parameters:
    ///   - query: A ``Query`` or a ``RelatedQuery``.
    ///   - onDecodingFailure: Whether a row that does not decode, in any of the tables, ends the iteration or
    ///     is skipped.
    /// - Returns: The results, as an asynchronous sequence.
    public nonisolated func observe<Related: IncludableQuery>(
        _ query: Related,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) -> some AsyncSequence<[Related.Entry], any Error> & Sendable {
        observed(query.included, onDecodingFailure, isSame: nil)
    }

    /// Emits the records of a query with their related records, now and whenever they change.
    ///
    /// See the overload for records that are not `Equatable`.
    public nonisolated func observe<Related: IncludableQuery>(
        _ query: Related,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) -> some AsyncSequence<[Related.Entry], any Error> & Sendable where Related.Entry: Equatable {
        observed(query.included, onDecodingFailure, isSame: { $0 == $1 })
    }

    nonisolated func observed<Record: SyncRecord, Entry: Sendable>(
        _ query: IncludedQuery<Record, Entry>,
        _ onDecodingFailure: DecodingFailurePolicy,
        isSame: (@Sendable ([Entry], [Entry]) -> Bool)?
    ) -> ObservedValues<[Entry]> {
        ObservedValues(deferred: { [self] in
            let engine = try engine()
            return QueryObservation(engine: engine).observe {
                try ObservedRelated(engine, query, onDecodingFailure, isSame: isSame)
            }
        })
    }
}
