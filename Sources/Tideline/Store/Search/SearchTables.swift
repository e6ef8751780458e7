// SearchTables: the tables of a search index in a store file, and the triggers that record rows
// that are missing in the index.
//
// Triggers record in an ordinary table which rows the index does not include yet. The index
// therefore stays correct even if a program without full-text search writes the rows. The store
// updates the index before it commits. Triggers that wrote directly to the index would take three
// times as long, because SQLite up to 3.40 writes the index to its pages after each statement that
// fires them.

import TidelineCore
import TidelineSQLite

/// The search index of a table in a store file.
struct SearchTables: Sendable {
    let schema: TableSchema
    let search: TableSearch

    /// Creates the index of a table; nil if it has none.
    init?(of schema: TableSchema) {
        guard let search = schema.search, !search.columns.isEmpty, schema.hasSystemColumns else {
            return nil
        }
        self.schema = schema
        self.search = search
    }

    // MARK: - Names

    private var table: String { Identifier(schema.name).quoted }
    var index: String { schema.searchIndex.quoted }
    private var log: String { Identifier(Self.log(schema.name)).quoted }
    private var texts: String { Identifier(Self.texts(schema.name)).quoted }

    private static func log(_ table: String) -> String { "tideline.\(table).searchlog" }
    private static func texts(_ table: String) -> String { "tideline.\(table).searchtext" }

    /// The kinds and names of all objects, in an order in which they can be dropped.
    private static func objects(of table: String) -> [(kind: String, name: String)] {
        let triggers = ["insert", "inserted", "updated", "deleted"].map {
            ("TRIGGER", "tideline.\(table).search.\($0)")
        }
        return triggers + [
            ("TABLE", "tideline.\(table).search"), ("VIEW", texts(table)), ("TABLE", log(table)),
        ]
    }

    /// The names of the index's columns, which differ from the table's names because FTS5 reserves
    /// some names.
    private var slots: [String] { search.columns.indices.map { "\"c\($0)\"" } }
    private var columns: [String] { search.columns.map { Identifier($0).quoted } }

    private func list(_ parts: [String]) -> String { parts.joined(separator: ", ") }

    // MARK: - Statements

    /// The statements that create the objects, with the objects' names.
    private var definitions: [(name: String, sql: String)] {
        let key = Identifier.rowKey.quoted
        let named = zip(columns, slots).map { "\($0) AS \($1)" }
        let old = columns.map { "OLD.\($0)" }
        let texts = """
            CREATE VIEW \(self.texts) AS
            SELECT \(key) AS "key", \(list(named)) FROM \(table)
            """
        let index = """
            CREATE VIRTUAL TABLE \(self.index) USING fts5(
                \(list(slots)), content=\(self.texts), content_rowid="key", tokenize=\(Self.tokenizer)\(prefixes)
            )
            """
        let log = """
            CREATE TABLE \(self.log) ("key" INTEGER PRIMARY KEY, "isIndexed" INTEGER NOT NULL, \(list(slots)))
            """
        func trigger(_ name: String, _ event: String, _ body: String) -> (String, String) {
            let name = "tideline.\(schema.name).search.\(name)"
            return (
                name,
                """
                CREATE TRIGGER \(Identifier(name).quoted) \(event)
                BEGIN
                \(body)
                END
                """
            )
        }
        // Only the first record for a row counts. `INSERT OR IGNORE` does not help here, because
        // the conflict clause of the statement that fires the trigger would override it.
        let oldNoted = """
            INSERT INTO \(self.log) VALUES (OLD.\(key), 1, \(list(old))) ON CONFLICT DO NOTHING;
            """
        let newNoted = """
            INSERT INTO \(self.log) ("key", "isIndexed") VALUES (NEW.\(key), 0) ON CONFLICT DO NOTHING;
            """
        // REPLACE removes the former row without firing the delete trigger, unless recursive
        // triggers are enabled.
        let replaced = """
            INSERT INTO \(self.log) SELECT \(key), 1, \(list(columns)) FROM \(table)
            WHERE "id" = NEW."id" ON CONFLICT DO NOTHING;
            """
        let changes = (["\(key)"] + columns).map { "OLD.\($0) IS NOT NEW.\($0)" }
        return [
            (Self.texts(schema.name), texts), (schema.searchIndex.name, index),
            (Self.log(schema.name), log),
            trigger("insert", "BEFORE INSERT ON \(table)", replaced),
            trigger("inserted", "AFTER INSERT ON \(table)", newNoted),
            trigger(
                "updated",
                "AFTER UPDATE ON \(table) WHEN \(changes.joined(separator: " OR "))",
                oldNoted + "\n" + newNoted
            ),
            trigger("deleted", "AFTER DELETE ON \(table)", oldNoted),
        ]
    }

    /// Words consist of letters, digits, and combining marks; letter case and accents are folded.
    private static var tokenizer: String {
        Database.foldsAllAccents
            ? "\"unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'\"" : "\"unicode61\""
    }

    private var prefixes: String {
        guard !search.prefixLengths.isEmpty else { return "" }
        return ", prefix='\(search.prefixLengths.map(String.init).joined(separator: " "))'"
    }

    // MARK: - Definition

    /// Returns whether the file has the index with this definition and this SQLite version can use
    /// it.
    func exist(in database: Database) throws -> Bool {
        guard database.hasFullTextSearch else { return false }
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

    /// Removes the index of a table, if there is one.
    ///
    /// - Returns: Whether there was an index.
    @discardableResult
    static func remove(from table: String, in database: Database) throws -> Bool {
        // Without full-text search, the index cannot be dropped, and its triggers still record
        // changes.
        guard database.hasFullTextSearch else { return false }
        let statement = try database.prepareOnce(
            "SELECT 1 FROM sqlite_master WHERE name = ?1 COLLATE NOCASE"
        )
        var isFound = false
        for (kind, name) in objects(of: table) {
            statement.reset()
            try statement.bind([.text(name)])
            guard try statement.step() else { continue }
            statement.reset()
            isFound = true
            try database.execute("DROP \(kind) \(Identifier(name).quoted)")
        }
        return isFound
    }

    /// Creates the index and adds all rows, if this SQLite version has full-text search.
    ///
    /// `progress` receives the number of rows that have been added so far.
    func make(in database: Database, _ progress: (Int) throws -> Void) throws {
        guard database.hasFullTextSearch else { return }
        for (_, sql) in definitions { try database.execute(sql) }
        let end = """
            SELECT max("key"), count(*) FROM
                (SELECT "key" FROM \(texts) WHERE "key" > ?1 ORDER BY "key" LIMIT \(Database.indexBatchRows))
            """
        let fill = """
            INSERT INTO \(index) ("rowid", \(list(slots))) SELECT "key", \(list(slots)) FROM \(texts)
            WHERE "key" > ?1 AND "key" <= ?2 ORDER BY "key"
            """
        try database.fillIndex(end: end, fill: fill, progress)
    }

    // MARK: - Changes

    /// Returns whether there are changed rows that the index does not include yet.
    func isBehind(in database: Database) throws -> Bool {
        try database.integer("SELECT 1 FROM \(log) LIMIT 1") != nil
    }

    /// Updates the index from the changed rows, in the open transaction.
    ///
    /// - Throws: ``IndexBehind`` if SQLite rolled back the transaction because the index is
    ///   damaged.
    func update(in database: Database) throws {
        guard try isBehind(in: database) else { return }
        do {
            try database.savepoint {
                try applyLog(in: database)
                // Makes the index write its pages now; otherwise, an error would appear only at the
                // end of the transaction.
                try database.savepoint {}
            }
        } catch let error as SQLiteError where error.isCorrupt {
            // The index can be rebuilt from the rows, but a failed change would be lost.
            guard database.isInTransaction else {
                throw IndexBehind(tables: [schema.name], isDamaged: true)
            }
            try remake(in: database)
        }
    }

    /// Rebuilds the index from the rows.
    func remake(in database: Database) throws {
        // An index whose first pages are damaged cannot even be dropped, so the pages of an empty
        // index replace them.
        let name = schema.searchIndex.name
        let (pages, terms) = (Identifier(name + "_data").quoted, Identifier(name + "_idx").quoted)
        try database.execute("DELETE FROM \(pages)")
        try database.execute("INSERT INTO \(pages) VALUES (1, x''), (10, x'00000000000000')")
        try database.execute("DELETE FROM \(terms)")
        try Self.remove(from: schema.name, in: database)
        try make(in: database) { _ in }
    }

    private func applyLog(in database: Database) throws {
        let key = Identifier.rowKey.quoted
        let differs = zip(columns, slots).map { "t.\($0) IS NOT l.\($1)" }.joined(separator: " OR ")
        let logged = slots.map { "l.\($0)" }
        let stored = columns.map { "t.\($0)" }
        try database.prepare(
            """
            INSERT INTO \(index) (\(index), "rowid", \(list(slots)))
            SELECT 'delete', l."key", \(list(logged))
            FROM \(log) AS l LEFT JOIN \(table) AS t ON t.\(key) = l."key"
            WHERE l."isIndexed" AND (t.\(key) IS NULL OR \(differs))
            """
        ).run()
        try database.prepare(
            """
            INSERT INTO \(index) ("rowid", \(list(slots)))
            SELECT t.\(key), \(list(stored)) FROM \(log) AS l JOIN \(table) AS t ON t.\(key) = l."key"
            WHERE NOT l."isIndexed" OR \(differs)
            """
        ).run()
        try database.prepare("DELETE FROM \(log)").run()
    }

    /// Removes the words of changed and removed rows from the pages of the index.
    ///
    /// By default, the index only marks these words as removed until it merges its parts.
    func eraseRemovedWords(in database: Database) throws {
        try update(in: database)
        try database.prepare("INSERT INTO \(index) (\(index)) VALUES ('optimize')").run()
    }
}
