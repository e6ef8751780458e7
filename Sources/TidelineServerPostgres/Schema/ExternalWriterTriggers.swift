// ExternalWriterTriggers: writes of psql, another service, or a nightly job.
//
//     mark     before a row is written: its version becomes 0, because it has no commit timestamp yet
//     keep     before a row is deleted: it becomes a tombstone, or goes into the log
//     stamp    at the commit: takes the table's clock, as a server does, for all rows of the transaction
//
// So an external transaction holds the clock only while it commits, however long it was open, and its timestamps
// follow the order of commits as well. A server's own writes have their timestamps already: a setting of their
// transaction makes the triggers skip them. Writes of external triggers and foreign keys after such a write do not
// count as the server's, because they run within a trigger. TRUNCATE fires no row triggers, and is rejected.
//
// The triggers run with the rights of their creator, and find tables by the creator's search path: a writer of a
// table needs no other rights.

import TidelineCore
import TidelineServerCore

/// The triggers that assign commit timestamps to the rows of external writers.
struct ExternalWriterTriggers {
    private let table: TableDefinition
    private let scope: LogScope

    init(_ table: TableDefinition, _ scope: LogScope) {
        self.table = table
        self.scope = scope
    }

    /// The objects that all tables share.
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

    /// The functions and triggers of the table, as one script; it is the same for the same table.
    var script: String {
        """
        \(Self.place)
        \(mark)
        \(keep)
        \(stamp)
        DROP TRIGGER IF EXISTS tideline_mark ON \(relation);
        DROP TRIGGER IF EXISTS tideline_keep ON \(relation);
        DROP TRIGGER IF EXISTS tideline_truncate ON \(relation);
        DROP TRIGGER IF EXISTS tideline_stamp ON \(relation);
        DROP TRIGGER IF EXISTS tideline_stamp ON \(log);
        CREATE TRIGGER tideline_mark BEFORE INSERT OR UPDATE ON \(relation) FOR EACH ROW
        WHEN (\(isExternal)) EXECUTE FUNCTION \(function("mark"))();
        CREATE TRIGGER tideline_keep BEFORE DELETE ON \(relation) FOR EACH ROW
        WHEN (\(isExternal)) EXECUTE FUNCTION \(function("keep"))();
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

    var relation: String { PostgresName.quoted(table.name) }
    var log: String { PostgresName.log(table.name) }
    var clock: String { "'" + table.name.lowercased() + "'" }

    private func function(_ name: String) -> String {
        "tideline." + PostgresName.quoted("\(name).\(table.name)")
    }

    /// The setting with which servers declare that their transaction assigns its own timestamps.
    private let setting = "tideline.own"

    private var isExternal: String {
        "current_setting('\(setting)', true) IS DISTINCT FROM \(Self.ownWord)"
    }

    /// The value of the setting for a write at this trigger depth.
    static let ownWord = "'on' || coalesce(nullif(pg_trigger_depth(), 0)::text, '')"

    /// Sets the search path of functions to the current one, without a session's temporary tables.
    private static let place = """
        SELECT set_config(
            'search_path', concat_ws(', ', nullif(current_setting('search_path'), ''), 'pg_temp'), true
        ) WHERE current_setting('search_path') NOT LIKE '%pg_temp%';
        """

    /// Gives variables precedence over columns of the same name, so columns are written with their table.
    private static let names = "#variable_conflict use_variable"

    /// The options of each function.
    private static let rights =
        "RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT"

    /// The columns of a row that the log contains.
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

    /// Logs the former row; its timestamp follows at the commit.
    private func keepOld(isDeleted: String) -> String {
        let names = (["id"] + logged).map(PostgresName.quoted)
        return """
            INSERT INTO \(log) ("tideline_stamp", "tideline_deleted", \(names.joined(separator: ", ")))
            VALUES (-nextval('tideline.marks'), \(isDeleted), \
            \(names.map { "OLD.\($0)" }.joined(separator: ", ")));
            """
    }

    /// The condition for a change after which a row may have left a visibility filter.
    private var mayLeave: String {
        switch scope {
        case .nothing: "FALSE"
        case .owner:
            table.owner.map(PostgresName.quoted)
                .map { "OLD.\($0) IS DISTINCT FROM NEW.\($0)" } ?? "FALSE"
        case .all: "TRUE"
        }
    }

    /// Records that a row leaves its millisecond.
    private var keepTime: String {
        "INSERT INTO tideline.moved VALUES (\(clock), OLD.\"version\" / 1000);"
    }

    // MARK: - Functions

    private var mark: String {
        """
        CREATE OR REPLACE FUNCTION \(function("mark"))() \(Self.rights)
        -- The plan of the first row is that of all: a table that was small is read by its key all the same.
        SET enable_seqscan = off AS $$
        \(Self.names)
        DECLARE
            own text;
            before record;
        BEGIN
            \(values)
            IF TG_OP = 'UPDATE' THEN
                IF NEW."id" <> OLD."id" THEN
                    RAISE EXCEPTION 'the id of a row is not changed: delete the row and insert another'
                    USING ERRCODE = 'integrity_constraint_violation';
                END IF;
                IF OLD."version" <> 0 THEN
                    \(keepTime)
                    IF NOT OLD."deleted" AND (\(mayLeave)) THEN
                        \(keepOld(isDeleted: "NEW.\"deleted\""))
                    END IF;
                END IF;
            END IF;
            \(takesTombstone)
            \(touches)
            \(erasesTombstone)
            NEW."version" := 0;
            RETURN NEW;
        END $$;
        """
    }

    /// Removes the old tombstone if a row is inserted again, unless a foreign key references the table.
    ///
    /// For an external writer the row did not exist.
    private var takesTombstone: String {
        guard table.softDelete else { return "" }
        return """
            IF TG_OP = 'INSERT' THEN
                SELECT t.* INTO before FROM \(relation) AS t
                WHERE t."id" = NEW."id" AND t."deleted" FOR UPDATE;
                IF FOUND AND NOT EXISTS (
                    SELECT 1 FROM pg_constraint AS c WHERE c.confrelid = TG_RELID AND c.contype = 'f'
                ) THEN
                    own := current_setting('\(setting)', true);
                    PERFORM set_config('\(setting)', \(Self.ownWord), true);
                    DELETE FROM \(relation) AS t WHERE t."id" = NEW."id";
                    PERFORM set_config('\(setting)', coalesce(own, ''), true);
                    IF before."version" <> 0 THEN
                        \(keepTime.replacing("OLD.", with: "before."))
                    END IF;
                    -- The row may not come after all: then this tells that it is gone.
                    \(keepOld(isDeleted: "TRUE").replacing("OLD.", with: "before."))
                END IF;
            END IF;
            """
    }

    /// Removes the values of a deleted row, if tombstones of the table have none.
    private var erasesTombstone: String {
        guard table.tombstones == .bare, table.softDelete else { return "" }
        let cells = PostgresSchema.erasedCells(of: table)
            .map { "NEW.\($0.column) := \($0.value);" }
        guard !cells.isEmpty else { return "" }
        return """
            IF NEW."deleted" THEN
                \(cells.joined(separator: "\n    "))
            END IF;
            """
    }

    /// Records that the transaction writes to the table, so that its clocks are locked in a fixed order.
    private var touches: String {
        """
        IF strpos(coalesce(current_setting('tideline.touched', true), ''), \(touchedWord)) = 0 THEN
            PERFORM set_config(
                'tideline.touched', concat(current_setting('tideline.touched', true), \(touchedWord)), true
            );
        END IF;
        """
    }

    /// Locks clocks in the order in which servers lock them, so that writers to the same tables cannot deadlock.
    private var locks: String {
        """
        PERFORM 1 FROM tideline.clocks WHERE "table" = ANY(
            string_to_array(current_setting('tideline.touched', true), '/')
        ) ORDER BY "table" FOR UPDATE;
        """
    }

    /// The entry of the table in the list of a transaction's changed tables; no name contains a slash.
    private var touchedWord: String { "'/\(table.name.lowercased())/'" }

    /// Rejects values that cannot be sent to a device, except values that a row already had.
    private var values: String {
        let times = [SystemColumn.createdAt].map { ($0, ColumnType.dateTime) }
        return (table.schema.columns.map { ($0.name, $0.type) } + times)
            .compactMap { name, type in
                guard let bounds = Self.bounds(of: type) else { return nil }
                let column = PostgresName.quoted(name)
                let text =
                    "'column \(column.replacing("'", with: "''")): no device can be told \(bounds.fault)'"
                return """
                    IF NEW.\(column) \(bounds.condition) AND NOT NEW."deleted"
                        AND (TG_OP = 'INSERT' OR NEW.\(column) IS DISTINCT FROM OLD.\(column)) THEN
                        RAISE EXCEPTION \(text.replacing("%", with: "%%"))
                        USING ERRCODE = 'data_exception';
                    END IF;
                    """
            }
            .joined(separator: "\n")
    }

    /// Returns a condition, to follow a column, for values that have no wire form; nil if the type has none.
    static func bounds(of type: ColumnType) -> (condition: String, fault: String)? {
        switch type {
        case .number: ("IN ('NaN', 'Infinity', '-Infinity')", "what is no finite number")
        case .decimal: ("IN ('NaN', 'Infinity', '-Infinity')", "what is no finite number")
        case .dateTime:
            (
                "NOT BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 23:59:59.999999+00'",
                "a time outside of the years 1 to 9999"
            )
        case .date:
            ("NOT BETWEEN '0001-01-01' AND '9999-12-31'", "a day outside of the years 1 to 9999")
        case .string, .integer, .boolean, .time, .guid, .binary, .json, .enumeration: nil
        }
    }

    private var keep: String {
        let goes = """
            \(keepTime)
            \(keepOld(isDeleted: "TRUE"))
            \(touches)
            RETURN OLD;
            """
        // A row that is deleted with another one that it references cannot stay, not even as a tombstone.
        let stays = """
            IF pg_trigger_depth() > 1 AND EXISTS (
                SELECT 1 FROM pg_constraint AS c
                WHERE c.conrelid = TG_RELID AND c.contype = 'f' AND c.confdeltype = 'c'
            ) THEN
                \(goes)
            END IF;
            IF NOT OLD."deleted" THEN
                UPDATE \(relation) SET "deleted" = TRUE WHERE "id" = OLD."id";
            END IF;
            RETURN NULL;
            """
        return """
            CREATE OR REPLACE FUNCTION \(function("keep"))() \(Self.rights) AS $$
            BEGIN
                \(table.softDelete ? stays : goes)
            END $$;
            """
    }

    /// Assigns timestamps to all rows of the transaction in the first call; later calls find no row without
    /// one.
    ///
    /// Only rows of the current transaction lack a timestamp, because all others were committed with one.
    private var stamp: String {
        """
        CREATE OR REPLACE FUNCTION \(function("stamp"))() \(Self.rights) AS $$
        \(Self.names)
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
            \(locks)
            \(stamps)
            PERFORM set_config('\(setting)', coalesce(own, ''), true);
            RETURN NULL;
        END $$;
        """
    }
}
