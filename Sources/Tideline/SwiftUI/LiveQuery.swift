// LiveQuery: the records of a query as an observable object, for views.

public import Foundation
public import Observation
import Synchronization

/// The records of a query, as they are now and after every change: for views.
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
/// Reading and decoding run beside the main actor; only the finished list is handed to it. It ends
/// when the object goes. No change is missed; of several that come together the last state is shown.
@Observable
@MainActor
public final class LiveQuery<Record: Sendable> {
    /// The records; those of the query before until the first result of a new one.
    public private(set) var items: [Record] = []
    /// Why `items` are not those of the store now: the query cannot be run, or a row does not decode and the
    /// query was made with `onDecodingFailure: .throw`.
    ///
    /// What `items` had stays. After a row that does not decode was changed or removed, it is nil again.
    public private(set) var error: SyncError?
    /// The rows of the query that do not decode, in its order; `items` do not have them.
    ///
    /// They are kept and synced. A row is no longer among them once it was changed so that it decodes, or removed.
    public private(set) var decodingFailures: [DecodingFailure] = []
    /// Whether the query has given neither records nor an error yet.
    public private(set) var isLoading = true

    @ObservationIgnored private let table: SyncTable<Record>
    @ObservationIgnored private let onDecodingFailure: DecodingFailurePolicy
    @ObservationIgnored private let watching = LiveTask()
    /// What ``follow(_:)`` was given last.
    @ObservationIgnored private var followed: TableQuery?

    /// Watches the records of a query.
    ///
    /// - Parameters:
    ///   - table: The table on the device.
    ///   - query: Which records, in what order, how many of them.
    ///   - onDecodingFailure: What to do with a row that does not decode.
    public convenience init(
        _ table: SyncTable<Record>,
        _ query: Query<Record> = Query(),
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) {
        self.init(table, .success(query), onDecodingFailure)
    }

    /// Watches all records in an order, or the first ones of it.
    public convenience init(
        _ table: SyncTable<Record>,
        sortedBy order: [SortTerm<Record>],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) {
        self.init(table, Result { try Query().window(terms: order, limit) }, onDecodingFailure)
    }

    fileprivate init(
        _ table: SyncTable<Record>,
        _ query: Result<Query<Record>, any Error>,
        _ onDecodingFailure: DecodingFailurePolicy
    ) {
        self.table = table
        self.onDecodingFailure = onDecodingFailure
        watch(query)
    }

    /// Shows another query from now on.
    public func update(_ query: Query<Record>) { watch(.success(query)) }

    /// Shows all records, or the first ones of an order, from now on.
    public func update(sortedBy order: [SortTerm<Record>], limit: Int? = nil) {
        watch(Result { try Query().window(terms: order, limit) })
    }

    /// Shows a query from now on, where it is another one than this was given last.
    ///
    /// For a view that is made again and again, as `LiveItems` is: what ``update(_:)`` shows meanwhile stays. A moment
    /// belongs into such a query as `now()`: with a `Date` it is another one each time.
    public func follow(_ query: Query<Record>) {
        guard query.table != followed else { return }
        if followed != nil { update(query) }
        followed = query.table
    }

    fileprivate func watch(_ query: Result<Query<Record>, any Error>) {
        isLoading = true
        let results = table.observeLive(query.map(\.table))
        watching.replace(
            with: Task { [weak self] in
                do {
                    for try await result in results { self?.show(.success(result)) }
                } catch {
                    self?.show(.failure(error))
                }
            }
        )
    }

    /// What a query that was replaced gave last is not shown: its task is cancelled on this actor.
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
            error = cause as? SyncError ?? SyncError.storeFailure(cause)
        }
    }
}

extension LiveQuery where Record: SyncRecord {
    /// Watches the records for which a closure over the columns holds.
    public convenience init(
        _ table: SyncTable<Record>,
        where condition: (Columns<Record>) throws -> Condition,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) {
        let query = Result { try Query(where: condition).window(terms: order, limit) }
        self.init(table, query, onDecodingFailure)
    }

    /// Watches the records for which a predicate holds.
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

    /// Watches the records for which a closure over the columns holds, in the order of descriptors.
    @_disfavoredOverload
    public convenience init(
        _ table: SyncTable<Record>,
        where condition: (Columns<Record>) throws -> Condition,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) {
        let query = Result { try Query(where: condition).sorted(by: order).window(nil, limit, 0) }
        self.init(table, query, onDecodingFailure)
    }

    /// Watches the records for which a predicate holds, in the order of descriptors.
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

    /// Watches all records in the order of descriptors, or the first ones of it.
    @_disfavoredOverload
    public convenience init(
        _ table: SyncTable<Record>,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) {
        let query = Result { try Query<Record>().sorted(by: order).window(nil, limit, 0) }
        self.init(table, query, onDecodingFailure)
    }

    /// Shows all records in the order of descriptors, or the first ones of it, from now on.
    @_disfavoredOverload
    public func update(sortedBy order: [SortDescriptor<Record>], limit: Int? = nil) {
        watch(Result { try Query<Record>().sorted(by: order).window(nil, limit, 0) })
    }

    /// Shows the records for which a closure over the columns holds from now on.
    public func update(
        where condition: (Columns<Record>) throws -> Condition,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil
    ) {
        watch(Result { try Query(where: condition).window(terms: order, limit) })
    }

    /// Shows the records for which a closure over the columns holds, in the order of descriptors.
    @_disfavoredOverload
    public func update(
        where condition: (Columns<Record>) throws -> Condition,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil
    ) {
        watch(Result { try Query(where: condition).sorted(by: order).window(nil, limit, 0) })
    }

    /// Shows the records for which a predicate holds from now on.
    public func update(
        where predicate: Predicate<Record>,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil
    ) {
        watch(Result { try Query(where: predicate).window(terms: order, limit) })
    }

    /// Shows the records for which a predicate holds, in the order of descriptors.
    @_disfavoredOverload
    public func update(
        where predicate: Predicate<Record>,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil
    ) {
        watch(Result { try Query(where: predicate).sorted(by: order).window(nil, limit, 0) })
    }
}

extension LiveQuery where Record == Row {
    /// Watches the rows for which a closure over columns by name holds.
    public convenience init(
        _ table: SyncTable<Row>,
        where condition: (Columns<Row>) throws -> Condition,
        sortedBy order: [SortTerm<Row>] = [],
        limit: Int? = nil,
        onDecodingFailure: DecodingFailurePolicy = .skip
    ) {
        let query = Result { try Query(where: condition).window(terms: order, limit) }
        self.init(table, query, onDecodingFailure)
    }

    /// Shows the rows for which a closure over columns by name holds from now on.
    public func update(
        where condition: (Columns<Row>) throws -> Condition,
        sortedBy order: [SortTerm<Row>] = [],
        limit: Int? = nil
    ) {
        watch(Result { try Query(where: condition).window(terms: order, limit) })
    }
}

extension Query {
    fileprivate func window(terms: [SortTerm<Record>], _ limit: Int?) throws -> Query {
        window(try terms.map { try $0.sortKey() }, limit, 0)
    }
}
