// PostgresAdoption+Rejections: the reasons why an existing table cannot be served in its current form.
//
// They are checked before anything is changed, even in a dry run: a change that fails halfway would only report the
// error of PostgreSQL.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

extension PostgresAdoption {
    /// Rejects names that differ only in letter case, which only PostgreSQL distinguishes.
    static func rejectOtherSpelling(_ name: String, _ connection: PostgresConnection) throws {
        let found = try connection.run(
            """
            SELECT relname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
            WHERE n.nspname = ANY(current_schemas(false)) AND lower(c.relname::text) = lower($1)
            AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY 1 LIMIT 1
            """,
            [.text(name)]
        )
        guard found.count > 0 else { return }
        throw SchemaError(
            "Table '\(name)' exists in the database as '\(found.text(0, 0))'. Use this spelling in the configuration."
        )
    }

    /// Rejects a table that cannot be adopted.
    ///
    /// - Throws: ``SchemaError``, which contains the reason and how to fix it.
    func rejectUnsupported(_ table: TableDefinition, _ connection: PostgresConnection) throws {
        try rejectKind(connection)
        try rejectDependents(connection)
        try rejectChecks(connection)
        try rejectRows(table, connection)
    }

    private func reject(_ fault: String) -> SchemaError {
        SchemaError("Table '\(definition.name)' \(fault)")
    }

    private func rejectKind(_ connection: PostgresConnection) throws {
        let found = try connection.run(
            """
            SELECT relpersistence = 'u', EXISTS (SELECT 1 FROM pg_inherits WHERE inhparent = c.oid)
            FROM pg_class AS c WHERE c.oid = to_regclass($1)
            """,
            [.text(relation)]
        )
        if found.boolean(0, 0) {
            throw reject(
                "is UNLOGGED, so a crash of PostgreSQL would empty it. First run: ALTER TABLE \(relation) SET LOGGED."
            )
        }
        if found.boolean(0, 1) {
            throw reject(
                "cannot be served because other tables inherit from it and their rows would appear in it."
            )
        }
    }

    /// Rejects a change of type for a column that another object depends on.
    private func rejectDependents(_ connection: PostgresConnection) throws {
        for column in retyped {
            let found = try connection.run(
                """
                WITH place AS (
                    SELECT attrelid, attnum FROM pg_attribute
                    WHERE attrelid = to_regclass($1) AND attname = $2
                )
                SELECT pg_describe_object(d.classid, d.objid, d.objsubid)
                FROM pg_depend AS d JOIN place AS p ON d.refobjid = p.attrelid AND d.refobjsubid = p.attnum
                WHERE d.refclassid = 'pg_class'::regclass AND (
                    d.classid IN ('pg_rewrite'::regclass, 'pg_policy'::regclass, 'pg_trigger'::regclass)
                    OR d.classid = 'pg_attrdef'::regclass AND EXISTS (
                        SELECT 1 FROM pg_attrdef AS f JOIN pg_attribute AS a
                        ON a.attrelid = f.adrelid AND a.attnum = f.adnum
                        WHERE f.oid = d.objid AND a.attgenerated <> ''
                    )
                )
                UNION
                SELECT pg_describe_object('pg_constraint'::regclass, c.oid, 0)
                FROM pg_constraint AS c JOIN place AS p
                ON c.conrelid = p.attrelid AND p.attnum = ANY(c.conkey)
                    OR c.confrelid = p.attrelid AND p.attnum = ANY(c.confkey)
                WHERE c.contype = 'f'
                ORDER BY 1
                """,
                [.text(relation), .text(column)]
            )
            let names = (0..<found.count).map { found.text($0, 0) }
            guard !names.isEmpty else { continue }
            throw rejection(
                column,
                "needs another type, which PostgreSQL does not allow while it is used by "
                    + "\(names.joined(separator: ", ")). Drop that, migrate, and create it again"
            )
        }
    }

    /// Rejects a check on `version`, because a row of an external writer has the version 0 for a while.
    private func rejectChecks(_ connection: PostgresConnection) throws {
        let found = try connection.run(
            """
            SELECT c.conname::text FROM pg_constraint AS c JOIN pg_attribute AS a
            ON a.attrelid = c.conrelid AND a.attnum = ANY(c.conkey)
            WHERE c.conrelid = to_regclass($1) AND c.contype = 'c' AND a.attname = 'version' ORDER BY 1
            """,
            [.text(relation)]
        )
        guard found.count > 0 else { return }
        throw reject(
            "has the constraint '\(found.text(0, 0))' on its column 'version', which the server will set. "
                + "Drop the constraint first."
        )
    }

    /// Rejects rows that cannot be sent to devices, or that devices cannot distinguish.
    private func rejectRows(_ table: TableDefinition, _ connection: PostgresConnection) throws {
        var faults: [(count: String, fault: String)] = []
        if columns[SystemColumn.id] != nil {
            faults.append(
                ("count(\"id\") - count(DISTINCT \"id\")", "rows have an 'id' that another row has")
            )
        }
        let created = ColumnDefinition(SystemColumn.createdAt, .dateTime)
        for column in table.schema.columns + [created] where columns[column.name] != nil {
            guard let bounds = ExternalWriterTriggers.bounds(of: column.type) else { continue }
            let name = PostgresName.quoted(column.name)
            // Whole numbers have no special values such as NaN.
            let type = columns[column.name]?.type ?? ""
            guard !["smallint", "integer", "bigint"].contains(type) else { continue }
            faults.append(
                (
                    "count(*) FILTER (WHERE \(name) \(bounds.condition))",
                    "rows have a value in '\(column.name)' that cannot be sent to devices (\(bounds.fault))"
                )
            )
        }
        guard !faults.isEmpty else { return }
        let cells = faults.map { "(\($0.count))::bigint" }.joined(separator: ", ")
        let found = try connection.run("SELECT \(cells) FROM \(relation)")
        let lines = faults.enumerated().compactMap { place, fault in
            let count = found.integer(0, place)
            return count > 0 ? "\(count) \(fault.fault)" : nil
        }
        guard lines.isEmpty else {
            throw reject("cannot be served: \(lines.joined(separator: "; ")). Change them first.")
        }
    }
}
