// ForeignWriters: triggers that stamp what others write: psql, another service, a nightly job.
//
//     mark     before a row is written: its version becomes 0, which says that it has no stamp yet
//     keep     before a row is deleted: it becomes a tombstone, or goes into the log
//     stamp    at the commit: takes the table's clock, as a server does, for all rows of the transaction
//
// So a foreign transaction holds the clock only while it commits, however long it was open, and its
// stamps follow the order of commits too. A server's own writes have their stamps already: they say so
// by a setting of their transaction, and the triggers let them pass. TRUNCATE tells no row, and is
// refused.

import TidelineCore
import TidelineServerCore

struct ForeignWriters {
    private let table: TableDefinition
    private let scope: LogScope

    init(_ table: TableDefinition, _ scope: LogScope) {
        self.table = table
        self.scope = scope
    }

    /// What all tables share.
    static let shared = """
        CREATE SEQUENCE IF NOT EXISTS tideline.marks;
        CREATE TABLE IF NOT EXISTS tideline.moved (
            "table" text COLLATE "C" NOT NULL, "millisecond" bigint NOT NULL
        );
        CREATE OR REPLACE FUNCTION tideline.instant(stamp bigint) RETURNS timestamptz
        LANGUAGE sql IMMUTABLE AS $$
            SELECT timestamptz 'epoch' + (stamp / 1000000) * interval '1 second'
                + (stamp % 1000000) * interval '1 microsecond'
        $$;
        CREATE OR REPLACE FUNCTION tideline.refuse_truncate() RETURNS trigger
        LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'TRUNCATE would be told to no device; use DELETE'
            USING ERRCODE = 'feature_not_supported';
        END $$;
        """

    /// Functions and triggers of the table; the same text for the same table.
    var script: String {
        """
        \(mark)
        \(keep)
        \(stamp)
        DROP TRIGGER IF EXISTS tideline_mark ON \(relation);
        DROP TRIGGER IF EXISTS tideline_keep ON \(relation);
        DROP TRIGGER IF EXISTS tideline_truncate ON \(relation);
        DROP TRIGGER IF EXISTS tideline_stamp ON \(relation);
        DROP TRIGGER IF EXISTS tideline_stamp ON \(log);
        CREATE TRIGGER tideline_mark BEFORE INSERT OR UPDATE ON \(relation) FOR EACH ROW
        WHEN (\(Self.isForeign)) EXECUTE FUNCTION \(function("mark"))();
        CREATE TRIGGER tideline_keep BEFORE DELETE ON \(relation) FOR EACH ROW
        WHEN (\(Self.isForeign)) EXECUTE FUNCTION \(function("keep"))();
        CREATE TRIGGER tideline_truncate BEFORE TRUNCATE ON \(relation) FOR EACH STATEMENT
        EXECUTE FUNCTION tideline.refuse_truncate();
        CREATE CONSTRAINT TRIGGER tideline_stamp AFTER INSERT OR UPDATE ON \(relation)
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW."version" = 0)
        EXECUTE FUNCTION \(function("stamp"))();
        CREATE CONSTRAINT TRIGGER tideline_stamp AFTER INSERT ON \(log)
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW."tideline_stamp" < 0)
        EXECUTE FUNCTION \(function("stamp"))('log');
        """
    }

    // MARK: - Names

    private var relation: String { PostgresName.quoted(table.name) }
    private var log: String { PostgresName.log(table.name) }
    private var clock: String { "'" + table.name.lowercased() + "'" }

    private func function(_ name: String) -> String {
        "tideline." + PostgresName.quoted("\(name).\(table.name)")
    }

    private static let isForeign = "current_setting('tideline.own', true) IS DISTINCT FROM 'on'"

    /// The columns that the log takes of a row.
    private var logged: [String] {
        switch scope {
        case .nothing: []
        case .owner: [table.owner].compactMap { $0 }
        case .all:
            table.schema.columns.map(\.name)
                + SystemColumn.definitions.map(\.name)
                .filter { $0 != SystemColumn.id }
        }
    }

    /// Puts the row as it was into the log; the stamp follows.
    private func keepOld(isDeleted: String) -> String {
        let names = (["id"] + logged).map(PostgresName.quoted)
        return """
            INSERT INTO \(log) ("tideline_stamp", "tideline_deleted", \(names.joined(separator: ", ")))
            VALUES (-nextval('tideline.marks'), \(isDeleted), \
            \(names.map { "OLD.\($0)" }.joined(separator: ", ")));
            """
    }

    /// When a change of a row may take it out of a view.
    private var mayLeave: String {
        switch scope {
        case .nothing: "FALSE"
        case .owner:
            table.owner.map(PostgresName.quoted)
                .map { "OLD.\($0) IS DISTINCT FROM NEW.\($0)" } ?? "FALSE"
        case .all: "TRUE"
        }
    }

    // MARK: - Functions

    private var mark: String {
        """
        CREATE OR REPLACE FUNCTION \(function("mark"))() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_OP = 'UPDATE' THEN
                IF NEW."id" <> OLD."id" THEN
                    RAISE EXCEPTION 'the id of a row is not changed: delete the row and insert another'
                    USING ERRCODE = 'integrity_constraint_violation';
                END IF;
                IF OLD."version" <> 0 THEN
                    INSERT INTO tideline.moved VALUES (\(clock), OLD."version" / 1000);
                    IF NOT OLD."deleted" AND (\(mayLeave)) THEN
                        \(keepOld(isDeleted: "NEW.\"deleted\""))
                    END IF;
                END IF;
            END IF;
            NEW."version" := 0;
            RETURN NEW;
        END $$;
        """
    }

    private var keep: String {
        let goes = """
            INSERT INTO tideline.moved VALUES (\(clock), OLD."version" / 1000);
            \(keepOld(isDeleted: "TRUE"))
            RETURN OLD;
            """
        let stays = """
            IF NOT OLD."deleted" THEN
                UPDATE \(relation) SET "deleted" = TRUE WHERE "id" = OLD."id";
            END IF;
            RETURN NULL;
            """
        return """
            CREATE OR REPLACE FUNCTION \(function("keep"))() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                \(table.softDelete ? stays : goes)
            END $$;
            """
    }

    /// Stamps all rows of the transaction at its first call; the others find nothing to do.
    ///
    /// Only rows of its own transaction have no stamp: others commit with one.
    private var stamp: String {
        """
        CREATE OR REPLACE FUNCTION \(function("stamp"))() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE
            rows bigint;
            gone bigint;
            first bigint;
            seen bigint;
            own text;
        BEGIN
            -- Not by the schema: the tables of a user 'tideline' are in that of the same name.
            IF TG_NARGS > 0 THEN
                PERFORM 1 FROM \(log) WHERE "tideline_stamp" = NEW."tideline_stamp";
            ELSE
                -- By the key alone: the index of unstamped rows is full of those stamped just now.
                SELECT "version" INTO seen FROM \(relation) WHERE "id" = NEW."id";
                IF seen <> 0 THEN RETURN NULL; END IF;
            END IF;
            IF NOT FOUND THEN RETURN NULL; END IF;
            DELETE FROM \(log) AS l WHERE l."tideline_stamp" < 0 AND EXISTS (
                SELECT 1 FROM \(log) AS e WHERE e."id" = l."id"
                AND e."tideline_stamp" < 0 AND e."tideline_stamp" > l."tideline_stamp"
            );
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
            PERFORM set_config('tideline.own', 'on', true);
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
            PERFORM set_config('tideline.own', coalesce(own, ''), true);
            RETURN NULL;
        END $$;
        """
    }

    /// The stamp behind the last one of the clock's row.
    private static let next = """
        greatest("stamp" + \(PostgresClock.spacing), \(PostgresClock.microseconds))
        """
}
