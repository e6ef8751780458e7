// OrderTables: the localized indexes of a table, and the triggers that record rows that are missing
// in the indexes.
//
// Only this library knows the collation of such an index. If the index were on the table itself,
// other programs could not write to the table, and a damaged index would damage the table. The
// indexes are therefore on a copy of their columns. Triggers write the ids of changed rows to an
// ordinary table, and the store updates the copy before it commits, as it does for a search index.
//
// The name of the collation contains the locale and the version of the order. If the name differs,
// the file comes from another system or was made for another language. Its copy is then never used,
// and is rebuilt.

import TidelineCore
import TidelineSQLite

/// The localized indexes of a table in a store file.
struct OrderTables: Sendable {
    let schema: TableSchema
    let indexes: [TableOrderIndex]
    /// The columns of the copy.
    private let columns: [ColumnDefinition]

    /// Creates the indexes of a table; nil if it has none, or if this system has no consistent
    /// order.
    init?(of schema: TableSchema) {
        indexes = schema.orderIndexes
        guard !indexes.isEmpty, schema.hasSystemColumns, LocalizedOrder.isConsistent else {
            return nil
        }
        self.schema = schema
        var columns: [ColumnDefinition] = []
        for name in indexes.flatMap(\.columns) where !columns.contains(where: { $0.name == name }) {
            guard let column = schema.column(named: name) else { return nil }
            columns.append(column)
        }
        self.columns = columns
    }

    // MARK: - Names

    private var table: String { Identifier(schema.name).quoted }
    /// The table that contains the copied columns.
    var copy: Identifier { Identifier(Self.copy(schema.name)) }
    private var log: String { Identifier(Self.log(schema.name)).quoted }

    // A column name, and therefore the name of another index, never begins with two underscores.
    private static func copy(_ table: String) -> String { start + table + end }
    private static let (start, end) = ("tideline.", ".__order")
    private static func log(_ table: String) -> String { "tideline.\(table).__orderlog" }

    /// The kinds and names of all objects, in an order in which they can be dropped.
    private static func objects(of table: String) -> [(kind: String, name: String)] {
        ["inserted", "updated", "deleted"].map { ("TRIGGER", "\(copy(table)).\($0)") }
            + [("TABLE", copy(table)), ("TABLE", log(table))]
    }

    /// The key of a row in the copy.
    static let key = Identifier("__id")

    /// The copy's columns, by the names of the table's columns, including `id`.
    var copies: [String: Identifier] {
        var copies = [SystemColumn.id: Self.key]
        for (position, column) in columns.enumerated() {
            copies[column.name] = Identifier("__c\(position)")
        }
        return copies
    }

    private func copied(_ column: String) -> String { (copies[column] ?? Self.key).quoted }

    private func list(_ parts: [String]) -> String { parts.joined(separator: ", ") }

    // MARK: - Statements

    /// The statements that create the objects, with the objects' names.
    private var definitions: [(name: String, sql: String)] {
        let key = "\(Self.key.quoted) TEXT PRIMARY KEY NOT NULL"
        let declared = columns.map { "\(copied($0.name)) \(StorageClass($0.type).rawValue)" }
        var definitions = [
            (copy.name, "CREATE TABLE \(copy.quoted) (\(list([key] + declared))) WITHOUT ROWID"),
            (Self.log(schema.name), "CREATE TABLE \(log) (\(key)) WITHOUT ROWID"),
        ]
        for (position, index) in indexes.enumerated() {
            let name = "\(copy.name).\(position)"
            let values = index.columns.dropLast().map(copied)
            let collation = Identifier(index.order.collation).quoted
            let text = "\(copied(index.columns.last ?? "")) COLLATE \(collation)"
            let list = list(values + [text, Self.key.quoted])
            definitions.append(
                (name, "CREATE INDEX \(Identifier(name).quoted) ON \(copy.quoted) (\(list))")
            )
        }
        let changes = ([SystemColumn.id] + columns.map(\.name)).map { name in
            "OLD.\(Identifier(name).quoted) IS NOT NEW.\(Identifier(name).quoted)"
        }
        let events = [
            ("inserted", "INSERT ON \(table)", ["NEW"]),
            (
                "updated", "UPDATE ON \(table) WHEN \(changes.joined(separator: " OR "))",
                ["OLD", "NEW"]
            ),
            ("deleted", "DELETE ON \(table)", ["OLD"]),
        ]
        for (event, clause, rows) in events {
            let name = "\(copy.name).\(event)"
            // SQLCipher may use an SQLite version without upserts (before 3.24).
            let notes = rows.map { row in
                """
                INSERT INTO \(log) SELECT \(row)."id"
                WHERE NOT EXISTS (SELECT 1 FROM \(log) WHERE \(Self.key.quoted) = \(row)."id");
                """
            }
            let sql = """
                CREATE TRIGGER \(Identifier(name).quoted) AFTER \(clause)
                BEGIN
                \(notes.joined(separator: "\n"))
                END
                """
            definitions.append((name, sql))
        }
        return definitions
    }

    // MARK: - Definition

    /// Returns whether the file has the indexes with these definitions, and therefore with this
    /// system's order.
    func exist(in database: Database) throws -> Bool {
        let statement = try database.prepare(
            "SELECT sql FROM sqlite_master WHERE name = ?1 COLLATE NOCASE"
        )
        defer { statement.reset() }
        for (name, sql) in definitions {
            statement.reset()
            try statement.bind([.text(name)])
            guard try statement.step(), statement.text(0).lowercased() == sql.lowercased() else {
                return false
            }
        }
        return true
    }

    /// Removes the indexes of a table, if there are any.
    static func remove(from table: String, in database: Database) throws {
        let statement = try database.prepareOnce(
            "SELECT 1 FROM sqlite_master WHERE name = ?1 COLLATE NOCASE"
        )
        for (kind, name) in objects(of: table) {
            statement.reset()
            try statement.bind([.text(name)])
            guard try statement.step() else { continue }
            statement.reset()
            try database.execute("DROP \(kind) \(Identifier(name).quoted)")
        }
    }

    /// Removes the indexes of all tables whose order comes from another system.
    ///
    /// This system does not have their collation, without which SQLite can neither check nor
    /// rewrite the file.
    static func removeUnsupported(in database: Database) throws {
        let statement = try database.prepareOnce(
            "SELECT tbl_name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name LIKE ?1"
        )
        try statement.bind([.text(copy("%"))])
        var unsupported: Set<String> = []
        while try statement.step() {
            let names = statement.text(1).split(separator: "\"")
            let collations = names.filter { $0.hasPrefix(LocalizedOrder.prefix) }
            if collations.contains(where: { LocalizedOrder(collation: String($0)) == nil }) {
                unsupported.insert(statement.text(0))
            }
        }
        statement.reset()
        for copy in unsupported {
            let table = copy.dropFirst(Self.start.count).dropLast(Self.end.count)
            try remove(from: String(table), in: database)
        }
    }

    /// Creates the indexes and adds all rows; `progress` receives the number of rows that have been
    /// added so far.
    func make(in database: Database, _ progress: (Int) throws -> Void) throws {
        for (_, sql) in definitions { try database.execute(sql) }
        let row = Identifier.rowKey.quoted
        let end = """
            SELECT max("key"), count(*) FROM
                (SELECT \(row) AS "key" FROM \(table) WHERE \(row) > ?1
                ORDER BY \(row) LIMIT \(Database.indexBatchRows))
            """
        let fill = "\(insertion) WHERE \(row) > ?1 AND \(row) <= ?2"
        try database.fillIndex(end: end, fill: fill, progress)
    }

    private var insertion: String {
        let names = [SystemColumn.id] + columns.map(\.name)
        let values = names.map { Identifier($0).quoted }
        return """
            INSERT INTO \(copy.quoted) (\(list(names.map(copied)))) SELECT \(list(values)) FROM \(table)
            """
    }

    // MARK: - Changes

    /// Returns whether there are changed rows that the indexes do not include yet.
    func isBehind(in database: Database) throws -> Bool {
        try database.integer("SELECT 1 FROM \(log) LIMIT 1") != nil
    }

    /// Updates the indexes from the changed rows, in the open transaction.
    func update(in database: Database) throws {
        guard try isBehind(in: database) else { return }
        do {
            try database.savepoint { try applyLog(in: database) }
        } catch let error as SQLiteError where error.isCorrupt {
            // The indexes can be rebuilt from the rows, but a failed change would be lost.
            guard database.isInTransaction else {
                throw IndexBehind(tables: [schema.name], isDamaged: true)
            }
            try remake(in: database)
        }
    }

    /// Rebuilds the indexes from the rows.
    func remake(in database: Database) throws {
        try Self.remove(from: schema.name, in: database)
        try make(in: database) { _ in }
    }

    private func applyLog(in database: Database) throws {
        let logged = "IN (SELECT \(Self.key.quoted) FROM \(log))"
        try database.prepare(
            "DELETE FROM \(copy.quoted) WHERE \(Self.key.quoted) \(logged)"
        ).run()
        try database.prepare("\(insertion) WHERE \"id\" \(logged)").run()
        try database.prepare("DELETE FROM \(log)").run()
    }
}
