// SQLiteTableStore: tables in one SQLite file: a writer thread and a few readers.

import Foundation
import Synchronization
import TidelineCore
import TidelineSQLite
package import TidelineServerCore

/// Tables in an SQLite file.
package final class SQLiteTableStore: TableStore {
    package struct Options: Sendable {
        /// One connection that works on the caller's thread, for tests that need one order.
        package var inline = false
        package var limits = ServerLimits()
        package var readers = min(ProcessInfo.processInfo.activeProcessorCount, 4)
        package var now = ServerEnvironment.live.now
        package var log = ServerLog.silent

        package init() {}
    }

    private let writer: GroupWriter
    /// Nil in inline mode, which reads on the writing connection.
    private let readers: DatabaseThreads?
    private let tables = Mutex<[String: SQLiteTable]>([:])
    private let isStopped = Mutex(false)
    private let queryTime: Duration
    private let log: ServerLog

    /// Opens the file at `path`, or makes it.
    package init(path: String, options: Options = Options()) throws {
        let database = try Database(path: path)
        queryTime = options.limits.queryTime
        log = options.log
        writer = GroupWriter(
            database,
            inline: options.inline,
            limits: options.limits,
            now: options.now,
            log: options.log
        )
        guard !options.inline else {
            readers = nil
            return
        }
        let connections = try (0..<max(1, options.readers)).map { _ in
            try Database(path: path, mode: .readOnly)
        }
        readers = DatabaseThreads(connections, name: "tideline-reader")
    }

    package func prepare(_ definitions: [TableDefinition]) async throws -> [TableDefinition] {
        let stored = try await writer.run { try SchemaChange(database: $0).prepare(definitions) }
        writer.purge(tombstonesOf: definitions)
        return stored
    }

    package func list(_ request: ListRequest, in table: Table) async throws -> ListPage {
        let read = ListRead(request, derived(table))
        return try await self.read { try read.run($0) }
    }

    package func read(_ id: String, in table: Table) async throws -> StoredRow? {
        let table = derived(table)
        return try await read { try RowWrites.row(id, table, $0) }
    }

    package func write(_ operation: WriteOperation, in table: Table) async throws -> WriteOutcome {
        try await writer.write(operation, to: derived(table))
    }

    /// Removes some of the tombstones that are older than their tables keep them.
    package func purgeTombstones() async throws {
        _ = try await writer.run { [writer] in try writer.purgeTombstones($0) }
    }

    package func epoch() async throws -> String {
        try await writer.run { database in
            let statement = try database.prepare(ServerSchema.readEpoch)
            defer { statement.reset() }
            return try statement.step() ? statement.text(0) : ""
        }
    }

    package var writeQueueLength: Int { writer.queueLength }

    package func stop() async {
        let wasStopped = isStopped.withLock { stopped in
            defer { stopped = true }
            return stopped
        }
        guard !wasStopped else { return }
        readers?.stop()
        do {
            try await writer.run { try $0.execute("PRAGMA wal_checkpoint(TRUNCATE)") }
        } catch {
            log.write(.warning, "checkpoint at the end failed", ["cause": "\(error)"])
        }
        writer.stop()
    }

    /// What is derived from a table, kept for as long as the table has this form.
    private func derived(_ table: Table) -> SQLiteTable {
        tables.withLock { tables in
            if let known = tables[table.name], known.table === table { return known }
            let made = SQLiteTable(table)
            tables[table.name] = made
            return made
        }
    }

    /// Runs on a reader, for `limits.queryTime` at most.
    private func read<Result: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws -> Result {
        guard !isStopped.withLock({ $0 }) else { throw ServerError.stopping }
        guard let readers else { return try await writer.run(body) }
        let queryTime = queryTime
        return try await readers.run { database in
            do {
                return try database.limitTime(queryTime) { try body(database) }
            } catch let error as SQLiteError where error.isInterrupt {
                throw ServerError.queryTooSlow
            }
        }
    }
}
