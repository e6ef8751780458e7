// PostgresChangesRead: changed rows, and the ids of rows that the caller can no longer see.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// A read of the changes of a table after a time.
struct PostgresChangesRead {
    private let table: PostgresTable
    private let request: ChangeRequest
    private let view: (exact: QueryExpression?, rest: RowProgram?)
    private let filter: (exact: QueryExpression?, rest: RowProgram?)

    init(_ request: ChangeRequest, _ table: PostgresTable) {
        self.table = table
        self.request = request
        func halves(
            _ condition: QueryExpression?
        ) -> (exact: QueryExpression?, rest: RowProgram?) {
            let split = table.split.split(condition)
            return (
                split.exact,
                split.rest.map { RowProgram($0, isCondition: true, of: table.table) }
            )
        }
        view = halves(request.view)
        filter = halves(request.filter.map { VersionLiterals.replace(in: $0) })
    }

    /// Reads the clock, the changes and their number from one snapshot of the table.
    func run(_ read: PostgresRead) throws -> ChangePage {
        try read.transaction([table.clockStatement] + scanEnds) { results in
            let clock = try table.clock(results[0], read)
            // If the database is older than the link, an earlier state was restored.
            guard request.after <= clock.timestamp else { throw ServerError.epochChanged }
            let end = results.dropFirst()
                .compactMap { $0.count > 0 ? $0.integer(0, 0) : nil }.min()
            let watch = read.watch
            let left = try departures(upTo: end, read, watch)
            var page = try changes(left, upTo: end, clock, read, watch)
            if request.wantsCount, end == nil {
                page.count = try countWritten(read, watch) + Int64(Set(left.map(\.id)).count)
            }
            if watch.isOver { try read.check() }
            return page
        }
    }

    /// The queries for the commit timestamp up to which rows are read; a query without a result sets no limit.
    ///
    /// In a busy table a caller may see few of the rows, but invisible rows have to be read as well.
    private var scanEnds: [PostgresStatement] {
        guard request.scanMax < .max else { return [] }
        let skipped = SQLValue.integer(Int64(request.scanMax) - 1)
        var scans = [
            PostgresStatement(
                """
                SELECT "tideline_stamp" FROM \(PostgresName.log(table.name))
                WHERE "tideline_stamp" > $1
                ORDER BY "tideline_stamp" LIMIT 1 OFFSET $2
                """,
                values: [.integer(request.after), skipped]
            )
        ]
        // If SQL expresses the whole view and its column has an index, few rows are read.
        if view.rest != nil || table.log.takesUpdates && request.view != nil {
            var sql: SQL = "SELECT \"version\" FROM \(Identifier(table.name))"
            sql.append(" WHERE \"updatedAt\" > \(SQL.instant(request.after))")
            sql.append(" ORDER BY \"updatedAt\" LIMIT 1 OFFSET \(skipped)")
            scans.append(PostgresStatement(sql))
        }
        return scans
    }

    // MARK: - Departures

    private struct Departure {
        var timestamp: Int64
        var isDeleted: Bool
        var id: String
    }

    /// Returns the rows that left the visibility filter after the time and have not entered it again.
    private func departures(
        upTo end: Int64?,
        _ read: PostgresRead,
        _ watch: EvaluationWatch
    ) throws -> [Departure] {
        let (log, now) = (Identifier("log"), Identifier("now"))
        var sql: SQL = """
            SELECT "log"."tideline_stamp", "log"."tideline_deleted", "now"."id" IS NOT NULL,
            \(SQL(verbatim: table.cells(from: "\"log\".") + ", " + table.cells(from: "\"now\".")))
            FROM \(SQL(verbatim: PostgresName.log(table.name))) AS \(log)
            LEFT JOIN \(Identifier(table.name)) AS \(now) ON \(now)."id" = \(log)."id"
            WHERE \(log)."tideline_stamp" > \(SQLValue.integer(request.after))
            """
        if let end { sql.append(" AND \(log).\"tideline_stamp\" <= \(SQLValue.integer(end))") }
        if let exact = view.exact {
            sql.append(" AND (\(table.renderer(log).condition(exact)))")
        }
        sql.append(" ORDER BY \(log).\"tideline_stamp\"")
        var left: [Departure] = []
        try read.forEach(sql) { result, row in
            let old = table.image(result, row, from: Self.logCells)
            if let rest = view.rest, !rest.holds(old, watch) { return true }
            if result.boolean(row, 2) {
                let image = table.image(result, row, from: Self.logCells + table.columns.count)
                // A row in the view is reported by itself.
                if image.isVisible(in: request.view, of: table.table) { return true }
            }
            left.append(
                Departure(
                    timestamp: result.integer(row, 0),
                    isDeleted: result.boolean(row, 1),
                    id: old.id
                )
            )
            return true
        }
        return left
    }

    /// The number of cells before those of the row.
    private static let logCells = 3

    // MARK: - Rows

    private func changes(
        _ left: [Departure],
        upTo end: Int64?,
        _ clock: TableClock,
        _ read: PostgresRead,
        _ watch: EvaluationWatch
    ) throws -> ChangePage {
        var page = ChangeBuilder(request, table.table)
        var waiting = left[...]
        var isFull = false
        let rows = written(upTo: end, withMatches: true)
        func check(_ result: PostgresResult) throws { try table.checkTypes(result, from: 1) }
        try read.forEach(rows, checkResult: check) { result, row in
            let image = table.image(result, row, from: 1)
            if let rest = view.rest, !rest.holds(image, watch) { return true }
            while let next = waiting.first, next.timestamp < image.version {
                isFull = try !page.add(removed: next.id, next.isDeleted, next.timestamp)
                if isFull { return false }
                waiting.removeFirst()
            }
            var matches = result.boolean(row, 0)
            if matches, let rest = filter.rest { matches = rest.holds(image, watch) }
            isFull =
                try matches
                ? !page.add(image) : !page.add(removed: image.id, image.isDeleted, image.version)
            return !isFull
        }
        while !isFull, let next = waiting.popFirst() {
            isFull = try !page.add(removed: next.id, next.isDeleted, next.timestamp)
        }
        return page.finish(isFull ? page.last : end, clock)
    }

    private func written(upTo end: Int64?, withMatches: Bool) -> SQL {
        var sql: SQL = "SELECT "
        if withMatches {
            sql.append("NOT \"deleted\"")
            if let exact = filter.exact {
                sql.append(" AND (\(table.renderer.strictCondition(exact)))")
            }
            sql.append(", \(SQL(verbatim: table.cells()))")
        } else {
            sql.append(view.rest == nil ? "count(*)" : SQL(verbatim: table.cells()))
        }
        sql.append(" FROM \(Identifier(table.name))")
        sql.append(" WHERE \"updatedAt\" > \(SQL.instant(request.after))")
        if let exact = view.exact { sql.append(" AND (\(table.renderer.condition(exact)))") }
        if let end { sql.append(" AND \"updatedAt\" <= \(SQL.instant(end))") }
        guard withMatches else { return sql }
        sql.append(" ORDER BY \"updatedAt\"")
        if view.rest == nil {
            sql.append(" LIMIT \(SQLValue.integer(Int64(request.rowsMax) + 1))")
        }
        return sql
    }

    private func countWritten(_ read: PostgresRead, _ watch: EvaluationWatch) throws -> Int64 {
        let sql = written(upTo: nil, withMatches: false)
        guard let rest = view.rest else {
            return try read.connection.run(PostgresStatement(sql)).integer(0, 0)
        }
        var count: Int64 = 0
        try read.forEach(sql) { result, row in
            if rest.holds(table.image(result, row), watch) { count += 1 }
            return true
        }
        return count
    }
}
