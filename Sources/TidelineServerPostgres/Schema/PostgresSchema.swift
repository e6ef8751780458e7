// PostgresSchema: SQL for tables.
//
// Columns have no NOT NULL, because the configuration may remove it later. The routes reject nulls, and adding a
// column fills old rows with its default.

import TidelineCore
import TidelineServerCore

/// The SQL text that creates and changes tables.
enum PostgresSchema {
    /// The storage format of the server's own tables, which increases with each change.
    ///
    /// Up to storage format 4, tables may have owner clocks (``OwnerClockRemoval``).
    static let formatVersion: Int64 = 5

    /// The server's own tables.
    ///
    /// Servers that start at the same time wait for each other.
    static let open = """
        DO $$ BEGIN
            -- Who may not make schemas is refused even where it is there.
            IF to_regnamespace('tideline') IS NULL THEN CREATE SCHEMA tideline; END IF;
        END $$;
        CREATE TABLE IF NOT EXISTS tideline.state (
            "key"   text COLLATE "C" PRIMARY KEY,
            "value" text NOT NULL
        );
        INSERT INTO tideline.state ("key", "value") VALUES ('format', '\(formatVersion)')
        ON CONFLICT ("key") DO NOTHING;
        SELECT "value" FROM tideline.state WHERE "key" = 'format' FOR UPDATE;
        INSERT INTO tideline.state ("key", "value")
        VALUES ('epoch', substr(md5(gen_random_uuid()::text), 1, 16))
        ON CONFLICT ("key") DO NOTHING;
        CREATE TABLE IF NOT EXISTS tideline.tables (
            "name"     text COLLATE "C" PRIMARY KEY,
            "relation" text NOT NULL,
            "columns"  text NOT NULL,
            "schema"   bigint NOT NULL DEFAULT 1
        );
        \(addForm)
        CREATE TABLE IF NOT EXISTS tideline.clocks (
            "table"   text COLLATE "C" PRIMARY KEY,
            "stamp"   bigint NOT NULL DEFAULT 0,
            "horizon" bigint NOT NULL DEFAULT 0,
            "counted" bigint NOT NULL DEFAULT 0
        ) WITH (
            fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000
        );
        CREATE TABLE IF NOT EXISTS tideline.departures (
            "table"       text COLLATE "C",
            "millisecond" bigint,
            "count"       bigint NOT NULL,
            "last"        bigint NOT NULL,
            PRIMARY KEY ("table", "millisecond")
        );
        CREATE TABLE IF NOT EXISTS tideline.ledger (
            "request"   text COLLATE "C",
            "caller"    text COLLATE "C",
            "received"  bigint NOT NULL,
            "size"      bigint NOT NULL,
            "digest"    bytea NOT NULL,
            "outcome"   text NOT NULL,
            "id"        text NOT NULL,
            "version"   bigint,
            "updatedAt" bigint,
            "deleted"   boolean,
            "row"       text,
            PRIMARY KEY ("request", "caller")
        );
        DO $$ BEGIN
            IF to_regclass('tideline.tideline_received') IS NULL THEN
                CREATE INDEX "tideline_received" ON tideline.ledger ("received");
            END IF;
        END $$;
        \(LedgerAccounts.create)
        CREATE TABLE IF NOT EXISTS tideline.bases (
            "table"   text COLLATE "C",
            "id"      text COLLATE "C",
            "version" bigint,
            "row"     text NOT NULL,
            PRIMARY KEY ("table", "id", "version")
        );
        \(PostgresAudit.create)
        \(PostgresReceipts.create)
        \(ReferenceStatements.create)
        \(ExternalWriterTriggers.shared)
        """

    /// Adds schema versions to a database of the first servers.
    private static let addForm = """
        DO $$ BEGIN
            IF NOT EXISTS (
                SELECT 1 FROM pg_attribute WHERE attrelid = 'tideline.tables'::regclass
                AND attname = 'schema' AND NOT attisdropped
            ) THEN
                ALTER TABLE tideline.tables ADD COLUMN "schema" bigint NOT NULL DEFAULT 1;
            END IF;
        END $$;
        """

    /// Locks the schema, so that only one server at a time changes tables.
    ///
    /// The number is arbitrary. The lock ends with the transaction, so that it does not remain on a pooler's
    /// connection.
    ///
    /// - Parameter wait: The lock timeout for this lock and later ones, in milliseconds.
    /// - Returns: Statements for an open transaction.
    static func lock(waiting wait: Int) -> String {
        """
        SELECT set_config('tideline.own', 'on', true), set_config('lock_timeout', '\(wait)', true);
        SELECT pg_advisory_xact_lock(6072326741)
        """
    }

    /// Makes PostgreSQL roll back a schema change of a program that has stopped responding.
    static let idle = """
        SELECT set_config('idle_in_transaction_session_timeout', '60000', true),
            set_config('statement_timeout', '0', true)
        """

    static let readFormat = """
        SELECT "value" FROM tideline.state WHERE "key" = 'format'
        """

    static let readSizes = """
        SELECT pg_database_size(current_database()), pg_total_relation_size('tideline.ledger')
        """

    static let readEpoch = """
        SELECT "value" FROM tideline.state WHERE "key" = 'epoch'
        """

    static let putState = """
        INSERT INTO tideline.state ("key", "value") VALUES ($1, $2)
        ON CONFLICT ("key") DO UPDATE SET "value" = excluded."value"
        """

    /// The new epoch, which contains the latest commit.
    ///
    /// From that commit, devices find the rows that the database never had.
    private static let newEpoch = """
        substr(md5(gen_random_uuid()::text), 1, 16) || '.'
            || to_hex((SELECT coalesce(max("stamp"), 0) FROM tideline.clocks))
        """

    static let renewEpoch = """
        UPDATE tideline.state SET "value" = \(newEpoch)
        WHERE "key" = 'epoch' RETURNING "value"
        """

    /// Reads the number of the timeline, which the promotion of a standby changes.
    static let readTimeline = """
        SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
        """

    /// Stores the clocks of the tables at the beginning of the timeline, if no server has done so yet.
    ///
    /// The clocks of earlier timelines are no longer needed.
    static let putTimeline = """
        WITH first AS (
            INSERT INTO tideline.state ("key", "value")
            SELECT 'timeline.' || $1::text, coalesce(json_object_agg("table", "stamp"), '{}')::text
            FROM tideline.clocks
            ON CONFLICT ("key") DO NOTHING RETURNING 1
        )
        DELETE FROM tideline.state
        WHERE "key" LIKE 'timeline.%' AND "key" <> 'timeline.' || $1::text
        AND EXISTS (SELECT FROM first)
        """

    static let readTimelineTimestamps = """
        SELECT s."key", s."value"::bigint FROM tideline.state AS t,
            json_each_text(t."value"::json) AS s WHERE t."key" = 'timeline.' || $1::text
        """

    /// Renews the epoch once for each timeline.
    static let renewEpochOfTimeline = """
        WITH first AS (
            INSERT INTO tideline.state ("key", "value") VALUES ('renewed.' || $1::text, '')
            ON CONFLICT ("key") DO NOTHING RETURNING 1
        )
        UPDATE tideline.state SET "value" = \(newEpoch)
        WHERE "key" = 'epoch' AND EXISTS (SELECT FROM first)
        """

    /// Writes a value that is never read, in a row that is never locked for long.
    static let touchState = """
        INSERT INTO tideline.state ("key", "value") VALUES ('touched', '')
        ON CONFLICT ("key") DO UPDATE SET "value" = excluded."value"
        """

    static let readTables = """
        SELECT "relation", "columns", "schema" FROM tideline.tables ORDER BY "name"
        """

    static let readTable = """
        SELECT "relation", "columns", "schema" FROM tideline.tables WHERE "name" = $1
        """

    /// Returns a table as ``putTable`` stored it.
    ///
    /// - Throws: ``DatabaseError`` if it has owner clocks.
    static func table(_ name: String, _ columns: String) throws -> TableDefinition {
        guard !OwnerClockRemoval.isNeeded(columns) else { throw OwnerClockRemoval.rejection }
        var table = TableDefinition(name, columns: try ColumnsText.read(columns))
        table.databaseDefaults = try ColumnsText.readDefaults(columns)
        return table
    }

    /// Stores a table; each schema version of a table has its own number.
    static let putTable = """
        INSERT INTO tideline.tables AS t ("name", "relation", "columns") VALUES ($1, $2, $3)
        ON CONFLICT ("name") DO UPDATE
        SET "relation" = excluded."relation", "columns" = excluded."columns",
            "schema" = t."schema" + CASE
                WHEN (t."relation", t."columns") = (excluded."relation", excluded."columns")
                THEN 0 ELSE 1
            END
        RETURNING "schema"
        """

    static let putClock = """
        INSERT INTO tideline.clocks ("table") VALUES ($1) ON CONFLICT ("table") DO NOTHING
        """

    /// The clocks of the tables.
    static let readTimestamps = """
        SELECT c."table", c."stamp"
        FROM tideline.clocks AS c JOIN tideline.tables AS t ON t."name" = c."table"
        """

    static let lockClock = """
        SELECT "stamp" FROM tideline.clocks WHERE "table" = $1 FOR UPDATE
        """

    static let putTimestamp = """
        UPDATE tideline.clocks SET "stamp" = $2 WHERE "table" = $1
        """

    static let raiseHorizon = """
        UPDATE tideline.clocks SET "horizon" = greatest("horizon", $2) WHERE "table" = $1
        """

    static let hasTable = """
        SELECT count(*) FROM pg_class AS c
        WHERE c.relname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
        AND pg_table_is_visible(c.oid)
        """

    static let indexesOf = """
        SELECT c.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
        WHERE i.indrelid = $1::regclass AND c.relname LIKE 'tideline\\_%'
        """

    /// Returns the statement that creates a table; its columns are added one by one, as later ones are.
    static func create(_ table: String) -> String {
        """
        CREATE TABLE \(PostgresName.quoted(table)) (
            "id"        text COLLATE "C" PRIMARY KEY,
            "createdAt" timestamptz NOT NULL DEFAULT now(),
            "updatedAt" timestamptz NOT NULL DEFAULT now(),
            "version"   bigint NOT NULL DEFAULT 0,
            "deleted"   boolean NOT NULL DEFAULT false
        )
        """
    }

    static func add(_ column: ColumnDefinition, to table: String) -> String {
        let form = PostgresColumn(column)
        return """
            ALTER TABLE \(PostgresName.quoted(table)) ADD COLUMN \(form.quoted) \
            \(form.declaration) DEFAULT \(form.constant(column.storedDefault))
            """
    }

    static func drop(_ column: String, from table: String) -> String {
        "ALTER TABLE \(PostgresName.quoted(table)) DROP COLUMN \(PostgresName.quoted(column))"
    }

    static func rename(_ column: String, to name: String, in table: String) -> String {
        "ALTER TABLE \(PostgresName.quoted(table)) RENAME COLUMN "
            + "\(PostgresName.quoted(column)) TO \(PostgresName.quoted(name))"
    }

    /// Returns the statement that creates an index.
    ///
    /// `id` follows the columns, so that pages in their order need no sort.
    ///
    /// Nulls come first, as in every order of the server.
    static func index(_ table: String, _ columns: [String]) -> String {
        let keys = columns.contains(SystemColumn.id) ? columns : columns + [SystemColumn.id]
        let names = keys.map { PostgresName.quoted($0) + " NULLS FIRST" }
        return """
            CREATE INDEX IF NOT EXISTS \(PostgresName.quoted(PostgresName.index(table, columns)))
            ON \(PostgresName.quoted(table)) (\(names.joined(separator: ", ")))
            """
    }

    static func tombstoneIndex(_ table: String) -> String {
        """
        CREATE INDEX IF NOT EXISTS \(PostgresName.quoted(tombstoneIndexName(table)))
        ON \(PostgresName.quoted(table)) ("updatedAt") WHERE "deleted"
        """
    }

    /// Returns the index of the rows of a reference that are not deleted.
    ///
    /// A cascade does not read the tombstones that its earlier steps have left.
    static func referenceIndex(_ table: String, _ column: String) -> String {
        """
        CREATE INDEX IF NOT EXISTS \(PostgresName.quoted(referenceIndexName(table, column)))
        ON \(PostgresName.quoted(table)) (\(PostgresName.quoted(column)), "id") WHERE NOT "deleted"
        """
    }

    static func referenceIndexName(_ table: String, _ column: String) -> String {
        PostgresName.index(table, ["", "children", column])
    }

    /// Returns the index of rows that an external transaction has written and that have no timestamp yet.
    static func missingTimestampIndex(_ table: String) -> String {
        """
        CREATE INDEX IF NOT EXISTS \(PostgresName.quoted(missingTimestampIndexName(table)))
        ON \(PostgresName.quoted(table)) ("version") WHERE "version" = 0
        """
    }

    static func missingTimestampIndexName(_ table: String) -> String {
        PostgresName.index(table, ["", "unstamped"])
    }

    static func tombstoneIndexName(_ table: String) -> String {
        PostgresName.index(table, ["", "tombstones"])
    }

    /// Erases the values of existing tombstones, for a table that no longer stores them.
    static func eraseTombstones(of table: TableDefinition) -> [String] {
        let relation = PostgresName.quoted(table.name)
        let cells = erasedCells(of: table)
        guard !cells.isEmpty else { return [] }
        let sets = cells.map { "\($0.column) = \($0.value)" }.joined(separator: ", ")
        let tests = cells.map { "\($0.column)::text IS DISTINCT FROM (\($0.value))::text" }
            .joined(separator: " OR ")
        let name = table.name.lowercased().replacing("'", with: "''")
        return [
            "UPDATE \(relation) SET \(sets) WHERE \"deleted\" AND (\(tests))",
            """
            DELETE FROM tideline.bases AS b USING \(relation) AS t
            WHERE b."table" = '\(name)' AND b."id" = t."id" AND t."deleted"
            """,
        ]
    }

    /// Returns the columns of a tombstone without values, with their SQL.
    static func erasedCells(of table: TableDefinition) -> [(column: String, value: String)] {
        table.schema.columns.filter { !table.keepsInTombstone($0) }
            .map { column in
                let form = PostgresColumn(column)
                return (form.quoted, form.constant(column.erasedValue))
            }
    }

    static func createLog(_ table: TableDefinition) -> String {
        let log = PostgresName.log(table.name)
        let columns = table.schema.columns.map { column in
            let form = PostgresColumn(column)
            return ",\n    \(form.quoted) \(form.declaration)"
        }
        return """
            CREATE TABLE \(log) (
                "tideline_stamp"   bigint PRIMARY KEY,
                "tideline_deleted" boolean NOT NULL,
                "id"               text COLLATE "C" NOT NULL,
                "createdAt"        timestamptz,
                "updatedAt"        timestamptz,
                "version"          bigint,
                "deleted"          boolean\(columns.joined())
            )
            """
    }
}
