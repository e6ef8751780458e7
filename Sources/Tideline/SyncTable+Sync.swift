// Pull and purge of a table.

public import Foundation
import Synchronization
import TidelineCore

extension SyncTable {
    /// Brings what others changed.
    ///
    /// Pushes first: a push that fails for another reason than parked operations ends the pull with
    /// its ``PushError``. With a query id only what changed since the last pull of that id comes;
    /// with nil everything comes, every time. Rows with pending operations stay as they are. A page
    /// and its cursor are one transaction, so that a pull that is cut goes on where it was.
    ///
    /// ```swift
    /// try await todos.pull(queryID: "openItems", where: { !$0.complete })
    /// ```
    ///
    /// - Parameter queryID: 1 to 50 letters, digits, `-` or `_`, or nil. Another filter under the
    ///   same id starts anew.
    /// - Returns: How many rows were stored and removed, and how many requests it took.
    /// - Throws: ``PushError``, or ``SyncError`` with code `offline`, `unauthorized`, `forbidden`,
    ///   `tooManyRequests`, `serverError`, `badResponse`, `insecureEndpoint`, `cancelled`,
    ///   `invalidQueryID` or `unsupportedQuery`; what was stored stays.
    @discardableResult
    public func pull(queryID: String?) async throws -> PullResult {
        try await pull(queryID: queryID, Query<Record>())
    }

    /// Pushes everything and brings what others changed: what pull-to-refresh waits for.
    ///
    /// When it returns, everything that was changed here before the call is on the server, and
    /// everything that was there is here.
    ///
    /// ```swift
    /// try await todos.caughtUp(queryID: "openItems", where: { !$0.complete })
    /// ```
    ///
    /// - Throws: ``PushError`` when an operation stayed behind, also one that is parked; then what the
    ///   server has is here all the same, where it could be reached. Else as ``pull(queryID:)``.
    @discardableResult
    public func caughtUp(queryID: String?) async throws -> PullResult {
        try await caughtUp(queryID: queryID, Query<Record>())
    }

    /// Pushes everything and brings what others changed among the records of a query.
    ///
    /// - Throws: ``PushError`` when an operation stayed behind, also one that is parked; then what
    ///   the server has is here all the same, where it could be reached. Else as
    ///   ``pull(queryID:_:)``.
    @discardableResult
    @concurrent
    public func caughtUp(queryID: String?, _ query: Query<Record>) async throws -> PullResult {
        var behind: PushError?
        do {
            _ = try await engine.push()
        } catch let error as PushError where error.status == .operationErrors {
            behind = error
        }
        let result = try await pull(queryID: queryID, query)
        if let behind { throw behind }
        return result
    }

    /// Brings what others changed among the records of a query.
    ///
    /// - Throws: ``PushError``, or ``SyncError`` as ``pull(queryID:)``: `unsupportedQuery` for a query with
    ///   fields, for one with an order or a window under a query id, and for what the server has no words
    ///   for; what was stored stays.
    @discardableResult
    @concurrent
    public func pull(queryID: String?, _ query: Query<Record>) async throws -> PullResult {
        try await engine.pull(query.table, queryID: queryID, in: name)
    }

    /// When the last pull of this table ended, by this device's clock; nil before the first.
    ///
    /// After a restart of the app it is that of the last pull that brought something.
    public var lastPull: Date? {
        get async throws {
            if let last = engine.lastPulls.withLock({ $0[name] }) { return last }
            let table = name
            return try await engine.read { try $0.lastPull(table) }
        }
    }

    /// Compares the records that a query id pulled with the server's, in a few small requests.
    ///
    /// Proves that device and server hold the same rows in the same versions, and finds what
    /// differs where they do not; changes since the last pull differ, too. Rows with pending
    /// operations count with the state that the server gave last. A value that something else changed
    /// in the file of a ``SQLiteStore`` counts as different, also under an unchanged version.
    ///
    /// ```swift
    /// let result = try await todos.verify(queryID: "openItems", repair: true)
    /// ```
    ///
    /// - Parameters:
    ///   - queryID: The id of a pull; nil compares the whole table.
    ///   - repair: Brings what differs, and removes what the server does not have any more.
    /// - Returns: What was found, and how much of it was repaired.
    /// - Throws: ``SyncError`` as ``pull(queryID:)``, or with code `invalidQueryID` for an id that was
    ///   never pulled.
    @discardableResult
    @concurrent
    public func verify(queryID: String?, repair: Bool = false) async throws -> VerifyResult {
        try await engine.pinned {
            try await engine.verify(queryID: queryID, repair: repair, in: name)
        }
    }

    /// Removes all local records; the server keeps them, and the next pull brings them again.
    ///
    /// ```swift
    /// try await todos.purge(force: true)
    /// try await todos.pull(queryID: "all")
    /// ```
    ///
    /// - Parameter force: Drops pending operations too. Without it they are an error.
    /// - Throws: ``SyncError`` with code `pendingOperations`, or `cancelled` when the task is cancelled
    ///   before all are gone; nothing is removed then.
    public func purge(force: Bool = false) async throws {
        try await engine.purge(nil, force: force, in: name)
    }

    /// Removes the local records of a query.
    ///
    /// ```swift
    /// try await todos.purge(try Query(where: { $0.complete }))
    /// ```
    ///
    /// - Parameters:
    ///   - query: A condition alone.
    ///   - force: Drops pending operations of these records too. Without it they are an error.
    /// - Throws: ``SyncError`` with code `pendingOperations`, `cancelled`, or `unsupportedQuery` for a
    ///   query with an order, a window or fields; nothing is removed then.
    public func purge(_ query: Query<Record>, force: Bool = false) async throws {
        let table = query.table
        guard table.order.isEmpty, table.limit == nil, table.offset == 0, table.select == nil else {
            throw SyncError.unsupportedQuery(
                "a purge takes a condition alone. Leave out order, limit, offset and fields."
            )
        }
        try await engine.purge(
            coder.meant(table.filter?.bound(now: engine.environment.now())),
            force: force,
            in: name
        )
    }
}

extension SyncTable where Record: SyncRecord {
    /// Brings what others changed among the records that a closure describes.
    ///
    /// - Throws: ``PushError``, or ``SyncError`` as ``pull(queryID:)``, or with code
    ///   `unsupportedQuery` for what has no column form; what the closure throws.
    @discardableResult
    public func pull(
        queryID: String?,
        where condition: (Columns<Record>) throws -> Condition
    ) async throws -> PullResult {
        try await pull(queryID: queryID, Query(where: condition))
    }

    /// Pushes everything and brings what others changed among the records that a closure describes.
    ///
    /// - Throws: As ``caughtUp(queryID:)``, or ``SyncError`` with code `unsupportedQuery` for what
    ///   has no column form; what the closure throws.
    @discardableResult
    public func caughtUp(
        queryID: String?,
        where condition: (Columns<Record>) throws -> Condition
    ) async throws -> PullResult {
        try await caughtUp(queryID: queryID, Query(where: condition))
    }

    /// Brings what others changed among the records that a predicate describes.
    ///
    /// - Throws: ``PushError``, or ``SyncError`` as ``pull(queryID:)``, or with code
    ///   `unsupportedQuery` for what has no column form.
    @discardableResult
    public func pull(
        queryID: String?,
        where predicate: Predicate<Record>
    ) async throws -> PullResult {
        try await pull(queryID: queryID, Query(where: predicate))
    }

    /// Pushes everything and brings what others changed among the records that a predicate describes.
    ///
    /// - Throws: As ``caughtUp(queryID:)``, or ``SyncError`` with code `unsupportedQuery` for what
    ///   has no column form.
    @discardableResult
    public func caughtUp(
        queryID: String?,
        where predicate: Predicate<Record>
    ) async throws -> PullResult {
        try await caughtUp(queryID: queryID, Query(where: predicate))
    }

    /// Removes the local records that a closure describes.
    ///
    /// - Throws: ``SyncError`` with code `pendingOperations`, `cancelled`, or `unsupportedQuery` for what
    ///   has no column form, and what the closure throws; nothing is removed then.
    public func purge(
        where condition: (Columns<Record>) throws -> Condition,
        force: Bool = false
    ) async throws {
        try await purge(Query(where: condition), force: force)
    }

    /// Removes the local records that a predicate describes.
    ///
    /// - Throws: ``SyncError`` with code `pendingOperations`, `cancelled`, or `unsupportedQuery` for what
    ///   has no column form; nothing is removed then.
    public func purge(where predicate: Predicate<Record>, force: Bool = false) async throws {
        try await purge(Query(where: predicate), force: force)
    }
}

extension SyncTable where Record == Row {
    /// Brings what others changed among the rows that a closure describes.
    ///
    /// - Throws: ``PushError``, or ``SyncError`` as ``pull(queryID:)``; what the closure throws.
    @discardableResult
    public func pull(
        queryID: String?,
        where condition: (Columns<Row>) throws -> Condition
    ) async throws -> PullResult {
        try await pull(queryID: queryID, Query(where: condition))
    }

    /// Pushes everything and brings what others changed among the rows that a closure describes.
    ///
    /// - Throws: As ``caughtUp(queryID:)``; what the closure throws.
    @discardableResult
    public func caughtUp(
        queryID: String?,
        where condition: (Columns<Row>) throws -> Condition
    ) async throws -> PullResult {
        try await caughtUp(queryID: queryID, Query(where: condition))
    }

    /// Removes the local rows that a closure describes.
    ///
    /// - Throws: ``SyncError`` with code `pendingOperations`, `cancelled`, or `unsupportedQuery` for a
    ///   column that the table does not have, and what the closure throws; nothing is removed then.
    public func purge(
        where condition: (Columns<Row>) throws -> Condition,
        force: Bool = false
    ) async throws {
        try await purge(Query(where: condition), force: force)
    }
}
