// The column default of an adopted table is used if an insert omits the column.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServer
import TidelineServerCore
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct AdoptedDefaultTests {
    private static let script = """
        CREATE SEQUENCE numbers START 7;
        CREATE TABLE task (
            id text PRIMARY KEY,
            title varchar(40) DEFAULT 'untitled' NOT NULL,
            priority int DEFAULT 5 NOT NULL,
            price numeric DEFAULT 1.50,
            due timestamptz DEFAULT '2026-01-02T03:04:05Z',
            "open" boolean DEFAULT true,
            code uuid DEFAULT gen_random_uuid(),
            number bigint DEFAULT nextval('numbers'),
            serial int GENERATED ALWAYS AS IDENTITY,
            declared int DEFAULT 1,
            plain text,
            beside text DEFAULT 'not declared' NOT NULL
        )
        """

    private static let task = TableDefinition(
        "task",
        columns: [
            ColumnDefinition("title", .string, nullable: false),
            ColumnDefinition("priority", .integer, nullable: false),
            ColumnDefinition("price", .decimal), ColumnDefinition("due", .dateTime),
            ColumnDefinition("open", .boolean), ColumnDefinition("code", .guid),
            ColumnDefinition("number", .integer), ColumnDefinition("serial", .integer),
            ColumnDefinition("declared", .integer, default: .integer(2)),
            ColumnDefinition("plain", .string),
        ]
    )

    private func adopted() throws -> String {
        let url = try PostgresCluster.shared().database()
        try PostgresConnection(PostgresAddress(url)).execute(Self.script)
        var configuration = ServerConfiguration()
        configuration.database = .postgres(url: url)
        configuration.tables = [Self.task]
        try ServerDatabase(configuration).migrate()
        return url
    }

    private func check(_ row: [String: Any], number: Int) {
        #expect(row["title"] as? String == "untitled" && row["priority"] as? Int == 5, "\(row)")
        #expect(row["price"] as? Double == 1.5 && row["open"] as? Bool == true)
        #expect(row["due"] as? String == "2026-01-02T03:04:05.000Z")
        #expect((row["code"] as? String)?.count == 36 && row["number"] as? Int == number)
        #expect(row["serial"] as? Int == number - 6)
        #expect(row["declared"] as? Int == 2 && row["plain"] is NSNull)
    }

    @Test("An insert and a PUT get the database's defaults, alone and in a batch")
    func inserts() async throws {
        let url = try adopted()
        // A server that starts later knows them, too.
        for (index, start) in [7, 9].enumerated() {
            let server = try await TestServer([Self.task], onPostgres: true, database: url)
            let created = await server.send("POST", "/tables/task", #"{"id":"a\#(index)"}"#)
            #expect(created.status == 201, "\(created.text)")
            check(created.row, number: start)
            check(await server.send("GET", "/tables/task/a\(index)").row, number: start)
            let batch = await server.send(
                "POST",
                "/$batch",
                #"{"requests":[{"id":"1","method":"post","url":"tables/task","body":{"id":"b\#(index)"}}]}"#
            )
            let answers = batch.row["responses"] as? [[String: Any]] ?? []
            check(answers.first?["body"] as? [String: Any] ?? [:], number: start + 1)
            await server.store.stop()
        }
        let server = try await TestServer([Self.task], onPostgres: true, database: url)
        let replaced = await server.send("PUT", "/tables/task/a0", #"{"title":"x","number":1}"#)
        #expect(replaced.row["title"] as? String == "x" && replaced.row["number"] as? Int == 1)
        #expect(replaced.row["priority"] as? Int == 5 && replaced.row["open"] as? Bool == true)
        await server.store.stop()
    }

    @Test(
        "Sent values replace the defaults, even null, and a JSON Patch resets a value"
    )
    func values() async throws {
        let server = try await TestServer([Self.task], onPostgres: true, database: try adopted())
        let body = #"{"id":"a","priority":0,"open":null,"number":1,"price":null}"#
        let created = await server.send("POST", "/tables/task", body)
        #expect(created.row["priority"] as? Int == 0 && created.row["open"] is NSNull)
        #expect(created.row["price"] is NSNull && created.row["title"] as? String == "untitled")
        let patched = await server.send(
            "PATCH",
            "/tables/task/a",
            #"[{"op":"remove","path":"/priority"},{"op":"remove","path":"/number"}]"#,
            headers: ["Content-Type": "application/json-patch+json"]
        )
        #expect(patched.row["priority"] as? Int == 5 && patched.row["number"] as? Int == 7)
        #expect(patched.row["open"] is NSNull, "\(patched.text)")
        await server.store.stop()
    }

    @Test("A JSON Patch resets values to the database's defaults before a hook sees them")
    func hooks() async throws {
        var hooks = TableHooks()
        hooks.beforeWrite = { change in
            guard change.operation == .update, change.values["priority"] == 5 else { return }
            change.values["plain"] = "seen"
        }
        let server = try await TestServer(
            [Self.task],
            onPostgres: true,
            database: try adopted(),
            hooks: ["task": hooks]
        )
        let body = #"{"id":"a","title":"x","priority":0,"number":1}"#
        #expect(await server.send("POST", "/tables/task", body).status == 201)
        let steps = ["title", "priority", "number"].map { #"{"op":"remove","path":"/\#($0)"}"# }
        let patched = await server.send(
            "PATCH",
            "/tables/task/a",
            "[\(steps.joined(separator: ","))]",
            headers: ["Content-Type": "application/json-patch+json"]
        )
        #expect(patched.row["title"] as? String == "untitled", "\(patched.text)")
        #expect(patched.row["priority"] as? Int == 5 && patched.row["number"] as? Int == 7)
        #expect(patched.row["plain"] as? String == "seen")
        await server.store.stop()
    }

    @Test("A renamed column keeps the database's default", arguments: ["ticket", "Number"])
    func renamed(name: String) async throws {
        let url = try adopted()
        var task = Self.task
        let place = try #require(task.schema.columns.firstIndex { $0.name == "number" })
        task.schema.columns[place].name = name
        // A change of letter case alone needs no consent.
        if name == "ticket" {
            task.aliases = ["number": name]
            var configuration = ServerConfiguration()
            configuration.database = .postgres(url: url)
            configuration.tables = [task]
            try ServerDatabase(configuration).migrate()
        }
        for number in [7, 8] {
            let server = try await TestServer([task], onPostgres: true, database: url)
            let created = await server.send("POST", "/tables/task", #"{"id":"a\#(number)"}"#)
            #expect(created.row[name] as? Int == number, "\(created.text)")
            await server.store.stop()
        }
    }

    @Test("A default that fails rejects only its own write")
    func faults() async throws {
        let url = try adopted()
        let psql = try PostgresConnection(PostgresAddress(url))
        try psql.execute("ALTER TABLE task ALTER number SET DEFAULT 1 / (random() * 0)::int")
        let server = try await TestServer([Self.task], onPostgres: true, database: url)
        let rejected = await server.send("POST", "/tables/task", #"{"id":"a"}"#)
        #expect(rejected.status == 400, "\(rejected.text)")
        #expect(await server.send("POST", "/tables/task", #"{"id":"b","number":1}"#).status == 201)
        await server.store.stop()
    }
}
