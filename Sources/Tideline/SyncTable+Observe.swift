// observe: the records of a query now and after every change of its table.

public import Foundation
import TidelineCore

extension SyncTable {
    func observe(
        _ query: Result<TableQuery, any Error>,
        _ misfits: Misfits
    ) -> AsyncThrowingStream<[Record], any Error> {
        let (table, current) = (name, self)
        return AsyncThrowingStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            // Listening begins before the first read, so that no change falls between them.
            let changes = engine.store.changes()
            let task = Task {
                do {
                    let query = try query.get()
                    try query.checkWindow()
                    var last: (rows: [Row], shown: [Row])?
                    func send() async throws {
                        let query = query.bound(now: current.engine.environment.now())
                        let rows = try await current.engine.read {
                            try $0.store.rows(query, in: table)
                        }
                        guard rows != last?.rows else { return }
                        let records = try current.hand(rows, misfits)
                        // A push changes the version of a row, which the record may not show.
                        let shown = try records.map(current.coder.encode)
                        let isNews = shown != last?.shown
                        last = (rows, shown)
                        if isNews { continuation.yield(records) }
                    }
                    try await send()
                    for await changed in changes where changed.contains(table) {
                        try await send()
                    }
                    continuation.finish()
                } catch {
                    continuation.finish(throwing: error)
                }
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }

    /// All records, now and after every change.
    ///
    /// A change that leaves the result as it was gives no value; a listener that does not keep up
    /// gets the newest result only. A row that does not decode ends it with ``SyncError``
    /// `rowDoesNotFit`, or is left out with `misfits: .skip`.
    public func observe(
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        misfits: Misfits = .fail
    ) -> some AsyncSequence<[Record], any Error> {
        observe(
            Result { try Query<Record>().window(order.map { try $0.sortKey() }, limit, 0).table },
            misfits
        )
    }
}

extension SyncTable where Record: SyncRecord {
    /// The records for which a closure over the columns holds, now and after every change.
    ///
    /// ```swift
    /// for try await items in todos.observe(where: { !$0.complete }) { show(items) }
    /// ```
    public func observe(
        where condition: (Columns<Record>) throws -> Condition,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        misfits: Misfits = .fail
    ) -> some AsyncSequence<[Record], any Error> {
        observe(
            Result {
                try Query(where: condition).window(order.map { try $0.sortKey() }, limit, 0).table
            },
            misfits
        )
    }

    /// The records for which a closure over the columns holds, in the order of descriptors.
    public func observe(
        where condition: (Columns<Record>) throws -> Condition,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        misfits: Misfits = .fail
    ) -> some AsyncSequence<[Record], any Error> {
        observe(
            Result { try Query(where: condition).sorted(by: order).window(nil, limit, 0).table },
            misfits
        )
    }

    /// The records for which a predicate holds, now and after every change.
    public func observe(
        where predicate: Predicate<Record>,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        misfits: Misfits = .fail
    ) -> some AsyncSequence<[Record], any Error> {
        observe(
            Result {
                try Query(where: predicate).window(order.map { try $0.sortKey() }, limit, 0).table
            },
            misfits
        )
    }

    /// The records for which a predicate holds, in the order of descriptors.
    public func observe(
        where predicate: Predicate<Record>,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        misfits: Misfits = .fail
    ) -> some AsyncSequence<[Record], any Error> {
        observe(
            Result { try Query(where: predicate).sorted(by: order).window(nil, limit, 0).table },
            misfits
        )
    }
}
