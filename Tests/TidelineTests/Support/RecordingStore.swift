// RecordingStore: a store that records its reads, and counts the listeners of its changes.

import Synchronization
import Tideline
import TidelineCore
import TidelineTestKit

final class RecordingStore: ForwardingStore {
    struct Read: Sendable {
        var table: String
        var filter: Filter?
        var order: [SortKey] = []
        /// Whether only a count was read.
        var isCount = false
        /// Whether only the rows of some keys were read.
        var hasKeys = false
    }

    let inner: any LocalStore
    private let state = Mutex<[Read]>([])
    private let open = Mutex(0)

    init(_ inner: any LocalStore) { self.inner = inner }

    /// The reads so far, without those of write transactions.
    var reads: [Read] { state.withLock { $0 } }

    /// The number of open streams of changes.
    var listeners: Int { open.withLock { $0 } }

    func forget() { state.withLock { $0 = [] } }

    func readCount(of table: String) -> Int { reads.count { $0.table == table } }

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

    @Sendable private func note(_ read: Read) { state.withLock { $0.append(read) } }

    private struct Reader: ForwardingReader {
        let inner: any LocalStoreReader
        let note: @Sendable (Read) -> Void

        func rows(_ query: TableQuery, in table: String) throws -> [Row] {
            note(Read(table: table, filter: query.filter, order: query.order))
            return try inner.rows(query, in: table)
        }

        func keyedRows(
            _ query: KeyedQuery,
            in table: String,
            omitting column: String
        ) throws -> [Row] {
            note(Read(table: table, filter: query.query.filter, hasKeys: true))
            return try inner.keyedRows(query, in: table, omitting: column)
        }

        func count(_ filter: Filter?, in table: String) throws -> Int {
            note(Read(table: table, filter: filter, isCount: true))
            return try inner.count(filter, in: table)
        }
    }
}
