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
    /// Why nothing more comes: the query cannot be run, or a row does not decode.
    ///
    /// What `items` had stays.
    public private(set) var error: SyncError?
    /// Whether the query has given neither records nor an error yet.
    public private(set) var isLoading = true

    @ObservationIgnored private let table: SyncTable<Record>
    @ObservationIgnored private let misfits: Misfits
    @ObservationIgnored private let watching = LiveTask()
    /// What ``follow(_:)`` was given last.
    @ObservationIgnored private var followed: TableQuery?

    /// Watches the records of a query.
    ///
    /// - Parameters:
    ///   - table: The table on the device.
    ///   - query: Which records, in what order, how many of them.
    ///   - misfits: What to do with a row that does not decode.
    public convenience init(
        _ table: SyncTable<Record>,
        _ query: Query<Record> = Query(),
        misfits: Misfits = .fail
    ) {
        self.init(table, .success(query), misfits)
    }

    /// Watches all records in an order, or the first ones of it.
    public convenience init(
        _ table: SyncTable<Record>,
        sortedBy order: [SortTerm<Record>],
        limit: Int? = nil,
        misfits: Misfits = .fail
    ) {
        self.init(table, Result { try Query().window(terms: order, limit) }, misfits)
    }

    fileprivate init(
        _ table: SyncTable<Record>,
        _ query: Result<Query<Record>, any Error>,
        _ misfits: Misfits
    ) {
        self.table = table
        self.misfits = misfits
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
        let results = table.observe(query.map(\.table), misfits)
        watching.replace(
            with: Task { [weak self] in
                do {
                    for try await items in results { self?.show(.success(items)) }
                } catch {
                    self?.show(.failure(error))
                }
            }
        )
    }

    /// What a query that was replaced gave last is not shown: its task is cancelled on this actor.
    private func show(_ result: Result<[Record], any Error>) {
        guard !Task.isCancelled else { return }
        isLoading = false
        switch result {
        case .success(let items):
            self.items = items
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
        misfits: Misfits = .fail
    ) {
        let query = Result { try Query(where: condition).window(terms: order, limit) }
        self.init(table, query, misfits)
    }

    /// Watches the records for which a predicate holds.
    public convenience init(
        _ table: SyncTable<Record>,
        where predicate: Predicate<Record>,
        sortedBy order: [SortTerm<Record>] = [],
        limit: Int? = nil,
        misfits: Misfits = .fail
    ) {
        let query = Result { try Query(where: predicate).window(terms: order, limit) }
        self.init(table, query, misfits)
    }

    /// Watches the records for which a closure over the columns holds, in the order of descriptors.
    @_disfavoredOverload
    public convenience init(
        _ table: SyncTable<Record>,
        where condition: (Columns<Record>) throws -> Condition,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        misfits: Misfits = .fail
    ) {
        let query = Result { try Query(where: condition).sorted(by: order).window(nil, limit, 0) }
        self.init(table, query, misfits)
    }

    /// Watches the records for which a predicate holds, in the order of descriptors.
    @_disfavoredOverload
    public convenience init(
        _ table: SyncTable<Record>,
        where predicate: Predicate<Record>,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        misfits: Misfits = .fail
    ) {
        let query = Result { try Query(where: predicate).sorted(by: order).window(nil, limit, 0) }
        self.init(table, query, misfits)
    }

    /// Watches all records in the order of descriptors, or the first ones of it.
    @_disfavoredOverload
    public convenience init(
        _ table: SyncTable<Record>,
        sortedBy order: [SortDescriptor<Record>],
        limit: Int? = nil,
        misfits: Misfits = .fail
    ) {
        let query = Result { try Query<Record>().sorted(by: order).window(nil, limit, 0) }
        self.init(table, query, misfits)
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
        misfits: Misfits = .fail
    ) {
        let query = Result { try Query(where: condition).window(terms: order, limit) }
        self.init(table, query, misfits)
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
