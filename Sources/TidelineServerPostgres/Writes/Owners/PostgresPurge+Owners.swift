// PostgresPurge: what is too old in tables whose owners have clocks of their own.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

extension PostgresPurge {
    /// The owner of a row as SQL, where the table has clocks of owners by now.
    ///
    /// Another server may have begun or ended that, and none does while the table is locked. Who changes it just
    /// now is not waited for, on the thread of all writes: there is a next turn.
    func owner(
        _ table: String,
        _ mode: String,
        _ connection: PostgresConnection
    ) throws -> String? {
        try connection.execute("LOCK TABLE \(PostgresName.quoted(table)) IN \(mode) MODE NOWAIT")
        let stored = try PostgresSchemaChange.stored(table, connection)
        return stored.flatMap { OwnerClocks.cell($0) }
    }

    /// Whose old entries there are whose clocks nobody has.
    ///
    /// Those are locked, so that all that is removed then is told by their horizons. Whoever has the clock
    /// of another holds up nobody. The table's clock is locked before them, as everywhere, and rows only
    /// where nobody has them.
    func freeOwners(
        _ table: String,
        _ owner: String,
        _ old: String,
        by order: String,
        _ bounds: [PostgresParameter],
        _ connection: PostgresConnection
    ) throws -> [SQLValue] {
        try connection.run(PostgresSchema.lockClock, [.text(table.lowercased())])
        var held: [SQLValue] = []
        for _ in 0..<Self.looksMax {
            let found = try connection.run(
                PostgresStatement(
                    """
                    SELECT DISTINCT x.owner FROM (
                        SELECT \(owner) AS owner \(old) AND \(owner) <> ALL($3::text[])
                        ORDER BY \(order) LIMIT $2
                    ) AS x
                    """,
                    bounds + [.array(held)]
                )
            )
            let owners = (0..<found.count).map { SQLValue.text(found.text($0, 0)) }
            guard !owners.isEmpty else { return [] }
            let free = try connection.run(OwnerClocks.lockFree(table, owners))
            if free.count > 0 { return (0..<free.count).map { .text(free.text($0, 0)) } }
            held += owners
        }
        return []
    }

    /// How often it is looked for owners whose clocks nobody has.
    private static let looksMax = 4

    /// What the log has for owners whose clocks nobody has.
    func forgetChangesOfOwners(
        _ table: String,
        upTo end: Int64,
        _ connection: PostgresConnection
    ) throws -> Int {
        let log = PostgresName.log(table)
        let name = SQLValue.text(table.lowercased())
        let old = "FROM \(log) WHERE \"tideline_stamp\" < $1 AND \"tideline_stamp\" > 0"
        let stamp = "\"tideline_stamp\""
        let bounds = [PostgresParameter.value(.integer(end)), .value(Self.rows)]
        let free = try freeOwners(table, "\"tideline_owner\"", old, by: stamp, bounds, connection)
        guard !free.isEmpty else { return 0 }
        let gone = try connection.run(
            PostgresStatement(
                """
                DELETE FROM \(log) WHERE ("tideline_owner", "tideline_stamp") IN (
                    SELECT "tideline_owner", "tideline_stamp" \(old)
                    AND "tideline_owner" = ANY($3::text[])
                    ORDER BY "tideline_stamp" LIMIT $2 FOR UPDATE SKIP LOCKED
                )
                RETURNING "tideline_stamp", "tideline_owner"
                """,
                bounds + [.array(free)]
            )
        )
        guard gone.count > 0 else { return 0 }
        let stamps = (0..<gone.count).map { gone.integer($0, 0) }
        let owners = (0..<gone.count).map { SQLValue.text(gone.text($0, 1)) }
        try connection.run(PostgresSchema.raiseHorizon, [name, .integer(stamps.max() ?? 0)])
        let last = stamps.map { SQLValue.integer($0) }
        try connection.run(OwnerClocks.raiseHorizons(table, owners, last))
        return gone.count
    }
}
