// CascadeStepTests: a delete that concerns too many rows for one transaction is continued in steps, on both databases.

import Dispatch
import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelinePostgres
import TidelineSQLite
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit

@Suite struct CascadeStepTests {
    /// A database that several servers may open, one after the other.
    private struct Place {
        var directory: String
        var url: String?
        var name = "a.db"

        var path: String { directory + "/" + name }

        func server(
            _ tables: [TableDefinition] = FieldService.tables(),
            restrictRows: Int = ServerLimits().restrictRows,
            relay: ((any TableStore) -> any TableStore)? = nil
        ) async throws -> TestServer {
            var limits = ServerLimits()
            limits.cascadeRows = 3
            limits.restrictRows = restrictRows
            return try await TestServer(
                tables,
                path: url == nil ? path : nil,
                onPostgres: url != nil,
                database: url,
                limits: limits,
                relay: relay
            )
        }

        /// Runs a statement as another program.
        func run(_ sqlite: String, postgres: String) throws {
            guard let url else { return try Database(path: path, mode: .existing).execute(sqlite) }
            try PostgresConnection(PostgresAddress(url)).execute(postgres)
        }

        /// The number of pending entries.
        func pending() throws -> Int {
            guard let url else {
                let sql = "SELECT count(*) FROM \"tideline_cascades\""
                let database = try Database(path: path, mode: .existing)
                return Int(try database.integer(sql) ?? 0)
            }
            let psql = try PostgresConnection(PostgresAddress(url))
            return Int(try psql.run("SELECT count(*) FROM tideline.cascades").integer(0, 0))
        }
    }

    private static func with(
        _ onPostgres: Bool,
        _ body: (Place) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            let url = onPostgres ? try PostgresCluster.shared().database() : nil
            try await body(Place(directory: directory, url: url))
        }
    }

    /// Stores a customer with five jobs, each with two visits, and three notes.
    private static func fill(_ server: TestServer) async {
        func put(_ table: String, _ id: String, _ values: [String: String?] = [:]) async {
            let answer = await server.send(
                "POST",
                "/tables/\(table)",
                FieldService.json(id, values)
            )
            #expect(answer.status == 201)
        }
        for customer in ["c", "d"] {
            await put("Customer", customer)
            for job in 1...5 {
                await put("Job", "\(customer)\(job)", ["customerID": customer])
                for visit in ["x", "y"] {
                    let id = "\(customer)\(job)"
                    await put("Visit", id + visit, ["jobID": id])
                }
            }
            for note in 1...3 { await put("Note", "\(customer)\(note)", ["customerID": customer]) }
        }
    }

    private static func ids(_ table: String, _ server: TestServer) async -> [String] {
        await server.send("GET", "/tables/\(table)?$orderby=id").ids
    }

    /// Waits until the rows of the first customer are gone, and checks the others.
    private static func expectDone(_ server: TestServer, _ place: Place) async throws {
        try await until { try place.pending() == 0 }
        #expect(await ids("Customer", server) == ["d"])
        #expect(await ids("Job", server) == ["d1", "d2", "d3", "d4", "d5"])
        #expect(await ids("Visit", server).count == 10)
        let notes = await server.send("GET", "/tables/Note?$filter=customerID eq null")
        #expect(notes.ids.sorted() == ["c1", "c2", "c3"])
    }

    @Test(
        "The steps of a cascade delete all rows, and devices learn of each delete",
        arguments: FieldService.backends
    )
    func steps(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres) { place in
            let server = try await place.server()
            await Self.fill(server)
            let link = try await FieldService.deltaLink("Visit") { target, headers in
                await server.send("GET", target, headers: headers)
            }
            #expect(await server.send("DELETE", "/tables/Customer/c").status == 204)
            try await Self.expectDone(server, place)
            let changes = await server.send("GET", link)
            #expect(changes.ids.count == 10 && changes.ids.allSatisfy { $0.hasPrefix("c") })
            await server.store.stop()
        }
    }

    @Test(
        "A cascade continues after a crash between any two steps",
        arguments: FieldService.backends,
        1...5
    )
    func crashes(_ onPostgres: Bool, _ step: Int) async throws {
        try await Self.with(onPostgres) { place in
            let count = Mutex(0)
            let reached = Flag()
            let gate = DispatchSemaphore(value: 0)
            // The first call is the search at the start.
            let server = try await place.server { store in
                RelayedStore(store) {
                    let number = count.withLock { count in
                        count += 1
                        return count
                    }
                    guard number == step + 1 else { return }
                    reached.set()
                    gate.wait()
                }
            }
            await Self.fill(server)
            try await until { count.withLock { $0 } >= 1 }
            #expect(await server.send("DELETE", "/tables/Customer/c").status == 204)
            try await until { reached.isSet }
            // The writer is stopped between two steps: its database is as a crash leaves it.
            #expect(try place.pending() > 0)
            var other = place
            if !onPostgres {
                other.name = "b.db"
                for part in ["", "-wal"] {
                    try FileManager.default.copyItem(
                        atPath: place.path + part,
                        toPath: other.path + part
                    )
                }
            }
            let next = try await other.server()
            try await Self.expectDone(next, other)
            gate.signal()
            await server.store.stop()
            await next.store.stop()
        }
    }

    @Test(
        "A row that a pending cascade will delete cannot get children",
        arguments: FieldService.backends
    )
    func newChildren(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres) { place in
            let relayed = Mutex<RelayedStore?>(nil)
            let server = try await place.server { store in
                let created = RelayedStore(store, holdsCascades: true)
                relayed.withLock { $0 = created }
                return created
            }
            await Self.fill(server)
            #expect(await server.send("DELETE", "/tables/Customer/c").status == 204)
            #expect(await Self.ids("Job", server).count == 10)
            for (table, column, parent) in [
                ("Job", "customerID", "c"), ("Visit", "jobID", "c1"), ("Invoice", "jobID", "c1"),
                ("Visit", "nextID", "c1x"),
            ] {
                let body = FieldService.json("new", [column: parent])
                let rejected = await server.send("POST", "/tables/\(table)", body)
                #expect(rejected.code == "parentNotFound")
            }
            let body = FieldService.json("new", ["jobID": "d1"])
            #expect(await server.send("POST", "/tables/Visit", body).status == 201)
            #expect(await server.send("DELETE", "/tables/Visit/new").status == 204)
            try await relayed.withLock { $0 }?.releaseCascades()
            try await Self.expectDone(server, place)
            await server.store.stop()
        }
    }

    @Test(
        "A row that is restored during a cascade keeps the children that are left",
        arguments: FieldService.backends
    )
    func restored(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres) { place in
            let relayed = Mutex<RelayedStore?>(nil)
            let server = try await place.server { store in
                let created = RelayedStore(store, holdsCascades: true)
                relayed.withLock { $0 = created }
                return created
            }
            await Self.fill(server)
            #expect(await server.send("DELETE", "/tables/Customer/c").status == 204)
            let restore = #"{"deleted":false}"#
            #expect(await server.send("PATCH", "/tables/Customer/c", restore).status == 200)
            try await relayed.withLock { $0 }?.releaseCascades()
            try await until { try place.pending() == 0 }
            #expect(await Self.ids("Job", server).count == 10)
            #expect(await Self.ids("Visit", server).count == 20)
            await server.store.stop()
        }
    }

    @Test(
        "A row that is restored and then deleted with its parent loses its children",
        arguments: FieldService.backends,
        [("Folder", "Folder"), ("Zone", "Project")]
    )
    func restoredAndDeleted(_ onPostgres: Bool, names: (String, String)) async throws {
        let (top, middle) = names
        func table(_ name: String, _ parent: String?) -> TableDefinition {
            let reference = parent.map { TableReference("parentID", to: $0, onDelete: .cascade) }
            return TableDefinition(
                name,
                columns: [ColumnDefinition("parentID", .string)],
                references: [reference].compactMap(\.self)
            )
        }
        let isOne = top == middle
        let leaf = isOne ? top : "Task"
        let tables =
            isOne
            ? [table(top, top)] : [table(top, nil), table(middle, top), table(leaf, middle)]
        try await Self.with(onPostgres) { place in
            let relayed = Mutex<RelayedStore?>(nil)
            let server = try await place.server(tables) { store in
                let created = RelayedStore(store, holdsCascades: true)
                relayed.withLock { $0 = created }
                return created
            }
            func put(_ table: String, _ id: String, _ parent: String?) async {
                let row = FieldService.json(id, parent.map { ["parentID": $0] } ?? [:])
                #expect(await server.send("POST", "/tables/\(table)", row).status == 201)
            }
            await put(top, "p", nil)
            await put(middle, "x", "p")
            for number in 1...8 { await put(leaf, "t\(number)", "x") }
            #expect(await server.send("DELETE", "/tables/\(middle)/x").status == 204)
            let restore = #"{"deleted":false}"#
            #expect(await server.send("PATCH", "/tables/\(middle)/x", restore).status == 200)
            // Only the deletes of more than three rows are continued in steps.
            #expect(await server.send("DELETE", "/tables/\(top)/p").status == 204)
            try await relayed.withLock { $0 }?.releaseCascades()
            try await until { try place.pending() == 0 }
            #expect(await Self.ids(top, server) == [])
            #expect(await Self.ids(leaf, server) == [])
            await server.store.stop()
        }
    }

    @Test("A restriction deep in a large tree rejects the delete", arguments: FieldService.backends)
    func restriction(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres) { place in
            let server = try await place.server()
            await Self.fill(server)
            let invoice = FieldService.json("i", ["jobID": "c4"])
            #expect(await server.send("POST", "/tables/Invoice", invoice).status == 201)
            let rejected = await server.send("DELETE", "/tables/Customer/c")
            #expect(rejected.referenceError == "409 rowIsReferenced jobID Invoice")
            #expect(try place.pending() == 0)
            #expect(await Self.ids("Job", server).count == 10)
            #expect(await server.send("DELETE", "/tables/Invoice/i").status == 204)
            #expect(await server.send("DELETE", "/tables/Customer/c").status == 204)
            try await Self.expectDone(server, place)
            await server.store.stop()
        }
    }

    @Test(
        "A delete of more rows than limits.restrictRows is rejected alone",
        arguments: FieldService.backends
    )
    func restrictRows(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres) { place in
            // The customer with its five jobs and their ten visits.
            let server = try await place.server(restrictRows: 14)
            await Self.fill(server)
            let answer = await server.batch(
                [
                    BatchPart("1", "POST", "/tables/Customer", FieldService.json("e", [:])),
                    BatchPart("2", "DELETE", "/tables/Customer/c"),
                    BatchPart("3", "POST", "/tables/Customer", FieldService.json("f", [:])),
                ],
                continuing: true
            )
            #expect(answer.partStatuses == [201, 409, 201])
            #expect(answer.partCodes == [nil, "rowIsReferenced", nil])
            let rejected = await server.send("DELETE", "/tables/Customer/c")
            #expect(rejected.referenceError == "409 rowIsReferenced jobID Invoice")
            #expect(rejected.text.contains("more than 14 rows (limits.restrictRows)"))
            #expect(try place.pending() == 0)
            #expect(await Self.ids("Job", server).count == 10)
            // A restriction that is found among the first rows is named.
            let invoice = FieldService.json("i", ["jobID": "c1"])
            #expect(await server.send("POST", "/tables/Invoice", invoice).status == 201)
            let found = await server.send("DELETE", "/tables/Customer/c")
            #expect(found.text.contains("refer to the row by 'jobID'"))
            #expect(await server.send("DELETE", "/tables/Invoice/i").status == 204)
            // In parts, the delete is possible.
            #expect(await server.send("DELETE", "/tables/Visit/c1x").status == 204)
            for customer in ["c", "e", "f"] {
                #expect(await server.send("DELETE", "/tables/Customer/\(customer)").status == 204)
            }
            try await Self.expectDone(server, place)
            await server.store.stop()
        }
    }

    @Test(
        "A cascade deletes the rows of tables without tombstones, too",
        arguments: FieldService.backends
    )
    func hardDeletes(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres) { place in
            let tables = FieldService.tables { tables in
                for place in tables.indices { tables[place].softDelete = false }
            }
            let server = try await place.server(tables)
            await Self.fill(server)
            #expect(await server.send("DELETE", "/tables/Customer/c").status == 204)
            try await Self.expectDone(server, place)
            await server.store.stop()
        }
    }

    @Test(
        "A restricting row of the same transaction rejects the delete of a large tree",
        arguments: FieldService.backends
    )
    func restrictionOfTheSameTransaction(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres) { place in
            let server = try await place.server()
            await Self.fill(server)
            let invoice = FieldService.json("i", ["jobID": "c4"])
            let answer = await server.batch(
                [
                    BatchPart("1", "POST", "/tables/Invoice", invoice),
                    BatchPart("2", "DELETE", "/tables/Customer/c"),
                    BatchPart("3", "POST", "/tables/Customer", FieldService.json("e", [:])),
                ],
                continuing: true
            )
            #expect(answer.partStatuses == [201, 409, 201])
            #expect(answer.partCodes == [nil, "rowIsReferenced", nil])
            #expect(try place.pending() == 0)
            #expect(await Self.ids("Invoice", server) == ["i"])
            #expect(await Self.ids("Job", server).count == 10)
            await server.store.stop()
        }
    }

    @Test(
        "A row that an external writer protects stops only its own cascade",
        arguments: FieldService.backends
    )
    func protectedRow(_ onPostgres: Bool) async throws {
        try await Self.with(onPostgres) { place in
            let server = try await place.server()
            await Self.fill(server)
            try place.run(
                """
                CREATE TRIGGER mine BEFORE UPDATE ON Job WHEN OLD.id = 'c2'
                BEGIN SELECT RAISE(ABORT, 'kept'); END
                """,
                postgres: """
                    CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF OLD.id = 'c2' THEN RAISE EXCEPTION 'kept'; END IF; RETURN NEW; END $$;
                    CREATE TRIGGER mine BEFORE UPDATE ON "Job" FOR EACH ROW EXECUTE FUNCTION mine()
                    """
            )
            #expect(await server.send("DELETE", "/tables/Customer/c").status == 204)
            #expect(await server.send("DELETE", "/tables/Customer/d").status == 204)
            try await until {
                let jobs = await Self.ids("Job", server)
                return !jobs.contains { $0.hasPrefix("d") }
            }
            #expect(await Self.ids("Job", server).contains("c2"))
            #expect(try place.pending() > 0)
            try place.run("DROP TRIGGER mine", postgres: "DROP TRIGGER mine ON \"Job\"")
            try await until { try place.pending() == 0 }
            #expect(await Self.ids("Job", server).isEmpty)
            #expect(await Self.ids("Visit", server).isEmpty)
            await server.store.stop()
        }
    }
    @Test("A store without a thread for cascades continues a failed cascade with a later write")
    func inline() async throws {
        try await withTemporaryDirectory { directory in
            let place = Place(directory: directory)
            var options = SQLiteTableStore.Options()
            options.inline = true
            options.limits.cascadeRows = 3
            let store = try SQLiteTableStore(path: place.path, options: options)
            let server = try await TestServer(FieldService.tables(), relay: { _ in store })
            await Self.fill(server)
            try place.run(
                """
                CREATE TRIGGER mine BEFORE UPDATE ON Job WHEN OLD.id = 'c2'
                BEGIN SELECT RAISE(ABORT, 'kept'); END
                """,
                postgres: ""
            )
            #expect(await server.send("DELETE", "/tables/Customer/c").status == 204)
            #expect(try place.pending() > 0)
            try place.run("DROP TRIGGER mine", postgres: "")
            try await until {
                let patched = await server.send("PATCH", "/tables/Customer/d", #"{"name":"x"}"#)
                return try patched.status == 200 && place.pending() == 0
            }
            #expect(await !Self.ids("Job", server).contains { $0.hasPrefix("c") })
            await server.store.stop()
        }
    }
}
