// PostgresRead: the statements of one read.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// A read of the database: its statements, from one snapshot and within a time limit.
struct PostgresRead {
    let connection: PostgresConnection
    let ticket: QueryTicket
    /// The uptime in nanoseconds at which the read has to end.
    let end: UInt64
    /// The state that the database must have reached, if it is a replica.
    var reach: ReplicaReach?

    /// A watch that ends long evaluations in memory.
    var watch: EvaluationWatch {
        let budget = WatchBudget()
        return EvaluationWatch { [ticket, end] bytes in
            guard budget.isSpent(by: bytes) else { return false }
            return ticket.isOver || Uptime.now() > end
        }
    }

    /// Throws if the time limit is reached or the caller has disconnected.
    func check() throws {
        if ticket.isOver { throw CancellationError() }
        guard Uptime.now() < end else {
            throw ServerError.queryTooExpensive
        }
    }

    // MARK: - Transactions

    private var begin: [PostgresStatement] {
        [PostgresStatement("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"), times]
    }

    /// Sets the time limits to the remaining time.
    ///
    /// They end with the transaction, so that they do not affect other users of a pooler's connection. The lock
    /// timeout differs from the statement timeout, so that the two errors can be distinguished.
    var times: PostgresStatement {
        let now = Uptime.now()
        let milliseconds = end > now ? max((end - now) / 1_000_000, 1) : 1
        return PostgresStatement(
            """
            SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true)
            """,
            values: [.text(String(milliseconds)), .text(String(max(milliseconds / 2, 1)))]
        ).prepared
    }

    /// Runs one statement in the implicit transaction of a pipeline.
    func one(_ statement: PostgresStatement) throws -> PostgresResult {
        try check()
        return try connection.pipeline([times, statement])[1]
    }

    /// Runs all the statements on one snapshot of the database, in one round trip.
    func all(_ statements: [PostgresStatement]) throws -> [PostgresResult] {
        try check()
        let begin = begin
        let results = try connection.pipeline(
            begin + statements + [PostgresStatement("COMMIT")]
        )
        return Array(results.dropFirst(begin.count).dropLast())
    }

    /// Runs a transaction whose later statements depend on the first.
    func transaction<Result>(
        _ first: [PostgresStatement],
        _ body: ([PostgresResult]) throws -> Result
    ) throws -> Result {
        try check()
        let begin = begin
        let results = try connection.pipeline(begin + first)
        let result = try body(Array(results.dropFirst(begin.count)))
        try connection.run("COMMIT")
        return result
    }

    /// Reads the rows of a statement in portions, within a transaction.
    ///
    /// - Parameters:
    ///   - sql: The statement.
    ///   - checkResult: Called with each result before its rows.
    ///   - body: Called with a row; returns false to stop.
    /// - Throws: ``PostgresError``, and the errors of the closures.
    func forEach(
        _ sql: SQL,
        checkResult: (PostgresResult) throws -> Void = { _ in },
        _ body: (PostgresResult, Int) throws -> Bool
    ) throws {
        let text = "DECLARE tideline_scan NO SCROLL CURSOR FOR " + sql.text(for: .postgres)
        try connection.run(PostgresStatement(text, values: sql.bindings))
        var wanted = Self.firstRows
        while true {
            try check()
            let result = try connection.run("FETCH FORWARD \(wanted) FROM tideline_scan")
            try checkResult(result)
            for row in 0..<result.count where try !body(result, row) {
                try connection.run("CLOSE tideline_scan")
                return
            }
            if result.count < wanted { break }
            wanted = min(
                max(Self.bytesMax / max(result.bytes / result.count, 1), 1),
                wanted * 2,
                Self.rowsMax
            )
        }
        try connection.run("CLOSE tideline_scan")
    }

    /// How many rows, and about how many bytes, a scan has in memory at a time.
    private static let firstRows = 100
    private static let rowsMax = 2000
    private static let bytesMax = 8 << 20
}

/// A budget of bytes that are read before the wall clock is checked again.
private final class WatchBudget {
    private static let bytesBetweenChecks = 1 << 18
    private var left = bytesBetweenChecks

    func isSpent(by bytes: Int) -> Bool {
        left -= bytes
        guard left < 0 else { return false }
        left = Self.bytesBetweenChecks
        return true
    }
}

extension PostgresTable {
    /// The statement that reads the table's clock, the epoch of the database, and the schema version of the table.
    ///
    /// Its cells are the first ones of a read.
    var clockStatement: PostgresStatement {
        PostgresStatement(
            """
            SELECT coalesce(c."stamp", 0), coalesce(c."horizon", 0), t."schema",
                (SELECT "value" FROM tideline.state WHERE "key" = 'epoch')
            FROM tideline.tables AS t LEFT JOIN tideline.clocks AS c ON c."table" = t."name"
            WHERE t."name" = $1
            """,
            values: [.text(clock)]
        ).prepared
    }

    /// Returns the clock; a missing table has the initial one.
    ///
    /// - Throws: ``OutdatedTable`` if the table has a schema version other than this one, and ``ReplicaIsBehind``.
    func clock(_ result: PostgresResult, _ read: PostgresRead) throws -> TableClock {
        guard result.count > 0 else {
            try read.reach?.check(TableClock())
            return TableClock()
        }
        let clock = TableClock(
            timestamp: result.integer(0, 0),
            horizon: result.integer(0, 1),
            epoch: result.isNull(0, 3) ? nil : result.text(0, 3)
        )
        try read.reach?.check(clock)
        try check(form: result.integer(0, 2), read.connection)
        return clock
    }

    /// Throws if the table has a different schema version in the database.
    func check(form: Int64, _ connection: PostgresConnection) throws {
        guard let own = table.definition.form, own != form else { return }
        if let stored = try PostgresSchemaChange.storedSoon(clock, connection) {
            throw OutdatedTable(stored)
        }
    }

    /// Returns an error if a statement failed because the table has lost a column that it named; nil for other
    /// failures.
    func outdated(
        _ error: PostgresError,
        _ connection: PostgresConnection
    ) -> OutdatedTable? {
        guard error.state == "42P01" || error.state == "42703", let own = table.definition.form,
            connection.endTransaction(),
            let stored = try? PostgresSchemaChange.storedSoon(clock, connection), stored.form != own
        else { return nil }
        return OutdatedTable(stored)
    }
}
