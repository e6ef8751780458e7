// ReferenceStatements: the SQL text that finds the rows that refer to other rows, and of the table of pending cascades.

import TidelineCore
import TidelinePostgres
import TidelineServerCore

/// The statements for references.
enum ReferenceStatements {
    /// Locks the work on pending cascades, which one server does at a time; the number is arbitrary.
    static let lockCascades = PostgresStatement("SELECT pg_try_advisory_xact_lock(6072326742)")
        .prepared

    /// Locks the checks of references, which other transactions share; the number is arbitrary.
    static let lockNewParents = PostgresStatement("SELECT pg_advisory_xact_lock(6072326743)")
        .prepared

    /// Precedes the check of references, and the search for pending cascades.
    static let shareNewParents = PostgresStatement(
        "SELECT pg_advisory_xact_lock_shared(6072326743)"
    ).prepared

    /// Returns those of the tables, in lower case, that have pending cascades.
    static func pendingTables(_ names: [String]) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT n."name" FROM unnest($1::text[]) AS n("name")
            WHERE EXISTS (SELECT FROM tideline.cascades AS c WHERE c."table" = n."name")
            """,
            [.array(names.map { .text($0) })]
        ).prepared
    }

    static func readCascades(_ step: CascadeStep) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT "place", "table", "id", "user", "device", "dashboard" FROM tideline.cascades
            WHERE "place" <> ALL($2::bigint[]) ORDER BY "place" DESC LIMIT $1
            """,
            [
                .value(.integer(Int64(step.countMax))),
                .array(step.skipped.map { .integer($0) }),
            ]
        ).prepared
    }

    static func entries(_ result: PostgresResult) -> [PendingCascade] {
        (0..<result.count).map { row in
            PendingCascade(
                place: result.integer(row, 0),
                table: result.text(row, 1),
                id: result.text(row, 2),
                author: WriteAuthor(
                    user: result.isNull(row, 3) ? nil : result.text(row, 3),
                    device: result.isNull(row, 4) ? nil : result.text(row, 4),
                    isDashboard: result.boolean(row, 5)
                )
            )
        }
    }

    static func put(_ entries: [PendingCascade]) -> PostgresStatement {
        func texts(_ text: (PendingCascade) -> String?) -> PostgresParameter {
            .array(entries.map { text($0).map { SQLValue.text($0) } ?? .null })
        }
        return PostgresStatement(
            """
            INSERT INTO tideline.cascades ("table", "id", "user", "device", "dashboard")
            SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::boolean[])
            ON CONFLICT ("table", "id") DO NOTHING
            """,
            [
                texts { $0.table.lowercased() }, texts(\.id), texts(\.author.user),
                texts(\.author.device), texts { $0.author.isDashboard ? "t" : "f" },
            ]
        ).prepared
    }

    static func remove(_ places: [Int64]) -> PostgresStatement {
        PostgresStatement(
            "DELETE FROM tideline.cascades WHERE \"place\" = ANY($1::bigint[])",
            [.array(places.map { .integer($0) })]
        ).prepared
    }

    static let create = """
        CREATE TABLE IF NOT EXISTS tideline.cascades (
            "place"     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            "table"     text COLLATE "C" NOT NULL,
            "id"        text COLLATE "C" NOT NULL,
            "user"      text COLLATE "C",
            "device"    text COLLATE "C",
            "dashboard" boolean NOT NULL,
            UNIQUE ("table", "id")
        );
        """

    /// Returns the ids as an array of the column's type; a column of UUIDs gets only the ids that are UUIDs.
    private static func ids(_ ids: [String], in edge: ReferenceEdge) -> PostgresParameter {
        let isGuid = edge.column.type == .guid
        let usable = isGuid ? ids.filter { GuidText.canonical($0) == $0 } : ids
        return .array(usable.map { .text($0) })
    }

    private static func condition(_ edge: ReferenceEdge) -> String {
        let column = PostgresColumn(edge.column)
        return "\(column.quoted) = ANY($1::\(column.arrayType)) AND NOT \"deleted\""
    }

    /// Returns the rows that refer to any of these rows, with one more than `countMax` if there are more.
    static func children(
        of ids: [String],
        by edge: ReferenceEdge,
        _ child: PostgresTable,
        atMost countMax: Int,
        cells: String,
        _ lock: String
    ) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT \(cells) FROM \(child.quoted) WHERE \(condition(edge))
            ORDER BY "id" LIMIT $2\(lock)
            """,
            [self.ids(ids, in: edge), .value(.integer(Int64(countMax) + 1))]
        ).prepared
    }

    /// Returns the ids of rows, other than the parent itself, that refer to any of these rows.
    static func findChildren(
        of ids: [String],
        by edge: ReferenceEdge,
        atMost countMax: Int
    ) -> PostgresStatement {
        let column = PostgresColumn(edge.column)
        let isOwn = edge.child.name == edge.parent.name
        let other = isOwn ? " AND \"id\" <> \(column.quoted)::text" : ""
        return PostgresStatement(
            """
            SELECT "id" FROM \(PostgresName.quoted(edge.child.name))
            WHERE \(condition(edge))\(other) LIMIT $2
            """,
            [self.ids(ids, in: edge), .value(.integer(Int64(countMax)))]
        ).prepared
    }

    /// Returns the query that finds a row which prevents the delete of a row through other rows.
    ///
    /// It reads a number of rows at most, and returns 1 if there is such a row, and 0 if more rows are left.
    static func findRestricted(by edge: ReferenceEdge, on delete: LargeDelete) -> PostgresStatement
    {
        let edges = delete.edges
        var names = [delete.table]
        for edge in edges where !names.contains(edge.child.name) { names.append(edge.child.name) }
        func number(_ table: String) -> Int { names.firstIndex(of: table) ?? -1 }
        func join(_ edge: ReferenceEdge) -> String {
            let column = PostgresColumn(edge.column)
            // Only UUIDs are converted, because the conversion of any other id would fail.
            let id =
                edge.column.type == .guid
                ? "CASE WHEN g.\"id\" ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' "
                    + "THEN g.\"id\"::uuid END" : "g.\"id\""
            return """
                FROM \(PostgresName.quoted(edge.child.name)) AS c
                WHERE g."table" = \(number(edge.parent.name))
                AND c.\(column.quoted) = \(id) AND NOT c."deleted"
                """
        }
        let parts = edges.filter { $0.rule == .cascade }
            .map { "SELECT \(number($0.child.name)), c.\"id\" \(join($0))" }
        let recursion =
            parts.isEmpty
            ? ""
            : """
            UNION SELECT x."table", x."id" FROM gone AS g
            CROSS JOIN LATERAL (\(parts.joined(separator: " UNION ALL "))) AS x("table", "id")
            """
        let isOwn = edge.child.name == edge.parent.name
        return PostgresStatement(
            """
            WITH RECURSIVE gone("table", "id") AS (
                SELECT 0, $1::text COLLATE "C" \(recursion)
            ),
            checked AS MATERIALIZED (SELECT g."table", g."id" FROM gone AS g LIMIT $2)
            (SELECT 1 FROM checked AS g CROSS JOIN LATERAL (
                SELECT c."id" \(join(edge)) LIMIT 2
            ) AS x
            WHERE \(isOwn ? "x.\"id\" <> g.\"id\"" : "TRUE") LIMIT 1)
            UNION ALL (SELECT 0 WHERE (SELECT count(*) FROM checked) >= $2)
            LIMIT 1
            """,
            [.value(.text(delete.id)), .value(.integer(Int64(delete.rowsMax) + 2))]
        )
    }
}
