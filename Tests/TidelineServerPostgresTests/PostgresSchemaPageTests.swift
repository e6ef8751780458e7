// PostgresSchemaPageTests: docs/database-schema.md has the tables that a server creates on PostgreSQL.

import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServer
import TidelineServerCore
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct PostgresSchemaPageTests {
    /// Returns the columns of all tables, each with its table, type and constraint.
    private static func columns(_ url: String) throws -> Set<String> {
        let result = try PostgresConnection(PostgresAddress(url)).run(
            """
            SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
                || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
            FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
            JOIN pg_namespace AS n ON n.oid = c.relnamespace
            WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
            AND n.nspname IN ('tideline', 'public')
            """
        )
        return Set((0..<result.count).map { result.text($0, 0) })
    }

    /// Returns the statements of the page that create tables and add columns.
    private static func statements() throws -> [String] {
        let lines = try ProjectFile.text("docs/database-schema.md").split(separator: "\n")
        let section = lines.drop { $0 != "## The server on PostgreSQL" }.dropFirst()
            .prefix { !$0.hasPrefix("## ") }
        var statements: [String] = []
        var isInside = false
        for line in section {
            if line.hasPrefix("CREATE TABLE ") || line.hasPrefix("ALTER TABLE ") {
                statements.append("")
                isInside = true
            }
            guard isInside else { continue }
            statements[statements.count - 1] += line + "\n"
            isInside = !line.hasSuffix(";")
        }
        return statements
    }

    @Test("The page has the tables and columns of a server's database")
    func serverOnPostgres() async throws {
        let created = try PostgresCluster.shared().database()
        var configuration = ServerConfiguration()
        configuration.database = .postgres(url: created)
        configuration.tables = [
            TableDefinition(
                "Note",
                columns: [ColumnDefinition("title", .string), ColumnDefinition("userId", .string)],
                owner: "userId"
            )
        ]
        try ServerDatabase(configuration).migrate()

        let documented = try PostgresCluster.shared().database()
        let connection = try PostgresConnection(PostgresAddress(documented))
        try connection.execute("CREATE SCHEMA tideline")
        for statement in try Self.statements() { try connection.execute(statement) }

        let expected = try Self.columns(created)
        let found = try Self.columns(documented)
        #expect(expected.count > 40)
        #expect(found.subtracting(expected).sorted() == [])
        #expect(expected.subtracting(found).sorted() == [])
    }
}
