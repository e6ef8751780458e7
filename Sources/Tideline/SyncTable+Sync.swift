// SyncTable+Sync: pull, verification and purge of a table.

public import Foundation
import Synchronization
import TidelineCore

extension SyncTable {
    /// Pushes all pending operations and pulls the server's changes to the records of a query, as for pull-to-refresh.
    ///
    /// When the method returns, every change made on the device before the call is on the server,
    /// and every change that was on the server is on the device.
    ///
    /// ```swift
    /// try await todos.sync(queryID: "openItems", where: { !$0.complete })
    /// ```
    ///
    /// - Throws: ``PushError`` if an operation could not be sent or is parked. If its status is
    ///   `operationErrors`, the server's changes have been pulled; with any other status, nothing was pulled.
    ///   Otherwise, the errors of ``pull(queryID:_:)``.
    @discardableResult
    @concurrent
    public func sync(
        queryID: String?,
        _ query: Query<Record> = Query()
    ) async throws -> PullResult {
        var behind: PushError?
        do {
            _ = try await engine.pushRunner.push()
        } catch let error as PushError where error.status == .operationErrors {
            behind = error
        }
        let result = try await pull(queryID: queryID, query)
        if let behind { throw behind }
        return result
    }

    /// Pulls the server's changes to the records of a query; without a query, to all records.
    ///
    /// Pushes first: if the push fails for any reason other than parked operations, the pull ends with
    /// its ``PushError``. With a query id, only rows that changed since the last pull of that id are sent;
    /// with nil, all rows are sent every time. Rows with pending operations keep their local values. A page
    /// and its cursor are stored in one transaction, so an interrupted pull resumes where it stopped.
    ///
    /// ```swift
    /// try await todos.pull(queryID: "openItems", where: { !$0.complete })
    /// ```
    ///
    /// - Parameters:
    ///   - queryID: 1 to 50 letters, digits, `-` or `_`, or nil. A different filter under the same id restarts the pull
    ///     from the beginning.
    ///   - query: The condition of the records; if the query id is nil, also an order, a limit and an offset.
    /// - Returns: The number of rows stored and removed, and the number of requests.
    /// - Throws: ``PushError``, or ``SyncError`` with code `offline`, `unauthorized`, `forbidden`, `tooManyRequests`,
    ///   `serverError`, `badResponse`, `insecureEndpoint`, `cancelled`, `invalidQueryID`, or `unsupportedQuery` for a
    ///   query that selects fields, that has an order, a limit or an offset under a query id, or that cannot be written
    ///   as OData. Pages stored before the error are kept.
    @discardableResult
    @concurrent
    public func pull(
        queryID: String?,
        _ query: Query<Record> = Query()
    ) async throws -> PullResult {
        try await engine.pullRunner.pull(query.table, queryID: queryID, in: name)
    }

    /// The time when the last pull of this table ended, by this device's wall clock; nil before the first.
    ///
    /// After a restart of the app, this is the time of the last pull that received rows.
    public var lastPull: Date? {
        get async throws {
            if let last = engine.lastPulls.withLock({ $0[name] }) { return last }
            let table = name
            return try await engine.read { try $0.pullState.lastPull(table) }
        }
    }

    /// Compares the local records of a pull query with the server's records, in a few small requests.
    ///
    /// If the result has no differences, the device and the server have the same rows in the same versions.
    /// Changes since the last pull count as differences. Rows with pending operations are compared with the
    /// last state that the server sent. If another program changed a value in the file of a ``SQLiteStore``,
    /// the row counts as different even if its version is unchanged.
    ///
    /// ```swift
    /// let result = try await todos.verify(queryID: "openItems", repair: true)
    /// ```
    ///
    /// - Parameters:
    ///   - queryID: The id of a pull; nil compares the whole table.
    ///   - repair: Whether to fetch the rows that differ and remove the rows that the server no longer has.
    /// - Returns: The differences that were found, and how many of them were repaired.
    /// - Throws: The errors of ``pull(queryID:_:)``, or ``SyncError`` with code `invalidQueryID` for an id that was
    ///   never pulled.
    @discardableResult
    @concurrent
    public func verify(queryID: String?, repair: Bool = false) async throws -> VerifyResult {
        try await engine.pinned {
            try await engine.verifyRunner.verify(queryID: queryID, repair: repair, in: name)
        }
    }

    /// Removes the local records of a query; without a query, all records.
    ///
    /// The server keeps these records, and the next pull fetches them again.
    ///
    /// ```swift
    /// try await todos.purge(try Query(where: { $0.complete }))
    /// ```
    ///
    /// - Parameters:
    ///   - query: A query with only a condition.
    ///   - force: Whether to discard pending operations of these records. If false, they are an error.
    /// - Throws: ``SyncError`` with code `pendingOperations`, `cancelled`, or `unsupportedQuery` for a
    ///   query with an order, a limit, an offset or selected fields. On an error, nothing is removed.
    public func purge(_ query: Query<Record> = Query(), force: Bool = false) async throws {
        let table = query.table
        guard table.order.isEmpty, table.limit == nil, table.offset == 0, table.select == nil else {
            throw SyncError.unsupportedQuery(
                "a purge supports a condition only. Remove order, limit, offset and fields."
            )
        }
        try await engine.purgeRunner.purge(
            coder.applyingDefaults(table.filter?.bound(now: engine.environment.now())),
            force: force,
            in: name
        )
    }

    /// Pulls the server's changes to the records that match a closure.
    ///
    /// - Throws: ``PushError``, the errors of ``pull(queryID:_:)``, or ``SyncError`` with code `unsupportedQuery` for
    ///   an expression that columns cannot express. Errors of the closure are rethrown.
    @discardableResult
    public func pull(
        queryID: String?,
        where condition: (Columns<Record>) throws -> Condition
    ) async throws -> PullResult {
        try await pull(queryID: queryID, Query(where: condition))
    }

    /// Pushes all pending operations and pulls the server's changes to the records that match a closure.
    ///
    /// - Throws: The errors of ``sync(queryID:_:)``, or ``SyncError`` with code `unsupportedQuery` for an expression
    ///   that columns cannot express. Errors of the closure are rethrown.
    @discardableResult
    public func sync(
        queryID: String?,
        where condition: (Columns<Record>) throws -> Condition
    ) async throws -> PullResult {
        try await sync(queryID: queryID, Query(where: condition))
    }

    /// Removes the local records that match a closure.
    ///
    /// - Throws: ``SyncError`` with code `pendingOperations`, `cancelled`, or `unsupportedQuery` for an expression
    ///   that a query cannot contain, and the errors of the closure. On an error, nothing is removed.
    public func purge(
        where condition: (Columns<Record>) throws -> Condition,
        force: Bool = false
    ) async throws {
        try await purge(Query(where: condition), force: force)
    }
}

extension SyncTable where Record: SyncRecord {
    /// Pulls the server's changes to the records that match a predicate.
    ///
    /// - Throws: ``PushError``, the errors of ``pull(queryID:_:)``, or ``SyncError`` with code `unsupportedQuery` for
    ///   an expression that columns cannot express.
    @discardableResult
    public func pull(
        queryID: String?,
        where predicate: Predicate<Record>
    ) async throws -> PullResult {
        try await pull(queryID: queryID, Query(where: predicate))
    }

    /// Pushes all pending operations and pulls the server's changes to the records that match a predicate.
    ///
    /// - Throws: The errors of ``sync(queryID:_:)``, or ``SyncError`` with code `unsupportedQuery` for an expression
    ///   that columns cannot express.
    @discardableResult
    public func sync(
        queryID: String?,
        where predicate: Predicate<Record>
    ) async throws -> PullResult {
        try await sync(queryID: queryID, Query(where: predicate))
    }

    /// Removes the local records that match a predicate.
    ///
    /// - Throws: ``SyncError`` with code `pendingOperations`, `cancelled`, or `unsupportedQuery` for an expression
    ///   that a query cannot contain. On an error, nothing is removed.
    public func purge(where predicate: Predicate<Record>, force: Bool = false) async throws {
        try await purge(Query(where: predicate), force: force)
    }
}
