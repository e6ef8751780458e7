// ServerDatabase+Users: an operator's tools for the data of one user, on both databases.

import TidelineServerCore
import TidelineServerPostgres
import TidelineServerSQLite

extension ServerDatabase {
    /// Counts the data of a user in the database.
    ///
    /// A server may be running.
    ///
    /// - Parameters:
    ///   - user: The user, compared byte by byte.
    ///   - line: Called with each row and each entry as a JSON object.
    /// - Returns: The count of each part.
    /// - Throws: ``DatabaseError``, and the errors of `line`.
    @discardableResult
    public func export(
        user: String,
        line: (String) throws -> Void = { _ in }
    ) throws -> [(part: String, count: Int)] {
        let source: any CopySource =
            switch place {
            case .file(let path): try FileCopy(reading: path)
            case .postgres(let url): try PostgresCopy(reading: url)
            }
        return try UserData(source, tables: tables).read(user, line: line)
    }

    /// Removes the data of a user from the database: rows, tombstones, change log, merge bases, and entries of the
    /// ledger and the audit log.
    ///
    /// Devices then pull the tables from the beginning. Backups are not changed.
    ///
    /// - Throws: ``DatabaseError``, with code `inUse` while a server uses the file; servers on PostgreSQL may run.
    public func forget(user: String) throws {
        switch place {
        case .file(let path): try DatabaseMaintenance(path: path).forget(user, owners: tables)
        case .postgres(let url): try PostgresMaintenance(url: url).forget(user, owners: tables)
        }
    }

    /// Transfers all data of a user to another one.
    ///
    /// The versions of rows do not change; devices then pull the tables from the beginning.
    ///
    /// - Throws: ``DatabaseError``, with code `inUse` while a server uses the file; servers on PostgreSQL may run.
    public func rename(user: String, to name: String) throws {
        switch place {
        case .file(let path):
            try DatabaseMaintenance(path: path).rename(user, to: name, owners: tables)
        case .postgres(let url):
            try PostgresMaintenance(url: url).rename(user, to: name, owners: tables)
        }
    }

    /// The tables with owners, by their names in the configuration.
    package var ownedTables: [String] { tables.filter { $0.owner != nil }.map(\.name) }

    /// Frees the space of removed rows: a file shrinks; PostgreSQL can use the space for new rows.
    ///
    /// - Returns: The size before and after, in bytes.
    /// - Throws: ``DatabaseError``, with code `inUse` while a server has the file.
    @discardableResult
    public func compact() throws -> (before: Int64, after: Int64) {
        switch place {
        case .file(let path): try DatabaseMaintenance(path: path).compact()
        case .postgres(let url): try PostgresMaintenance(url: url).compact()
        }
    }
}
