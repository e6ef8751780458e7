// ForeignStamps: the commit timestamps for an external writer's transaction, from the table's clock or from the
// clocks of its rows' owners, assigned at its commit.
//
// A column may have the name of a variable of the function: an ambiguous name is the variable, and the owner's
// column is always written with its table.

import TidelineCore
import TidelineServerCore

extension ForeignWriters {
    /// The statements, between the look whether there is anything to stamp and the end.
    var stamps: String { owner("r.") == nil ? stampByTable : stampByOwners }

    /// All rows of the transaction get the next timestamps of the table's clock.
    ///
    /// The text is that of the first servers, margins included: triggers are created again if it differs.
    private var stampByTable: String {
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

    /// The variables that only clocks of owners need.
    var ownersVariables: String {
        guard owner("r.") != nil else { return "" }
        return """

                owners text[];
                firsts bigint[];
                counts bigint[];
            """
    }

    /// The owners of the rows that are to be stamped, as a table with the column `owner`.
    private var touchedOwners: String {
        """
        SELECT \(owner("r.") ?? "''") AS owner FROM \(relation) AS r WHERE r."version" = 0
        UNION SELECT l."tideline_owner" FROM \(log) AS l WHERE l."tideline_stamp" < 0
        """
    }

    /// The rows of each owner get the next stamps of that owner's clock.
    private var stampByOwners: String {
        let (spacing, rowOwner) = (PostgresClock.spacing, owner("r.") ?? "''")
        let hisRow = "t.\"id\" = l.\"id\" AND \(owner("t.") ?? "''") = l.\"tideline_owner\""
        return """
            \(OwnerClocks.makeClocks("SELECT \(clock) AS \"table\", x.owner FROM (\(touchedOwners)) AS x"));
            -- In the order in which every writer locks them.
            PERFORM 1 FROM tideline.owner_clocks AS c WHERE c."table" = \(clock)
            AND c."owner" IN (\(touchedOwners)) ORDER BY c."owner" FOR UPDATE;
            WITH wanted AS (
                SELECT each.owner, sum(each.of_rows) AS of_rows, count(*) AS of_all FROM (
                    SELECT \(rowOwner) AS owner, 1 AS of_rows
                    FROM \(relation) AS r WHERE r."version" = 0
                    UNION ALL
                    SELECT l."tideline_owner", 0 FROM \(log) AS l
                    WHERE l."tideline_stamp" < 0 AND NOT EXISTS (
                        SELECT 1 FROM \(relation) AS t WHERE \(hisRow) AND t."version" = 0
                    )
                ) AS each GROUP BY each.owner
            ), stamped AS (
                UPDATE tideline.owner_clocks AS c
                SET "stamp" = \(spacing) * (w.of_all - 1) + CASE
                        WHEN \(PostgresClock.isCounted) AND \(Self.next) / 1000 = "stamp" / 1000
                        THEN ("stamp" / 1000 + 1) * 1000 ELSE \(Self.next)
                    END,
                    "written" = \(OwnerClocks.written)
                FROM wanted AS w WHERE c."table" = \(clock) AND c."owner" = w.owner
                RETURNING c."owner", w.of_rows, c."stamp" - \(spacing) * (w.of_all - 1) AS first_stamp
            )
            SELECT array_agg(s."owner"), array_agg(s.first_stamp), array_agg(s.of_rows)
            INTO owners, firsts, counts FROM stamped AS s;
            own := current_setting('tideline.owners', true);
            PERFORM set_config('tideline.owners', \(Self.ownWord), true);
            UPDATE \(relation) AS t
            SET "version" = n.stamp, "updatedAt" = tideline.instant(n.stamp)
            FROM (
                SELECT r."id", c.first_stamp + \(spacing)
                    * (row_number() OVER (PARTITION BY c.owner ORDER BY r."id") - 1) AS stamp
                FROM unnest(owners, firsts) AS c(owner, first_stamp)
                JOIN \(relation) AS r ON \(rowOwner) = c.owner
                WHERE r."version" = 0
            ) AS n
            WHERE t."id" = n."id";
            UPDATE \(log) AS e
            SET "tideline_stamp" = n.stamp, "tideline_deleted" = n.is_deleted
            FROM (
                SELECT l."tideline_stamp" AS mark, l."tideline_owner",
                    t."id" IS NULL OR t."deleted" AS is_deleted,
                    CASE
                        WHEN t."version" >= c.first_stamp THEN t."version"
                        ELSE c.first_stamp + \(spacing) * (c.of_rows - 1 + row_number() OVER (
                            PARTITION BY c.owner, coalesce(t."version" >= c.first_stamp, FALSE)
                            ORDER BY l."id"
                        ))
                    END AS stamp
                FROM unnest(owners, firsts, counts) AS c(owner, first_stamp, of_rows)
                JOIN \(log) AS l ON l."tideline_owner" = c.owner
                -- Gone for this owner, where another one has made a row with its id.
                LEFT JOIN \(relation) AS t ON \(hisRow)
                WHERE l."tideline_stamp" < 0
            ) AS n
            WHERE e."tideline_stamp" = n.mark AND e."tideline_owner" = n."tideline_owner";
            WITH left_times AS (
                DELETE FROM tideline.owner_moved AS m WHERE m."table" = \(clock)
                RETURNING m."owner", m."millisecond"
            )
            INSERT INTO tideline.owner_departures AS d
            ("table", "owner", "millisecond", "count", "last")
            SELECT \(clock), g."owner", g."millisecond", count(*), max(c."stamp")
            FROM left_times AS g
            JOIN tideline.owner_clocks AS c ON c."table" = \(clock) AND c."owner" = g."owner"
            WHERE \(PostgresClock.isCounted)
            GROUP BY 2, 3 ORDER BY 2, 3
            ON CONFLICT ("table", "owner", "millisecond") DO UPDATE
            SET "count" = d."count" + excluded."count", "last" = excluded."last";
            -- Once more, as it took its time: who looks for clocks that moved looks back a little.
            UPDATE tideline.owner_clocks AS c SET "written" = \(OwnerClocks.written)
            WHERE c."table" = \(clock) AND c."owner" = ANY(owners)
            AND c."written" <> \(OwnerClocks.written);
            """
    }

    /// The timestamp after the last one of the clock's row.
    private static let next = """
        greatest("stamp" + \(PostgresClock.spacing), \(PostgresClock.microseconds))
        """
}
