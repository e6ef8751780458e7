// OwnerClocks: where tables whose owners have clocks of their own keep them, and how that begins and ends.
//
// They are beside the clocks of tables, so that nothing of those changes, and each has its owner as a column,
// by which a database of many machines can keep it where the owner's rows are. What servers of before cannot
// read stands before the columns of such a table: those that still run then refuse what is asked of it.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

enum OwnerClocks {
    /// A look for what moved goes so far back, in microseconds: a transaction that commits later than
    /// that after its stamp is told by the next write of its owner, or when a listener comes again.
    static let lookTime: Int64 = 10_000_000

    /// Behind a pause between looks that is longer than this all listeners are told: half of what a look
    /// finds is left for commits that take long.
    static let awayTime: Int64 = 5_000_000

    /// The same of a look that follows upon another one at once.
    static let soonTime: Int64 = 2_000_000

    /// What a timeline's beginning remembers, in microseconds; far longer than a commit takes.
    static let toldTime: Int64 = 600_000_000

    /// A stamp that is so far behind the beginning of that time, and of none that it remembers, is lost:
    /// stamps may be somewhat older or newer than the times when they were written.
    static let toldMargin: Int64 = 300_000_000

    /// When a clock moved last: whole seconds, so that most writes leave the index of it alone.
    static let written = "floor(extract(epoch FROM clock_timestamp()))::bigint * 1000000"

    /// The time in microseconds as conditions have it that an index is to answer.
    static let statementTime = "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint"

    /// There may be a million rows, and a busy one is written a hundred times a second.
    static let create = """
        CREATE TABLE IF NOT EXISTS tideline.owner_clocks (
            "table"   text COLLATE "C",
            "owner"   text COLLATE "C",
            "stamp"   bigint NOT NULL DEFAULT 0,
            "horizon" bigint NOT NULL DEFAULT 0,
            "counted" bigint NOT NULL DEFAULT 0,
            "written" bigint NOT NULL DEFAULT 0,
            PRIMARY KEY ("table", "owner")
        ) WITH (
            fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000
        );
        DO $$ BEGIN
            IF to_regclass('tideline.tideline_written') IS NULL THEN
                CREATE INDEX "tideline_written" ON tideline.owner_clocks ("written");
            END IF;
        END $$;
        CREATE TABLE IF NOT EXISTS tideline.owner_departures (
            "table"       text COLLATE "C",
            "owner"       text COLLATE "C",
            "millisecond" bigint,
            "count"       bigint NOT NULL,
            "last"        bigint NOT NULL,
            PRIMARY KEY ("table", "owner", "millisecond")
        );
        CREATE TABLE IF NOT EXISTS tideline.owner_moved (
            "table"       text COLLATE "C" NOT NULL,
            "owner"       text COLLATE "C" NOT NULL,
            "millisecond" bigint NOT NULL
        );
        """

    /// Whether a database has a place for them: one that only servers of before have had does not.
    static func isMissing(_ connection: PostgresConnection) throws -> Bool {
        try connection.run("SELECT to_regclass('tideline.owner_clocks') IS NULL").boolean(0, 0)
    }

    // MARK: - The form of a table

    private static let mark = "owner:"

    /// Columns as they are stored: behind the owner's column where owners have clocks.
    static func text(_ columns: [ColumnDefinition], of table: TableDefinition) -> String {
        let owner = column(table).map { mark + $0 + "\n" } ?? ""
        return owner + ColumnsText.write(columns, defaults: table.databaseDefaults)
    }

    /// A table as it is stored.
    static func table(_ name: String, _ text: String) throws -> TableDefinition {
        guard text.hasPrefix(mark), let end = text.firstIndex(of: "\n") else {
            var table = TableDefinition(name, columns: try ColumnsText.read(text))
            table.databaseDefaults = try ColumnsText.readDefaults(text)
            return table
        }
        let columnsText = String(text[text.index(after: end)...])
        var table = TableDefinition(name, columns: try ColumnsText.read(columnsText))
        table.databaseDefaults = try ColumnsText.readDefaults(columnsText)
        table.clock = .owner
        table.owner = String(text[..<end].dropFirst(mark.count))
        return table
    }

    /// Whether a row of the server's table of tables is of one with clocks of owners.
    static func isOfOwners(_ alias: String) -> String {
        "left(\(alias)\"columns\", \(mark.count)) = '\(mark)'"
    }

    /// Whether two definitions have the same clocks.
    static func haveSameClocks(_ one: TableDefinition, _ other: TableDefinition) -> Bool {
        column(one)?.lowercased() == column(other)?.lowercased()
    }

    /// The owner's column as the table has it; nil where the table has one clock.
    static func column(_ table: TableDefinition) -> String? {
        guard table.clock == .owner, let owner = table.owner else { return nil }
        let column = table.schema.columns.first { $0.name.lowercased() == owner.lowercased() }
        return column?.name ?? owner
    }

    /// The owner of a row, as SQL with an alias before the column; nil where the table has one clock.
    static func cell(_ table: TableDefinition, _ alias: String = "r.") -> String? {
        column(table).map { cell($0, alias) }
    }

    /// A row without an owner belongs to the one with the empty name.
    static func cell(_ column: String, _ alias: String) -> String {
        "coalesce(\(alias)\(PostgresName.quoted(column)), '')"
    }

    // MARK: - The begin and the end

    /// Makes those clocks of a query that are not there; it has the columns `table` and `owner`.
    ///
    /// One begins where the table's ended: what was told before is behind it, and who was away since
    /// then starts over. What is there is seen first: to come upon it would wait for whoever moves it.
    /// All are made in the order of their bytes, whatever order the database has for texts.
    static func makeClocks(_ query: String) -> String {
        """
        INSERT INTO tideline.owner_clocks ("table", "owner", "stamp", "horizon")
        SELECT c."table", x.owner, c."stamp", c."stamp"
        FROM (\(query)) AS x JOIN tideline.clocks AS c ON c."table" = x."table"
        WHERE NOT \(isThere("x"))
        ORDER BY 1, x.owner COLLATE "C" ON CONFLICT ("table", "owner") DO NOTHING
        """
    }

    /// Whether the clock of a row with the columns `table` and `owner` is there.
    static func isThere(_ alias: String) -> String {
        """
        EXISTS (
            SELECT 1 FROM tideline.owner_clocks AS k
            WHERE k."table" = \(alias)."table" AND k."owner" = \(alias).owner
        )
        """
    }

    /// Locks all of a table's, in the order in which every writer locks them.
    private static func lock(_ name: String) -> String {
        """
        SELECT count(*) FROM (
            SELECT 1 FROM tideline.owner_clocks WHERE "table" = '\(name.lowercased())'
            ORDER BY "owner" FOR UPDATE
        ) AS locked
        """
    }

    /// Each owner's clock begins where the table's was.
    ///
    /// Links from before lead nowhere, and who counts the rows of a millisecond takes all of it again.
    /// Clocks that are there were left by somebody who had not heard of their end.
    static func begin(_ table: TableDefinition) -> [String] {
        guard let owner = cell(table) else { return [] }
        let name = "'\(table.name.lowercased())'"
        let relation = PostgresName.quoted(table.name)
        return [
            makeClocks(
                "SELECT DISTINCT \(name) AS \"table\", \(owner) AS owner FROM \(relation) AS r"
            ),
            """
            UPDATE tideline.owner_clocks AS o
            SET "stamp" = greatest(o."stamp", c."stamp"),
                "horizon" = greatest(o."horizon", c."stamp")
            FROM tideline.clocks AS c
            WHERE o."table" = \(name) AND c."table" = \(name) AND o."horizon" < c."stamp"
            """,
            """
            INSERT INTO tideline.owner_departures ("table", "owner", "millisecond", "count", "last")
            SELECT "table", "owner", \(PostgresClock.unknown), "stamp" / 1000,
                greatest("stamp", \(PostgresClock.microseconds))
            FROM tideline.owner_clocks WHERE "table" = \(name)
            ON CONFLICT ("table", "owner", "millisecond") DO UPDATE
            SET "count" = excluded."count", "last" = excluded."last"
            """,
        ]
    }

    /// The table's clock goes on behind all of its owners'.
    ///
    /// Two owners may have given the same stamp, so who counts the rows of a millisecond takes all of
    /// it again.
    static func end(_ table: TableDefinition) -> [String] {
        let name = "'\(table.name.lowercased())'"
        return [
            """
            UPDATE tideline.clocks AS c
            SET "stamp" = greatest(c."stamp", x."stamp"), "horizon" = greatest(c."stamp", x."stamp")
            FROM (
                SELECT coalesce(max("stamp"), 0) AS "stamp" FROM tideline.owner_clocks
                WHERE "table" = \(name)
            ) AS x
            WHERE c."table" = \(name)
            """,
            """
            INSERT INTO tideline.departures AS d ("table", "millisecond", "count", "last")
            SELECT c."table", \(PostgresClock.unknown), c."stamp" / 1000,
                greatest(c."stamp", \(PostgresClock.microseconds))
            FROM tideline.clocks AS c WHERE c."table" = \(name)
            ON CONFLICT ("table", "millisecond") DO UPDATE
            SET "count" = greatest(d."count", excluded."count"), "last" = excluded."last"
            """,
            "DELETE FROM tideline.owner_clocks WHERE \"table\" = \(name)",
            "DELETE FROM tideline.owner_departures WHERE \"table\" = \(name)",
        ]
    }

    // MARK: - What is forgotten, and new versions

    /// What the log has for owners is about to go.
    static func expireLog(of name: String) -> [String] {
        [
            lock(name),
            """
            UPDATE tideline.owner_clocks AS c SET "horizon" = greatest(c."horizon", x."stamp")
            FROM (
                SELECT "tideline_owner" AS "owner", max("tideline_stamp") AS "stamp"
                FROM \(PostgresName.log(name)) GROUP BY 1
            ) AS x
            WHERE c."table" = '\(name.lowercased())' AND c."owner" = x."owner"
            """,
        ]
    }

    /// The log did not take what owners were to be told so far.
    static func expire(_ name: String) -> [String] {
        [
            lock(name),
            """
            UPDATE tideline.owner_clocks SET "horizon" = greatest("horizon", "stamp")
            WHERE "table" = '\(name.lowercased())'
            """,
        ]
    }

    /// New versions for rows of a table: behind every stamp of their owners, and before the time where
    /// there is room, in the order that the rows had.
    static func giveNewVersions(
        of table: String,
        _ owner: String,
        from rows: String,
        at now: Int64
    ) -> [String] {
        let (name, relation) = ("'\(table.lowercased())'", PostgresName.quoted(table))
        let spacing = PostgresClock.spacing
        return [
            makeClocks(
                "SELECT DISTINCT \(name) AS \"table\", \(owner) AS owner FROM \(relation) AS r"
            ),
            lock(table),
            """
            UPDATE \(relation) AS t
            SET "version" = n.stamp, "updatedAt" = tideline.instant(n.stamp)
            FROM (
                SELECT o."id", greatest(c."stamp", \(now) - \(spacing) * count(*) OVER owners)
                    + \(spacing) * row_number() OVER (owners ORDER BY o."updatedAt", o."id") AS stamp
                FROM (
                    SELECT r."id", r."updatedAt", \(owner) AS owner
                    FROM \(relation) AS r WHERE r."id" IN (SELECT "id" FROM \(rows))
                ) AS o
                JOIN tideline.owner_clocks AS c ON c."table" = \(name) AND c."owner" = o.owner
                WINDOW owners AS (PARTITION BY o.owner)
            ) AS n
            WHERE t."id" = n."id"
            """,
            """
            UPDATE tideline.owner_clocks AS c
            SET "stamp" = greatest(c."stamp", x.stamp), "written" = \(written)
            FROM (
                SELECT \(owner) AS owner, max(r."version") AS stamp FROM \(relation) AS r
                GROUP BY 1
            ) AS x
            WHERE c."table" = \(name) AND c."owner" = x.owner AND x.stamp > c."stamp"
            """,
        ]
    }
}
