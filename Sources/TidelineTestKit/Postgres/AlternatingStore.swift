// AlternatingStore: a store that forwards each request to the next of several servers' stores.

import Synchronization
package import TidelineCore
package import TidelineServerCore

/// A store that forwards each read and write to the next of several servers' stores.
///
/// Tests use it to reveal state that one server keeps in memory but another server needs.
package final class AlternatingStore: TableStore {
    package let stores: [any TableStore]
    private let turn = Mutex(0)
    /// The last commit timestamps that were reported, by table.
    private let reported = Mutex<[String: Int64]>([:])

    package init(_ stores: [any TableStore]) { self.stores = stores }

    private var next: any TableStore {
        turn.withLock { turn in
            turn = (turn + 1) % stores.count
            return stores[turn]
        }
    }

    package func prepare(
        _ tables: [TableDefinition],
        filtered: Set<String>,
        isComplete: Bool
    ) async throws -> [TableDefinition] {
        var prepared: [TableDefinition] = []
        for store in stores {
            prepared = try await store.prepare(tables, filtered: filtered, isComplete: isComplete)
        }
        return prepared
    }

    package func list(_ request: ListRequest, in table: Table) async throws -> ListPage {
        try await next.list(request, in: table)
    }

    package func changes(_ request: ChangeRequest, in table: Table) async throws -> ChangePage {
        try await next.changes(request, in: table)
    }

    package func digest(_ request: DigestRequest, in table: Table) async throws -> TableDigest {
        try await next.digest(request, in: table)
    }

    package func stored(_ name: String) async throws -> TableDefinition? {
        try await next.stored(name)
    }

    package func clock(of table: Table) async throws -> TableClock {
        try await next.clock(of: table)
    }

    package func read(
        _ id: String,
        view: QueryExpression?,
        in table: Table,
        reservation: RowReservation?
    ) async throws -> StoredRow? {
        try await next.read(id, view: view, in: table, reservation: reservation)
    }

    package func image(
        _ id: String,
        view: QueryExpression?,
        in table: Table
    ) async throws -> RowImage? {
        try await next.image(id, view: view, in: table)
    }

    package func databaseDefaults(
        of places: [Int],
        in table: Table
    ) async throws -> [Int: SQLValue] {
        try await next.databaseDefaults(of: places, in: table)
    }

    package func write(_ batch: WriteBatch) async throws -> [GroupOutcome] {
        try await next.write(batch)
    }

    package func isNew(_ key: RepeatKey) async throws -> Bool { try await next.isNew(key) }

    package func epoch() async throws -> String { try await next.epoch() }

    /// Watches all stores; each store reports its own commits immediately, and commits of the other
    /// stores later.
    package func watch(_ report: @escaping @Sendable ([TableTimestamp]) -> Void) async throws {
        for store in stores {
            try await store.watch { [self] timestamps in
                let news = reported.withLock { reported in
                    let news = timestamps.filter { $0.timestamp > reported[$0.table] ?? -1 }
                    for timestamp in news { reported[timestamp.table] = timestamp.timestamp }
                    return news
                }
                if !news.isEmpty { report(news) }
            }
        }
    }

    package func watchEpoch(_ report: @escaping @Sendable (String) -> Void) {
        for store in stores { store.watchEpoch(report) }
    }

    package func continueCascades(
        in graph: @escaping @Sendable () -> ReferenceGraph?
    ) async throws {
        for store in stores { try await store.continueCascades(in: graph) }
    }

    package func checkWritable() async throws { try await next.checkWritable() }

    package var writeQueueLength: Int { stores.reduce(0) { $0 + $1.writeQueueLength } }

    package var logBytes: Int { stores.reduce(0) { $0 + $1.logBytes } }

    package func sizes() async throws -> [StoreSize] { try await next.sizes() }

    package func stop() async { for store in stores { await store.stop() } }
}
