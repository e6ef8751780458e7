// LiveQuery: the records of a query as an observable object, for views.

public import Foundation
public import Observation
import Synchronization

/// The records of a query, now and after every change, for views.
///
/// ```swift
/// struct OpenItems: View {
///     @State private var open: LiveQuery<TodoItem>
///
///     init(_ todos: SyncTable<TodoItem>) {
///         _open = State(initialValue: LiveQuery(todos, where: { !$0.complete }))
///     }
///
///     var body: some View { List(open.items) { Text($0.text) } }
/// }
/// ```
///
/// To show the array that a closure reads from several tables, or a query with related records, pass the
/// ``SyncContext`` instead of the table. For a result that is not an array, use ``LiveValue``.
///
/// Reading and decoding run off the main actor; only the finished list is delivered to it. Observation ends when the
/// object is released. No change is missed; if several changes arrive together, the latest state is shown.
@Observable
@MainActor
public final class LiveQuery<Record: Sendable> {
    /// The records.
    ///
    /// Until the first result of a new query, these are the records of the previous query.
    public private(set) var items: [Record] = []
    /// The reason why `items` are not current: the query cannot be run, or a row does not decode.
    ///
    /// `items` keep their last value. A row that does not decode is an error only with
    /// `onDecodingFailure: .throw`; once that row is changed or removed, the error is nil again.
    public private(set) var error: SyncError?
    /// The rows of the query that do not decode, in the query's order; `items` does not include them.
    ///
    /// These rows are kept and synced. A row is removed from this list once it decodes or no longer exists.
    public private(set) var decodingFailures: [DecodingFailure] = []
    /// Whether the query has not yet returned records or an error.
    public private(set) var isLoading = true

    /// The table of queries; nil if a closure or a query with related records supplies the records.
    @ObservationIgnored private let table: SyncTable<Record>?
    @ObservationIgnored let engine: @Sendable () throws -> SyncEngine
    @ObservationIgnored private let onDecodingFailure: DecodingFailurePolicy
    @ObservationIgnored private let watching = LiveTask()
    /// The query that was last passed to ``follow(_:)``.
    @ObservationIgnored private var followed: TableQuery?

    /// Observes the records of a query.
    ///
    /// - Parameters:
    ///   - table: The table on the device.
    ///   - query: The condition, the order, and the number of records.
    ///   - onDecodingFailure: What to do with a row that does not decode.
    public convenience init(
        _ table: SyncTable<Record>,
        _ query: Query<Record>,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) {
        self.init(table, .success(query), onDecodingFailure)
    }

    /// Observes the records that match a closure over the columns; without a closure, all records.
    public convenience init(
        _ table: SyncTable<Record>,
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() },
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) {
        let query = Result { try Query(where: condition).window(terms: order, limit) }
        self.init(table, query, onDecodingFailure)
    }

    fileprivate init(
        _ table: SyncTable<Record>,
        _ query: Result<Query<Record>, any Error>,
        _ onDecodingFailure: DecodingFailurePolicy
    ) {
        self.table = table
        self.onDecodingFailure = onDecodingFailure
        engine = { [engine = table.engine] in engine }
        watch(query)
    }

    /// Shows the arrays of a sequence.
    init(_ context: SyncContext, _ arrays: ObservedValues<[Record]>) {
        table = nil
        onDecodingFailure = .throw
        engine = { try context.engine() }
        show(arrays)
    }

    /// Shows another query from now on.
    public func update(_ query: Query<Record>) { watch(.success(query)) }

    /// From now on, shows the records that match a closure over the columns; without a closure, all records.
    public func update(
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() },
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil
    ) {
        watch(Result { try Query(where: condition).window(terms: order, limit) })
    }

    /// Shows a query from now on, if it differs from the last query passed to this method.
    ///
    /// Use this method for a view that is recreated often, as `LiveItems` does. A call with the same query does not
    /// replace a query that was set with ``update(_:)``. Write the current time in such a query as `now()`; with a
    /// `Date`, the query differs each time.
    public func follow(_ query: Query<Record>) {
        guard query.table != followed else { return }
        if followed != nil { update(query) }
        followed = query.table
    }

    fileprivate func watch(_ query: Result<Query<Record>, any Error>) {
        guard let table else {
            let error = SyncError.unsupportedQuery(
                "this list was created without a table. Call update(reading:), or create a LiveQuery with the table."
            )
            return show(ObservedValues<LiveRows<Record>.Value>(deferred: { throw error })) { $0 }
        }
        show(table.observeLive(query.map(\.table)), as: { $0 })
    }

    /// Shows the arrays of a sequence from now on.
    func show(_ arrays: ObservedValues<[Record]>) {
        show(arrays) { LiveRows<Record>.Value(records: $0, failures: []) }
    }

    private func show<Value: Sendable>(
        _ values: ObservedValues<Value>,
        as rows: @escaping @Sendable (Value) -> LiveRows<Record>.Value
    ) {
        isLoading = true
        watching.replace(
            with: Task { [weak self] in
                do {
                    for try await value in values { self?.show(.success(rows(value))) }
                } catch {
                    self?.show(.failure(error))
                }
            }
        )
    }

    /// Wraps an error that is not a ``SyncError``.
    private func failure(_ cause: any Error) -> SyncError {
        if table != nil { return .storeFailure(cause) }
        return SyncError(
            .storeFailure,
            "The closure of the list threw an error: \(cause)",
            cause: cause
        )
    }

    /// Shows a result.
    ///
    /// The task of a replaced query is cancelled on this actor, so its last result is not shown.
    private func show(_ result: Result<LiveRows<Record>.Value, any Error>) {
        guard !Task.isCancelled else { return }
        isLoading = false
        switch result {
        case .success(let result):
            decodingFailures = result.failures
            if onDecodingFailure == .throw, let failure = result.failures.first {
                error = SyncError(.rowDoesNotFit, failure.message, cause: failure)
                return
            }
            items = result.records
            error = nil
        case .failure(let cause):
            error = cause as? SyncError ?? failure(cause)
        }
    }
}

extension LiveQuery where Record: SyncRecord {
    /// Observes the records that match a predicate.
    public convenience init(
        _ table: SyncTable<Record>,
        where predicate: Predicate<Record>,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) {
        let query = Result { try Query(where: predicate).window(terms: order, limit) }
        self.init(table, query, onDecodingFailure)
    }

    /// Observes the records that match a closure over the columns, in the order of sort descriptors.
    @_disfavoredOverload
    public convenience init(
        _ table: SyncTable<Record>,
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() },
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) {
        let query = Result { try Query(where: condition).sorted(by: order).window(nil, limit, 0) }
        self.init(table, query, onDecodingFailure)
    }

    /// Observes the records that match a predicate, in the order of sort descriptors.
    @_disfavoredOverload
    public convenience init(
        _ table: SyncTable<Record>,
        where predicate: Predicate<Record>,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) {
        let query = Result { try Query(where: predicate).sorted(by: order).window(nil, limit, 0) }
        self.init(table, query, onDecodingFailure)
    }

    /// Shows the records that match a closure over the columns, in the order of sort descriptors.
    @_disfavoredOverload
    public func update(
        where condition: (Columns<Record>) throws -> Condition = { _ in .always() },
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil
    ) {
        watch(Result { try Query(where: condition).sorted(by: order).window(nil, limit, 0) })
    }

    /// From now on, shows the records that match a predicate.
    public func update(
        where predicate: Predicate<Record>,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil
    ) {
        watch(Result { try Query(where: predicate).window(terms: order, limit) })
    }

    /// Shows the records that match a predicate, in the order of sort descriptors.
    @_disfavoredOverload
    public func update(
        where predicate: Predicate<Record>,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil
    ) {
        watch(Result { try Query(where: predicate).sorted(by: order).window(nil, limit, 0) })
    }
}

extension Query {
    fileprivate func window(terms: [SortTerm<Record>], _ limit: Int?) throws -> Query {
        window(try terms.map { try $0.sortKey() }, limit, 0)
    }
}
