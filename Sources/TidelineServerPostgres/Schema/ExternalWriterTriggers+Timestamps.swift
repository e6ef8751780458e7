// ExternalWriterTriggers+Timestamps: SQL that assigns commit timestamps to an external transaction at its commit.
//
// A column may have the name of a variable of the function: an ambiguous name means the variable.

import TidelineCore
import TidelineServerCore

extension ExternalWriterTriggers {
    /// The statements that assign the timestamps if any row needs one.
    ///
    /// All rows of the transaction get the next timestamps of the table's clock. The text and its indentation
    /// must not change, because triggers are created again if it differs.
    var stamps: String {
        """
        SELECT count(*) INTO rows FROM \(relation) WHERE "version" = 0;
            SELECT count(*) INTO gone FROM \(log) AS l WHERE l."tideline_stamp" < 0
            AND NOT EXISTS (
                SELECT 1 FROM \(relation) AS t WHERE t."id" = l."id" AND t."version" = 0
            );
            UPDATE tideline.clocks SET "stamp" = \(PostgresClock.spacing) * (rows + gone - 1)
                + CASE
                    WHEN \(PostgresClock.isCounted) AND \(Self.next) / 1000 = "stamp" / 1000
                    THEN ("stamp" / 1000 + 1) * 1000 ELSE \(Self.next)
                END
            WHERE "table" = \(clock)
            RETURNING "stamp" - \(PostgresClock.spacing) * (rows + gone - 1) INTO STRICT first;
            own := current_setting('tideline.own', true);
            PERFORM set_config('tideline.own', \(Self.ownWord), true);
            UPDATE \(relation) AS t
            SET "version" = n.stamp, "updatedAt" = tideline.instant(n.stamp)
            FROM (
                SELECT "id", first + \(PostgresClock.spacing)
                    * (row_number() OVER (ORDER BY "id") - 1) AS stamp
                FROM \(relation) WHERE "version" = 0
            ) AS n
            WHERE t."id" = n."id";
            UPDATE \(log) AS l
            SET "tideline_stamp" = n.stamp, "tideline_deleted" = n.deleted
            FROM (
                SELECT e."tideline_stamp" AS mark, t."id" IS NULL OR t."deleted" AS deleted,
                    CASE
                        WHEN t."version" >= first THEN t."version"
                        ELSE first + \(PostgresClock.spacing) * (rows - 1 + row_number() OVER (
                            PARTITION BY coalesce(t."version" >= first, FALSE) ORDER BY e."id"
                        ))
                    END AS stamp
                FROM \(log) AS e LEFT JOIN \(relation) AS t ON t."id" = e."id"
                WHERE e."tideline_stamp" < 0
            ) AS n
            WHERE l."tideline_stamp" = n.mark;
            WITH left_times AS (
                DELETE FROM tideline.moved WHERE "table" = \(clock) RETURNING "millisecond"
            )
            INSERT INTO tideline.departures AS d ("table", "millisecond", "count", "last")
            SELECT \(clock), "millisecond", count(*), first FROM left_times
            WHERE EXISTS (
                SELECT 1 FROM tideline.clocks WHERE "table" = \(clock) AND \(PostgresClock.isCounted)
            )
            GROUP BY "millisecond" ORDER BY "millisecond"
            ON CONFLICT ("table", "millisecond") DO UPDATE
            SET "count" = d."count" + excluded."count", "last" = excluded."last";
        """
    }

    /// Computes the timestamp after the last one in the clock's row.
    private static let next = """
        greatest("stamp" + \(PostgresClock.spacing), \(PostgresClock.microseconds))
        """
}
