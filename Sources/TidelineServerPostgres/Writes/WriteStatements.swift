// WriteStatements: how a transaction begins.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The first statements of a transaction: its timeouts, its locks, and the reads of rows.
enum WriteStatements {
    /// Returns the settings of a transaction, which end with it, so that they do not remain on a pooler's
    /// connection.
    ///
    /// Commits wait for the disk, even if that is not the default of the database.
    ///
    /// - Parameters:
    ///   - times: The timeouts.
    ///   - lock: The lock timeout of the first lock, in milliseconds.
    ///   - statement: The timeout of the first statement, in milliseconds; nil for that of all statements.
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
        ).prepared
    }

    /// Sets the timeout of later locks, in milliseconds.
    static func lockTimeout(_ time: Int) -> PostgresStatement {
        PostgresStatement(
            "SELECT set_config('lock_timeout', $1, true)",
            values: [.text(String(time))]
        ).prepared
    }

    /// Sets the timeouts of later locks and statements, in milliseconds.
    static func timeouts(lock: Int, statement: Int) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true)
            """,
            values: [.text(String(lock)), .text(String(statement))]
        ).prepared
    }

    /// Locks a table as a writer does.
    ///
    /// This precedes the locks of rows, so that a lock on the whole table, as for building an index, can be
    /// distinguished from a lock on a row, and the transaction does not wait for it while it holds a clock.
    ///
    /// - Parameters:
    ///   - table: The table.
    ///   - mode: The mode: `ROW EXCLUSIVE` for a table that is written to, `ROW SHARE` for one whose rows are only
    ///     locked.
    /// - Returns: The statement.
    static func lock(_ table: PostgresTable, as mode: String) -> PostgresStatement {
        PostgresStatement("LOCK TABLE ONLY \(table.quoted) IN \(mode) MODE").prepared
    }

    /// Locks a table as a writer does; fails immediately if another transaction holds the lock.
    static func lockSoon(_ table: PostgresTable) -> PostgresStatement {
        PostgresStatement("LOCK TABLE ONLY \(table.quoted) IN ROW EXCLUSIVE MODE NOWAIT")
    }

    /// Locks rows so that no other transaction can change or delete them.
    static func share(_ ids: [String], of table: PostgresTable) -> PostgresStatement {
        lock(ids, of: table, mode: "FOR SHARE")
    }

    /// Locks rows; returns their ids if rows that other transactions have locked are skipped.
    static func lock(
        _ ids: [String],
        of table: PostgresTable,
        mode: String = "FOR UPDATE",
        skippingLocked: Bool = false
    ) -> PostgresStatement {
        let ids = PostgresParameter.array(ids.map { .text($0) })
        if skippingLocked {
            return PostgresStatement(
                """
                SELECT "id" FROM \(table.quoted) WHERE "id" = ANY($1::text[])
                ORDER BY "id" \(mode) SKIP LOCKED
                """,
                [ids]
            ).prepared
        }
        return PostgresStatement(
            """
            SELECT count(*) FROM (
                SELECT 1 FROM \(table.quoted) WHERE "id" = ANY($1::text[])
                ORDER BY "id" \(mode)
            ) AS locked
            """,
            [ids]
        ).prepared
    }

    /// Returns the transactions that last locked these rows.
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
        ).prepared
    }

    /// Returns the clocks of tables that no other transaction has locked.
    static func findFreeClocks(_ names: [String]) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT "table" FROM tideline.clocks WHERE "table" = ANY($1::text[])
            FOR UPDATE SKIP LOCKED
            """,
            [.array(names.map { .text($0) })]
        )
    }

    /// Returns the transactions that last locked these clocks.
    static func findClockHolders(_ names: [String]) -> PostgresStatement {
        PostgresStatement(
            "SELECT \"table\", xmax::text FROM tideline.clocks WHERE \"table\" = ANY($1::text[])",
            [.array(names.map { .text($0) })]
        )
    }

    /// Reads the schema versions of tables.
    ///
    /// Also reads whether external triggers, rules or foreign keys run when rows are written. A foreign key to an `id`
    /// does nothing in an update, because an id never changes.
    ///
    /// They are read after the clocks are locked, because a statement that waits for a lock sees the state at
    /// its beginning, and the transaction that held the clock may have changed the schema version.
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
                    OR g.tgisinternal AND g.tgfoid IN (
                        '"RI_FKey_cascade_upd"'::regproc, '"RI_FKey_setnull_upd"'::regproc,
                        '"RI_FKey_setdefault_upd"'::regproc
                    ) AND EXISTS (
                        SELECT 1 FROM pg_constraint AS k JOIN pg_attribute AS a
                        ON a.attrelid = k.confrelid AND a.attnum = ANY(k.confkey)
                        WHERE k.oid = g.tgconstraint AND a.attname <> 'id'
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
        ).prepared
    }

    static func read(_ ids: [String], of table: PostgresTable) -> PostgresStatement {
        PostgresStatement(
            "SELECT \(table.cells()) FROM \(table.quoted) WHERE \"id\" = ANY($1::text[])",
            [.array(ids.map { .text($0) })]
        ).prepared
    }
}
