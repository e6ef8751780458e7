// ServerDatabase: what an operator does with the database of a server: backup, restore, migration.

import TidelineServerCore
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
    private let path: String
    private let tables: [TableDefinition]
    private let isComplete: Bool

    /// Names the database of a configuration; nothing is opened.
    ///
    /// - Throws: ``DatabaseError`` when it is no file.
    public init(_ configuration: ServerConfiguration) throws(DatabaseError) {
        guard case .sqlite(let path) = configuration.database else {
            throw DatabaseError(
                .missing,
                "The database is in the memory of a server, and no file. Name one: sqlite:PATH"
            )
        }
        self.path = path
        tables = configuration.tables.map { table in
            var table = table
            table.completeOwner()
            return table
        }
        isComplete = !configuration.dynamicSchema
    }

    /// Copies the database as of its last commit, also while a server writes to it.
    ///
    /// The copy is one file that needs no other. It is made whole or not at all, and only its owner
    /// may read it.
    ///
    /// - Parameter file: Its name, which nothing may have yet.
    /// - Returns: Its size in bytes.
    /// - Throws: ``DatabaseError``
    @discardableResult
    public func backup(to file: String) throws -> Int64 {
        try DatabaseBackup(of: path, to: file).make()
    }

    /// Tells clients that the database was restored from a backup: they keep their own changes and
    /// pull everything anew.
    ///
    /// - Returns: The new epoch, which every list carries as `Tideline-Epoch`.
    /// - Throws: ``DatabaseError``, with code `inUse` while a server runs.
    @discardableResult
    public func renewEpoch() throws -> String {
        try DatabaseCare(path: path).renewEpoch()
    }

    /// What ``migrate()`` would do.
    ///
    /// - Throws: ``DatabaseError``
    public func migrationPlan() throws -> MigrationPlan {
        try Self.naming {
            MigrationPlan(
                steps: try DatabaseCare(path: path).plan(tables, isComplete: isComplete)
            )
        }
    }

    /// Makes the tables as declared, in one transaction; values that do not fit are lost.
    ///
    /// - Returns: What was done.
    /// - Throws: ``DatabaseError``, with code `inUse` while a server runs. Nothing was changed then.
    @discardableResult
    public func migrate() throws -> MigrationPlan {
        try Self.naming {
            let steps = try DatabaseCare(path: path).migrate(
                tables,
                isComplete: isComplete,
                now: ServerEnvironment.live.now
            )
            return MigrationPlan(steps: steps)
        }
    }

    static func naming<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as SchemaError {
            throw DatabaseError(.schemaChange, error.description)
        }
    }
}

/// What has to be done to tables so that they are as declared.
public struct MigrationPlan: Hashable, Sendable, CustomStringConvertible {
    /// A sentence for each step.
    public let steps: [String]
    /// Whether the database is to be changed at all.
    public let isEmpty: Bool
    /// Whether stored values are converted or removed, which a server does not do at its start.
    public let changesValues: Bool

    init(steps: [SchemaStep]) {
        let new = Set(steps.filter { $0.kind == .createTable }.map(\.table))
        self.steps = steps.filter { step in
            guard case .addColumn = step.kind else { return true }
            return !new.contains(step.table)
        }
        .map(\.description)
        isEmpty = !steps.contains(where: \.changesDatabase)
        changesValues = steps.contains(where: \.needsConsent)
    }

    /// The steps, one on a line.
    public var description: String { steps.joined(separator: "\n") }
}
