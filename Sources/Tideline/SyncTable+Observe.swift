// observe: the records of a query now and after every change of its table.

public import Foundation
import TidelineCore

extension SyncTable {
    func observe(
        _ query: Result<TableQuery, any Error>,
        _ onDecodingFailure: DecodingFailurePolicy
    ) -> ObservedValues<[Record]> {
        engine.observe { try ObservedRows(self, try query.get(), onDecodingFailure) }
    }

    func observeLive(
        _ query: Result<TableQuery, any Error>
    ) -> ObservedValues<LiveRows<Record>.Value> {
        engine.observe { try LiveRows(self, try query.get()) }
    }

    private func observeCount(
        of query: Result<Query<Record>, any Error>
    ) -> ObservedValues<Int> {
        engine.observe { ObservedCount(self, try query.get().filter) }
    }

    /// The records of a query, now and after every change: what every other form comes to.
    ///
    /// ```swift
    /// let query = try Query<TodoItem>(where: { !$0.complete }).sorted(by: .ascending(\.text))
    /// for try await items in todos.observe(query) { show(items) }
    /// ```
    public func observe(
        _ query: Query<Record>,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) -> some AsyncSequence<[Record], any Error> {
        observe(Result { query.table }, onDecodingFailure)
    }

    /// The record with an id, now and after every change; nil while it is not here or does not decode.
    ///
    /// ```swift
    /// for try await item in todos.observe(id: milk.id) { show(item) }
    /// ```
    public func observe(id: String) -> some AsyncSequence<Record?, any Error> {
        var query = TableQuery(filter: .equal(SystemColumn.id, .string(id)))
        query.limit = 1
        return observe(Result { [query] in query }, .skip).map { $0.first }
    }

    /// How many records a query has, without its window, now and whenever it is another number.
    ///
    /// ```swift
    /// for try await count in todos.observeCount() { show(count) }
    /// ```
    public func observeCount(
        _ query: Query<Record> = Query()
    ) -> some AsyncSequence<Int, any Error> {
        observeCount(of: .success(query))
    }

    /// All records, now and after every change.
    ///
    /// A sequence may be iterated any number of times: each begins with the records as they are then, and
    /// the query runs for as long as somebody iterates.
    ///
    /// A change that leaves the result as it was gives no value; a listener that does not keep up
    /// gets the newest result only. The first change is shown at once; while others follow without a
    /// pause, the query runs once each ``SyncLimits/observeInterval``, and the newest state comes last.
    /// A row that does not decode is left out until it changes; with `onDecodingFailure: .throw` it ends the
    /// iteration with ``SyncError`` `rowDoesNotFit`, and another iteration begins with the rows as they are then.
    public func observe(
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) -> some AsyncSequence<[Record], any Error> {
        observe(
            Result { try Query<Record>().window(order.map { try $0.sortKey() }, limit, 0).table },
            onDecodingFailure
        )
    }
}

extension SyncTable where Record: SyncRecord {
    /// All records in the order of descriptors, now and after every change.
    @_disfavoredOverload
    public func observe(
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) -> some AsyncSequence<[Record], any Error> {
        observe(
            Result { try Query<Record>().sorted(by: order).window(nil, limit, 0).table },
            onDecodingFailure
        )
    }

    /// How many records a closure over the columns describes, now and whenever it is another number.
    public func observeCount(
        where condition: (Columns<Record>) throws -> Condition
    ) -> some AsyncSequence<Int, any Error> {
        observeCount(of: Result { try Query(where: condition) })
    }

    /// How many records a predicate describes, now and whenever it is another number.
    public func observeCount(
        where predicate: Predicate<Record>
    ) -> some AsyncSequence<Int, any Error> {
        observeCount(of: Result { try Query(where: predicate) })
    }

    /// The records for which a closure over the columns holds, now and after every change.
    ///
    /// ```swift
    /// for try await items in todos.observe(where: { !$0.complete }) { show(items) }
    /// ```
    public func observe(
        where condition: (Columns<Record>) throws -> Condition,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) -> some AsyncSequence<[Record], any Error> {
        observe(
            Result {
                try Query(where: condition).window(order.map { try $0.sortKey() }, limit, 0).table
            },
            onDecodingFailure
        )
    }

    /// The records for which a closure over the columns holds, in the order of descriptors.
    @_disfavoredOverload
    public func observe(
        where condition: (Columns<Record>) throws -> Condition,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) -> some AsyncSequence<[Record], any Error> {
        observe(
            Result { try Query(where: condition).sorted(by: order).window(nil, limit, 0).table },
            onDecodingFailure
        )
    }

    /// The records for which a predicate holds, now and after every change.
    public func observe(
        where predicate: Predicate<Record>,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) -> some AsyncSequence<[Record], any Error> {
        observe(
            Result {
                try Query(where: predicate).window(order.map { try $0.sortKey() }, limit, 0).table
            },
            onDecodingFailure
        )
    }

    /// The records for which a predicate holds, in the order of descriptors.
    @_disfavoredOverload
    public func observe(
        where predicate: Predicate<Record>,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) -> some AsyncSequence<[Record], any Error> {
        observe(
            Result { try Query(where: predicate).sorted(by: order).window(nil, limit, 0).table },
            onDecodingFailure
        )
    }
}

extension SyncTable where Record == Row {
    /// The rows that a closure describes, now and after every change.
    public func observe(
        where condition: (Columns<Row>) throws -> Condition,
        sortedBy order: [SortTerm<Row>] = [],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) -> some AsyncSequence<[Row], any Error> {
        observe(
            Result {
                try Query(where: condition).window(order.map { try $0.sortKey() }, limit, 0).table
            },
            onDecodingFailure
        )
    }

    /// How many rows a closure describes, now and whenever it is another number.
    public func observeCount(
        where condition: (Columns<Row>) throws -> Condition
    ) -> some AsyncSequence<Int, any Error> {
        observeCount(of: Result { try Query(where: condition) })
    }
}
