// RecordReading: the synchronous reads that the tables of readers and of transactions share. Every overload with
// `where:` or `sortedBy:` builds one `Query`.

public import Foundation
import TidelineCore

/// A table with synchronous reads: a ``ReaderTable`` or a ``TransactionTable``.
///
/// ``ReadableTable`` is its asynchronous counterpart. Use it to write a function that reads from
/// either kind of table:
///
/// ```swift
/// func openCount(in todos: some RecordReading<TodoItem>) throws -> Int {
///     try todos.count(where: { !$0.complete })
/// }
/// ```
///
/// Every method throws ``SyncError`` with code `transactionEnded` after the end of the closure, `cancelled` if the
/// task that waits for the closure was cancelled, and `storeFailure` if the store fails.
public protocol RecordReading<Record> {
    /// The type of the table's records.
    associatedtype Record: Sendable

    /// Returns the records of a query, and their total count if the query asks for it.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a column that the table does not
    ///   have or a negative limit or offset; `rowDoesNotFit`, unless `onDecodingFailure` skips such rows; or an
    ///   error that every method can throw.
    func read(
        _ query: Query<Record>,
        onDecodingFailure: DecodingFailurePolicy
    ) throws -> Page<Record>

    /// Returns the record with an id, or nil if the device does not have it.
    ///
    /// - Throws: ``SyncError`` with code `rowDoesNotFit`, or an error that every method can throw.
    func read(id: String) throws -> Record?

    /// Returns the number of records that a query matches, ignoring its limit and offset.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, or an error that every method can throw.
    func count(_ query: Query<Record>) throws -> Int

    /// Returns whether a record matches a query, ignoring its limit and offset.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, or an error that every method can throw.
    func exists(_ query: Query<Record>) throws -> Bool

    /// Returns the number of rows and the sum of a column, for all rows of a query or for each value of a column.
    ///
    /// The typed methods, such as `sum` and `count(by:)`, call this method. Groups are in ascending order of their
    /// values, null first.
    ///
    /// - Parameters:
    ///   - column: The column whose values are added; nil to count rows.
    ///   - group: The column whose values divide the rows; nil for one result.
    ///   - query: The condition on the rows; its order, limit and offset are ignored.
    /// - Returns: One element for each group.
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a column that the table does not have or that cannot
    ///   be added or grouped, or an error that every method can throw.
    func totals(
        of column: String?,
        by group: String?,
        _ query: Query<Record>
    ) throws -> [RowTotals]
}

extension RecordReading {
    /// Returns the records of a query, and their total count if the query asks for it.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, `rowDoesNotFit`, or an error that every method can throw.
    public func read(_ query: Query<Record>) throws -> Page<Record> {
        try read(query, onDecodingFailure: .throw)
    }

    /// Returns the records that match a closure over the columns; without a closure, all records.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an expression that columns cannot express,
    ///   `rowDoesNotFit`, or an error that every method can throw. Errors of the closure are rethrown.
    public func read(
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() },
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) throws -> [Record] {
        let keys = try order.map { try $0.sortKey() }
        return try read(
            Query(where: condition).window(keys, limit, offset),
            onDecodingFailure: onDecodingFailure
        ).items
    }

    /// Returns the number of records that match a closure over the columns; without a closure, of all records.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an expression that columns cannot express, or an error
    ///   that every method can throw. Errors of the closure are rethrown.
    public func count(
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() }
    ) throws -> Int {
        try count(Query(where: condition))
    }
}

extension RecordReading where Record: SyncRecord {
    /// Returns the records that match a closure over the columns, in the order of sort descriptors.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an expression that a query cannot contain,
    ///   `rowDoesNotFit` unless `onDecodingFailure` skips such rows, or an error that every method can throw.
    @_disfavoredOverload
    public func read(
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() },
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) throws -> [Record] {
        let query = try Query(where: condition).sorted(by: order).window(nil, limit, offset)
        return try read(query, onDecodingFailure: onDecodingFailure).items
    }

    /// Returns the records that match a predicate, in the order of sort descriptors.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an expression that a query cannot contain,
    ///   `rowDoesNotFit` unless `onDecodingFailure` skips such rows, or an error that every method can throw.
    @_disfavoredOverload
    public func read(
        where predicate: Predicate<Record>,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) throws -> [Record] {
        let query = try Query(where: predicate).sorted(by: order).window(nil, limit, offset)
        return try read(query, onDecodingFailure: onDecodingFailure).items
    }

    /// Returns the records that match a predicate.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an expression that a query cannot contain,
    ///   `rowDoesNotFit`, or an error that every method can throw.
    public func read(
        where predicate: Predicate<Record>,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) throws -> [Record] {
        let keys = try order.map { try $0.sortKey() }
        return try read(
            Query(where: predicate).window(keys, limit, offset),
            onDecodingFailure: onDecodingFailure
        ).items
    }

    /// Returns the number of records that match a predicate.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an expression that a query cannot contain, or an
    ///   error that every method can throw.
    public func count(where predicate: Predicate<Record>) throws -> Int {
        try count(Query(where: predicate))
    }
}
