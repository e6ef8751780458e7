// OwnerClocks: how the clocks of owners are locked and moved by what is forgotten and by who counts rows.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

extension OwnerClocks {
    /// Locks those of these owners' clocks that nobody else has, and says whose they are.
    static func lockFree(_ table: String, _ owners: [SQLValue]) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT "owner" FROM tideline.owner_clocks
            WHERE "table" = $1 AND "owner" = ANY($2::text[]) ORDER BY "owner"
            FOR UPDATE SKIP LOCKED
            """,
            [.value(.text(table.lowercased())), .array(owners)]
        )
    }

    /// Tombstones of these owners with these stamps are gone, each in the order of both lists; their
    /// clocks are locked.
    static func leave(
        _ table: String,
        _ owners: [SQLValue],
        _ stamps: [SQLValue],
        _ now: Int64
    ) -> [PostgresStatement] {
        let gone: [PostgresParameter] = [
            .value(.text(table.lowercased())), .array(owners), .array(stamps),
        ]
        // Under the clocks' locks: who counts the rows of a millisecond sees these gone and counted.
        let count = PostgresStatement(
            """
            INSERT INTO tideline.owner_departures AS d
            ("table", "owner", "millisecond", "count", "last")
            SELECT $1, gone."owner", gone."stamp" / 1000, count(*), $4
            FROM unnest($2::text[], $3::bigint[]) AS gone("owner", "stamp")
            JOIN tideline.owner_clocks AS c ON c."table" = $1 AND c."owner" = gone."owner"
            WHERE c."counted" > $4 - \(PostgresClock.countedTime)
            GROUP BY 2, 3 ORDER BY 2, 3
            ON CONFLICT ("table", "owner", "millisecond") DO UPDATE
            SET "count" = d."count" + excluded."count", "last" = excluded."last"
            """,
            gone + [.value(.integer(now))]
        )
        return [count, raiseHorizons(table, owners, stamps)]
    }

    /// What owners were to be told up to these stamps is gone; their clocks are locked.
    static func raiseHorizons(
        _ table: String,
        _ owners: [SQLValue],
        _ stamps: [SQLValue]
    ) -> PostgresStatement {
        PostgresStatement(
            """
            UPDATE tideline.owner_clocks AS c SET "horizon" = greatest(c."horizon", x."stamp")
            FROM (
                SELECT "owner", max("stamp") AS "stamp"
                FROM unnest($2::text[], $3::bigint[]) AS gone("owner", "stamp") GROUP BY 1
            ) AS x
            WHERE c."table" = $1 AND c."owner" = x."owner"
            """,
            [.value(.text(table.lowercased())), .array(owners), .array(stamps)]
        )
    }

    /// Says that somebody counts the rows of a millisecond; the clock is there.
    static func markCounted(_ clock: ClockKey, _ now: Int64) -> SQL {
        """
        UPDATE \(relation(clock)) SET "counted" = greatest("counted", \(SQLValue.integer(now)))
        WHERE \(isIt(clock))
        """
    }

    /// When that was said last, and the time, both in microseconds.
    static func readCounted(_ clock: ClockKey) -> SQL {
        """
        SELECT coalesce((SELECT "counted" FROM \(relation(clock)) WHERE \(isIt(clock))), 0),
            \(SQL(verbatim: PostgresClock.microseconds))
        """
    }

    private static func relation(_ clock: ClockKey) -> SQL {
        clock.owner == nil ? "tideline.clocks" : "tideline.owner_clocks"
    }

    private static func isIt(_ clock: ClockKey) -> SQL {
        let table: SQL = "\"table\" = \(SQLValue.text(clock.table))"
        guard let owner = clock.owner else { return table }
        return table + " AND \"owner\" = \(SQLValue.text(owner))"
    }
}
