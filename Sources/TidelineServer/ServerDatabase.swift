// ServerDatabase: an operator's tools for the database of a server: backup, restore, migration.

package import TidelineServerCore
import TidelineServerPostgres
import TidelineServerSQLite

/// The database of a server, for its operator.
///
/// ```swift
/// let database = try ServerDatabase(configuration)
/// try database.backup(to: "backups/todo-2026-11-21.db")
/// ```
///
/// All calls block their thread until they are done.
public struct ServerDatabase: Sendable {
    enum Location: Sendable {
        case file(String)
        case postgres(url: String)
    }

    let place: Location
    let tables: [TableDefinition]
    private let isComplete: Bool

    /// Creates a value for the database of a configuration, without opening the database.
    ///
    /// - Throws: ``DatabaseError`` if the database is in the memory of a server.
    public init(_ configuration: ServerConfiguration) throws(DatabaseError) {
        switch configuration.database {
        case .postgres(let url): place = .postgres(url: url)
        case .sqlite(let path): place = .file(path)
        case .memory: throw Self.inMemory
        }
        tables = configuration.tables.map { table in
            var table = table
            table.completeOwner()
            return table
        }
        isComplete = !configuration.dynamicSchema
    }

    /// Copies the database as of its last commit, even while a server writes to it.
    ///
    /// The copy is a single file. It is created completely or not at all, and only its owner may read it. The
    /// time of an empty file next to the database, `…-backup`, shows the last backup to a server.
    ///
    /// - Parameter file: The path of the copy, where no file may exist yet.
    /// - Returns: Its size in bytes.
    /// - Throws: ``DatabaseError``, including for a database in PostgreSQL, which is backed up with PostgreSQL's own
    ///   tools.
    @discardableResult
    public func backup(to file: String) throws -> Int64 {
        guard case .file(let path) = place else {
            throw DatabaseError(
                .unavailable,
                "A database in PostgreSQL is not a file. 'tideline backup' without a file name shows which tool "
                    + "to use and whether backups are configured."
            )
        }
        let bytes = try DatabaseBackup(of: path, to: file).make()
        BackupMarker.put(on: path)
        return bytes
    }

    /// Returns how to back up a PostgreSQL database, and which parts are already set up; nil for a file.
    ///
    /// - Throws: ``DatabaseError``
    public func backupAdvice() throws -> BackupAdvice? {
        guard case .postgres(let url) = place else { return nil }
        let check = try PostgresMaintenance(url: url).backups()
        return BackupAdvice(lines: check.lines, isReady: check.isReady)
    }

    /// Replaces the database with a backup, and gives it a new epoch.
    ///
    /// Clients then pull everything again, and keep their own changes.
    ///
    /// - Parameter backup: The file that ``backup(to:)`` created.
    /// - Returns: The new epoch, and the path to which the previous database was moved.
    /// - Throws: ``DatabaseError``, with code `inUse` while a server runs.
    @discardableResult
    public func restore(from backup: String) throws -> (epoch: String, former: String?) {
        guard case .file(let path) = place else {
            throw DatabaseError(
                .unavailable,
                "A database in PostgreSQL is not a file. Restore it with PostgreSQL's own tools, then run "
                    + "'tideline restored'."
            )
        }
        let seconds = ServerEnvironment.live.now() / 1_000_000
        let result = try DatabaseRestore(of: backup, to: path).make(now: seconds)
        return (result.epoch, result.former)
    }

    /// Whether the backup was not created by ``backup(to:)``, and may lack its last writes.
    package static func mayLackItsLog(_ backup: String) -> Bool {
        DatabaseRestore.mayLackItsLog(backup)
    }

    /// Removes tombstones now, regardless of `tombstoneDays`.
    ///
    /// The next pull of a device that was offline for longer reads everything.
    ///
    /// - Parameters:
    ///   - tables: Their names; nil for all tables.
    ///   - days: The minimum age of the tombstones; 0 for all of them.
    ///   - trustsClock: Whether to trust a wall clock that is more than a day ahead of the last time in the
    ///     database.
    ///   - report: Called after each step with the number of tombstones removed from a table.
    /// - Returns: The tables with the counts of removed tombstones.
    /// - Throws: ``DatabaseError``, with code `inUse` while a server has the file; servers on
    ///   PostgreSQL may run.
    @discardableResult
    public func purgeTombstones(
        of tables: [String]? = nil,
        olderThan days: Int,
        trustsClock: Bool = false,
        report: (_ table: String, _ rows: Int) -> Void = { _, _ in }
    ) throws -> [(table: String, rows: Int)] {
        switch place {
        case .file(let path):
            try DatabaseMaintenance(path: path).purgeTombstones(
                of: tables,
                olderThan: days,
                now: ServerEnvironment.live.now(),
                trustsClock: trustsClock,
                report: report
            )
        case .postgres(let url):
            try PostgresMaintenance(url: url).purgeTombstones(
                of: tables,
                olderThan: days,
                trustsClock: trustsClock,
                report: report
            )
        }
    }

    /// Gives the database a new epoch after it was restored from a backup.
    ///
    /// Clients then pull everything again, and keep their own changes.
    ///
    /// - Returns: The new epoch, which every list has as `Tideline-Epoch`.
    /// - Throws: ``DatabaseError``, with code `inUse` while a server uses the file. Servers on PostgreSQL may
    ///   be running: each of their answers has the epoch of its snapshot.
    @discardableResult
    public func renewEpoch() throws -> String {
        switch place {
        case .file(let path): try DatabaseMaintenance(path: path).renewEpoch()
        case .postgres(let url): try PostgresMaintenance(url: url).renewEpoch()
        }
    }

    /// Sets table clocks that are ahead of the wall clock back to it.
    ///
    /// Rows with future times get new versions, and the database gets a new epoch. Clients then pull everything
    /// again, and keep their own changes.
    ///
    /// - Parameter tables: Their names; nil for all tables.
    /// - Returns: The new epoch, nil if no clock was ahead, and the tables whose clocks were ahead, with the
    ///   number of rows that have new versions.
    /// - Throws: ``DatabaseError``, with code `inUse` while a server uses the file. Servers on PostgreSQL may
    ///   be running; their writes to these tables wait in the meantime.
    @discardableResult
    public func resetClocks(
        of tables: [String]? = nil
    ) throws -> (epoch: String?, tables: [(table: String, rows: Int)]) {
        switch place {
        case .file(let path):
            try DatabaseMaintenance(path: path).resetClocks(
                of: tables,
                now: ServerEnvironment.live.now()
            )
        case .postgres(let url): try PostgresMaintenance(url: url).resetClocks(of: tables)
        }
    }

    /// Returns the audited changes of tables, with their users, the newest first.
    ///
    /// A server may be running.
    ///
    /// - Throws: ``DatabaseError``
    package func audit(_ query: AuditQuery) throws -> [AuditEntry] {
        switch place {
        case .file(let path): try DatabaseInspection(path: path).audit(query)
        case .postgres(let url): try PostgresMaintenance(url: url).audit(query)
        }
    }

    /// Returns counts, times, names and sizes, but no values of rows.
    ///
    /// A server may be running.
    ///
    /// - Throws: ``DatabaseError``
    package func report() throws -> Report {
        switch place {
        case .file(let path): try DatabaseInspection(path: path).report()
        case .postgres(let url): try PostgresMaintenance(url: url).report()
        }
    }

    /// Returns the changes that ``migrate()`` would make.
    ///
    /// - Throws: ``DatabaseError``
    public func migrationPlan() throws -> MigrationPlan {
        try Self.naming {
            switch place {
            case .file(let path):
                let steps = try DatabaseMaintenance(path: path).plan(tables, isComplete: isComplete)
                return MigrationPlan(steps: steps)
            case .postgres(let url):
                let change = try PostgresMaintenance(url: url)
                    .migrate(tables, isComplete: isComplete, isDry: true)
                return MigrationPlan(steps: change.steps, statements: change.statements)
            }
        }
    }

    /// Changes the tables to match their declarations, in one transaction; values that do not fit
    /// are lost.
    ///
    /// - Parameter report: Called repeatedly with the number of converted rows of a column; on PostgreSQL, it
    ///   is not called.
    /// - Returns: The changes that were made.
    /// - Throws: ``DatabaseError``, with code `inUse` while a server uses the database. On an error, nothing is
    ///   changed.
    @discardableResult
    public func migrate(
        report: @escaping (_ column: String, _ rows: Int) -> Void = { _, _ in }
    ) throws -> MigrationPlan {
        try Self.naming {
            switch place {
            case .file(let path):
                let steps = try DatabaseMaintenance(path: path).migrate(
                    tables,
                    isComplete: isComplete,
                    now: ServerEnvironment.live.now,
                    report: report
                )
                return MigrationPlan(steps: steps)
            case .postgres(let url):
                let change = try PostgresMaintenance(url: url)
                    .migrate(tables, isComplete: isComplete, isDry: false)
                return MigrationPlan(steps: change.steps, statements: change.statements)
            }
        }
    }

    /// Copies a whole database, from a file into PostgreSQL or back.
    ///
    /// The copy includes everything that devices rely on: versions, tombstones, change logs, the ledger and the
    /// epoch, so that devices notice no difference. No server may use either database in the meantime. If a copy
    /// ended early, the next one resumes where it stopped.
    ///
    /// - Parameters:
    ///   - source: The database that is copied.
    ///   - target: A new file, or a database without the server's tables.
    ///   - report: Called for each part of the copy with its kind, and its number of rows or entries.
    /// - Returns: The columns of external writers that were not copied, as `table.column`, because the server does
    ///   not know them.
    /// - Throws: ``DatabaseError``, and the errors of `report`.
    @discardableResult
    public static func copy(
        from source: ServerConfiguration.Database,
        to target: ServerConfiguration.Database,
        report: (_ part: String, _ count: Int) throws -> Void = { _, _ in }
    ) throws -> [String] {
        try naming {
            let from: any CopySource =
                switch source {
                case .sqlite(let path): try FileCopy(path: path, mayBeNew: false)
                case .postgres(let url): try PostgresCopy(url: url)
                case .memory: throw inMemory
                }
            let to: any CopyTarget =
                switch target {
                case .sqlite(let path): try FileCopy(path: path, mayBeNew: true)
                case .postgres(let url): try PostgresCopy(url: url)
                case .memory: throw inMemory
                }
            return try DatabaseCopy(from: from, to: to).run(report)
        }
    }

    private static let inMemory = DatabaseError(
        .missing,
        "An in-memory database has no file. Use a database in a file: sqlite:PATH"
    )

    static func naming<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as SchemaError {
            throw DatabaseError(.schemaChange, error.description)
        }
    }
}

/// The changes that make tables match their declarations.
public struct MigrationPlan: Hashable, Sendable, CustomStringConvertible {
    /// The steps, one sentence each.
    public let steps: [String]
    /// Whether the database needs no changes.
    public let isEmpty: Bool
    /// Whether stored values are converted or removed, which a server does not do at startup.
    public let changesValues: Bool
    /// The SQL for the changes in PostgreSQL; empty for a file.
    public let statements: [String]

    init(steps: [SchemaStep], statements: [String] = []) {
        self.statements = statements
        let new = Set(steps.filter { $0.kind == .createTable }.map(\.table))
        self.steps = steps.filter { step in
            guard case .addColumn = step.kind else { return true }
            return !new.contains(step.table)
        }
        .map(\.description)
        isEmpty = !steps.contains(where: \.changesDatabase)
        changesValues = steps.contains(where: \.needsConsent)
    }

    /// The steps, one per line.
    public var description: String { steps.joined(separator: "\n") }
}

/// An inspection of a file, even while it is in use: a server's database or a device's store.
package enum FileInspection {
    /// Returns counts, times, names and ids, but nothing from the contents of rows.
    ///
    /// - Throws: ``DatabaseError``
    package static func report(of path: String) throws -> Report {
        try DatabaseInspection(path: path).report()
    }
}

/// Advice on backing up a PostgreSQL database.
public struct BackupAdvice: Hashable, Sendable, CustomStringConvertible {
    /// The recommended tools, and which parts of them were found.
    public let lines: [String]
    /// Whether all committed changes can be restored from another location.
    public let isReady: Bool

    /// The lines.
    public var description: String { lines.joined(separator: "\n") }
}
