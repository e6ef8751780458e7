// Goal: an existing table is adopted completely, or rejected with the reasons before anything is changed; and what
// external writers remove from a server's tables is reported with a remedy.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServer
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct AdoptionTests {
    /// A database with the tables of another program.
    private struct TestDatabase {
        let url: String
        let psql: PostgresConnection

        init(_ script: String) throws {
            url = try PostgresCluster.shared().database()
            psql = try PostgresConnection(PostgresAddress(url))
            try psql.execute(script)
        }

        func care(_ tables: [TableDefinition] = [AdoptionTests.task]) throws -> ServerDatabase {
            var configuration = ServerConfiguration()
            configuration.database = .postgres(url: url)
            configuration.tables = tables
            return try ServerDatabase(configuration)
        }

        func server(_ tables: [TableDefinition] = [AdoptionTests.task]) async throws -> TestServer {
            try await TestServer(tables, onPostgres: true, database: url)
        }
    }

    private static let task = TableDefinition(
        "task",
        columns: [
            ColumnDefinition("title", .string), ColumnDefinition("weight", .number),
            ColumnDefinition("price", .decimal), ColumnDefinition("due", .dateTime),
        ]
    )

    /// The dry run already rejects a table that cannot be served, with a readable message, and changes nothing.
    @Test(
        "The dry run and the migration reject a table that cannot be served",
        arguments: [
            ("CREATE UNLOGGED TABLE task (id text PRIMARY KEY)", "UNLOGGED", "SET LOGGED"),
            (
                "CREATE TABLE task (id text PRIMARY KEY); CREATE TABLE sub () INHERITS (task)",
                "inherit", "task"
            ),
            ("CREATE TABLE \"Task\" (id text PRIMARY KEY)", "'Task'", "se this spelling"),
            (
                "CREATE TABLE task (id text PRIMARY KEY, \"Title\" text)", "'Title'",
                "se this spelling"
            ),
            (
                "CREATE TABLE task (a int, id int, PRIMARY KEY (a, id)); INSERT INTO task VALUES (1, 1), (2, 1)",
                "1 rows have an 'id' that another row has", "Change them first"
            ),
            (
                "CREATE TABLE task (id text PRIMARY KEY, title text); CREATE VIEW titles AS SELECT title FROM task",
                "column 'title'", "view titles"
            ),
            (
                "CREATE TABLE task (id uuid PRIMARY KEY); CREATE TABLE sub (task uuid REFERENCES task)",
                "column 'id'", "sub_task_fkey"
            ),
            (
                "CREATE TABLE task (id text PRIMARY KEY, title text, up text GENERATED ALWAYS AS (upper(title)) STORED)",
                "column 'title'", "column up"
            ),
            (
                "CREATE TABLE task (id text PRIMARY KEY, version bigint CHECK (version > 0))",
                "task_version_check", "Drop the constraint"
            ),
            (
                "CREATE TABLE task (id text PRIMARY KEY, weight float8); INSERT INTO task VALUES ('a', 'NaN')",
                "1 rows have a value in 'weight'", "finite"
            ),
            (
                "CREATE TABLE task (id text PRIMARY KEY, price numeric); INSERT INTO task VALUES ('a', 'Infinity')",
                "in 'price'", "finite"
            ),
            (
                "CREATE TABLE task (id text PRIMARY KEY, due timestamp); INSERT INTO task VALUES ('a', 'infinity')",
                "in 'due'", "years 1 to 9999"
            ),
        ]
    )
    func aTableThatCannotBeServedIsRejected(script: String, fault: String, remedy: String) throws {
        let database = try TestDatabase(script)
        for isDry in [true, false] {
            let error = #expect(throws: DatabaseError.self) {
                if isDry {
                    _ = try database.care().migrationPlan()
                } else {
                    try database.care().migrate()
                }
            }
            let text = error?.message ?? ""
            #expect(text.contains(fault) && text.contains(remedy), "\(text)")
            #expect(!text.contains("SQLSTATE"))
        }
        #expect(try database.psql.run("SELECT to_regnamespace('tideline')").isNull(0, 0))
    }

    @Test("Rows whose existing system columns contain null are served")
    func rowsWithoutValuesAreServed() async throws {
        let database = try TestDatabase(
            """
            CREATE TABLE task (
                no int PRIMARY KEY, id text UNIQUE, title text, deleted boolean, version bigint,
                "createdAt" timestamptz, "updatedAt" timestamptz
            );
            INSERT INTO task (no, id, title) VALUES (1, 'a', 'one'), (2, NULL, 'two'), (3, NULL, 'three');
            ALTER TABLE task ALTER no SET DEFAULT 0
            """
        )
        #expect(try database.care().migrate().changesValues)
        let server = try await database.server()
        let rows = await server.send("GET", "/tables/task").rows
        #expect(Set(rows.compactMap { $0["title"] as? String }) == ["one", "two", "three"])
        let ids = rows.compactMap { $0["id"] as? String }
        #expect(Set(ids).count == 3 && ids.contains("a") && !ids.contains(""))
        #expect(rows.allSatisfy { $0["deleted"] as? Bool == false && !($0["createdAt"] is NSNull) })
        try database.psql.execute("INSERT INTO task (no, title) VALUES (4, 'four')")
        #expect(await server.send("GET", "/tables/task").rows.count == 4)
    }

    @Test(
        "A table is served while PostgreSQL continues to number its keys",
        arguments: [
            "id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "id bigserial PRIMARY KEY",
            "id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
        ]
    )
    func aNumberedKeyIsServed(declaration: String) async throws {
        let database = try TestDatabase(
            """
            CREATE TABLE task (\(declaration), title text);
            INSERT INTO task (title) VALUES ('one'), ('two')
            """
        )
        _ = try database.care().migrationPlan()
        try database.care().migrate()
        let server = try await database.server()
        try database.psql.execute("INSERT INTO task (title) VALUES ('three')")
        #expect(
            await server.send("POST", "/tables/task", #"{"title":"from a device"}"#).status == 201
        )
        let rows = await server.send("GET", "/tables/task?$filter=id in ('1','2','3')").rows
        #expect(Set(rows.compactMap { $0["title"] as? String }) == ["one", "two", "three"])
        #expect(try database.care().migrationPlan().isEmpty)
    }

    // MARK: - Removed by external writers

    private func started(_ change: String) async throws -> TestDatabase {
        let database = try TestDatabase("")
        let server = try await database.server()
        for id in ["a", "b"] {
            let body = "{\"id\":\"\(id)\",\"title\":\"\(id)\",\"weight\":1.5}"
            #expect(await server.send("POST", "/tables/task", body).status == 201)
        }
        try database.psql.execute(change)
        return database
    }

    private func epoch(_ database: TestDatabase) throws -> String {
        try database.psql.run("SELECT \"value\" FROM tideline.state WHERE \"key\" = 'epoch'").text(
            0,
            0
        )
    }

    @Test("A dropped column is reported, and the migration creates it again")
    func aDroppedColumnIsReportedAndCreatedAgain() async throws {
        let database = try await started("ALTER TABLE task RENAME title TO name")
        let rejection = await #expect(throws: SchemaError.self) { try await database.server() }
        let text = rejection?.description ?? ""
        #expect(text.contains("column 'title': it was dropped"))
        #expect(text.contains("tideline migrate"))
        let plan = try database.care().migrationPlan()
        #expect(plan.description.contains("'title': it no longer exists") && !plan.isEmpty)
        let before = try epoch(database)
        try database.care().migrate()
        #expect(try epoch(database) != before)
        let rows = await (try database.server()).send("GET", "/tables/task").rows
        #expect(rows.count == 2 && rows.allSatisfy { $0["title"] is NSNull })
        #expect(try database.care().migrationPlan().isEmpty)
    }

    @Test("A dropped table is reported, and the migration creates it again")
    func aDroppedTableIsReportedAndCreatedAgain() async throws {
        let database = try await started("DROP TABLE task")
        let rejection = await #expect(throws: SchemaError.self) { try await database.server() }
        #expect(rejection?.description.contains("Table 'task' was dropped") == true)
        try database.care().migrate()
        let server = try await database.server()
        #expect(await server.send("GET", "/tables/task").rows.isEmpty)
        #expect(await server.send("POST", "/tables/task", #"{"id":"c"}"#).status == 201)
        // A dropped table that is no longer declared does not keep other tables from being served.
        try database.psql.execute("DROP TABLE task")
        let other = TableDefinition("other", columns: [ColumnDefinition("x", .string)])
        #expect(await (try database.server([other])).send("GET", "/tables/other").status == 200)
        let known = try database.psql.run(
            "SELECT count(*) FROM tideline.tables WHERE \"name\" = 'task'"
        )
        #expect(known.integer(0, 0) == 1)
    }

    @Test(
        "A table outside the search path is reported and does not count as dropped",
        arguments: [true, false]
    )
    func aTableOutsideTheSearchPathIsNotDropped(isDeclared: Bool) async throws {
        let database = try await started("CREATE SCHEMA elsewhere")
        var options = PostgresTableStore.Options()
        options.readers = 2
        let url = database.url + "&options=-csearch_path%3Delsewhere"
        let store = try PostgresTableStore(url: url, options: options)
        let rejection = await #expect(throws: SchemaError.self) {
            _ = try await store.prepare(
                isDeclared ? [Self.task] : [],
                filtered: [],
                isComplete: false
            )
        }
        #expect(rejection?.description.contains("'task' is in the schema 'public'") == true)
        await store.stop()
        #expect(await (try database.server()).send("GET", "/tables/task").rows.count == 2)
    }

    @Test("A dropped column that is no longer declared is ignored")
    func aDroppedColumnThatIsNotDeclaredIsIgnored() async throws {
        let database = try await started("")
        var task = Self.task
        task.schema.columns.removeAll { $0.name == "weight" }
        let store = try PostgresTableStore(url: database.url)
        _ = try await store.prepare([task], filtered: [], isComplete: false)
        try database.psql.execute("ALTER TABLE task DROP COLUMN weight")
        let before = try epoch(database)
        _ = try await store.prepare([task], filtered: [], isComplete: false)
        #expect(try epoch(database) == before)
        await store.stop()
    }

    @Test("A table that another program created again is reported")
    func aTableThatIsCreatedAgainByAnotherProgramIsReported() async throws {
        let database = try await started("DROP TABLE task; CREATE TABLE task (id text, title text)")
        let rejection = await #expect(throws: SchemaError.self) { try await database.server() }
        #expect(rejection?.description.contains("was recreated without the column") == true)
    }

    @Test("A dropped log table is created again under a new epoch")
    func aDroppedLogIsCreatedAgain() async throws {
        let database = try await started("DROP TABLE tideline.\"log.task\"")
        let before = try epoch(database)
        let server = try await database.server()
        #expect(try epoch(database) != before)
        #expect(await server.send("DELETE", "/tables/task/a").status == 204)
    }

    @Test("A column whose type another program changed is rejected, also at the next start")
    func aColumnOfAnotherTypeIsRejected() async throws {
        let database = try await started("")
        let server = try await database.server()
        try database.psql.execute("ALTER TABLE task ALTER weight TYPE text")
        for (method, target, body) in [
            ("GET", "/tables/task", nil), ("GET", "/tables/task/a", nil),
            ("GET", "/tables/task?$select=weight", nil),
            ("PATCH", "/tables/task/a", #"{"title":"x"}"#),
        ] as [(String, String, String?)] {
            #expect(await server.send(method, target, body).status == 503, "\(method) \(target)")
        }
        #expect(try database.psql.run("SELECT weight FROM task WHERE id = 'a'").text(0, 0) == "1.5")
        let rejection = await #expect(throws: SchemaError.self) { try await database.server() }
        let text = rejection?.description ?? ""
        #expect(text.contains("column 'weight': its type was changed to text"))
        let remedy = try #require(text.firstRange(of: "ALTER TABLE ")).lowerBound
        try database.psql.execute(String(text[remedy...].dropLast()))
        #expect(
            await (try database.server()).send("GET", "/tables/task/a").row["weight"] as? Double
                == 1.5
        )
    }

    @Test(
        "Dropped triggers are created again, and rows written without them reach devices",
        arguments: [
            ("ALTER TABLE task DISABLE TRIGGER USER", false),
            ("DROP TRIGGER tideline_mark ON task", false),
            ("DROP TRIGGER tideline_mark ON task; DROP TRIGGER tideline_stamp ON task", true),
        ]
    )
    func droppedTriggersAreCreatedAgain(change: String, addsColumn: Bool) async throws {
        let database = try await started(change)
        try database.psql.execute("INSERT INTO task (id, title) VALUES ('c', 'unheard')")
        try database.psql.execute("UPDATE task SET title = 'unheard' WHERE id = 'a'")
        let before = try epoch(database)
        // Also if the triggers are created again for another reason.
        var task = Self.task
        if addsColumn { task.schema.columns.append(ColumnDefinition("later", .string)) }
        let server = try await database.server([task])
        #expect(try epoch(database) != before)
        let rows = await server.send("GET", "/tables/task").rows
        #expect(rows.filter { $0["title"] as? String == "unheard" }.count == 2)
        let unstamped = try database.psql.run("SELECT count(*) FROM task WHERE version = 0")
        #expect(unstamped.integer(0, 0) == 0)
        try database.psql.execute("INSERT INTO task (id) VALUES ('d')")
        let timestamped = try database.psql.run("SELECT version FROM task WHERE id = 'd'").integer(
            0,
            0
        )
        #expect(timestamped > 0)
        // Once.
        let renewed = try epoch(database)
        _ = try await database.server([task])
        #expect(try epoch(database) == renewed)
    }

    @Test("A database with an encoding other than UTF-8 is rejected")
    func aDatabaseWithAnotherEncodingIsRejected() throws {
        let cluster = try PostgresCluster.shared()
        let name = "latin_\(UUID().uuidString.lowercased().prefix(8))"
        try cluster.psql(
            "CREATE DATABASE \(name) ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0",
            in: "postgres"
        )
        let error = #expect(throws: DatabaseError.self) {
            try PostgresTableStore(url: cluster.url(of: name))
        }
        #expect(error?.message.contains("LATIN1") == true)
        #expect(error?.message.contains("ENCODING 'UTF8'") == true)
    }

    @Test("A rejected copy leaves the target database unchanged")
    func aRejectedCopyLeavesTheDatabaseUnchanged() async throws {
        let source = try await started("ALTER TABLE task ADD secret text")
        let target = try TestDatabase("CREATE TABLE task (id text PRIMARY KEY, title text)")
        let error = #expect(throws: DatabaseError.self) {
            try ServerDatabase.copy(
                from: .postgres(url: source.url),
                to: .postgres(url: target.url)
            )
        }
        #expect(error?.message.contains("'task'") == true)
        try target.care().migrate()
        _ = try await target.server()
        // Objects that no server knows are named.
        let empty = try TestDatabase("")
        let leftOut = try ServerDatabase.copy(
            from: .postgres(url: source.url),
            to: .postgres(url: empty.url)
        )
        #expect(leftOut == ["task.secret"])
    }
}
