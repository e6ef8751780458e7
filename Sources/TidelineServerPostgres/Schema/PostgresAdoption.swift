// PostgresAdoption: adopted tables.
//
// The rows and columns of the table stay. It gets the system columns, and types that the server can read and order; a
// type changes only to one that can represent all of its values.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The changes that prepare an existing table for the server.
struct PostgresAdoption {
    /// The table with its declared columns, as if a server had created it.
    private(set) var definition: TableDefinition
    /// The changes, as sentences without a final period.
    private(set) var changes: [String] = []
    /// The statements, each with the statement that a dry run uses instead, if there is one.
    private(set) var statements: [(sql: String, instead: String?)] = []

    struct Column {
        var type: String
        var collation: String
        var isNotNull: Bool
        var hasDefault: Bool
        var isGenerated: Bool
        var isIdentity: Bool
    }

    let relation: String
    private(set) var columns: [String: Column] = [:]
    /// The columns whose type changes.
    private(set) var retyped: [String] = []

    /// Inspects a table; nil if the table does not exist.
    ///
    /// - Throws: ``SchemaError`` for a table that cannot be served.
    init?(_ table: TableDefinition, _ connection: PostgresConnection) throws {
        relation = PostgresName.quoted(table.name)
        definition = TableDefinition(table.name)
        let name = SQLValue.text(relation)
        let kind = try connection.run(
            "SELECT relkind::text FROM pg_class WHERE oid = to_regclass($1)",
            [name]
        )
        guard kind.count > 0 else {
            try Self.rejectOtherSpelling(table.name, connection)
            return nil
        }
        guard kind.text(0, 0) == "r" else {
            throw SchemaError(
                "'\(table.name)' exists in the database but is not a plain table, so it cannot be served."
            )
        }
        let found = try connection.run(Self.readColumns, [name])
        for row in 0..<found.count {
            columns[found.text(row, 0)] = Column(
                type: found.text(row, 1),
                collation: found.text(row, 2),
                isNotNull: found.boolean(row, 3),
                hasDefault: found.boolean(row, 4),
                isGenerated: found.boolean(row, 5),
                isIdentity: found.boolean(row, 6)
            )
        }
        let isUnique = try connection.run(Self.countUnique, [name]).integer(0, 0) > 0
        try bringID(isUnique: isUnique)
        try bringSystemColumns()
        for column in table.schema.columns { try bring(column) }
        noteRestrictiveColumns(table)
        try rejectUnsupported(table, connection)
    }

    private static let readColumns = """
        SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), coalesce(c.collname::text, ''),
            a.attnotnull, a.atthasdef OR a.attidentity <> '', a.attgenerated <> '', a.attidentity <> ''
        FROM pg_attribute AS a LEFT JOIN pg_collation AS c ON c.oid = a.attcollation
        WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
        """

    /// Counts the unique indexes on the id alone.
    private static let countUnique = """
        SELECT count(*) FROM pg_index AS i
        JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid
        AND i.indpred IS NULL AND i.indnkeyatts = 1 AND a.attname = 'id'
        """

    // MARK: - System columns

    private mutating func bringID(isUnique: Bool) throws {
        let id = ColumnDefinition(SystemColumn.id, .string, nullable: false)
        guard columns[SystemColumn.id] != nil else {
            let add = "ALTER TABLE \(relation) ADD COLUMN \"id\" text COLLATE \"C\""
            statements.append((add + " DEFAULT gen_random_uuid()::text PRIMARY KEY", add))
            changes.append("it gets the column 'id'")
            return
        }
        let isIdentity = columns[SystemColumn.id]?.isIdentity == true
        if isIdentity { keepNumbering() }
        try bring(id)
        definition.schema.columns = []
        if isIdentity {
            let next = "nextval('\(sequence.replacing("'", with: "''"))')::text"
            statements.append(
                ("ALTER TABLE \(relation) ALTER COLUMN \"id\" SET DEFAULT \(next)", "")
            )
        }
        if let column = columns[SystemColumn.id], !column.isNotNull {
            let newID = "gen_random_uuid()::text"
            if !column.hasDefault {
                let set = "ALTER TABLE \(relation) ALTER COLUMN \"id\" SET DEFAULT \(newID)"
                statements.append((set, ""))
            }
            statements.append(("UPDATE \(relation) SET \"id\" = \(newID) WHERE \"id\" IS NULL", ""))
            statements.append(("ALTER TABLE \(relation) ALTER COLUMN \"id\" SET NOT NULL", ""))
            changes.append("rows without an 'id' get one")
        }
        if !isUnique {
            statements.append(("ALTER TABLE \(relation) ADD UNIQUE (\"id\")", ""))
            changes.append("its 'id' becomes unique")
        }
    }

    /// The name of the sequence that replaces that of an identity column.
    private var sequence: String { PostgresName.quoted("\(definition.name)_id_numbers") }

    /// Preserves the numbering of rows, with numbers as strings.
    private mutating func keepNumbering() {
        statements.append(("ALTER TABLE \(relation) ALTER COLUMN \"id\" DROP IDENTITY", ""))
        statements.append(("CREATE SEQUENCE \(sequence) OWNED BY \(relation).\"id\"", ""))
        let last =
            "SELECT setval('\(sequence.replacing("'", with: "''"))', coalesce(max(\"id\"), 0) + 1, false)"
        statements.append((last + " FROM \(relation)", ""))
        changes.append("its 'id' is numbered by a sequence instead of an identity")
    }

    private mutating func bringSystemColumns() throws {
        let wanted = [
            ("createdAt", "timestamp with time zone", "timestamptz NOT NULL DEFAULT now()"),
            ("updatedAt", "timestamp with time zone", "timestamptz NOT NULL DEFAULT now()"),
            ("version", "bigint", "bigint NOT NULL DEFAULT 0"),
            ("deleted", "boolean", "boolean NOT NULL DEFAULT false"),
        ]
        var added: [String] = []
        for (name, type, declaration) in wanted {
            if let found = columns[name] {
                guard found.type == type else {
                    throw rejection(name, "is \(found.type) but must be \(type)")
                }
                fill(name, found, declaration)
                continue
            }
            added.append("'\(name)'")
            let add = "ALTER TABLE \(relation) ADD COLUMN \"\(name)\" \(declaration)"
            statements.append((add, add))
        }
        if !added.isEmpty { changes.append("it gets \(added.joined(separator: ", "))") }
        if columns["updatedAt"] != nil {
            changes.append("its 'updatedAt' will be set by the server")
        }
    }

    /// Fills an existing system column, which then has a value in each row.
    private mutating func fill(_ name: String, _ found: Column, _ declaration: String) {
        let standard = String(declaration.split(separator: " ").last ?? "NULL")
        let alter = "ALTER TABLE \(relation) ALTER COLUMN \"\(name)\""
        if !found.hasDefault { statements.append(("\(alter) SET DEFAULT \(standard)", "")) }
        guard !found.isNotNull else { return }
        let set = "UPDATE \(relation) SET \"\(name)\" = \(standard) WHERE \"\(name)\" IS NULL"
        statements.append((set, ""))
        statements.append(("\(alter) SET NOT NULL", ""))
        changes.append("its '\(name)' becomes \(standard) in rows where it is null")
    }

    // MARK: - Declared columns

    private mutating func bring(_ column: ColumnDefinition) throws {
        guard let found = columns[column.name] else {
            let other = columns.keys.sorted().first { SchemaPlan.isSame($0, column.name) }
            guard let other else { return }
            throw rejection(
                column.name,
                "exists in the database as '\(other)'; use this spelling in the configuration"
            )
        }
        if found.isGenerated { throw rejection(column.name, "is generated, and cannot be written") }
        if found.isIdentity, column.name != SystemColumn.id {
            // The column may also be set, because a device may send a value.
            let alter = "ALTER TABLE \(relation) ALTER COLUMN \(PostgresName.quoted(column.name))"
            statements.append((alter + " SET GENERATED BY DEFAULT", ""))
        }
        var stored = column
        // Whether its texts are members of an enumeration is checked like any change of type.
        if case .enumeration = column.type { stored.type = .string }
        stored.isNullable = true
        definition.schema.columns.append(stored)
        let wanted = PostgresColumn(column).declaration
        let (type, using) = try target(column, found)
        guard let type else { return }
        retyped.append(column.name)
        statements.append(
            (
                """
                ALTER TABLE \(relation) ALTER COLUMN \(PostgresName.quoted(column.name)) \
                TYPE \(type) USING \(PostgresName.quoted(column.name))\(using)
                """, ""
            )
        )
        changes.append("'\(column.name)' becomes \(wanted), previously \(found.type)")
    }

    /// Returns the new type of a column and the conversion of its values; nil if the type does not change.
    private func target(
        _ column: ColumnDefinition,
        _ found: Column
    ) throws -> (type: String?, using: String) {
        let base = String(found.type.prefix { $0 != "(" }).trimmingSuffixSpaces
        let wanted = PostgresColumn(column)
        let rejected = rejection(
            column.name,
            "is \(found.type), which cannot be served as \(column.type.name)"
        )
        /// Returns PostgreSQL's type for the column, widened to include all values of the other types.
        func widened(_ own: String, from others: [String] = []) throws -> (String?, String) {
            if found.type == own { return (nil, "") }
            guard base == own || others.contains(base) else { throw rejected }
            return (wanted.declaration, "::\(wanted.declaration)")
        }
        switch column.type {
        case .string, .enumeration:
            if found.type == "text", found.collation == "C" { return (nil, "") }
            let texts = ["text", "character varying", "character", "uuid", "name"]
            let numbers = column.name == SystemColumn.id ? ["smallint", "integer", "bigint"] : []
            guard (texts + numbers).contains(base) else { throw rejected }
            return (wanted.declaration, "::text")
        case .dateTime:
            if found.type == "timestamp with time zone" { return (nil, "") }
            if found.type.hasSuffix("with time zone") { return (wanted.declaration, "") }
            guard found.type.hasPrefix("timestamp") else { throw rejected }
            return (wanted.declaration, " AT TIME ZONE 'UTC'")
        case .integer: return try widened("bigint", from: ["smallint", "integer"])
        case .number: return try widened("double precision", from: ["real"])
        case .decimal: return try widened("numeric", from: ["smallint", "integer", "bigint"])
        case .boolean: return try widened("boolean")
        case .date: return try widened("date")
        case .time: return try widened("time without time zone", from: ["time"])
        case .guid: return try widened("uuid")
        case .binary: return try widened("bytea")
        case .json: return try widened("json", from: ["jsonb"])
        }
    }

    func rejection(_ column: String, _ fault: String) -> SchemaError {
        SchemaError("Table '\(definition.name)', column '\(column)': it \(fault).")
    }

    /// Reports the parts of the table that would prevent writes of devices.
    private mutating func noteRestrictiveColumns(_ table: TableDefinition) {
        let system = Set(SystemColumn.definitions.map(\.name))
        for (name, column) in columns.sorted(by: { $0.key < $1.key }) where !system.contains(name) {
            let declared = table.schema.columns.first { $0.name == name }
            if declared == nil, column.isNotNull, !column.hasDefault {
                changes.append(
                    "'\(name)' is NOT NULL, is not declared and has no default: inserts of devices are "
                        + "rejected until it has one"
                )
            } else if let declared, declared.isNullable, column.isNotNull {
                changes.append(
                    "'\(name)' is declared as nullable but is NOT NULL in the database, which rejects null"
                )
            }
        }
    }
}

extension String {
    fileprivate var trimmingSuffixSpaces: String {
        String(reversed().drop { $0 == " " }.reversed())
    }
}
