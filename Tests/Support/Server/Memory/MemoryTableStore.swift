// MemoryTableStore: tables in memory, the smallest complete backend.

import Synchronization
package import TidelineCore
package import TidelineServerCore

/// Tables in memory, for tests.
///
/// It rejects tables with references, an audit log or tombstones without values, changes of existing columns that
/// convert values, and new columns whose default changes stored rows. It has no external writers, no time limit for
/// queries, and no record of receipt times while a table clock is ahead of the wall clock. A page of changes ends after
/// `scanMax` rows and log entries together. Each group of writes copies the tables that it changes, so a write takes
/// longer the more rows there are.
package final class MemoryTableStore: TableStore {
    package struct Options: Sendable {
        /// Whether writes run on the caller's thread, for tests that need a fixed order.
        package var inline = false
        package var limits = ServerLimits()
        /// How often the writer purges data that exceeds its retention time.
        package var purgeInterval: Duration = .seconds(600)
        package var now = ServerEnvironment.live.now
        /// A clock that is never set, in microseconds.
        package var steady = ServerEnvironment.live.steady
        package var log = ServerLog.silent
        package var metrics = StoreMetrics()

        package init() {}
    }

    private let database = MemoryDatabase()
    private let writer: WriteEngine<MemoryWriteSession>
    private let limits: ServerLimits
    private let now: @Sendable () -> Int64

    package init(_ options: Options = Options()) {
        limits = options.limits
        now = options.now
        writer = WriteEngine(
            limits: options.limits,
            retention: RetentionRun(
                MemoryPurge(limits: options.limits, now: options.now),
                steady: options.steady,
                log: options.log,
                metrics: options.metrics
            ),
            purgeInterval: options.purgeInterval,
            log: options.log,
            metrics: options.metrics,
            inline: options.inline
        ) { [database] in
            MemoryWriteSession(database, limits: options.limits, now: options.now)
        }
    }

    package func prepare(
        _ definitions: [TableDefinition],
        filtered: Set<String>,
        isComplete: Bool
    ) async throws -> [TableDefinition] {
        let tables = try await writer.run { [writer] database in
            let newest = try database.snapshot().timestamps.map(\.timestamp).max() ?? 0
            let tables = try database.transaction { state in
                try MemorySchemaChange.prepare(
                    definitions,
                    filtered: filtered,
                    isComplete: isComplete,
                    in: &state
                )
            }
            try writer.retention.begin(newest > 0 ? newest : nil, database)
            return tables
        }
        writer.queue.watch(tables, beginsAtOnce: true)
        return tables
    }

    // MARK: - Reads

    package func list(_ request: ListRequest, in table: Table) async throws -> ListPage {
        try reader(of: table).list(request)
    }

    package func changes(_ request: ChangeRequest, in table: Table) async throws -> ChangePage {
        try reader(of: table).changes(request)
    }

    package func digest(_ request: DigestRequest, in table: Table) async throws -> TableDigest {
        try reader(of: table).digest(request)
    }

    package func read(
        _ id: String,
        view: QueryExpression?,
        in table: Table,
        reservation: RowReservation?
    ) async throws -> StoredRow? {
        guard let image = try reader(of: table).image(id, view: view) else { return nil }
        try reservation?.take(bytes: image.bytes, of: image.state)
        return image.stored(in: table)
    }

    package func image(
        _ id: String,
        view: QueryExpression?,
        in table: Table
    ) async throws -> RowImage? {
        try reader(of: table).image(id, view: view)
    }

    package func clock(of table: Table) async throws -> TableClock {
        try database.snapshot().tables[MemoryTable(table).key]?.clock ?? TableClock()
    }

    package func isNew(_ key: RepeatKey) async throws -> Bool {
        try database.snapshot().ledger.find(key, at: now(), days: limits.ledgerDays).isNew
    }

    private func reader(of table: Table) throws -> MemoryReader {
        try MemoryReader(database.snapshot(), table)
    }

    // MARK: - Writes

    package func write(_ batch: WriteBatch) async throws -> [GroupOutcome] {
        let tables = batch.groups.map { $0.writes.map { MemoryTable($0.table) } }
        return try await writer.write(batch, tables)
    }

    /// Removes expired data.
    package func purge() async throws { try await writer.purge() }

    // MARK: - The database

    package func epoch() async throws -> String { database.epoch }

    package func watch(_ report: @escaping @Sendable ([TableTimestamp]) -> Void) async throws {
        try await writer.run { database in
            report(try database.snapshot().timestamps)
            database.listener.withLock { $0 = CommitListener(report: report) }
        }
    }

    /// Reports nothing, because a database in memory is never restored.
    package func watchEpoch(_ report: @escaping @Sendable (String) -> Void) {}

    package func checkWritable() async throws {
        if let rejection = database.rejection { throw rejection }
        guard writer.queue.length < limits.writeQueue else { throw ServerError.tooManyWrites }
    }

    package var writeQueueLength: Int { writer.queue.length }

    package var logBytes: Int { 0 }

    package func sizes() async throws -> [StoreSize] {
        [StoreSize("ledger", Int64(try database.snapshot().ledger.bytes))]
    }

    package func stop() async {
        await writer.stop()
        database.close()
    }
}
