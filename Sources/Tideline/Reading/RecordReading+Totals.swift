// RecordReading+Totals: sums, averages, minimums, maximums and groups of the records of a reader or a transaction.

public import Foundation
import TidelineCore

extension RecordReading {
    /// Returns whether a record matches a closure over the columns; without a closure, whether the table has a record.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, or an error that every method can throw. Errors of the
    ///   closure are rethrown.
    public func exists(
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() }
    ) throws -> Bool {
        try exists(Query(where: condition))
    }

    /// Returns the first record of a query, or nil if there is none.
    ///
    /// - Throws: The errors of reading the query.
    public func first(_ query: Query<Record> = Query()) throws -> Record? {
        if query.limit == 0 { return nil }
        return try read(query.window(nil, 1, query.offset)).items.first
    }

    /// Returns the first record that matches a closure over the columns, or nil if there is none.
    ///
    /// ```swift
    /// let newest = try reader.table(Job.self).first(
    ///     where: { $0.status == .open },
    ///     sortedBy: [.descending(\.createdAt)]
    /// )
    /// ```
    ///
    /// - Throws: The errors of reading these records.
    public func first(
        where condition: (Columns<Record>) throws -> Condition,
        sortedBy order: [SortTerm<Record>] = []
    ) throws -> Record? {
        try first(Query(where: condition).sorted(by: order))
    }
}

extension RecordReading where Record: SyncRecord {
    /// Returns whether a record matches a predicate.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, or an error that every method can throw.
    public func exists(where predicate: Predicate<Record>) throws -> Bool {
        try exists(Query(where: predicate))
    }

    /// Returns the first record that matches a predicate, or nil if there is none.
    ///
    /// - Throws: The errors of reading these records.
    public func first(
        where predicate: Predicate<Record>,
        sortedBy order: [SortTerm<Record>] = []
    ) throws -> Record? {
        try first(Query(where: predicate).sorted(by: order))
    }

    /// Returns the sum of a property over the records of a query; zero if no record has a value.
    ///
    /// The store computes the sum. The result is the same as if the app added the property of each record, except that
    /// the last digits of a sum of `Double` values depend on the order of addition. A nil property is not added. The
    /// query's order, limit and offset are ignored, as for `count`.
    ///
    /// ```swift
    /// let minutes = try reader.table(Job.self).sum(\.minutes, where: { $0.status == .done })
    /// ```
    ///
    /// - Returns: An `Int` for integers, otherwise a `Double` or a `Decimal`.
    /// - Throws: ``SyncError`` with code `sumTooLarge` if the sum of integers does not fit into `Int`,
    ///   `unsupportedQuery`, or an error that every method can throw.
    public func sum<Content: SummableContent>(
        _ path: KeyPath<Record, Content>,
        _ query: Query<Record> = Query()
    ) throws -> Content.Sum {
        let model = try RecordTotals<Record>()
        let column = try model.column(path)
        let totals = try totals(of: column, by: nil, query)
        return try model.sum(totals.first, of: column, Content.self)
    }

    /// Returns the sum of a property over the records that match a closure over the columns.
    ///
    /// - Throws: The errors of `sum(_:_:)`. Errors of the closure are rethrown.
    public func sum<Content: SummableContent>(
        _ path: KeyPath<Record, Content>,
        where condition: (Columns<Record>) throws -> Condition
    ) throws -> Content.Sum {
        try sum(path, Query(where: condition))
    }

    /// Returns the sum of a property over the records that match a predicate.
    ///
    /// - Throws: The errors of `sum(_:_:)`.
    public func sum<Content: SummableContent>(
        _ path: KeyPath<Record, Content>,
        where predicate: Predicate<Record>
    ) throws -> Content.Sum {
        try sum(path, Query(where: predicate))
    }

    /// Returns the sum of a property for each value of another property.
    ///
    /// ```swift
    /// let minutes: [Status: Int] = try reader.table(Job.self).sum(\.minutes, by: \.status)
    /// ```
    ///
    /// - Throws: The errors of `sum(_:_:)`, or ``SyncError`` with code `rowDoesNotFit` if a value of the other property
    ///   does not decode.
    public func sum<Content: SummableContent, Key: Hashable & Decodable>(
        _ path: KeyPath<Record, Content>,
        by group: KeyPath<Record, Key>,
        _ query: Query<Record> = Query()
    ) throws -> [Key: Content.Sum] {
        let model = try RecordTotals<Record>()
        let (column, key) = (try model.column(path), try model.column(group))
        let totals = try totals(of: column, by: key, query)
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
    ) throws -> [Key: Content.Sum] {
        try sum(path, by: group, Query(where: condition))
    }

    /// Returns the sum of a property over the records that match a predicate, for each value of another
    /// property.
    ///
    /// - Throws: The errors of `sum(_:by:_:)`.
    public func sum<Content: SummableContent, Key: Hashable & Decodable>(
        _ path: KeyPath<Record, Content>,
        by group: KeyPath<Record, Key>,
        where predicate: Predicate<Record>
    ) throws -> [Key: Content.Sum] {
        try sum(path, by: group, Query(where: predicate))
    }

    /// Returns the average of a property over the records of a query; nil if no record has a value.
    ///
    /// - Returns: A `Decimal` for decimals, otherwise a `Double`.
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, or an error that every method can throw.
    public func average<Content: SummableContent>(
        _ path: KeyPath<Record, Content>,
        _ query: Query<Record> = Query()
    ) throws -> Content.Average? {
        let model = try RecordTotals<Record>()
        let column = try model.column(path)
        let totals = try totals(of: column, by: nil, query)
        return try model.average(totals.first, of: column, Content.self)
    }

    /// Returns the average of a property over the records that match a closure over the columns; nil if no record has a
    /// value.
    ///
    /// - Throws: The errors of `average(_:_:)`. Errors of the closure are rethrown.
    public func average<Content: SummableContent>(
        _ path: KeyPath<Record, Content>,
        where condition: (Columns<Record>) throws -> Condition
    ) throws -> Content.Average? {
        try average(path, Query(where: condition))
    }

    /// Returns the average of a property over the records that match a predicate; nil if no record has a value.
    ///
    /// - Throws: The errors of `average(_:_:)`.
    public func average<Content: SummableContent>(
        _ path: KeyPath<Record, Content>,
        where predicate: Predicate<Record>
    ) throws -> Content.Average? {
        try average(path, Query(where: predicate))
    }

    /// Returns the number of records for each value of a property.
    ///
    /// ```swift
    /// let counts: [Status: Int] = try reader.table(Job.self).count(by: \.status)
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a nested value, `rowDoesNotFit` if a value does not
    ///   decode, or an error that every method can throw.
    public func count<Key: Hashable & Decodable>(
        by group: KeyPath<Record, Key>,
        _ query: Query<Record> = Query()
    ) throws -> [Key: Int] {
        let model = try RecordTotals<Record>()
        let key = try model.column(group)
        return try model.byKey(totals(of: nil, by: key, query), key, Key.self, \.count)
    }

    /// Returns the number of records that match a closure over the columns, for each value of a property.
    ///
    /// - Throws: The errors of `count(by:_:)`. Errors of the closure are rethrown.
    public func count<Key: Hashable & Decodable>(
        by group: KeyPath<Record, Key>,
        where condition: (Columns<Record>) throws -> Condition
    ) throws -> [Key: Int] {
        try count(by: group, Query(where: condition))
    }

    /// Returns the number of records that match a predicate, for each value of a property.
    ///
    /// - Throws: The errors of `count(by:_:)`.
    public func count<Key: Hashable & Decodable>(
        by group: KeyPath<Record, Key>,
        where predicate: Predicate<Record>
    ) throws -> [Key: Int] {
        try count(by: group, Query(where: predicate))
    }

    /// Returns the distinct values of a property, in ascending order, nil first.
    ///
    /// Strings are compared by Unicode scalars.
    ///
    /// - Throws: The errors of `count(by:_:)`.
    public func distinct<Content: Decodable>(
        _ path: KeyPath<Record, Content>,
        _ query: Query<Record> = Query()
    ) throws -> [Content] {
        let model = try RecordTotals<Record>()
        let column = try model.column(path)
        let values = try totals(of: nil, by: column, query).map(\.group)
        return try values.map { try model.value($0, of: column, as: Content.self) }
    }

    /// Returns the distinct values of a property in the records that match a closure over the columns.
    ///
    /// - Throws: The errors of `count(by:_:)`. Errors of the closure are rethrown.
    public func distinct<Content: Decodable>(
        _ path: KeyPath<Record, Content>,
        where condition: (Columns<Record>) throws -> Condition
    ) throws -> [Content] {
        try distinct(path, Query(where: condition))
    }

    /// Returns the distinct values of a property in the records that match a predicate.
    ///
    /// - Throws: The errors of `count(by:_:)`.
    public func distinct<Content: Decodable>(
        _ path: KeyPath<Record, Content>,
        where predicate: Predicate<Record>
    ) throws -> [Content] {
        try distinct(path, Query(where: predicate))
    }

    /// Returns the smallest value of a property, in the order of ``SortTerm``; nil if no record matches.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`, `rowDoesNotFit` if the record with this value does not
    ///   decode, or an error that every method can throw.
    @_disfavoredOverload
    public func min<Content>(
        _ path: KeyPath<Record, Content>,
        _ query: Query<Record> = Query()
    ) throws -> Content? {
        try extreme(path, query, isAscending: true)?[keyPath: path]
    }

    /// Returns the smallest non-nil value of a property; nil if no record has a value.
    ///
    /// - Throws: The errors of the overload for a property that is not optional.
    public func min<Content>(
        _ path: KeyPath<Record, Content?>,
        _ query: Query<Record> = Query()
    ) throws -> Content? {
        try extreme(path, query, isAscending: true)?[keyPath: path]
    }

    /// Returns the smallest value of a property in the records that match a closure over the columns.
    ///
    /// - Throws: The errors of `min(_:_:)`. Errors of the closure are rethrown.
    @_disfavoredOverload
    public func min<Content>(
        _ path: KeyPath<Record, Content>,
        where condition: (Columns<Record>) throws -> Condition
    ) throws -> Content? {
        try min(path, Query(where: condition))
    }

    /// Returns the smallest value of a property in the records that match a predicate.
    ///
    /// - Throws: The errors of `min(_:_:)`.
    @_disfavoredOverload
    public func min<Content>(
        _ path: KeyPath<Record, Content>,
        where predicate: Predicate<Record>
    ) throws -> Content? {
        try min(path, Query(where: predicate))
    }

    /// Returns the smallest non-nil value of a property in the records that match a closure.
    ///
    /// - Throws: The errors of `min(_:_:)`. Errors of the closure are rethrown.
    public func min<Content>(
        _ path: KeyPath<Record, Content?>,
        where condition: (Columns<Record>) throws -> Condition
    ) throws -> Content? {
        try min(path, Query(where: condition))
    }

    /// Returns the smallest non-nil value of a property in the records that match a predicate.
    ///
    /// - Throws: The errors of `min(_:_:)`.
    public func min<Content>(
        _ path: KeyPath<Record, Content?>,
        where predicate: Predicate<Record>
    ) throws -> Content? {
        try min(path, Query(where: predicate))
    }

    /// Returns the largest value of a property, in the order of ``SortTerm``; nil if no record matches.
    ///
    /// - Throws: The errors of `min(_:_:)`.
    @_disfavoredOverload
    public func max<Content>(
        _ path: KeyPath<Record, Content>,
        _ query: Query<Record> = Query()
    ) throws -> Content? {
        try extreme(path, query, isAscending: false)?[keyPath: path]
    }

    /// Returns the largest non-nil value of a property; nil if no record has a value.
    ///
    /// - Throws: The errors of `min(_:_:)`.
    public func max<Content>(
        _ path: KeyPath<Record, Content?>,
        _ query: Query<Record> = Query()
    ) throws -> Content? {
        try extreme(path, query, isAscending: false)?[keyPath: path]
    }

    /// Returns the largest value of a property in the records that match a closure over the columns.
    ///
    /// - Throws: The errors of `min(_:_:)`. Errors of the closure are rethrown.
    @_disfavoredOverload
    public func max<Content>(
        _ path: KeyPath<Record, Content>,
        where condition: (Columns<Record>) throws -> Condition
    ) throws -> Content? {
        try max(path, Query(where: condition))
    }

    /// Returns the largest value of a property in the records that match a predicate.
    ///
    /// - Throws: The errors of `min(_:_:)`.
    @_disfavoredOverload
    public func max<Content>(
        _ path: KeyPath<Record, Content>,
        where predicate: Predicate<Record>
    ) throws -> Content? {
        try max(path, Query(where: predicate))
    }

    /// Returns the largest non-nil value of a property in the records that match a closure.
    ///
    /// - Throws: The errors of `min(_:_:)`. Errors of the closure are rethrown.
    public func max<Content>(
        _ path: KeyPath<Record, Content?>,
        where condition: (Columns<Record>) throws -> Condition
    ) throws -> Content? {
        try max(path, Query(where: condition))
    }

    /// Returns the largest non-nil value of a property in the records that match a predicate.
    ///
    /// - Throws: The errors of `min(_:_:)`.
    public func max<Content>(
        _ path: KeyPath<Record, Content?>,
        where predicate: Predicate<Record>
    ) throws -> Content? {
        try max(path, Query(where: predicate))
    }

    private func extreme(
        _ path: PartialKeyPath<Record>,
        _ query: Query<Record>,
        isAscending: Bool
    ) throws -> Record? {
        let model = try RecordTotals<Record>()
        let query = model.extreme(query, try model.column(path), isAscending: isAscending)
        return try read(query).items.first
    }
}
