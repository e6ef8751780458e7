// FileCheck: finds damage.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// A check of a database file for damage, before a server uses it.
enum FileCheck {
    /// The time limit of the check at startup.
    ///
    /// The part of the file that has not been read by then is not checked.
    private static let timeMax: Duration = .seconds(5)

    /// The messages of SQLite that are about values, not about damage.
    private static let remarks = [
        "CHECK constraint failed", "NULL value in", "NUMERIC value in", "TEXT value in", "non-",
    ]

    /// Reads the server's own tables, then the whole file.
    ///
    /// - Throws: ``DatabaseError`` with code `damaged`.
    static func run(_ database: Database, path: String, log: ServerLog) throws {
        try DatabaseError.naming(path) {
            let header = try DatabaseHeader(path: path)
            let size = ServerFile.size(of: path) ?? 0
            // A file without a log contains all its pages.
            guard header.bytes <= size || ServerFile.size(of: path + "-wal") ?? 0 > 0 else {
                throw DatabaseError.damaged(path)
            }
            for table in ["tideline_tables", "tideline_state"] {
                guard try database.integer(ServerSchema.hasTable, [.text(table)]) != 0 else {
                    continue
                }
                try check("PRAGMA quick_check('\(table)')", database, path)
            }
            do {
                try database.limitTime(timeMax) {
                    try check("PRAGMA quick_check", database, path)
                }
            } catch let error as SQLiteError where error.isInterrupt {
                log.write(
                    .info,
                    "the database is too large to be checked completely at the start",
                    ["checked": "\(timeMax)"]
                )
            }
        }
    }

    private static func check(_ sql: String, _ database: Database, _ path: String) throws {
        let statement = try database.prepareOnce(sql)
        while try statement.step() {
            let line = statement.text(0)
            guard line == "ok" || remarks.contains(where: line.hasPrefix) else {
                throw DatabaseError.damaged(path)
            }
        }
    }
}
