// PostgresForeignKeys: reads foreign keys.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The foreign keys between declared tables, which are references without a declaration.
enum PostgresForeignKeys {
    /// Returns the foreign keys on one column that name the id of a table, by the name of their table.
    static func read(
        among tables: [TableDefinition],
        _ connection: PostgresConnection
    ) throws -> [String: [TableReference]] {
        let relations = tables.map { SQLValue.text(PostgresName.quoted($0.name)) }
        let found = try connection.run(PostgresStatement(sql, [.array(relations)]))
        var keys: [String: [TableReference]] = [:]
        for row in 0..<found.count {
            let rule: DeleteRule =
                switch found.text(row, 3) {
                case "c": .cascade
                case "n": .setNull
                default: .restrict
                }
            keys[found.text(row, 0), default: []].append(
                TableReference(found.text(row, 1), to: found.text(row, 2), onDelete: rule)
            )
        }
        return keys
    }

    /// Returns the columns of a table that foreign keys check, whatever they refer to.
    static func columns(
        of table: String,
        _ connection: PostgresConnection
    ) throws -> Set<String> {
        let found = try connection.run(columns, [.text(PostgresName.quoted(table))])
        return Set((0..<found.count).map { found.text($0, 0) })
    }

    private static let columns = """
        SELECT own.attname::text FROM pg_constraint AS c
        JOIN pg_attribute AS own ON own.attrelid = c.conrelid AND own.attnum = ANY (c.conkey)
        WHERE c.contype = 'f' AND c.conrelid = to_regclass($1)
        """

    private static let sql = """
        WITH t AS (SELECT to_regclass(x) AS oid FROM unnest($1::text[]) AS x)
        SELECT child.relname::text, own.attname::text, parent.relname::text, c.confdeltype::text
        FROM pg_constraint AS c
        JOIN pg_class AS child ON child.oid = c.conrelid
        JOIN pg_class AS parent ON parent.oid = c.confrelid
        JOIN pg_attribute AS own ON own.attrelid = c.conrelid AND own.attnum = c.conkey[1]
        JOIN pg_attribute AS its ON its.attrelid = c.confrelid AND its.attnum = c.confkey[1]
        WHERE c.contype = 'f' AND cardinality(c.conkey) = 1 AND its.attname = 'id'
        AND c.conrelid IN (SELECT oid FROM t) AND c.confrelid IN (SELECT oid FROM t)
        ORDER BY c.conname
        """
}
