// DatabaseColumns: the columns of a table in the file, and the features that this SQLite version
// has for changing them.

import TidelineCore

#if SQLCipher
import CSQLCipher
#else
import CSQLite
#endif

/// A column as it is declared in the file.
package struct DeclaredColumn: Hashable, Sendable {
    package var name: String
    package var type: String
}

extension Database {
    /// Returns the columns of a table, in order; empty if the table does not exist.
    ///
    /// The statement is not cached, because a cached statement would return the schema at the time
    /// of its preparation.
    package func columns(of table: String) throws -> [DeclaredColumn] {
        let statement = try prepareOnce("PRAGMA table_info(\(Identifier(table).quoted))")
        var columns: [DeclaredColumn] = []
        while try statement.step() {
            columns.append(DeclaredColumn(name: statement.text(1), type: statement.text(2)))
        }
        return columns
    }

    /// Returns a number that changes whenever a table or index in the file changes.
    package func schemaVersion() throws -> Int64 { try integer("PRAGMA schema_version") ?? 0 }

    /// Whether this version of SQLite supports JSON; Debian 12's SQLCipher does not.
    package var readsJSON: Bool { (try? integer("SELECT json_valid('1')")) == 1 }

    /// Whether this version of SQLite has `ON CONFLICT DO UPDATE` (3.24).
    package static let hasUpsert = sqlite3_libversion_number() >= 3_024_000

    /// Whether SQLite calls the authorizer for tables from which no column is read, as in
    /// `count(*)` (3.19 and later).
    package static let reportsAllTables = sqlite3_libversion_number() >= 3_019_000

    /// Whether this SQLite version's tokenizer folds all accents (3.27) and supports character
    /// categories (3.25).
    package static let foldsAllAccents = sqlite3_libversion_number() >= 3_027_000

    /// Whether this version of SQLite has full-text search (FTS5); Debian 12's SQLCipher does not.
    package var hasFullTextSearch: Bool { (try? prepareOnce("SELECT fts5(?1)")) != nil }

    /// Whether this version of SQLite has window functions (3.25) and JSON (3.38, optional before
    /// that).
    package static let readsRowsOfKeys: Bool = {
        let version = sqlite3_libversion_number()
        let hasJSON =
            version >= 3_038_000
            ? sqlite3_compileoption_used("OMIT_JSON") == 0
            : sqlite3_compileoption_used("ENABLE_JSON1") != 0
        return version >= 3_025_000 && hasJSON
    }()

    /// Whether this version of SQLite has RENAME COLUMN (3.25) and DROP COLUMN (3.35).
    package static let movesColumns = sqlite3_libversion_number() >= 3_035_000
}
