// SyncTable+Totals: sums, averages, minimums, maximums and groups of the records on the device.
//
// Each method is the asynchronous form of a method in RecordReading+Totals and has the same documentation.

public import Foundation
import TidelineCore

extension SyncTable {
    /// Returns whether a record matches a query, ignoring its limit and offset.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, `storeFailure`, or `cancelled` if the task is cancelled.
    @concurrent
    public func exists(_ query: Query<Record>) async throws -> Bool {
        try await reading { try $0.exists(query) }
    }

    /// Returns whether a record matches a closure over the columns; without a closure, whether the table has a record.
    ///
    /// - Throws: The errors of ``exists(_:)``. Errors of the closure are rethrown.
    public func exists(
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() }
    ) async throws -> Bool {
        try await exists(Query(where: condition))
    }

    /// Returns the first record of a query, or nil if there is none.
    ///
    /// - Throws: The errors of ``read(_:onDecodingFailure:)``.
    @concurrent
    public func first(_ query: Query<Record> = Query()) async throws -> Record? {
        try await reading { try $0.first(query) }
    }

    /// Returns the first record that matches a closure over the columns, or nil if there is none.
    ///
    /// - Throws: The errors of ``read(_:onDecodingFailure:)``. Errors of the closure are rethrown.
    public func first(
        where condition: (Columns<Record>) throws -> Condition,
        sortedBy order: [SortTerm<Record>] = []
    ) async throws -> Record? {
        try await first(Query(where: condition).sorted(by: order))
    }

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
    ///   be added or grouped, `storeFailure`, or `cancelled` if the task is cancelled.
    @concurrent
    public func totals(
        of column: String?,
        by group: String?,
        _ query: Query<Record>
    ) async throws -> [RowTotals] {
        try await reading { try $0.totals(of: column, by: group, query) }
    }

    private func reading<Result: Sendable>(
        _ body: @escaping @Sendable (ReaderTable<Record>) throws -> Result
    ) async throws -> Result {
        let coder = coder
        return try await ReadRunner(engine: engine).run {
            try body(ReaderTable(reader: $0, coder: coder))
        }.result
    }
}

extension SyncTable where Record: SyncRecord {
    /// Returns whether a record matches a predicate.
    ///
    /// - Throws: The errors of ``exists(_:)``.
    public func exists(
        where predicate: Predicate<Record>
    ) async throws -> Bool {
        try await exists(Query(where: predicate))
    }

    /// Returns the first record that matches a predicate, or nil if there is none.
    ///
    /// - Throws: The errors of ``read(_:onDecodingFailure:)``.
    public func first(
        where predicate: Predicate<Record>,
        sortedBy order: [SortTerm<Record>] = []
    ) async throws -> Record? {
        try await first(Query(where: predicate).sorted(by: order))
    }

    /// Returns the sum of a property over the records of a query; zero if no record has a value.
    ///
    /// The store computes the sum. The result is the same as if the app added the property of each record, except that
    /// the last digits of a sum of `Double` values depend on the order of addition. A nil property is not added. The
    /// query's order, limit and offset are ignored, as for `count`.
    ///
    /// ```swift
    /// let minutes = try await jobs.sum(\.minutes, where: { $0.status == .done })
    /// ```
    ///
    /// - Returns: An `Int` for integers, otherwise a `Double` or a `Decimal`.
    /// - Throws: ``SyncError`` with code `sumTooLarge` if the sum of integers does not fit into `Int`,
    ///   `unsupportedQuery`, `storeFailure`, or `cancelled` if the task is cancelled.
    public func sum<Content: SummableContent>(
        _ path: KeyPath<Record, Content>,
        _ query: Query<Record> = Query()
    ) async throws -> Content.Sum {
        let model = try RecordTotals<Record>()
        let column = try model.column(path)
        let totals = try await totals(of: column, by: nil, query)
        return try model.sum(totals.first, of: column, Content.self)
    }

    /// Returns the sum of a property over the records that match a closure over the columns.
    ///
    /// - Throws: The errors of `sum(_:_:)`. Errors of the closure are rethrown.
    public func sum<Content: SummableContent>(
        _ path: KeyPath<Record, Content>,
        where condition: (Columns<Record>) throws -> Condition
    ) async throws -> Content.Sum {
        try await sum(path, Query(where: condition))
    }

    /// Returns the sum of a property over the records that match a predicate.
    ///
    /// - Throws: The errors of `sum(_:_:)`.
    public func sum<Content: SummableContent>(
        _ path: KeyPath<Record, Content>,
        where predicate: Predicate<Record>
    ) async throws -> Content.Sum {
        try await sum(path, Query(where: predicate))
    }

    /// Returns the sum of a property for each value of another property.
    ///
    /// ```swift
    /// let minutes: [Status: Int] = try await jobs.sum(\.minutes, by: \.status)
    /// ```
    ///
    /// - Throws: The errors of `sum(_:_:)`, or ``SyncError`` with code `rowDoesNotFit` if a value of the other property
    ///   does not decode.
    public func sum<Content: SummableContent, Key: Hashable & Decodable>(
        _ path: KeyPath<Record, Content>,
        by group: KeyPath<Record, Key>,
        _ query: Query<Record> = Query()
    ) async throws -> [Key: Content.Sum] {
        let model = try RecordTotals<Record>()
        let (column, key) = (try model.column(path), try model.column(group))
        let totals = try await totals(of: column, by: key, query)
        return try model.byKey(totals, key, Key.self) {
            try model.sum($0, of: column, Content.self)
        }
    }

    /// Returns the sum of a property over the records that match a closure over the columns, for each value of another
    /// property.
    ///
    /// - Throws: The errors of `sum(_:by:_:)`. Errors of the closure are rethrown.
    public func sum<Content: SummableContent, Key: Hashable & Decodable>(
        _ path: KeyPath<Record, Content>,
        by group: KeyPath<Record, Key>,
        where condition: (Columns<Record>) throws -> Condition
    ) async throws -> [Key: Content.Sum] {
        try await sum(path, by: group, Query(where: condition))
    }

    /// Returns the sum of a property over the records that match a predicate, for each value of another
    /// property.
    ///
    /// - Throws: The errors of `sum(_:by:_:)`.
    public func sum<Content: SummableContent, Key: Hashable & Decodable>(
        _ path: KeyPath<Record, Content>,
        by group: KeyPath<Record, Key>,
        where predicate: Predicate<Record>
    ) async throws -> [Key: Content.Sum] {
        try await sum(path, by: group, Query(where: predicate))
    }

    /// Returns the average of a property over the records of a query; nil if no record has a value.
    ///
    /// - Returns: A `Decimal` for decimals, otherwise a `Double`.
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, `storeFailure`, or `cancelled` if the task is cancelled.
    public func average<Content: SummableContent>(
        _ path: KeyPath<Record, Content>,
        _ query: Query<Record> = Query()
    ) async throws -> Content.Average? {
        let model = try RecordTotals<Record>()
        let column = try model.column(path)
        let totals = try await totals(of: column, by: nil, query)
        return try model.average(totals.first, of: column, Content.self)
    }

    /// Returns the average of a property over the records that match a closure over the columns; nil if no record has a
    /// value.
    ///
    /// - Throws: The errors of `average(_:_:)`. Errors of the closure are rethrown.
    public func average<Content: SummableContent>(
        _ path: KeyPath<Record, Content>,
        where condition: (Columns<Record>) throws -> Condition
    ) async throws -> Content.Average? {
        try await average(path, Query(where: condition))
    }

    /// Returns the average of a property over the records that match a predicate; nil if no record has a value.
    ///
    /// - Throws: The errors of `average(_:_:)`.
    public func average<Content: SummableContent>(
        _ path: KeyPath<Record, Content>,
        where predicate: Predicate<Record>
    ) async throws -> Content.Average? {
        try await average(path, Query(where: predicate))
    }

    /// Returns the number of records for each value of a property.
    ///
    /// ```swift
    /// let counts: [Status: Int] = try await jobs.count(by: \.status)
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a nested value, `rowDoesNotFit` if a value does not
    ///   decode, `storeFailure`, or `cancelled` if the task is cancelled.
    public func count<Key: Hashable & Decodable>(
        by group: KeyPath<Record, Key>,
        _ query: Query<Record> = Query()
    ) async throws -> [Key: Int] {
        let model = try RecordTotals<Record>()
        let key = try model.column(group)
        let totals = try await totals(of: nil, by: key, query)
        return try model.byKey(totals, key, Key.self, \.count)
    }

    /// Returns the number of records that match a closure over the columns, for each value of a property.
    ///
    /// - Throws: The errors of `count(by:_:)`. Errors of the closure are rethrown.
    public func count<Key: Hashable & Decodable>(
        by group: KeyPath<Record, Key>,
        where condition: (Columns<Record>) throws -> Condition
    ) async throws -> [Key: Int] {
        try await count(by: group, Query(where: condition))
    }

    /// Returns the number of records that match a predicate, for each value of a property.
    ///
    /// - Throws: The errors of `count(by:_:)`.
    public func count<Key: Hashable & Decodable>(
        by group: KeyPath<Record, Key>,
        where predicate: Predicate<Record>
    ) async throws -> [Key: Int] {
        try await count(by: group, Query(where: predicate))
    }

    /// Returns the distinct values of a property, in ascending order, nil first.
    ///
    /// Strings are compared by Unicode scalars.
    ///
    /// - Throws: The errors of `count(by:_:)`.
    public func distinct<Content: Decodable>(
        _ path: KeyPath<Record, Content>,
        _ query: Query<Record> = Query()
    ) async throws -> [Content] {
        let model = try RecordTotals<Record>()
        let column = try model.column(path)
        let totals = try await totals(of: nil, by: column, query)
        return try totals.map { try model.value($0.group, of: column, as: Content.self) }
    }

    /// Returns the distinct values of a property in the records that match a closure over the columns.
    ///
    /// - Throws: The errors of `count(by:_:)`. Errors of the closure are rethrown.
    public func distinct<Content: Decodable>(
        _ path: KeyPath<Record, Content>,
        where condition: (Columns<Record>) throws -> Condition
    ) async throws -> [Content] {
        try await distinct(path, Query(where: condition))
    }

    /// Returns the distinct values of a property in the records that match a predicate.
    ///
    /// - Throws: The errors of `count(by:_:)`.
    public func distinct<Content: Decodable>(
        _ path: KeyPath<Record, Content>,
        where predicate: Predicate<Record>
    ) async throws -> [Content] {
        try await distinct(path, Query(where: predicate))
    }

    /// Returns the smallest value of a property, in the order of ``SortTerm``; nil if no record matches.
    ///
    /// - Throws: The errors of ``read(_:onDecodingFailure:)``.
    @_disfavoredOverload
    public func min<Content>(
        _ path: KeyPath<Record, Content>,
        _ query: Query<Record> = Query()
    ) async throws -> Content? {
        try await extreme(path, query, isAscending: true)?[keyPath: path]
    }

    /// Returns the smallest non-nil value of a property; nil if no record has a value.
    ///
    /// - Throws: The errors of ``read(_:onDecodingFailure:)``.
    public func min<Content>(
        _ path: KeyPath<Record, Content?>,
        _ query: Query<Record> = Query()
    ) async throws -> Content? {
        try await extreme(path, query, isAscending: true)?[keyPath: path]
    }

    /// Returns the smallest value of a property in the records that match a closure over the columns.
    ///
    /// - Throws: The errors of `min(_:_:)`. Errors of the closure are rethrown.
    @_disfavoredOverload
    public func min<Content>(
        _ path: KeyPath<Record, Content>,
        where condition: (Columns<Record>) throws -> Condition
    ) async throws -> Content? {
        try await min(path, Query(where: condition))
    }

    /// Returns the smallest value of a property in the records that match a predicate.
    ///
    /// - Throws: The errors of `min(_:_:)`.
    @_disfavoredOverload
    public func min<Content>(
        _ path: KeyPath<Record, Content>,
        where predicate: Predicate<Record>
    ) async throws -> Content? {
        try await min(path, Query(where: predicate))
    }

    /// Returns the smallest non-nil value of a property in the records that match a closure.
    ///
    /// - Throws: The errors of `min(_:_:)`. Errors of the closure are rethrown.
    public func min<Content>(
        _ path: KeyPath<Record, Content?>,
        where condition: (Columns<Record>) throws -> Condition
    ) async throws -> Content? {
        try await min(path, Query(where: condition))
    }

    /// Returns the smallest non-nil value of a property in the records that match a predicate.
    ///
    /// - Throws: The errors of `min(_:_:)`.
    public func min<Content>(
        _ path: KeyPath<Record, Content?>,
        where predicate: Predicate<Record>
    ) async throws -> Content? {
        try await min(path, Query(where: predicate))
    }

    /// Returns the largest value of a property, in the order of ``SortTerm``; nil if no record matches.
    ///
    /// - Throws: The errors of `min(_:_:)`.
    @_disfavoredOverload
    public func max<Content>(
        _ path: KeyPath<Record, Content>,
        _ query: Query<Record> = Query()
    ) async throws -> Content? {
        try await extreme(path, query, isAscending: false)?[keyPath: path]
    }

    /// Returns the largest non-nil value of a property; nil if no record has a value.
    ///
    /// - Throws: The errors of `min(_:_:)`.
    public func max<Content>(
        _ path: KeyPath<Record, Content?>,
        _ query: Query<Record> = Query()
    ) async throws -> Content? {
        try await extreme(path, query, isAscending: false)?[keyPath: path]
    }

    /// Returns the largest value of a property in the records that match a closure over the columns.
    ///
    /// - Throws: The errors of `min(_:_:)`. Errors of the closure are rethrown.
    @_disfavoredOverload
    public func max<Content>(
        _ path: KeyPath<Record, Content>,
        where condition: (Columns<Record>) throws -> Condition
    ) async throws -> Content? {
        try await max(path, Query(where: condition))
    }

    /// Returns the largest value of a property in the records that match a predicate.
    ///
    /// - Throws: The errors of `min(_:_:)`.
    @_disfavoredOverload
    public func max<Content>(
        _ path: KeyPath<Record, Content>,
        where predicate: Predicate<Record>
    ) async throws -> Content? {
        try await max(path, Query(where: predicate))
    }

    /// Returns the largest non-nil value of a property in the records that match a closure.
    ///
    /// - Throws: The errors of `min(_:_:)`. Errors of the closure are rethrown.
    public func max<Content>(
        _ path: KeyPath<Record, Content?>,
        where condition: (Columns<Record>) throws -> Condition
    ) async throws -> Content? {
        try await max(path, Query(where: condition))
    }

    /// Returns the largest non-nil value of a property in the records that match a predicate.
    ///
    /// - Throws: The errors of `min(_:_:)`.
    public func max<Content>(
        _ path: KeyPath<Record, Content?>,
        where predicate: Predicate<Record>
    ) async throws -> Content? {
        try await max(path, Query(where: predicate))
    }

    private func extreme(
        _ path: PartialKeyPath<Record>,
        _ query: Query<Record>,
        isAscending: Bool
    ) async throws -> Record? {
        let model = try RecordTotals<Record>()
        let query = model.extreme(query, try model.column(path), isAscending: isAscending)
        return try await read(query).items.first
    }
}
