// RelayedStore: a store whose reads a test may modify on their way; all other calls are forwarded.

import Synchronization
import TidelineCore
import TidelineServerCore

final class RelayedStore: TableStore {
    private let store: any TableStore
    private let clockNow = Mutex<TableClock?>(nil)
    private let clocks = Mutex(0)
    private let readers = Mutex<[ReadCaller]>([])

    /// The callers of the lists.
    var callers: [ReadCaller] { readers.withLock { $0 } }

    /// Whether pending cascades are not continued before ``releaseCascades()``.
    private let holdsCascades: Bool
    /// Called on the writer's thread before each step of a cascade.
    private let beforeStep: @Sendable () -> Void
    private let graph = Mutex<(@Sendable () -> ReferenceGraph?)?>(nil)

    init(
        _ store: any TableStore,
        holdsCascades: Bool = false,
        beforeStep: @escaping @Sendable () -> Void = {}
    ) {
        self.store = store
        self.holdsCascades = holdsCascades
        self.beforeStep = beforeStep
    }

    /// The clock that lists, deltas, digests and clock reads report from now on instead of the store's own.
    ///
    /// Pages and digests contain it.
    var clock: TableClock? {
        get { clockNow.withLock { $0 } }
        set { clockNow.withLock { $0 = newValue } }
    }

    /// How often a clock was read separately.
    var clocksAsked: Int { clocks.withLock { $0 } }

    func list(_ request: ListRequest, in table: Table) async throws -> ListPage {
        readers.withLock { $0.append(request.caller) }
        var page = try await store.list(request, in: table)
        page.clock = clock
        return page
    }

    func clock(of table: Table) async throws -> TableClock {
        clocks.withLock { $0 += 1 }
        if let clock { return clock }
        return try await store.clock(of: table)
    }

    func changes(_ request: ChangeRequest, in table: Table) async throws -> ChangePage {
        var page = try await store.changes(request, in: table)
        if let clock { page.clock = clock }
        return page
    }

    func prepare(
        _ tables: [TableDefinition],
        filtered: Set<String>,
        isComplete: Bool
    ) async throws -> [TableDefinition] {
        try await store.prepare(tables, filtered: filtered, isComplete: isComplete)
    }

    func digest(_ request: DigestRequest, in table: Table) async throws -> TableDigest {
        var digest = try await store.digest(request, in: table)
        digest.clock = clock
        return digest
    }

    func read(
        _ id: String,
        view: QueryExpression?,
        in table: Table,
        reservation: RowReservation?
    ) async throws -> StoredRow? {
        try await store.read(id, view: view, in: table, reservation: reservation)
    }

    func image(_ id: String, view: QueryExpression?, in table: Table) async throws -> RowImage? {
        try await store.image(id, view: view, in: table)
    }

    func databaseDefaults(of places: [Int], in table: Table) async throws -> [Int: SQLValue] {
        try await store.databaseDefaults(of: places, in: table)
    }

    func write(_ batch: WriteBatch) async throws -> [GroupOutcome] {
        try await store.write(batch)
    }

    func isNew(_ key: RepeatKey) async throws -> Bool { try await store.isNew(key) }

    func epoch() async throws -> String { try await store.epoch() }

    func watch(_ report: @escaping @Sendable ([TableTimestamp]) -> Void) async throws {
        try await store.watch(report)
    }

    func watchEpoch(_ report: @escaping @Sendable (String) -> Void) { store.watchEpoch(report) }

    func continueCascades(in graph: @escaping @Sendable () -> ReferenceGraph?) async throws {
        let gated: @Sendable () -> ReferenceGraph? = { [beforeStep] in
            beforeStep()
            return graph()
        }
        if holdsCascades { return self.graph.withLock { $0 = gated } }
        try await store.continueCascades(in: gated)
    }

    /// Lets the store continue pending cascades.
    func releaseCascades() async throws {
        guard let graph = graph.withLock({ $0 }) else { return }
        try await store.continueCascades(in: graph)
    }

    func checkWritable() async throws { try await store.checkWritable() }

    var writeQueueLength: Int { store.writeQueueLength }

    var logBytes: Int { store.logBytes }

    func sizes() async throws -> [StoreSize] { try await store.sizes() }

    func stop() async { await store.stop() }
}
