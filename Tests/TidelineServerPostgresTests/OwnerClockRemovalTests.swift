// Goal: a database whose tables had a clock for each owner is migrated when a server starts, whole or not at all.
//
// The fixture is a dump of a database of the last version that had the table option `"clock": "owner"`: tables with
// and without tombstones, rows of several owners and of none, a log, base rows, and a table with one clock.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct OwnerClockRemovalTests {
    private static let todo = TableDefinition(
        "TodoItem",
        columns: [
            ColumnDefinition("text", .string), ColumnDefinition("complete", .boolean),
            ColumnDefinition("userId", .string),
        ],
        owner: "userId",
        conflict: .merge
    )
    private static let note = TableDefinition(
        "Note",
        columns: [ColumnDefinition("text", .string), ColumnDefinition("userId", .string)],
        softDelete: false,
        owner: "userId"
    )
    private static let tour = TableDefinition("Tour", columns: [ColumnDefinition("text", .string)])
    private static let tables = [todo, note, tour]

    /// The last timestamps of the owners of each table.
    private static let lastTodo: Int64 = 1_764_130_760_663_803
    private static let lastNote: Int64 = 1_764_130_760_602_788

    private static func database() throws -> String {
        let url = try PostgresCluster.shared().database()
        let sql = try ProjectFile.text("Tests/Fixtures/owner-clocks.sql")
        try PostgresConnection(PostgresAddress(url)).execute(sql)
        return url
    }

    private static func store(
        _ url: String,
        _ tables: [TableDefinition] = tables,
        log: ServerLog = .silent
    ) async throws -> PostgresTableStore {
        let store = try PostgresTableStore(url: url, options: options(log))
        do {
            _ = try await store.prepare(tables, filtered: [], isComplete: true)
        } catch {
            await store.stop()
            throw error
        }
        return store
    }

    private static func options(_ log: ServerLog) -> PostgresTableStore.Options {
        var options = PostgresTableStore.Options()
        options.readers = 2
        options.log = log
        return options
    }

    // MARK: - The state of a database

    /// The rows of a query, one string for each.
    private static func texts(_ url: String, _ query: String) throws -> [String] {
        let found = try PostgresConnection(PostgresAddress(url)).run(
            "SELECT row_to_json(q)::text FROM (\(query)) AS q"
        )
        return (0..<found.count).map { found.text($0, 0) }
    }

    private static func rows(_ url: String) throws -> [String] {
        try ["TodoItem", "Note", "Tour"].flatMap {
            try texts(url, "SELECT * FROM \"\($0)\" ORDER BY \"id\"")
        }
    }

    /// Everything that a migration may change.
    private static func state(_ url: String) throws -> [String] {
        let relations = try texts(
            url,
            """
            SELECT c.oid::regclass::text, (
                SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_attribute AS a
                WHERE a.attrelid = c.oid AND a.attnum > 0
            ) FROM pg_class AS c WHERE c.relkind = 'r' AND c.relnamespace = 'tideline'::regnamespace
            ORDER BY 1
            """
        )
        let functions = try texts(
            url,
            """
            SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'tideline'::regnamespace ORDER BY 1
            """
        )
        let contents = try [
            "SELECT * FROM tideline.clocks ORDER BY \"table\"",
            "SELECT * FROM tideline.tables ORDER BY \"name\"",
            """
            SELECT * FROM tideline.state WHERE "key" IN ('format', 'epoch') OR "key" LIKE 'triggers.%'
            ORDER BY "key"
            """,
        ].flatMap { try texts(url, $0) }
        return try relations + functions + contents + rows(url)
    }

    private static func value(_ key: String, _ url: String) throws -> String {
        try PostgresConnection(PostgresAddress(url)).run(
            "SELECT \"value\" FROM tideline.state WHERE \"key\" = $1",
            [.text(key)]
        ).text(0, 0)
    }

    // MARK: - The migration

    @Test("Each table gets one table clock, after the clocks of its owners, and keeps its rows")
    func oneClock() async throws {
        let url = try Self.database()
        let (rows, epoch) = (try Self.rows(url), try Self.value("epoch", url))
        let tour = try Self.value("triggers.tour", url)
        let reported = LockedLines()
        let log = ServerLog(
            level: .info,
            now: { 0 },
            sink: { reported.add(String(decoding: $0, as: UTF8.self)) }
        )
        let store = try await Self.store(url, log: log)
        #expect(try Self.rows(url) == rows)
        let todo = try await store.clock(of: Table(Self.todo))
        let note = try await store.clock(of: Table(Self.note))
        #expect([todo.timestamp, todo.horizon] == [Self.lastTodo, Self.lastTodo])
        #expect([note.timestamp, note.horizon] == [Self.lastNote, Self.lastNote])
        #expect(try Self.value("format", url) == "5")
        #expect(try Self.value("epoch", url) != epoch)
        // A table that had one clock keeps its triggers.
        #expect(try Self.value("triggers.tour", url) == tour)
        let state = try Self.state(url)
        for word in ["owner_clocks", "owner_departures", "owner_moved", "owner:", "tideline_owner"]
        {
            #expect(!state.contains { $0.contains(word) })
        }
        let lines = reported.lines.filter { $0.contains("had a clock for each owner") }
        #expect(lines.count == 2)
        await store.stop()
    }

    @Test("Later writes of a server and of an external writer have later timestamps")
    func laterWrites() async throws {
        let url = try Self.database()
        let store = try await Self.store(url)
        var last = Self.lastTodo
        for (id, owner) in [("a9", "anna"), ("b9", "bert"), ("d1", "dora")] {
            var insert = WriteOperation(.insert, id: id)
            insert.values = [.text("new"), nil, .text(owner)]
            let write = WriteBatch.Write(insert, in: Table(Self.todo))
            let outcomes = try await store.write(WriteBatch([WriteBatch.Group([write])]))
            guard case .done(let done)? = outcomes.first, let row = done.first?.row else {
                Issue.record("\(outcomes)")
                return
            }
            #expect(row.state.version > last)
            last = row.state.version
        }
        let external = try PostgresConnection(PostgresAddress(url))
        try external.execute(
            """
            BEGIN;
            UPDATE "TodoItem" SET "text" = 'x' WHERE "id" IN ('a1', 'b1');
            UPDATE "TodoItem" SET "userId" = 'bert' WHERE "id" = 'a2';
            DELETE FROM "Note" WHERE "id" = 'na1';
            COMMIT
            """
        )
        let found = try external.run(
            """
            SELECT min("version"), bool_and("updatedAt" = tideline.instant("version"))
            FROM "TodoItem" WHERE "id" IN ('a1', 'b1', 'a2')
            """
        )
        #expect(found.integer(0, 0) > last && found.boolean(0, 1))
        let request = ChangeRequest(after: last, rowsMax: 100, bytesMax: 1 << 20)
        let changes = try await store.changes(request, in: Table(Self.todo))
        #expect(changes.rows == 3)
        let notes = ChangeRequest(after: Self.lastNote, rowsMax: 100, bytesMax: 1 << 20)
        #expect(try await store.changes(notes, in: Table(Self.note)).rows == 1)
        await store.stop()
    }

    @Test("A delta link of an owner clock is rejected like one of another epoch")
    func oldLinks() async throws {
        let server = try await TestServer(
            Self.tables,
            onPostgres: true,
            database: try Self.database(),
            authenticator: try Tokens.authenticator()
        )
        let anna = try Tokens.headers("anna")
        // The server of the dump gave it to this user.
        let link = "%24deltatoken=AQJRIoEHoPrksS23TIOTRs8ufdFH8DPVyxwABmEmP2U_rg"
        let answer = await server.send("GET", "/tables/TodoItem?" + link, headers: anna)
        #expect(answer.status == 410 && answer.text.contains("epochChanged"), "\(answer.text)")
        let list = await server.send("GET", "/tables/TodoItem", headers: anna)
        #expect(Set(list.rows.compactMap { $0["id"] as? String }) == ["a1", "a2"])
        await server.store.stop()
    }

    @Test("The second start changes nothing")
    func secondStart() async throws {
        let url = try Self.database()
        try await Self.store(url).stop()
        let state = try Self.state(url)
        try await Self.store(url).stop()
        #expect(try Self.state(url) == state)
    }

    @Test(
        "A row written without triggers gets a timestamp, and a dropped table blocks nothing"
    )
    func externalChanges() async throws {
        let url = try Self.database()
        let external = try PostgresConnection(PostgresAddress(url))
        try external.execute(
            """
            ALTER TABLE "TodoItem" DISABLE TRIGGER USER;
            INSERT INTO "TodoItem" ("id", "text", "userId") VALUES ('u1', 'x', 'anna');
            DROP TABLE "Note"
            """
        )
        for _ in 0..<2 {
            let store = try await Self.store(url, [Self.todo, Self.tour])
            let clock = try await store.clock(of: Table(Self.todo))
            let found = try external.run("SELECT \"version\" FROM \"TodoItem\" WHERE \"id\" = 'u1'")
            #expect(found.integer(0, 0) > Self.lastTodo && found.integer(0, 0) == clock.timestamp)
            await store.stop()
        }
    }

    // MARK: - No migration

    @Test(
        "A rejected start, an interrupted migration, and a dry run leave the database unchanged"
    )
    func theDatabaseIsUnchanged() async throws {
        let url = try Self.database()
        let state = try Self.state(url)
        var other = Self.todo
        other.schema.columns[0].type = .integer
        await #expect(throws: SchemaError.self) { _ = try await Self.store(url, [other]) }
        #expect(try Self.state(url) == state)

        let dry = try PostgresMaintenance(url: url).migrate(
            Self.tables,
            isComplete: true,
            isDry: true
        )
        #expect(dry.steps.map(\.kind) == [.removeOwnerClocks, .removeOwnerClocks])
        #expect(dry.statements.contains { $0.contains("DROP TABLE IF EXISTS") })
        #expect(try Self.state(url) == state)

        let holder = try PostgresConnection(PostgresAddress(url))
        try holder.execute("BEGIN; LOCK TABLE tideline.owner_moved IN ACCESS SHARE MODE")
        let migration = Task {
            try await onThread {
                _ = try PostgresMaintenance(url: url).migrate(
                    Self.tables,
                    isComplete: true,
                    isDry: false
                )
            }
        }
        // It has migrated the clocks, and is about to drop the tables.
        let number = try OwnedTable.number(of: holder)
        try await OwnedTable.waiting(url, for: number)
        try PostgresConnection(PostgresAddress(url)).run(
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND $1::int = ANY(pg_blocking_pids(pid))
            """,
            [.integer(number)]
        )
        await #expect(throws: DatabaseError.self) { try await migration.value }
        try holder.execute("COMMIT")
        #expect(try Self.state(url) == state)
        try await Self.store(url).stop()
        #expect(try Self.value("format", url) == "5")
    }

    @Test("Commands that read the tables fail until the server has migrated the database")
    func commands() throws {
        let url = try Self.database()
        let errors = [
            #expect(throws: DatabaseError.self) { try PostgresCopy(reading: url).state() },
            #expect(throws: DatabaseError.self) {
                try PostgresMaintenance(url: url).resetClocks(of: nil)
            },
            #expect(throws: DatabaseError.self) {
                try PostgresMaintenance(url: url).purgeTombstones(of: nil, olderThan: 0)
            },
        ]
        for error in errors {
            #expect(error?.code == .schemaChange)
            #expect(error?.message.contains("Start the server once") == true)
        }
    }
}

/// The lines of a log.
private final class LockedLines: Sendable {
    private let text = Mutex<[String]>([])

    var lines: [String] { text.withLock { $0 } }

    func add(_ line: String) { text.withLock { $0.append(line) } }
}
