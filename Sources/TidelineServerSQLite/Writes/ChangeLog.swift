// ChangeLog: the former states of rows that were permanently deleted, or may have left a visibility filter.
//
// Changes of existing rows are read from the table. A row that was permanently deleted, got another owner, or may no
// longer match a row filter is invisible to callers who could read it before. So its former state is kept for a time,
// stored in the transaction of the write under its commit timestamp: all columns for a table with a row filter, only
// the owner for other tables. The visibility filter of a caller is evaluated on it as on rows, so that no caller gets
// the id of a row that they could not have read.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The change log of a table.
struct ChangeLog: Sendable {
    let rules: LogRules
    private let insert: String

    init(_ table: Table) {
        rules = LogRules(table)
        let all = table.columns + SystemColumn.definitions
        var kept: [String] = []
        if rules.takesUpdates {
            kept = all.map(\.name).filter { $0 != SystemColumn.id }
        } else if let owner = table.ownerIndex {
            kept = [all[owner].name]
        }
        let names = (["id"] + kept).map(ServerSchema.quoted).joined(separator: ", ")
        insert = """
            INSERT INTO \(ServerSchema.quoted(ServerSchema.logName(table.name)))
            ("tideline_stamp", "tideline_deleted", \(names))
            SELECT ?2, ?3, \(names) FROM \(ServerSchema.quoted(table.name)) WHERE "id" = ?1
            """
    }

    /// Stores the state of the row before the write with this commit timestamp.
    func keep(_ id: String, timestamp: Int64, isDeleted: Bool, _ database: Database) throws {
        let statement = try database.prepare(insert)
        statement.bind(1, text: id)
        statement.bind(2, integer: timestamp)
        statement.bind(3, integer: isDeleted ? 1 : 0)
        try statement.run()
    }

    // MARK: - The table of the log

    /// Creates the log, with the columns of its table.
    ///
    /// If the columns changed, the log is emptied, because links from before the change are invalid.
    static func prepare(_ table: TableDefinition, _ database: Database) throws {
        let log = ServerSchema.logName(table.name)
        let wanted = table.schema.columns.map {
            "\($0.name.lowercased()) \(ServerSchema.affinity($0.type))"
        }
        let statement = try database.prepare(ServerSchema.columnsOfLog)
        defer { statement.reset() }
        try statement.bind([.text(log)])
        var found: [String] = []
        while try statement.step() {
            found.append("\(statement.text(0).lowercased()) \(statement.text(1))")
        }
        statement.reset()
        let isThere = !found.isEmpty
        guard !isThere || Set(found.dropFirst(ServerSchema.logColumns)) != Set(wanted) else {
            return
        }
        if isThere {
            try forget(table.name, upTo: .max, rows: .max, database)
            try database.execute("DROP TABLE \(ServerSchema.quoted(log))")
        }
        try database.execute(ServerSchema.createLog(table))
    }

    /// Removes former states of rows from before `end`, oldest first, and raises the horizon to the last removed one.
    ///
    /// - Returns: The number of removed states, and the commit timestamp of the last one.
    @discardableResult
    static func forget(
        _ table: String,
        upTo end: Int64,
        rows: Int,
        _ database: Database
    ) throws -> (count: Int, last: Int64) {
        let statement = try database.prepare(ServerSchema.forget(table))
        defer { statement.reset() }
        try statement.bind([.integer(end), .integer(Int64(rows))])
        var count = 0
        var last: Int64 = 0
        while try statement.step() {
            last = max(last, statement.integer(0))
            count += 1
        }
        guard count > 0 else { return (0, 0) }
        try database.prepare(ServerSchema.raiseHorizon).run([.text(table), .integer(last)])
        return (count, last)
    }
}

extension ServerSchema {
    /// Returns the name of a table's log; names of tables contain no dots.
    static func logName(_ table: String) -> String { "tideline_log.\(table)" }

    /// The number of columns of a log before those of its table.
    static let logColumns = 7

    static func createLog(_ table: TableDefinition) -> String {
        let columns = table.schema.columns.map {
            ",\n    \(quoted($0.name)) \(affinity($0.type))"
        }
        return """
            CREATE TABLE \(quoted(logName(table.name))) (
                "tideline_stamp"   INTEGER PRIMARY KEY,
                "tideline_deleted" INTEGER NOT NULL,
                "id"               TEXT NOT NULL,
                "createdAt"        INTEGER,
                "updatedAt"        INTEGER,
                "version"          INTEGER,
                "deleted"          INTEGER\(columns.joined())
            )
            """
    }

    static let columnsOfLog = """
        SELECT "name", "type" FROM pragma_table_info(?1) ORDER BY "cid"
        """

    static func forget(_ table: String) -> String {
        let log = quoted(logName(table))
        return """
            DELETE FROM \(log) WHERE "tideline_stamp" IN (
                SELECT "tideline_stamp" FROM \(log) WHERE "tideline_stamp" < ?1
                ORDER BY "tideline_stamp" LIMIT ?2
            )
            RETURNING "tideline_stamp"
            """
    }
}
