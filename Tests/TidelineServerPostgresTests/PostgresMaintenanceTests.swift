// An operator's work on a PostgreSQL database: adopt existing tables, convert column types, make devices pull again,
// and monitor backups.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServer
import TidelineServerCore
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct PostgresMaintenanceTests {
    private static let task = TableDefinition(
        "task",
        columns: [
            ColumnDefinition("title", .string), ColumnDefinition("effort", .integer),
            ColumnDefinition("weight", .number), ColumnDefinition("due", .dateTime),
            ColumnDefinition("grade", .enumeration(["low", "high"])),
            ColumnDefinition("note", .string, nullable: false, default: .string("new")),
        ],
        indexes: [["title"]]
    )

    private static let created = """
        CREATE TABLE task (
            id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
            title varchar(80) NOT NULL,
            effort smallint CHECK (effort < 100),
            weight real,
            due timestamp,
            grade text,
            secret text DEFAULT 'hidden'
        );
        INSERT INTO task (id, title, effort, weight, due, grade)
        SELECT ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'Task ' || n, n, n / 2.0,
            '2026-01-02 03:04:05', CASE WHEN n = 3 THEN 'odd' ELSE 'low' END
        FROM generate_series(1, 20) AS n;
        """

    private static func database(
        _ tables: [TableDefinition],
        _ url: String
    ) throws -> ServerDatabase {
        var configuration = ServerConfiguration()
        configuration.database = .postgres(url: url)
        configuration.tables = tables
        return try ServerDatabase(configuration)
    }

    private static func columns(_ connection: PostgresConnection) throws -> String {
        try connection.run(
            """
            SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum)
            FROM pg_attribute WHERE attrelid = 'task'::regclass AND attnum > 0 AND NOT attisdropped
            """
        ).text(0, 0)
    }

    @Test("An existing table is adopted by the migration with all its rows")
    func anExistingTableIsAdopted() async throws {
        let url = try PostgresCluster.shared().database()
        let connection = try PostgresConnection(PostgresAddress(url))
        try connection.execute(Self.created)
        let before = try Self.columns(connection)
        // No server adopts it without the command.
        let rejection = await #expect(throws: SchemaError.self) {
            _ = try await TestServer([Self.task], onPostgres: true, database: url)
        }
        #expect(rejection?.description.contains("tideline migrate --dry-run") == true)
        let care = try Self.database([Self.task], url)
        let plan = try care.migrationPlan()
        #expect(plan.changesValues)
        #expect(plan.description.contains("'task' already exists"))
        #expect(plan.description.contains("1 of them cannot be converted"))
        #expect(plan.statements.contains { $0.contains("ALTER COLUMN \"id\" TYPE text") })
        #expect(plan.statements.contains { $0.contains("CREATE CONSTRAINT TRIGGER") })
        // The dashboard shows it as well.
        var configuration = ServerConfiguration()
        configuration.database = .postgres(url: url)
        configuration.tables = [Self.task]
        let page = try await TestServer(dashboard: configuration.makeDashboard())
        let shown = await page.handler.handle(
            ServerRequest(method: "GET", path: "/$admin/migration", headers: ["Host": "localhost"])
        )
        #expect(shown.row["steps"] as? [String] == plan.steps)
        // The dry run showed the change, and did nothing.
        #expect(try Self.columns(connection) == before)
        #expect(try connection.run("SELECT to_regnamespace('tideline')").isNull(0, 0))
        #expect(try care.migrate().statements.count == plan.statements.count)
        #expect(try care.migrationPlan().isEmpty)
        let server = try await TestServer([Self.task], onPostgres: true, database: url)
        let list = await server.send(
            "GET",
            "/tables/task?$orderby=title",
            headers: ["Prefer": "odata.track-changes"]
        )
        #expect(list.rows.count == 20)
        let row = try #require(list.rows.first)
        #expect(row["id"] as? String == "00000000-0000-0000-0000-000000000001")
        #expect(row["effort"] as? Int == 1 && row["weight"] as? Double == 0.5)
        #expect((row["due"] as? String)?.hasPrefix("2026-01-02T03:04:05") == true)
        #expect(row["note"] as? String == "new" && row["secret"] == nil)
        #expect(Set(list.rows.compactMap { $0["version"] as? String }).count == 20)
        #expect(list.rows.filter { $0["grade"] is NSNull }.count == 1)
        // The program that wrote to it before continues, and devices see its rows.
        try connection.execute("INSERT INTO task (title) VALUES ('Beside')")
        let link = try #require(list.row["@odata.deltaLink"] as? String)
        let changes = await server.send("GET", "/tables/task?" + link)
        #expect(changes.rows.map { $0["title"] as? String } == ["Beside"])
        let body = #"{"id":"own","title":"From a device"}"#
        let write = await server.send("POST", "/tables/task", body)
        #expect(write.status == 201, "\(write.text)")
        let secret = try connection.run("SELECT secret FROM task WHERE id = 'own'").text(0, 0)
        #expect(secret == "hidden")
    }

    @Test("A table with an unsuitable column is rejected and not changed")
    func aTableThatCannotBeServedIsUnchanged() throws {
        let url = try PostgresCluster.shared().database()
        let connection = try PostgresConnection(PostgresAddress(url))
        for (column, word) in [
            ("\"version\" text", "version"), ("title numeric", "title"),
            ("effort text", "effort"), ("due date", "due"),
        ] {
            try connection.execute(
                "DROP TABLE IF EXISTS task; CREATE TABLE task (id text PRIMARY KEY, \(column))"
            )
            let before = try Self.columns(connection)
            let error = #expect(throws: DatabaseError.self) {
                try Self.database([Self.task], url).migrate()
            }
            #expect(error?.message.contains("'\(word)'") == true)
            #expect(try Self.columns(connection) == before)
        }
    }

    @Test("A migration converts values to another type, and devices pull the changed rows")
    func valuesAreConvertedToAnotherType() async throws {
        let url = try PostgresCluster.shared().database()
        var table = TableDefinition("task", columns: [ColumnDefinition("size", .string)])
        table.schema.columns.append(ColumnDefinition("rank", .integer))
        var server: TestServer? = try await TestServer([table], onPostgres: true, database: url)
        var versions: [String] = []
        for size in [#""5""#, #""much""#, "null"] {
            let answer = await server?.send("POST", "/tables/task", #"{"size":\#(size)}"#)
            versions.append(answer?.row["version"] as? String ?? "")
        }
        await server?.store.stop()
        server = nil
        var other = table
        other.schema.columns[0].type = .integer
        other.schema.columns[1].isNullable = false
        let care = try Self.database([other], url)
        let plan = try care.migrate()
        #expect(plan.changesValues && plan.steps.count == 2, "\(plan)")
        server = try await TestServer([other], onPostgres: true, database: url)
        let rows = await server?.send("GET", "/tables/task?$orderby=updatedAt").rows ?? []
        #expect(rows.map { $0["size"] as? Int } == [5, nil, nil])
        #expect(rows.allSatisfy { $0["rank"] as? Int == 0 })
        // Devices pull the changed rows.
        #expect(rows.allSatisfy { !versions.contains($0["version"] as? String ?? "") })
    }

    @Test("A running server sends the renewed epoch")
    func runningServersMakeDevicesPullAgain() async throws {
        let url = try PostgresCluster.shared().database()
        let care = try Self.database([TestServer.todo], url)
        let error = #expect(throws: DatabaseError.self) { try care.renewEpoch() }
        #expect(error?.code == .missing)
        let server = try await TestServer([TestServer.todo], onPostgres: true, database: url)
        let before = await server.send("GET", "/tables/TodoItem").headers["Tideline-Epoch"]
        let epoch = try care.renewEpoch()
        let after = await server.send("GET", "/tables/TodoItem").headers["Tideline-Epoch"]
        #expect(before != epoch && after == epoch)
    }

    @Test("The backup advice is ready only if PostgreSQL archives its WAL")
    func backupsAreMonitored() throws {
        let url = try PostgresCluster.shared().database()
        let advice = try #require(try Self.database([], url).backupAdvice())
        #expect(!advice.isReady)
        #expect(advice.description.contains("pg_basebackup"))
        #expect(!advice.description.contains("postgres@"))
        let cluster = try PostgresCluster(
            settings: ["archive_mode": "on", "archive_command": "true"]
        )
        let other = try cluster.database()
        let connection = try PostgresConnection(PostgresAddress(other))
        try connection.run("SELECT pg_switch_wal()")
        let archived = "SELECT archived_count FROM pg_stat_archiver"
        try blockingUntil { try connection.run(archived).integer(0, 0) != 0 }
        let found = try #require(try Self.database([], other).backupAdvice())
        #expect(found.isReady, "\(found)")
    }
}
