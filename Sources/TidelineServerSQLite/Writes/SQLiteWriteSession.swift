// SQLiteWriteSession: runs write transactions.
//
// A write is one statement, which SQLite undoes by itself, so most batches need no savepoints, which would copy every
// page that they change. If a write throws (rejections do not), the transaction is rolled back and runs again with a
// savepoint for each group of writes, so that the other groups are stored. With `synchronous=FULL` one flush of the
// disk serves all batches of a transaction.

import Synchronization
import TidelineCore
import TidelineSQLite
import TidelineServerCore

typealias SQLiteWriter = WriteEngine<SQLiteWriteSession>
typealias SQLiteBatch = QueuedBatch<SQLiteTable>

/// The writing connection of a file, and its transactions.
final class SQLiteWriteSession: WriteSession {
    typealias Retention = RetentionPurge

    private let database: Database
    private let tables: DerivedTables
    /// The watch of the file; nil in inline mode.
    private let file: FileWatch?
    private let limits: ServerLimits
    private let now: @Sendable () -> Int64
    private let reports: CommitReports
    private let log: ServerLog
    /// Whether each group has a savepoint, because one of them failed.
    private var isApart = false
    /// Whether a commit has stored new pending cascades.
    private var hasNewCascades = false

    init(
        _ database: Database,
        _ tables: DerivedTables,
        file: FileWatch?,
        limits: ServerLimits,
        now: @escaping @Sendable () -> Int64,
        reports: CommitReports,
        log: ServerLog
    ) {
        self.database = database
        self.tables = tables
        self.file = file
        self.limits = limits
        self.now = now
        self.reports = reports
        self.log = log
    }

    static func uptime(after time: Duration) -> UInt64 { QueryStart().adding(time) }

    var rejection: (any Error)? { file?.check() }

    func perform(_ task: (Result<Database, any Error>) -> Void) { task(.success(database)) }

    func purgeFailed(_ error: any Error) { file?.met(error) }

    /// Whether the batch changes tables, or is known to read or store large rows.
    ///
    /// The sizes of rows are read only in tables with large rows, so that other tables have no additional cost.
    func isLarge(_ batch: SQLiteBatch) -> Bool {
        if batch.changesTables { return true }
        var bytes = 0
        for (group, tables) in zip(batch.batch.groups, batch.tables) {
            for (write, table) in zip(group.writes, tables)
            where table.head.hasLargeRows.load(ordering: .relaxed) {
                bytes += write.operation.bytes
                if bytes > SQLiteWriteTransaction.smallBytes { return true }
                guard write.operation.kind != .insert else { continue }
                bytes +=
                    (try? SQLiteWriteTransaction.weight(write.operation.id, table, database)) ?? 0
                if bytes > SQLiteWriteTransaction.smallBytes { return true }
            }
        }
        return false
    }

    // MARK: - Transactions

    func begin() {
        isApart = false
        reports.isWriting.store(true, ordering: .relaxed)
    }

    func transaction(
        _ batches: [SQLiteBatch],
        _ body: (inout SQLiteWriteTransaction) throws -> Void
    ) throws -> [TableTimestamp] {
        try commit(isApart: isApart, body)
    }

    private func commit(
        isApart: Bool,
        _ body: (inout SQLiteWriteTransaction) throws -> Void
    ) throws -> [TableTimestamp] {
        var writes = SQLiteWriteTransaction(
            database,
            tables,
            limits: limits,
            now: now,
            file: file,
            isApart: isApart
        )
        let moved = try database.transaction {
            try body(&writes)
            return try writes.finish()
        }
        writes.advanceClocks()
        if writes.cascades.isPut { hasNewCascades = true }
        return moved
    }

    func takeNewCascades() -> Bool {
        defer { hasNewCascades = false }
        return hasNewCascades
    }

    func cascade(in graph: ReferenceGraph?, _ step: inout CascadeStep) throws -> CascadeProgress {
        var progress = CascadeProgress()
        reports.isWriting.store(true, ordering: .relaxed)
        defer { reports.isWriting.store(false, ordering: .relaxed) }
        do {
            let timestamps = try commit(isApart: false) {
                progress = try $0.cascade(in: graph, &step)
            }
            // The step itself stores entries of the rows that it deletes.
            hasNewCascades = false
            endTies(graph?.tables.map(tables.derived) ?? [])
            try report(timestamps)
        } catch {
            endTies(graph?.tables.map(tables.derived) ?? [])
            throw file?.met(error) ?? error
        }
        return progress
    }

    func failed(_ error: any Error, _ batches: [SQLiteBatch]) -> WriteRecovery<SQLiteTable> {
        guard isApart else {
            isApart = true
            // The flags were reset, but the timestamps that they caused were not committed.
            for table in Self.tables(of: batches) {
                table.head.isCounted.store(true, ordering: .sequentiallyConsistent)
            }
            return .repeat
        }
        endTies(Self.tables(of: batches))
        log.write(.error, "commit failed", ["cause": "\(error)"])
        return .reject(file?.met(error) ?? ServerError.notCommitted)
    }

    func committed(
        _ timestamps: [TableTimestamp],
        _ batches: [SQLiteBatch],
        _ outcomes: inout [[GroupOutcome]?]
    ) throws {
        endTies(Self.tables(of: batches))
        try report(timestamps)
    }

    private func report(_ timestamps: [TableTimestamp]) throws {
        file?.committed(timestamps)
        // If the file was moved away in the meantime, it may have the commit, but no server will find it.
        if let rejection = file?.check() { throw rejection }
        if !timestamps.isEmpty { reports.listener.withLock { $0 }?.report(timestamps) }
    }

    func end(_ timestamps: [TableTimestamp]) { reports.isWriting.store(false, ordering: .relaxed) }

    private func endTies(_ tables: [SQLiteTable]) {
        for table in tables { table.head.ties.transactionEnded() }
    }

    /// Returns the tables that a transaction of the batches may change.
    private static func tables(of batches: [SQLiteBatch]) -> [SQLiteTable] {
        batches.flatMap { Array($0.tables.joined()) + $0.related }
    }
}

/// The commits of a writer, for other threads.
final class CommitReports: Sendable {
    /// Whether a write transaction is in progress.
    let isWriting = Atomic(false)
    let listener = Mutex<CommitListener?>(nil)
}
