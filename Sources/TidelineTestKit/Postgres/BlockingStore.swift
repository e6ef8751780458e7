// BlockingStore: a store whose callers block their thread, so that the simulated clock does not
// advance while they wait.

import Dispatch
import Synchronization
package import TidelineCore
package import TidelineServerCore

/// A store for simulated time whose work runs on separate threads.
package final class BlockingStore: TableStore {
    private let store: any TableStore

    package init(_ store: any TableStore) { self.store = store }

    private func wait<Result: Sendable>(
        _ body: @escaping @Sendable (any TableStore) async throws -> Result
    ) throws -> Result {
        let end = DispatchSemaphore(value: 0)
        let box = ResultBox<Result>()
        // Runs on the global executor instead of the simulation's executor.
        Task.detached { [store] in
            do {
                box.put(.success(try await body(store)))
            } catch {
                box.put(.failure(error))
            }
            end.signal()
        }
        end.wait()
        guard let result = box.result else { throw ServerError.failed }
        return try result.get()
    }

    package func prepare(
        _ tables: [TableDefinition],
        filtered: Set<String>,
        isComplete: Bool
    ) async throws -> [TableDefinition] {
        try wait { try await $0.prepare(tables, filtered: filtered, isComplete: isComplete) }
    }

    package func list(_ request: ListRequest, in table: Table) async throws -> ListPage {
        try wait { try await $0.list(request, in: table) }
    }

    package func changes(_ request: ChangeRequest, in table: Table) async throws -> ChangePage {
        try wait { try await $0.changes(request, in: table) }
    }

    package func digest(_ request: DigestRequest, in table: Table) async throws -> TableDigest {
        try wait { try await $0.digest(request, in: table) }
    }

    package func stored(_ name: String) async throws -> TableDefinition? {
        try wait { try await $0.stored(name) }
    }

    package func clock(of table: Table) async throws -> TableClock {
        try wait { try await $0.clock(of: table) }
    }

    package func read(
        _ id: String,
        view: QueryExpression?,
        in table: Table,
        reservation: RowReservation?
    ) async throws -> StoredRow? {
        try wait { try await $0.read(id, view: view, in: table, reservation: reservation) }
    }

    package func image(
        _ id: String,
        view: QueryExpression?,
        in table: Table
    ) async throws -> RowImage? {
        try wait { try await $0.image(id, view: view, in: table) }
    }

    package func databaseDefaults(
        of places: [Int],
        in table: Table
    ) async throws -> [Int: SQLValue] {
        try wait { try await $0.databaseDefaults(of: places, in: table) }
    }

    package func write(_ batch: WriteBatch) async throws -> [GroupOutcome] {
        try wait { try await $0.write(batch) }
    }

    package func isNew(_ key: RepeatKey) async throws -> Bool {
        try wait { try await $0.isNew(key) }
    }

    package func epoch() async throws -> String { try wait { try await $0.epoch() } }

    package func watch(_ report: @escaping @Sendable ([TableTimestamp]) -> Void) async throws {
        try wait { try await $0.watch(report) }
    }

    package func watchEpoch(_ report: @escaping @Sendable (String) -> Void) {
        store.watchEpoch(report)
    }

    package func continueCascades(
        in graph: @escaping @Sendable () -> ReferenceGraph?
    ) async throws {
        try wait { try await $0.continueCascades(in: graph) }
    }

    package func checkWritable() async throws { try wait { try await $0.checkWritable() } }

    package var writeQueueLength: Int { store.writeQueueLength }

    package var logBytes: Int { store.logBytes }

    package func sizes() async throws -> [StoreSize] { try wait { try await $0.sizes() } }

    package func stop() async { await store.stop() }
}

/// A result that another thread provides.
private final class ResultBox<Value: Sendable>: Sendable {
    private let state = Mutex<Result<Value, any Error>?>(nil)

    var result: Result<Value, any Error>? { state.withLock { $0 } }

    func put(_ result: Result<Value, any Error>) { state.withLock { $0 = result } }
}
