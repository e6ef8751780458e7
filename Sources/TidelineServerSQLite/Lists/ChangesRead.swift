// ChangesRead: changed rows, and the ids of rows that the caller can no longer see.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// A read of the changes of a table after a time.
struct ChangesRead {
    private let table: SQLiteTable
    private let request: ChangeRequest
    private let renderer: FilterRenderer

    init(_ request: ChangeRequest, _ table: SQLiteTable) {
        self.table = table
        self.request = request
        renderer = FilterRenderer(schema: table.table.definition.schema, dateUnit: .microseconds)
    }

    /// The string under which the cost of the statements is recorded.
    var knownText: String {
        (request.wantsCount ? "count " : "changes ") + rows(upTo: nil).sql.text(for: .sqlite)
    }

    /// The maximum number of bytes of a page; a larger one throws ``RowTooLargeForLoop``.
    var loopBytesMax = Int.max

    /// Reads the clock, the changes and their number from one snapshot of the table.
    func run(_ database: Database) throws -> ChangePage {
        try database.snapshot {
            let clock = try KnownClock.read(table.name, database)
            // If the database is older than the link, an earlier state was restored.
            guard request.after <= clock.timestamp else { throw ServerError.epochChanged }
            let end = try scanEnd(database)
            var page = try changes(upTo: end, clock, database)
            if request.wantsCount, end == nil { page.count = try count(database) }
            return page
        }
    }

    /// Returns the commit timestamp up to which rows are read; nil for no limit.
    ///
    /// In a busy table a caller may see few of the rows, but invisible rows have to be read as well.
    private func scanEnd(_ database: Database) throws -> Int64? {
        guard request.scanMax < .max else { return nil }
        let skipped = SQLValue.integer(Int64(request.scanMax) - 1)
        let log = Identifier(ServerSchema.logName(table.name))
        var scans: [SQL] = [
            """
            SELECT "tideline_stamp" FROM \(log)
            WHERE "tideline_stamp" > \(SQLValue.integer(request.after))
            ORDER BY "tideline_stamp" LIMIT 1 OFFSET \(skipped)
            """
        ]
        // Without a row filter, an index finds the rows of the view.
        if table.log.rules.takesUpdates, request.view != nil {
            scans.append(
                """
                SELECT "updatedAt" FROM \(Identifier(table.name))
                WHERE "updatedAt" > \(SQLValue.integer(request.after))
                ORDER BY "updatedAt" LIMIT 1 OFFSET \(skipped)
                """
            )
        }
        return try scans.compactMap {
            try database.integer($0.text(for: .sqlite), $0.bindings)
        }
        .min()
    }

    private func changes(
        upTo end: Int64?,
        _ clock: TableClock,
        _ database: Database
    ) throws -> ChangePage {
        let (sql, form, places) = rows(upTo: end)
        let written = try database.prepare(sql.text(for: .sqlite))
        defer { written.reset() }
        try written.bind(sql.bindings)
        let log = departures(upTo: end)
        let left = try database.prepare(log.text(for: .sqlite))
        defer { left.reset() }
        try left.bind(log.bindings)
        var json = RowBytes(rowsMax: request.rowsMax)
        json.append(request.opening)
        var rows = 0
        var last: Int64?
        var reservedBytes = request.reservation?.begin() ?? .max
        /// The removed rows on the page, because a row may have left the visibility filter more than once.
        var reported: Set<String> = []
        var hasWritten = try written.step()
        var hasLeft = try left.step()
        while hasWritten || hasLeft {
            let timestampOfWritten = hasWritten ? written.integer(places + Self.timestamp) : .max
            let timestampOfLeft = hasLeft ? left.integer(Self.logTimestamp) : .max
            let isLeft = timestampOfLeft < timestampOfWritten
            if isLeft, !reported.insert(left.text(Self.logID)).inserted {
                last = timestampOfLeft
                hasLeft = try left.step()
                continue
            }
            if rows == request.rowsMax {
                return ChangePage(bytes: json.bytes, rows: rows, next: last, clock: clock)
            }
            let start = json.count
            if rows > 0 { json.byte(UInt8(ascii: ",")) }
            if isLeft {
                let isDeleted = left.integer(Self.logDeleted) != 0
                json.removed(left, id: Self.logID, isDeleted: isDeleted)
            } else if written.integer(places + Self.matches) != 0 {
                json.row(form, written)
            } else {
                let isDeleted = written.integer(places + Self.deleted) != 0
                json.removed(written, id: places + Self.id, isDeleted: isDeleted)
            }
            if rows > 0, json.count - request.opening.count > request.bytesMax {
                json.cut(to: start)
                return ChangePage(bytes: json.bytes, rows: rows, next: last, clock: clock)
            }
            if json.count > loopBytesMax { throw RowTooLargeForLoop() }
            if let reservation = request.reservation, json.count > reservedBytes {
                reservedBytes = try reservation.more(for: json.count)
            }
            rows += 1
            last = min(timestampOfWritten, timestampOfLeft)
            if isLeft { hasLeft = try left.step() } else { hasWritten = try written.step() }
        }
        return ChangePage(bytes: json.bytes, rows: rows, next: end, clock: clock)
    }

    // MARK: - Statements

    /// The indexes of the columns after the cells.
    private static let id: Int32 = 0
    private static let timestamp: Int32 = 1
    private static let deleted: Int32 = 2
    private static let matches: Int32 = 3

    /// The indexes of the columns in the log.
    private static let logTimestamp: Int32 = 0
    private static let logDeleted: Int32 = 1
    private static let logID: Int32 = 2

    /// Returns the statement for the changed visible rows, with the number of their cells.
    private func rows(upTo end: Int64?) -> (sql: SQL, form: RowForm, cells: Int32) {
        var cells = Array(table.cells.indices)
        if let select = request.select {
            cells = select.compactMap { table.places.firstIndex(of: $0) }
        }
        let form = request.select == nil ? table.form : RowForm(cells.map { table.cells[$0] })
        let names = cells.map { table.cells[$0].quoted + ", " }.joined()
        var sql: SQL = "SELECT \(SQL(verbatim: names))\"id\", \"updatedAt\", \"deleted\", "
        sql.append("\"deleted\" = 0")
        if let filter = request.filter {
            sql.append(" AND (\(renderer.strictCondition(VersionLiterals.replace(in: filter))))")
        }
        sql.append(" FROM \(Identifier(table.name))\(changed)")
        if let end { sql.append(" AND \"updatedAt\" <= \(SQLValue.integer(end))") }
        sql.append(" ORDER BY \"updatedAt\"")
        sql.append(" LIMIT \(SQLValue.integer(Int64(request.rowsMax) + 1))")
        return (sql, form, Int32(cells.count))
    }

    /// The visible rows that were written after the time.
    private var changed: SQL {
        var sql: SQL = " WHERE \"updatedAt\" > \(SQLValue.integer(request.after))"
        if let view = request.view { sql.append(" AND (\(renderer.condition(view)))") }
        return sql
    }

    /// Returns the rows that left the visibility filter after the time and have not entered it again.
    private func departures(upTo end: Int64?) -> SQL {
        var sql: SQL = "SELECT \"tideline_stamp\", \"tideline_deleted\", \"id\"\(departed)"
        if let end { sql.append(" AND \"tideline_stamp\" <= \(SQLValue.integer(end))") }
        sql.append(" ORDER BY \"tideline_stamp\"")
        return sql
    }

    private var departed: SQL {
        let log = Identifier(ServerSchema.logName(table.name))
        let view = request.view.map { " AND (\(renderer.condition($0)))" as SQL } ?? SQL()
        var sql: SQL = " FROM \(log)"
        sql.append(" WHERE \"tideline_stamp\" > \(SQLValue.integer(request.after))\(view)")
        // The view in the inner query applies to the current row.
        sql.append(" AND NOT EXISTS (SELECT 1 FROM \(Identifier(table.name)) AS \"tideline_now\"")
        sql.append(" WHERE \"tideline_now\".\"id\" = \(log).\"id\"\(view))")
        return sql
    }

    private func count(_ database: Database) throws -> Int64 {
        let written: SQL = "SELECT count(*) FROM \(Identifier(table.name))\(changed)"
        let left: SQL = "SELECT count(DISTINCT \"id\")\(departed)"
        return try [written, left].reduce(0) { count, sql in
            try count + (database.integer(sql.text(for: .sqlite), sql.bindings) ?? 0)
        }
    }
}
