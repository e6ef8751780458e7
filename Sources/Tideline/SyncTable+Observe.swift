// SyncTable+Observe: emits the records of a query now and after every change to its table.

public import Foundation
import TidelineCore

extension SyncTable {
    func observe(
        _ query: Result<TableQuery, any Error>,
        _ onDecodingFailure: DecodingFailurePolicy
    ) -> ObservedValues<[Record]> {
        QueryObservation(engine: engine).observe {
            try ObservedRows(self, try query.get(), onDecodingFailure)
        }
    }

    func observeLive(
        _ query: Result<TableQuery, any Error>
    ) -> ObservedValues<LiveRows<Record>.Value> {
        QueryObservation(engine: engine).observe { try LiveRows(self, try query.get()) }
    }

    private func observeCount(
        of query: Result<Query<Record>, any Error>
    ) -> ObservedValues<Int> {
        QueryObservation(engine: engine).observe { ObservedCount(self, try query.get().filter) }
    }

    /// Emits the records of a query, now and after every change.
    ///
    /// The other overloads create such a query from their arguments.
    ///
    /// ```swift
    /// let query = try Query<TodoItem>(where: { !$0.complete }).sorted(by: .ascending(\.text))
    /// for try await items in todos.observe(query) { show(items) }
    /// ```
    public func observe(
        _ query: Query<Record>,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) -> some AsyncSequence<[Record], any Error> & Sendable {
        observe(Result { query.table }, onDecodingFailure)
    }

    /// Emits the record with an id, now and after every change; nil while the record does not exist on this device or
    /// does not decode.
    ///
    /// ```swift
    /// for try await item in todos.observe(id: milk.id) { show(item) }
    /// ```
    public func observe(id: String) -> some AsyncSequence<Record?, any Error> & Sendable {
        var query = TableQuery(filter: .equal(SystemColumn.id, .string(id)))
        query.limit = 1
        return observe(Result { [query] in query }, .skip).map { $0.first }
    }

    /// Emits the number of records that a query matches, ignoring its limit and offset, now and when it changes.
    ///
    /// ```swift
    /// for try await count in todos.observeCount() { show(count) }
    /// ```
    public func observeCount(
        _ query: Query<Record> = Query()
    ) -> some AsyncSequence<Int, any Error> & Sendable {
        observeCount(of: .success(query))
    }

    /// Emits the records that match a closure over the columns, now and after every change; without a closure, all
    /// records.
    ///
    /// ```swift
    /// for try await items in todos.observe(where: { !$0.complete }) { show(items) }
    /// ```
    ///
    /// A sequence may be iterated any number of times. Each iteration begins with the current records, and
    /// the query runs as long as the iteration lasts.
    ///
    /// A change that does not affect the result emits no value. A listener that does not keep up gets only the newest
    /// result. The first change is emitted at once. While changes keep coming, the query runs once every
    /// ``SyncLimits/observeInterval``, and the last value shows the newest state. A row that does not decode is skipped
    /// until it changes. With `onDecodingFailure: .throw` it ends the iteration with ``SyncError`` `rowDoesNotFit`; a
    /// new iteration begins with the current rows.
    public func observe(
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() },
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) -> some AsyncSequence<[Record], any Error> & Sendable {
        observe(
            Result {
                try Query(where: condition).window(order.map { try $0.sortKey() }, limit, 0).table
            },
            onDecodingFailure
        )
    }

    /// Emits the number of records that match a closure over the columns, now and when it changes.
    public func observeCount(
        where condition: (Columns<Record>) throws -> Condition
    ) -> some AsyncSequence<Int, any Error> & Sendable {
        observeCount(of: Result { try Query(where: condition) })
    }
}

extension SyncTable where Record: SyncRecord {
    /// Emits the number of records that match a predicate, now and when it changes.
    public func observeCount(
        where predicate: Predicate<Record>
    ) -> some AsyncSequence<Int, any Error> & Sendable {
        observeCount(of: Result { try Query(where: predicate) })
    }

    /// Emits the records that match a closure over the columns, in the order of sort descriptors.
    @_disfavoredOverload
    public func observe(
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() },
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) -> some AsyncSequence<[Record], any Error> & Sendable {
        observe(
            Result { try Query(where: condition).sorted(by: order).window(nil, limit, 0).table },
            onDecodingFailure
        )
    }

    /// Emits the records that match a predicate, now and after every change.
    public func observe(
        where predicate: Predicate<Record>,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) -> some AsyncSequence<[Record], any Error> & Sendable {
        observe(
            Result {
                try Query(where: predicate).window(order.map { try $0.sortKey() }, limit, 0).table
            },
            onDecodingFailure
        )
    }

    /// Emits the records that match a predicate, in the order of sort descriptors.
    @_disfavoredOverload
    public func observe(
        where predicate: Predicate<Record>,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) -> some AsyncSequence<[Record], any Error> & Sendable {
        observe(
            Result { try Query(where: predicate).sorted(by: order).window(nil, limit, 0).table },
            onDecodingFailure
        )
    }
}
