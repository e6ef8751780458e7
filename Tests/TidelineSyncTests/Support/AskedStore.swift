// AskedStore: a store that notes what it is asked for, and who listens to it.

import Synchronization
import Tideline
import TidelineCore
import TidelineTestKit

/// Notes the queries that reads ask of a store, and counts who listens to its changes.
final class AskedStore: ForwardingStore {
    struct Asked: Sendable {
        var table: String
        var filter: Filter?
        var order: [SortKey] = []
        /// Only how many there are.
        var isCount = false
    }

    let inner: any LocalStore
    private let state = Mutex<[Asked]>([])
    private let open = Mutex(0)

    init(_ inner: any LocalStore) { self.inner = inner }

    /// What reads asked for; those of transactions that write are not among it.
    var asked: [Asked] { state.withLock { $0 } }

    /// How many streams of changes are in use.
    var listeners: Int { open.withLock { $0 } }

    func forget() { state.withLock { $0 = [] } }

    func asked(of table: String) -> Int { asked.count { $0.table == table } }

    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result {
        try await inner.read { [self] in try body(Reader(inner: $0, note: note)) }
    }

    func changes() -> AsyncStream<Set<String>> { watched(inner.changes()) }

    func rowChanges() -> any AsyncSequence<StoreChange, Never> & Sendable {
        watched(inner.rowChanges())
    }

    private func watched<Change: JoinedChange>(
        _ stream: any AsyncSequence<Change, Never> & Sendable
    ) -> AsyncStream<Change> {
        open.withLock { $0 += 1 }
        return AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let task = Task {
                for await change in stream { continuation.join(change) }
                continuation.finish()
            }
            continuation.onTermination = { [self] _ in
                task.cancel()
                open.withLock { $0 -= 1 }
            }
        }
    }

    @Sendable private func note(_ asked: Asked) { state.withLock { $0.append(asked) } }

    private struct Reader: ForwardingReader {
        let inner: any LocalStoreReader
        let note: @Sendable (Asked) -> Void

        func rows(_ query: TableQuery, in table: String) throws -> [Row] {
            note(Asked(table: table, filter: query.filter, order: query.order))
            return try inner.rows(query, in: table)
        }

        func count(_ filter: Filter?, in table: String) throws -> Int {
            note(Asked(table: table, filter: filter, isCount: true))
            return try inner.count(filter, in: table)
        }
    }
}
