// SQLiteReferences: the rows that references concern, and the table of pending cascades.
//
// The writer is the only one, so that nothing has to be locked. Each reference has an index of the rows that are not
// deleted, so that a cascade does not read the tombstones that its earlier steps have left.

import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The state of the pending cascades, as far as a transaction has read it.
struct KnownCascades {
    /// The tables with entries that matter for new references, in lower case; nil until they were read.
    var tables: Set<String>?
    /// Whether the transaction has stored an entry.
    var isPut = false
}

extension SQLiteWriteTransaction: ReferenceTransaction {
    func derived(_ table: Table) -> SQLiteTable { tables.derived(table) }

    func parent(_ id: String, _ table: SQLiteTable) throws -> RowImage? { try image(id, table) }

    func children(
        of ids: [String],
        by edge: ReferenceEdge,
        atMost countMax: Int
    ) throws -> (rows: [ReferringRow], hasMore: Bool) {
        let statement = try database.prepare(ServerSchema.children(by: edge))
        defer { statement.reset() }
        statement.bind(1, text: Self.list(ids))
        statement.bind(2, integer: Int64(countMax) + 1)
        var rows: [ReferringRow] = []
        while try statement.step() {
            if rows.count == countMax { return (rows, true) }
            rows.append(ReferringRow(id: statement.text(0), parentID: statement.text(1)))
        }
        return (rows, false)
    }

    func hasChildren(of ids: [String], by edge: ReferenceEdge) throws -> Bool {
        try database.integer(ServerSchema.hasChildren(by: edge), [.text(Self.list(ids))]) != nil
    }

    var restrictRowsMax: Int { limits.restrictRows }

    func beginLargeDelete() {}

    func restriction(
        on delete: LargeDelete,
        by edge: ReferenceEdge
    ) throws -> LargeDelete.Restriction {
        let found = try database.integer(
            ServerSchema.findRestricted(by: edge, on: delete),
            [.text(delete.id), .integer(Int64(delete.rowsMax) + 2)]
        )
        switch found {
        case nil: return .none
        case 0: return .isTooLarge
        default: return .isReferenced
        }
    }

    private static func list(_ ids: [String]) -> String {
        var writer = JSONWriter()
        writer.strings(ids)
        return writer.text
    }

    // MARK: - Pending cascades

    mutating func pendingTables(in graph: ReferenceGraph) throws -> Set<String> {
        if let known = cascades.tables { return known }
        var tables: Set<String> = []
        if try database.integer(ServerSchema.hasCascades) != nil {
            for name in graph.cascadeParents
            where try database.integer(ServerSchema.hasCascadesOfTable, [.text(name)]) != nil {
                tables.insert(name)
            }
        }
        cascades.tables = tables
        return tables
    }

    mutating func put(_ pending: PendingCascade) throws {
        try PendingCascades.put(pending, database)
        cascades.tables?.insert(pending.table.lowercased())
        cascades.isPut = true
    }

    func isPending(_ id: String, in table: Table) throws -> Bool {
        try database.integer(ServerSchema.findCascade, [.text(table.name), .text(id)]) != nil
    }

    func pendingCascades(_ step: CascadeStep) throws -> [PendingCascade] {
        let skipped = "[" + step.skipped.map(String.init).joined(separator: ",") + "]"
        return try PendingCascades.entries(
            ServerSchema.readCascades,
            [.integer(Int64(step.countMax)), .text(skipped)],
            database
        )
    }

    func remove(_ pending: [PendingCascade]) throws {
        let statement = try database.prepare(ServerSchema.removeCascade)
        for entry in pending {
            statement.bind(1, integer: entry.place)
            try statement.run()
        }
    }
}

/// The table of pending cascades.
enum PendingCascades {
    static func put(_ pending: PendingCascade, _ database: Database) throws {
        let author = pending.author
        try database.prepare(ServerSchema.putCascade).run([
            .text(pending.table), .text(pending.id), author.user.map { SQLValue.text($0) } ?? .null,
            author.device.map { SQLValue.text($0) } ?? .null,
            .integer(author.isDashboard ? 1 : 0),
        ])
    }

    /// Returns the entries that a query finds.
    static func entries(
        _ sql: String,
        _ values: [SQLValue],
        _ database: Database
    ) throws -> [PendingCascade] {
        let statement = try database.prepare(sql)
        defer { statement.reset() }
        try statement.bind(values)
        var entries: [PendingCascade] = []
        while try statement.step() {
            let author = WriteAuthor(
                user: statement.isNull(3) ? nil : statement.text(3),
                device: statement.isNull(4) ? nil : statement.text(4),
                isDashboard: statement.integer(5) != 0
            )
            entries.append(
                PendingCascade(
                    place: statement.integer(0),
                    table: statement.text(1),
                    id: statement.text(2),
                    author: author
                )
            )
        }
        return entries
    }
}

extension ServerSchema {
    /// The table of deleted rows whose child rows have not all been deleted or detached yet.
    static let cascades = """
        CREATE TABLE IF NOT EXISTS "tideline_cascades" (
            "place"     INTEGER NOT NULL PRIMARY KEY,
            "table"     TEXT    NOT NULL COLLATE NOCASE,
            "id"        TEXT    NOT NULL,
            "user"      TEXT,
            "device"    TEXT,
            "dashboard" INTEGER NOT NULL,
            UNIQUE ("table", "id")
        ) STRICT
        """

    static let hasCascades = "SELECT 1 FROM \"tideline_cascades\" LIMIT 1"

    static let hasCascadesOfTable =
        "SELECT 1 FROM \"tideline_cascades\" WHERE \"table\" = ?1 LIMIT 1"

    static let putCascade = """
        INSERT OR IGNORE INTO "tideline_cascades" ("table", "id", "user", "device", "dashboard")
        VALUES (?1, ?2, ?3, ?4, ?5)
        """

    static let findCascade = """
        SELECT 1 FROM "tideline_cascades" WHERE "table" = ?1 AND "id" = ?2
        """

    private static let selectCascades = """
        SELECT "place", "table", "id", "user", "device", "dashboard" FROM "tideline_cascades"
        """

    static let readCascades = """
        \(selectCascades) WHERE "place" NOT IN (SELECT "value" FROM json_each(?2))
        ORDER BY "place" DESC LIMIT ?1
        """

    static let copyCascades = """
        \(selectCascades) WHERE "place" > ?1 ORDER BY "place" LIMIT ?2
        """

    /// Stores the rows of a table with an owner as deleted rows with pending children.
    static func putCascades(ofOwner owner: String, in table: String) -> String {
        """
        INSERT OR IGNORE INTO "tideline_cascades" ("table", "id", "dashboard")
        SELECT \(literal(.text(table))), "id", 0 FROM \(quoted(table)) WHERE \(owner) = ?1
        """
    }

    static let removeCascade = "DELETE FROM \"tideline_cascades\" WHERE \"place\" = ?1"

    static func referenceIndexName(_ table: String, _ column: String) -> String {
        "tideline_\(table).\(column)..children"
    }

    static func referenceIndex(_ table: String, _ column: String) -> String {
        """
        CREATE INDEX IF NOT EXISTS \(quoted(referenceIndexName(table, column)))
        ON \(quoted(table)) (\(quoted(column))) WHERE "deleted" = 0
        """
    }

    private static func condition(_ edge: ReferenceEdge) -> String {
        let column = quoted(edge.column.name)
        return """
            FROM \(quoted(edge.child.name))
            WHERE \(column) IN (SELECT "value" FROM json_each(?1)) AND "deleted" = 0
            """
    }

    static func children(by edge: ReferenceEdge) -> String {
        "SELECT \"id\", \(quoted(edge.column.name)) \(condition(edge)) LIMIT ?2"
    }

    /// Returns a row if a row other than the parent itself refers to one of the parents.
    static func hasChildren(by edge: ReferenceEdge) -> String {
        var sql = "SELECT 1 \(condition(edge))"
        if edge.child.name == edge.parent.name {
            sql += " AND \"id\" <> \(quoted(edge.column.name))"
        }
        return sql + " LIMIT 1"
    }

    /// Returns the query that finds a row which prevents the delete of a row through other rows.
    ///
    /// It reads a limited number of rows, and returns 1 if there is such a row, and 0 if more rows are left.
    static func findRestricted(by edge: ReferenceEdge, on delete: LargeDelete) -> String {
        let edges = delete.edges
        var names = [delete.table]
        for edge in edges where !names.contains(edge.child.name) { names.append(edge.child.name) }
        func number(_ table: String) -> Int { names.firstIndex(of: table) ?? -1 }
        let parts = edges.filter { $0.rule == .cascade }.map { edge in
            """
            UNION SELECT \(number(edge.child.name)), "row"."id"
            FROM "gone" JOIN \(quoted(edge.child.name)) AS "row"
            ON "row".\(quoted(edge.column.name)) = "gone"."id"
            WHERE "gone"."table" = \(number(edge.parent.name)) AND "row"."deleted" = 0
            """
        }
        return """
            WITH RECURSIVE "gone" ("table", "id") AS (
                SELECT 0, ?1
                \(parts.joined(separator: "\n"))
                LIMIT ?2
            )
            SELECT * FROM (
            SELECT 1 FROM "gone" JOIN \(quoted(edge.child.name)) AS "row"
            ON "row".\(quoted(edge.column.name)) = "gone"."id"
            WHERE "gone"."table" = \(number(edge.parent.name)) AND "row"."deleted" = 0
            AND ("row"."id" <> "gone"."id" OR \(edge.child.name == edge.parent.name ? 0 : 1))
            LIMIT 1
            )
            UNION ALL SELECT 0 WHERE (SELECT count(*) FROM "gone") >= ?2
            LIMIT 1
            """
    }
}
