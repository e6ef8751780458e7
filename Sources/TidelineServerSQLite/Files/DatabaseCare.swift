// DatabaseCare: what an operator does with a database while no server has it, backups apart.

import Foundation
import TidelineCore
import TidelineSQLite
package import TidelineServerCore

package struct DatabaseCare: Sendable {
    private let path: String

    package init(path: String) {
        self.path = path
    }

    /// Gives the database a new epoch, so that clients pull anew.
    ///
    /// - Returns: The epoch.
    package func renewEpoch() throws -> String {
        try alone { database in
            try SchemaChange(database: database, now: { 0 }).openWhole()
            try database.execute(ServerSchema.renewEpoch)
            let statement = try database.prepare(ServerSchema.readEpoch)
            defer { statement.reset() }
            return try statement.step() ? statement.text(0) : ""
        }
    }

    /// What would be done so that the tables are as declared; a server may run meanwhile.
    package func plan(_ tables: [TableDefinition], isComplete: Bool) throws -> [SchemaStep] {
        try ServerFile(path: path).check(mayBeBlank: true)
        return try DatabaseError.naming(path) {
            let database = try Database(path: path, mode: .existing)
            return try database.snapshot {
                try SchemaChange.plan(tables, isComplete: isComplete, in: database)
            }
        }
    }

    /// Makes the tables as declared, whatever becomes of their values.
    ///
    /// - Parameters:
    ///   - tables: The tables.
    ///   - isComplete: Whether stored columns that are not declared are not wanted.
    ///   - now: Microseconds since 1970.
    ///   - report: Told how many rows of a column were converted, piece by piece.
    /// - Returns: What was done.
    /// - Throws: ``DatabaseError``
    package func migrate(
        _ tables: [TableDefinition],
        isComplete: Bool,
        now: @escaping @Sendable () -> Int64,
        report: @escaping (_ part: String, _ rows: Int) -> Void = { _, _ in }
    ) throws -> [SchemaStep] {
        let lock = try ServerFile(path: path).lock(mayBeNew: false, mayBeBlank: true)
        defer { lock.release() }
        return try DatabaseError.naming(path) {
            let database = try Database(path: path)
            return try SchemaChange(database: database, now: now, report: report)
                .prepare(tables, isComplete: isComplete, hasConsent: true).steps
        }
    }

    /// Removes the tombstones of these tables that are older, and raises their horizons.
    ///
    /// - Parameters:
    ///   - names: In any letter case; nil for all tables.
    ///   - days: How old they have to be.
    ///   - now: The time, in microseconds since 1970.
    ///   - report: Told how many of a table were removed, piece by piece.
    /// - Returns: The tables with the counts of what was removed.
    /// - Throws: ``DatabaseError``
    package func purgeTombstones(
        of names: [String]?,
        olderThan days: Int,
        now: Int64,
        report: (_ table: String, _ rows: Int) -> Void = { _, _ in }
    ) throws -> [(table: String, rows: Int)] {
        let lock = try ServerFile(path: path).lock(mayBeNew: false)
        defer { lock.release() }
        return try DatabaseError.naming(path) {
            let database = try Database(path: path)
            try database.transaction {
                try SchemaChange(database: database, now: { now }).openWhole()
            }
            let known = try RetentionPurge.tables(in: database)
            if let missing = names?.first(where: { name in
                !known.contains { $0.lowercased() == name.lowercased() }
            }) {
                throw DatabaseError(
                    .missing,
                    "'\(path)' has no table '\(missing)'. It has: \(known.joined(separator: ", "))."
                )
            }
            let wanted = known.filter { table in
                names?.contains { $0.lowercased() == table.lowercased() } ?? true
            }
            return try wanted.map { table in
                let rows = try RetentionPurge.removeTombstones(
                    of: table,
                    olderThan: days,
                    now: now,
                    database,
                    report: { report(table, $0) }
                )
                return (table, rows)
            }
        }
    }

    /// Runs `body` in a transaction while no server has the database.
    private func alone<Result>(_ body: (Database) throws -> Result) throws -> Result {
        let lock = try ServerFile(path: path).lock(mayBeNew: false)
        defer { lock.release() }
        return try DatabaseError.naming(path) {
            let database = try Database(path: path)
            return try database.transaction { try body(database) }
        }
    }
}
