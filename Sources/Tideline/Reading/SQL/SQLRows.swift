// SQLRequest, SQLRows: a SQL statement of an app as a store receives it, and its result.

public import TidelineCore
import TidelineSQLite

/// A SQL statement for a store, with the tables that it may read.
///
/// The text and values of the statement are not public, and only ``SQLiteStore`` executes it. A store that wraps
/// another store passes the request on from ``LocalStoreReader/sql(_:)``.
public struct SQLRequest: Sendable {
    /// The statement, with its values.
    public var query: SQLQuery
    /// The tables that the statement may read.
    public var tables: Set<String>
    /// The flag that ends the statement.
    let stop: QueryStop?

    /// Creates a request.
    public init(_ query: SQLQuery, tables: Set<String>) {
        self.init(query, tables: tables, stop: nil)
    }

    init(_ query: SQLQuery, tables: Set<String>, stop: QueryStop?) {
        (self.query, self.tables, self.stop) = (query, tables, stop)
    }
}

/// The result of a SQL statement.
public struct SQLRows: Sendable {
    /// The names of the columns of the result.
    public var columns: [String]
    /// The values of each row: null, integers, numbers, strings and binary data.
    public var rows: [[Value]]
    /// The tables that the statement reads, with the names of the request.
    public var tables: Set<String>

    /// Creates a result.
    public init(columns: [String], rows: [[Value]], tables: Set<String>) {
        (self.columns, self.rows, self.tables) = (columns, rows, tables)
    }
}

extension LocalStoreReader {
    /// Rejects the statement, because the store does not support SQL.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery`.
    public func sql(_ request: SQLRequest) throws -> SQLRows {
        throw SyncError.unsupportedQuery(
            "this store does not support SQL. Use a SQLiteStore, or a Query."
        )
    }
}
