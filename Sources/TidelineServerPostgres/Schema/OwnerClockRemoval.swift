// OwnerClockRemoval: migrates a database whose tables had a clock for each owner.
//
// Servers up to storage format 4 had the table option `"clock": "owner"`: the rows of an owner got their timestamps
// from a clock in `tideline.owner_clocks`, and the columns of such a table were stored after the name of the owner
// column. Every table has one clock now (docs/decisions/0003-one-clock-per-table.md).

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// A migration to storage format 5, in the transaction of a schema change.
///
/// If the transaction is rolled back, the database is unchanged. The caller renews the epoch, because no device can
/// continue its cursors for these tables, and creates the triggers.
struct OwnerClockRemoval {
    private let script: SchemaScript

    init(_ script: SchemaScript) { self.script = script }

    private var connection: PostgresConnection { script.connection }

    private static let prefix = "owner:"

    /// Returns whether columns are stored as in a table with owner clocks.
    static func isNeeded(_ columns: String) -> Bool { columns.hasPrefix(prefix) }

    /// The error of a command that does not migrate.
    static let rejection = DatabaseError(
        .schemaChange,
        "The tables of this database have a clock for each owner, from an earlier version. Start the server once, "
            + "or run 'tideline migrate --apply': both give them one table clock each."
    )

    /// Replaces the owner clocks with table clocks.
    ///
    /// - Returns: The tables that had clocks of owners.
    func run() throws -> [TableDefinition] {
        let found = try connection.run(
            """
            SELECT "relation", substr("columns", strpos("columns", E'\\n') + 1) FROM tideline.tables
            WHERE left("columns", \(Self.prefix.count)) = '\(Self.prefix)' ORDER BY "name"
            """
        )
        let tables = try (0..<found.count).map {
            try PostgresSchema.table(found.text($0, 0), found.text($0, 1))
        }
        // The clocks are locked in the order in which writers lock them.
        for table in tables where try exists(PostgresName.quoted(table.name)) {
            try script.runOnRows("LOCK TABLE \(PostgresName.quoted(table.name)) IN EXCLUSIVE MODE")
        }
        for table in tables { try moveClock(of: table) }
        try script.execute(
            """
            UPDATE tideline.tables
            SET "columns" = substr("columns", strpos("columns", E'\\n') + 1), "schema" = "schema" + 1
            WHERE left("columns", \(Self.prefix.count)) = '\(Self.prefix)';
            DROP TABLE IF EXISTS
                tideline.owner_clocks, tideline.owner_departures, tideline.owner_moved;
            DROP FUNCTION IF EXISTS tideline.keep_log()
            """
        )
        return tables
    }

    /// Sets the clock of a table to a time after each timestamp of its owners, and restarts its log.
    private func moveClock(of table: TableDefinition) throws {
        let (relation, log) = (PostgresName.quoted(table.name), PostgresName.log(table.name))
        let name = "'\(table.name.lowercased())'"
        var timestamps: [String] = []
        if try exists("tideline.owner_clocks") {
            let owners = "tideline.owner_clocks WHERE \"table\" = \(name)"
            timestamps.append("(SELECT max(\"stamp\") FROM \(owners))")
        }
        // External programs may have dropped the table.
        if try exists(relation) { timestamps.append("(SELECT max(\"version\") FROM \(relation))") }
        let hasLog = try exists(log)
        if hasLog { timestamps.append("(SELECT max(\"tideline_stamp\") FROM \(log))") }
        try script.runOnRows(
            """
            UPDATE tideline.clocks AS c SET "stamp" = x."stamp", "horizon" = x."stamp"
            FROM (
                SELECT greatest(\((["\"stamp\"", "\"horizon\""] + timestamps).joined(separator: ", "))) AS "stamp"
                FROM tideline.clocks WHERE "table" = \(name)
            ) AS x
            WHERE c."table" = \(name)
            """
        )
        // Two owners may have assigned the same timestamp, so a reader who counts the rows of a millisecond reads all
        // of them again.
        try script.runOnRows(
            """
            INSERT INTO tideline.departures AS d ("table", "millisecond", "count", "last")
            SELECT c."table", \(PostgresClock.unknown), c."stamp" / 1000,
                greatest(c."stamp", \(PostgresClock.microseconds))
            FROM tideline.clocks AS c WHERE c."table" = \(name)
            ON CONFLICT ("table", "millisecond") DO UPDATE
            SET "count" = greatest(d."count", excluded."count"), "last" = excluded."last"
            """
        )
        if hasLog {
            try script.execute("DROP TABLE \(log)")
            try script.execute(PostgresSchema.createLog(table))
        }
        // The triggers are created again for the new clock.
        try script.run(
            PostgresSchema.putState,
            [.text("triggers.\(table.name.lowercased())"), .text("")]
        )
    }

    private func exists(_ relation: String) throws -> Bool {
        try !connection.run("SELECT to_regclass($1) IS NULL", [.text(relation)]).boolean(0, 0)
    }
}
