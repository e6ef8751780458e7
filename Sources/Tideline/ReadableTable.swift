// ReadableTable: the reads that tables on the device and on the server share. Every overload with
// `where:` or `sortedBy:` builds one `Query`.

public import Foundation
import TidelineCore

/// A table whose records can be read: a ``SyncTable`` or a ``RemoteTable``.
public protocol ReadableTable<Record>: Sendable {
    /// The type of the table's records.
    associatedtype Record: Sendable

    /// Returns the records of a query, and their total count if the query asks for it.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` if the table cannot run the query, and
    ///   `rowDoesNotFit` for a row that does not decode, unless `onDecodingFailure` skips it. A ``SyncTable``
    ///   also throws `storeFailure`; a ``RemoteTable`` also throws the errors of its requests.
    func read(
        _ query: Query<Record>,
        onDecodingFailure: DecodingFailurePolicy
    ) async throws -> Page<Record>

    /// Returns the record with an id, or nil if there is none.
    ///
    /// - Throws: ``SyncError`` with code `rowDoesNotFit` if the row does not decode, and the errors of
    ///   ``read(_:onDecodingFailure:)``.
    func read(id: String) async throws -> Record?

    /// Returns the number of records that a query matches, ignoring its limit and offset.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, and the errors of ``read(_:onDecodingFailure:)``.
    func count(_ query: Query<Record>) async throws -> Int
}

extension ReadableTable {
    /// Returns the records of a query, and their total count if the query asks for it.
    ///
    /// - Throws: ``SyncError`` with code `rowDoesNotFit` for a row that does not decode.
    public func read(_ query: Query<Record>) async throws -> Page<Record> {
        try await read(query, onDecodingFailure: .throw)
    }

    /// Returns the records that match a closure over the columns; without a closure, all records.
    ///
    /// For rows without a model, the closure names the columns: `$0["complete"] == false`.
    ///
    /// ```swift
    /// let open = try await todos.read(where: { !$0.complete && $0.text.contains("milk") })
    /// ```
    ///
    /// - Parameters:
    ///   - condition: The condition that the records meet. The closure is called once, right away, to build the query.
    ///   - order: The sort terms. Records that compare equal are ordered by `id`.
    ///   - limit: The largest number of records to return.
    ///   - offset: The number of records to skip first.
    ///   - onDecodingFailure: What to do with a row that does not decode.
    /// - Returns: The records, in order.
    /// - Throws: ``SyncError`` with code `unsupportedQuery` or `rowDoesNotFit`.
    public func read(
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() },
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) async throws -> [Record] {
        let query = try Query(where: condition).window(
            order.map { try $0.sortKey() },
            limit,
            offset
        )
        return try await read(query, onDecodingFailure: onDecodingFailure).items
    }

    /// Returns the number of records that match a closure over the columns; without a closure, of all records.
    ///
    /// ```swift
    /// let left = try await todos.count(where: { !$0.complete })
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an expression that columns cannot express, and the
    ///   errors of ``read(_:onDecodingFailure:)``. Errors of the closure are rethrown.
    public func count(
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() }
    ) async throws -> Int {
        try await count(Query(where: condition))
    }
}

extension ReadableTable where Record: SyncRecord {
    /// Returns the records that match a closure over the columns, in the order of sort descriptors.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an expression that a query cannot contain,
    ///   `rowDoesNotFit`, and the errors of ``read(_:onDecodingFailure:)``. Errors of the closure are rethrown.
    @_disfavoredOverload
    public func read(
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() },
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) async throws -> [Record] {
        let query = try Query(where: condition).sorted(by: order).window(nil, limit, offset)
        return try await read(query, onDecodingFailure: onDecodingFailure).items
    }

    /// Returns the records that match a predicate.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an expression that a query cannot contain,
    ///   `rowDoesNotFit`, and the errors of ``read(_:onDecodingFailure:)``.
    public func read(
        where predicate: Predicate<Record>,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) async throws -> [Record] {
        let query = try Query(where: predicate).window(
            order.map { try $0.sortKey() },
            limit,
            offset
        )
        return try await read(query, onDecodingFailure: onDecodingFailure).items
    }

    /// Returns the records that match a predicate, in the order of sort descriptors.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an expression that a query cannot contain,
    ///   `rowDoesNotFit`, and the errors of ``read(_:onDecodingFailure:)``.
    @_disfavoredOverload
    public func read(
        where predicate: Predicate<Record>,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) async throws -> [Record] {
        let query = try Query(where: predicate).sorted(by: order).window(nil, limit, offset)
        return try await read(query, onDecodingFailure: onDecodingFailure).items
    }

    /// Returns the number of records that match a predicate.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for an expression that a query cannot contain, and the
    ///   errors of ``read(_:onDecodingFailure:)``.
    public func count(where predicate: Predicate<Record>) async throws -> Int {
        try await count(Query(where: predicate))
    }
}

extension Query {
    func window(_ order: [SortKey]?, _ limit: Int?, _ offset: Int) -> Query {
        var copy = self
        if let order { copy.order = order }
        copy.limit = limit
        copy.offset = offset
        return copy
    }
}
