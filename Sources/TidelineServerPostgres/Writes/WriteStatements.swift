// WriteStatements: the first statements of a transaction: its times, the locks on rows and clocks, the rows.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

enum WriteStatements {
    /// The settings end with the transaction: a pooler keeps nothing of them.
    ///
    /// Acknowledged writes are on the disk, even if the database commits without waiting for it by default.
    ///
    /// - Parameters:
    ///   - times: How long it waits.
    ///   - lock: How long the first lock may take, in milliseconds.
    ///   - statement: The same of a statement; nil for the time of any.
    /// - Returns: The statements that begin a transaction.
    static func settings(
        _ times: WriteTimes,
        lock: Int,
        statement: Int? = nil
    ) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT set_config('lock_timeout', $1, true),
                set_config('idle_in_transaction_session_timeout', $2, true),
                set_config('statement_timeout', $3, true),
                set_config('tideline.own', 'on', true), set_config('array_nulls', 'on', true),
                set_config(
                    'synchronous_commit',
                    coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'local'), true
                )
            """,
            values: [
                .text(String(lock)), .text(String(times.idle)),
                .text(String(statement ?? times.statement)),
            ]
        ).kept
    }

    /// How long a lock may take from here on, in milliseconds.
    static func lockTimeout(_ time: Int) -> PostgresStatement {
        PostgresStatement(
            "SELECT set_config('lock_timeout', $1, true)",
            values: [.text(String(time))]
        ).kept
    }

    /// How long a lock and a statement may take from here on, in milliseconds.
    static func timeouts(lock: Int, statement: Int) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true)
            """,
            values: [.text(String(lock)), .text(String(statement))]
        ).kept
    }

    /// Locks a table as a writer does.
    ///
    /// Before its rows: a lock on the whole table, as for an index that is built, is distinguished from a lock on a
    /// row, and is not waited for with a clock in hand.
    static func lock(_ table: PostgresTable) -> PostgresStatement {
        PostgresStatement("LOCK TABLE ONLY \(table.quoted) IN ROW EXCLUSIVE MODE").kept
    }

    /// The same; fails at once if another transaction holds the lock.
    static func lockSoon(_ table: PostgresTable) -> PostgresStatement {
        PostgresStatement("LOCK TABLE ONLY \(table.quoted) IN ROW EXCLUSIVE MODE NOWAIT")
    }

    /// Locks rows; returns their ids if rows that other transactions hold are skipped.
    static func lock(
        _ ids: [String],
        of table: PostgresTable,
        passingHeld: Bool = false
    ) -> PostgresStatement {
        let ids = PostgresParameter.array(ids.map { .text($0) })
        if passingHeld {
            return PostgresStatement(
                """
                SELECT "id" FROM \(table.quoted) WHERE "id" = ANY($1::text[])
                ORDER BY "id" FOR UPDATE SKIP LOCKED
                """,
                [ids]
            ).kept
        }
        return PostgresStatement(
            """
            SELECT count(*) FROM (
                SELECT 1 FROM \(table.quoted) WHERE "id" = ANY($1::text[])
                ORDER BY "id" FOR UPDATE
            ) AS locked
            """,
            [ids]
        ).kept
    }

    /// The transactions that have locked rows last.
    static func holders(of ids: [String], in table: PostgresTable) -> PostgresStatement {
        PostgresStatement(
            "SELECT \"id\", xmax::text FROM \(table.quoted) WHERE \"id\" = ANY($1::text[])",
            [.array(ids.map { .text($0) })]
        )
    }

    /// Locks the clock of a table.
    static func lockClock(_ name: String) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT "table", "stamp", "counted" FROM tideline.clocks WHERE "table" = $1 FOR UPDATE
            """,
            values: [.text(name)]
        ).kept
    }

    /// Returns the clocks of tables that no other transaction holds.
    static func findFreeClocks(_ names: [String]) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT "table" FROM tideline.clocks WHERE "table" = ANY($1::text[])
            FOR UPDATE SKIP LOCKED
            """,
            [.array(names.map { .text($0) })]
        )
    }

    /// The transactions that have locked these clocks of tables last.
    static func findClockHolders(_ names: [String]) -> PostgresStatement {
        PostgresStatement(
            "SELECT \"table\", xmax::text FROM tideline.clocks WHERE \"table\" = ANY($1::text[])",
            [.array(names.map { .text($0) })]
        )
    }

    /// Reads the schema versions of tables, and whether external triggers, rules or foreign keys run when their rows
    /// are written.
    ///
    /// Read after the clocks: a statement that waits for one sees everything else as it was when it began, and the
    /// transaction that held the clock may have changed the schema version.
    static func forms(_ tables: [PostgresTable]) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT t."name", t."schema", coalesce(c.relhasrules, FALSE) OR EXISTS (
                SELECT 1 FROM pg_trigger AS g WHERE g.tgrelid = c.oid AND g.tgenabled IN ('O', 'A') AND (
                    NOT g.tgisinternal AND left(g.tgname::text, 9) <> 'tideline_'
                    OR g.tgisinternal AND g.tgfoid IN (
                        '"RI_FKey_cascade_del"'::regproc, '"RI_FKey_setnull_del"'::regproc,
                        '"RI_FKey_setdefault_del"'::regproc
                    )
                )
            )
            FROM unnest($1::text[], $2::text[]) AS x("name", "relation")
            JOIN tideline.tables AS t ON t."name" = x."name"
            LEFT JOIN pg_class AS c ON c.oid = to_regclass(x."relation")
            """,
            [
                .array(tables.map { .text($0.clock) }), .array(tables.map { .text($0.quoted) }),
            ]
        ).kept
    }

    static func read(_ ids: [String], of table: PostgresTable) -> PostgresStatement {
        PostgresStatement(
            "SELECT \(table.cells()) FROM \(table.quoted) WHERE \"id\" = ANY($1::text[])",
            [.array(ids.map { .text($0) })]
        ).kept
    }
}
