// ReadableTable: the reads that tables on the device and on the server share: every form of
// `where:` and `sortedBy:` becomes one `Query`.

public import Foundation
public import TidelineCore

/// A table that can be asked for records: a ``SyncTable`` or a ``RemoteTable``.
public protocol ReadableTable<Record>: Sendable {
    /// The type of its records.
    associatedtype Record: Sendable

    /// The records of a query, and their total count when the query asks for it.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for what the table cannot be asked, and
    ///   `rowDoesNotFit` for a row that does not decode, unless `onDecodingFailure` leaves it out. A table on
    ///   the device adds `storeFailure`, a ``RemoteTable`` what its requests come to.
    func read(
        _ query: Query<Record>,
        onDecodingFailure: DecodingFailurePolicy
    ) async throws -> Page<Record>

    /// How many records a query has, without its window.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`; then as ``read(_:onDecodingFailure:)``.
    func count(_ query: Query<Record>) async throws -> Int
}

extension ReadableTable {
    /// The records of a query, and their total count when the query asks for it.
    ///
    /// - Throws: ``SyncError`` with code `rowDoesNotFit` for a row that does not decode.
    public func read(_ query: Query<Record>) async throws -> Page<Record> {
        try await read(query, onDecodingFailure: .throw)
    }

    /// All records, or a window of them.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a window below zero or an order
    ///   without a column, `rowDoesNotFit`, and as ``read(_:onDecodingFailure:)``.
    public func read(
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) async throws -> [Record] {
        let query = try Query<Record>().window(order.map { try $0.sortKey() }, limit, offset)
        return try await read(query, onDecodingFailure: onDecodingFailure).items
    }

    /// How many records there are.
    ///
    /// - Throws: ``SyncError`` with code `storeFailure` on the device; what its request comes to
    ///   for a ``RemoteTable``.
    public func count() async throws -> Int { try await count(Query<Record>()) }
}

extension ReadableTable where Record: SyncRecord {
    /// The records for which a closure over the columns holds.
    ///
    /// ```swift
    /// let open = try await todos.read(where: { !$0.complete && $0.text.contains("milk") })
    /// ```
    ///
    /// - Parameters:
    ///   - condition: What holds for the records; evaluated at once, and only to see what it asks.
    ///   - order: The keys of the order; ties go by `id`.
    ///   - limit: The most records.
    ///   - offset: How many records to leave out first.
    ///   - onDecodingFailure: What to do with a row that does not decode.
    /// - Returns: The records, in order.
    /// - Throws: ``SyncError`` with code `unsupportedQuery` or `rowDoesNotFit`.
    public func read(
        where condition: (Columns<Record>) throws -> Condition,
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

    /// The records for which a closure over the columns holds, in the order of descriptors.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for what has no column form,
    ///   `rowDoesNotFit`, and as ``read(_:onDecodingFailure:)``; what the closure throws.
    @_disfavoredOverload
    public func read(
        where condition: (Columns<Record>) throws -> Condition,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) async throws -> [Record] {
        let query = try Query(where: condition).sorted(by: order).window(nil, limit, offset)
        return try await read(query, onDecodingFailure: onDecodingFailure).items
    }

    /// The records for which a predicate holds.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for what has no column form,
    ///   `rowDoesNotFit`, and as ``read(_:onDecodingFailure:)``.
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

    /// The records for which a predicate holds, in the order of descriptors.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for what has no column form,
    ///   `rowDoesNotFit`, and as ``read(_:onDecodingFailure:)``.
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

    /// All records in the order of descriptors.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a window below zero or a descriptor
    ///   without a column, `rowDoesNotFit`, and as ``read(_:onDecodingFailure:)``.
    @_disfavoredOverload
    public func read(
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) async throws -> [Record] {
        let query = try Query<Record>().sorted(by: order).window(nil, limit, offset)
        return try await read(query, onDecodingFailure: onDecodingFailure).items
    }

    /// How many records a closure over the columns describes.
    ///
    /// ```swift
    /// let left = try await todos.count(where: { !$0.complete })
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for what has no column form, and as
    ///   ``read(_:onDecodingFailure:)``; what the closure throws.
    public func count(where condition: (Columns<Record>) throws -> Condition) async throws -> Int {
        try await count(Query(where: condition))
    }

    /// How many records a predicate describes.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for what has no column form, and as
    ///   ``read(_:onDecodingFailure:)``.
    public func count(where predicate: Predicate<Record>) async throws -> Int {
        try await count(Query(where: predicate))
    }
}

extension ReadableTable where Record == Row {
    /// The rows for which a closure over columns by name holds.
    ///
    /// ```swift
    /// let open = try await rows.read(where: { $0["complete"] == false })
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a column that the table does not
    ///   have, and as ``read(_:onDecodingFailure:)``; what the closure throws.
    public func read(
        where condition: (Columns<Row>) throws -> Condition,
        sortedBy order: [SortTerm<Row>] = [],
        limit: Int? = nil,
        offset: Int = 0,
        onDecodingFailure: DecodingFailurePolicy = .throw
    ) async throws -> [Row] {
        let query = try Query(where: condition).window(
            order.map { try $0.sortKey() },
            limit,
            offset
        )
        return try await read(query, onDecodingFailure: onDecodingFailure).items
    }

    /// How many rows a closure over columns by name describes.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a column that the table does not
    ///   have, and as ``read(_:onDecodingFailure:)``; what the closure throws.
    public func count(where condition: (Columns<Row>) throws -> Condition) async throws -> Int {
        try await count(Query(where: condition))
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
