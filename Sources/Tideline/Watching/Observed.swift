// Observed: a query that runs now, and again after each change that may affect its result.
// One loop observes lists, single records and counts.

import Foundation
import TidelineCore

/// An observed query with its last result, which decides whether a change affects it.
protocol Observed: Sendable {
    associatedtype Value: Sendable

    /// Runs the query; returns nil if the result is the same as before.
    mutating func run() async throws -> Value?

    /// Returns whether the result may differ after a change.
    func isReached(by change: StoreChange) -> Bool

    /// Whether the last run read only rows that have changed, by their ids or by an index, and not whole queries.
    var readsChangesOnly: Bool { get }
}

extension Observed {
    /// By default, false.
    var readsChangesOnly: Bool { false }
}

/// A sequence of a query's results, now and after every change that affects them.
///
/// Each iteration has its own observation, which ends with the iterator.
struct ObservedValues<Value: Sendable>: AsyncSequence, Sendable {
    fileprivate let watch: @Sendable () -> AsyncThrowingStream<Value, any Error>

    fileprivate init(_ watch: @escaping @Sendable () -> AsyncThrowingStream<Value, any Error>) {
        self.watch = watch
    }

    /// Creates a sequence that each iteration makes with a closure; if the closure throws, the
    /// iteration throws its error.
    init(deferred make: @escaping @Sendable () throws -> ObservedValues) {
        watch = {
            do {
                return try make().watch()
            } catch {
                return AsyncThrowingStream { $0.finish(throwing: error) }
            }
        }
    }

    func makeAsyncIterator() -> AsyncThrowingStream<Value, any Error>.Iterator {
        watch().makeAsyncIterator()
    }
}

/// An observation of queries, which runs them again after each change that affects them.
struct QueryObservation {
    let engine: SyncEngine

    /// The factor by which a pause is shorter after a run that reads only changed rows than after a run that reads
    /// all rows.
    private static let shortPauses = 32

    /// Returns a sequence of a query's results, now and after every change that affects them.
    func observe<Subject: Observed>(
        _ make: @escaping @Sendable () throws -> Subject
    ) -> ObservedValues<Subject.Value> {
        ObservedValues { [self] () in watched(make) }
    }

    private func watched<Subject: Observed>(
        _ make: @escaping @Sendable () throws -> Subject
    ) -> AsyncThrowingStream<Subject.Value, any Error> {
        AsyncThrowingStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            // Listening begins before the first read, so that no change is missed between them.
            let changes = engine.store.rowChanges()
            let task = Task {
                do {
                    var subject = try make()
                    if let first = try await run(&subject) { continuation.yield(first) }
                    for await change in changes where subject.isReached(by: change) {
                        if let next = try await run(&subject) { continuation.yield(next) }
                        // Changes that arrive in the meantime are coalesced, and the query runs once for all of them.
                        let interval = engine.limits.observeInterval
                        try await engine.environment.sleep(
                            subject.readsChangesOnly ? interval / Self.shortPauses : interval
                        )
                    }
                    continuation.finish()
                } catch {
                    continuation.finish(throwing: error)
                }
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }

    /// Runs a query, and retries with backoff while the store cannot be read.
    private func run<Subject: Observed>(_ subject: inout Subject) async throws -> Subject.Value? {
        var failures = 0
        while true {
            do {
                return try await subject.run()
            } catch let error as SyncError
                where error.code == .storeUnavailable || error.code == .suspended
            {
                failures += 1
                try await engine.environment.sleep(StoreRetry.delay(after: failures))
            }
        }
    }
}

extension RecordCoder {
    /// Returns the condition that changes are checked against, with the column names of the table.
    func conditionOnChanges(_ filter: Filter?, now: Date) -> Filter? {
        guard let filter = applyingDefaults(filter?.bound(now: now)) else { return nil }
        let checked = try? FilterChecker(onDevice: table).filter(filter.expression)
        return checked.map { Filter($0) } ?? filter
    }
}

extension SyncTable {
    /// Returns the condition that changes are checked against, with the column names of the table.
    fileprivate func conditionOnChanges(_ filter: Filter?) -> Filter? {
        coder.conditionOnChanges(filter, now: engine.environment.now())
    }
}

/// The rows that a count includes.
enum CountedRows {
    /// The maximum number of ids that are kept in memory.
    ///
    /// With more rows, every change to the table runs the count again.
    private static let idsMax = 1000

    /// Returns the number of rows that a filter matches, and their ids; nil if there are too many.
    static func read(
        _ filter: Filter?,
        in table: String,
        of store: any LocalStoreReader
    ) throws -> (count: Int, ids: Set<ItemKey>?) {
        let count = try store.count(filter, in: table)
        guard count <= idsMax else { return (count, nil) }
        var query = TableQuery(filter: filter)
        query.select = [SystemColumn.id]
        return (count, Set(try store.rows(query, in: table).map { ItemKey($0.id) }))
    }
}

/// The records of a query.
struct ObservedRows<Record: Sendable>: Observed {
    private let table: SyncTable<Record>
    private let query: TableQuery
    private let onDecodingFailure: DecodingFailurePolicy
    private let list = RememberedList()
    /// The query for each run; nil if it depends on the time.
    private let prepared: ObservedQuery?
    private(set) var readsChangesOnly = false
    private var records = DecodedRows<Record>()
    private var failures: [ItemKey: DecodingFailure] = [:]

    init(
        _ table: SyncTable<Record>,
        _ query: TableQuery,
        _ onDecodingFailure: DecodingFailurePolicy
    ) throws {
        try query.checkWindow()
        (self.table, self.query, self.onDecodingFailure) = (table, query, onDecodingFailure)
        let isTimeless = query.filter?.expression.calls(.now) != true
        prepared = isTimeless ? ObservedQuery(query, table.coder, table.engine) : nil
    }

    mutating func run() async throws -> [Record]? { try await runReporting().records }

    /// Runs the query.
    ///
    /// - Returns: The records, or nil if they are the same as before, and the rows that were skipped.
    mutating func runReporting() async throws -> (records: [Record]?, failures: [DecodingFailure]) {
        let coder = table.coder
        let query = prepared ?? ObservedQuery(query, coder, table.engine)
        let (rows, isWhole) = try await table.engine.read { [list] queue in
            try list.read(query, coder, of: queue.store)
        }
        readsChangesOnly = !isWhole
        var failures = failures
        let found = try records.update(
            rows,
            decode: { [table, onDecodingFailure] row in
                do {
                    return try table.hand([row], .throw, selecting: query.storeQuery.select).first
                } catch let error as SyncError where onDecodingFailure == .skip {
                    guard let failure = error.cause as? DecodingFailure else { throw error }
                    failures[ItemKey(row.id)] = failure
                    return nil
                }
            },
            encode: coder.encode
        )
        let skipped = records.skipped
        let left = Set(skipped)
        self.failures = failures.filter { left.contains($0.key) }
        return (found, skipped.compactMap { failures[$0] })
    }

    func isReached(by change: StoreChange) -> Bool {
        let catalog = table.engine.catalog
        if change.changes(anyOf: catalog.relatedTables(of: query.filter)) { return true }
        guard change.tables[table.name] != nil else { return false }
        let relates = query.filter?.expression.relates == true
        guard let prepared, !query.searches, !relates else { return true }
        var query = query
        query.filter = prepared.onChanges
        return change.reaches(query, of: table.name, shown: records.ids)
    }
}

/// The records of a query, and its rows that do not decode.
struct LiveRows<Record: Sendable>: Observed {
    struct Value: Sendable {
        var records: [Record]
        var failures: [DecodingFailure]
    }

    private var rows: ObservedRows<Record>
    private var last: Value?

    init(_ table: SyncTable<Record>, _ query: TableQuery) throws {
        rows = try ObservedRows(table, query, .skip)
    }

    mutating func run() async throws -> Value? {
        let (records, failures) = try await rows.runReporting()
        if records == nil, let last, last.failures == failures { return nil }
        let value = Value(records: records ?? last?.records ?? [], failures: failures)
        last = value
        return value
    }

    func isReached(by change: StoreChange) -> Bool { rows.isReached(by: change) }

    var readsChangesOnly: Bool { rows.readsChangesOnly }
}

/// The number of records that match a condition.
struct ObservedCount<Record: Sendable>: Observed {
    private let table: SyncTable<Record>
    private let filter: Filter?
    private var last: Int?
    /// The ids of the counted rows; nil if there are too many.
    private var counted: Set<ItemKey>?

    init(_ table: SyncTable<Record>, _ filter: Filter?) {
        (self.table, self.filter) = (table, filter)
    }

    mutating func run() async throws -> Int? {
        let name = table.name
        let filter = table.coder.applyingDefaults(
            filter?.bound(now: table.engine.environment.now())
        )
        let (count, ids) = try await table.engine.read {
            try CountedRows.read(filter, in: name, of: $0.store)
        }
        counted = ids
        defer { last = count }
        return count == last ? nil : count
    }

    func isReached(by change: StoreChange) -> Bool {
        let catalog = table.engine.catalog
        if change.changes(anyOf: catalog.relatedTables(of: filter)) { return true }
        guard change.tables[table.name] != nil else { return false }
        if let condition = filter?.expression, condition.calls(.now) || condition.readsTables {
            return true
        }
        return change.changesCount(
            table.conditionOnChanges(filter),
            of: table.name,
            counted: counted
        )
    }
}
