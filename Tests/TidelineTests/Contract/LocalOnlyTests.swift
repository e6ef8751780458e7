// LocalOnlyTests: tables and columns that stay on the device are used like others, and are never sent.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct LocalOnlyTests {
    /// A table that stays on the device.
    struct Draft: SyncRecord, Hashable {
        var id = UUID().uuidString.lowercased()
        var text = ""
        var todo: String?
        static let isLocalOnly = true
        static let rules: [Rule<Draft>] = [.maxLength(\.text, 10)]
    }

    /// A synchronized table with columns that stay on the device.
    struct Task: SyncRecord, Hashable {
        var id = ""
        var text = ""
        var rank: Int?
        var isOpen = false
        var note: String?
        var updatedAt: Date?
        static let tableName = "Todo"
        static let localColumns: [PropertyPath<Task>] = [\.isOpen, \.note]
        static let rules: [Rule<Task>] = [.maxLength(\.note, 10)]
    }

    private func scene(
        _ server: InProcessServer,
        _ conflicts: ConflictPolicy = .fail,
        store: any LocalStore = MemoryStore()
    ) async throws -> (Device, SyncTable<Task>) {
        let device = try await Device(
            server.transport,
            store: store,
            conflicts: conflicts,
            tables: [Task.self, Draft.self]
        )
        return (device, try device.client.syncTable(Task.self))
    }

    /// Another device, which knows only the server's columns.
    private func other(_ server: InProcessServer) async throws -> (Device, SyncTable<Todo>) {
        let device = try await Device(server.transport)
        return (device, try device.todos())
    }

    private func stores() throws -> [any LocalStore] {
        [MemoryStore(), try SQLiteStore(path: ":memory:")]
    }

    // MARK: - Tables

    @Test("A local table can be changed, queried and observed, and none of its changes is queued")
    func tables() async throws {
        for store in try stores() {
            let (device, _) = try await scene(try await makeServer(), store: store)
            let drafts = try device.client.syncTable(Draft.self)
            try await drafts.insert(Draft(id: "a", text: "milk"))
            try await drafts.insert([Draft(id: "b", text: "tea"), Draft(text: "new")])
            try await drafts.update(id: "a") { $0.text = "soy" }
            // A record of a synchronized table would need a version.
            try await drafts.update(Draft(id: "b", text: "green tea"))
            #expect(try await drafts.read(where: { $0.text == "soy" }).map(\.id) == ["a"])
            var observed = drafts.observe(where: { $0.id == "b" }).makeAsyncIterator()
            #expect(try await observed.next()?.map(\.text) == ["green tea"])
            try await drafts.delete(id: "b")
            #expect(try await observed.next() == [])
            #expect(try await device.queue() == [])
            #expect(try await device.push() == nil)
            #expect(try await drafts.read().map(\.text).sorted() == ["new", "soy"])
            #expect(await code { try await drafts.insert(Draft(id: "a")) } == .alreadyExists)
            #expect(await code { try await drafts.update(id: "x") { _ in } } == .notFound)
            #expect(
                await code { try await drafts.insert(Draft(text: "12345678901")) } == .ruleBroken
            )
            #expect(await code { try await drafts.pull(queryID: nil) } == .unsupportedQuery)
            #expect(await code { try await drafts.verify(queryID: nil) } == .unsupportedQuery)
            #expect(await code { try await drafts.purge(force: true) } == .unsupportedQuery)
            #expect(try await drafts.read().count == 2)
        }
    }

    @Test("A transaction changes local and synchronized tables together, and sends only the latter")
    func transactions() async throws {
        let server = try await makeServer()
        let (device, tasks) = try await scene(server)
        let drafts = try device.client.syncTable(Draft.self)
        try await device.context.transaction { transaction in
            try transaction.table(Draft.self).insert(Draft(id: "d", todo: "a"))
            try transaction.table(Task.self).insert(Task(id: "a", text: "milk"))
            try transaction.table(Draft.self).upsert(Draft(id: "d", text: "x", todo: "a"))
        }
        #expect(try await device.queue() == ["insert a"])
        #expect(
            await code {
                try await device.context.transaction { transaction in
                    try transaction.table(Draft.self).delete(id: "d")
                    try transaction.table(Task.self).insert(Task(id: "a"))
                }
            } == .alreadyExists
        )
        #expect(try await drafts.read().map(\.text) == ["x"])
        #expect(try await device.push() == nil)
        #expect(try await tasks.read(id: "a")?.text == "milk")
        #expect(try await drafts.read().count == 1)
    }

    // MARK: - Columns

    @Test("A change of local columns is stored, checked and not queued")
    func onlyLocal() async throws {
        for store in try stores() {
            let server = try await makeServer()
            let (device, tasks) = try await scene(server, store: store)
            try await tasks.insert(Task(id: "a", text: "milk", isOpen: true, note: "mine"))
            #expect(try await device.push() == nil)
            var stored = try #require(try await tasks.read(id: "a"))
            #expect(stored.isOpen && stored.note == "mine" && stored.updatedAt != nil)
            try await tasks.update(id: "a") { $0.note = "other" }
            stored.isOpen = false
            stored.note = "third"
            try await tasks.update(stored)
            #expect(try await device.queue() == [])
            #expect(try await tasks.read(where: { $0.note == "third" }).count == 1)
            #expect(
                await code { try await tasks.update(id: "a") { $0.note = "12345678901" } }
                    == .ruleBroken
            )
            let (_, todos) = try await other(server)
            try await todos.pull(queryID: nil)
            let row = try #require(
                try await server.transport.rows("Todo").first
            )
            #expect(row["text"] == "milk" && row["note"] == nil && row["isOpen"] == nil)
        }
    }

    @Test("Local columns keep their values through pulls, pushes, edits in flight and conflicts")
    func kept() async throws {
        for store in try stores() {
            let server = try await makeServer()
            let (device, tasks) = try await scene(server, .serverWins, store: store)
            let (second, todos) = try await other(server)
            try await tasks.insert(["a", "b"].map { Task(id: $0, text: "1", note: $0) })
            #expect(try await device.push() == nil)
            try await todos.pull(queryID: "all")
            try await tasks.pull(queryID: "all")
            // The server's row replaces the local one.
            try await todos.update(id: "a") { $0.text = "2" }
            #expect(try await second.push() == nil)
            try await tasks.pull(queryID: "all")
            #expect(try await tasks.read(id: "a").map { [$0.text, $0.note] } == ["2", "a"])
            // A conflict that the server wins.
            try await todos.update(id: "b") { $0.text = "3" }
            #expect(try await second.push() == nil)
            try await tasks.update(id: "b") {
                $0.text = "4"
                $0.note = "new"
            }
            #expect(try await device.push() == nil)
            #expect(try await tasks.read(id: "b").map { [$0.text, $0.note] } == ["3", "new"])
            // A pull while an operation is pending, and a first pull of another query.
            try await tasks.update(id: "a") { $0.rank = 5 }
            try await tasks.update(id: "a") { $0.note = "later" }
            try await tasks.pull(queryID: "more")
            #expect(try await tasks.read(id: "a")?.note == "later")
            let result = try await tasks.verify(queryID: nil, repair: true)
            #expect(result.isEqual)
            #expect(try await tasks.read().map(\.note) == ["later", "new"])
            #expect(try await device.queue() == [])
        }
    }

    @Test("A conflict compares and merges only the columns that the server has")
    func conflicts() async throws {
        let server = try await makeServer()
        let (device, tasks) = try await scene(server, .merge)
        let (second, todos) = try await other(server)
        try await tasks.insert(Task(id: "a", text: "1", note: "x"))
        #expect(try await device.push() == nil)
        try await todos.pull(queryID: nil)
        try await todos.update(id: "a") { $0.text = "2" }
        #expect(try await second.push() == nil)
        try await tasks.update(id: "a") {
            $0.rank = 1
            $0.note = "y"
            $0.isOpen = true
        }
        #expect(try await device.push() == nil)
        let merged = try #require(try await tasks.read(id: "a"))
        #expect(merged.text == "2" && merged.rank == 1 && merged.note == "y" && merged.isOpen)
        try await todos.pull(queryID: nil)
        try await todos.update(id: "a") { $0.text = "3" }
        #expect(try await second.push() == nil)
        try await tasks.update(id: "a") { $0.text = "4" }
        #expect(try await device.push()?.status == .operationErrors)
        let error = try #require(try await device.context.operationErrors().first)
        #expect(error.differingColumns == ["text"])
        #expect(error.item?["note"] == "y")
        try await error.cancelOperationAndDiscardItem()
        #expect(try await tasks.read(id: "a").map { [$0.text, $0.note] } == ["3", "y"])
    }

    @Test("A row that was inserted during a pull without a query ID keeps its local values")
    func insertedDuringAPull() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport, tables: [Task.self])
        let tasks = try device.client.syncTable(Task.self)
        transport.add(
            .run { _ in
                try await tasks.insert(Task(id: "n", text: "1", note: "mine"))
                return page([])
            },
            .json(201, serverRow("n", 4)),
            page([])
        )
        try await tasks.pull(queryID: nil)
        #expect(try await device.push() == nil)
        try await tasks.pull(queryID: "seventh", where: { $0.rank == 7 })
        #expect(try await tasks.read().map(\.note) == ["mine"])
    }

    @Test("A row that is removed from the device loses its local values")
    func gone() async throws {
        let server = try await makeServer()
        let (device, tasks) = try await scene(server)
        let (second, todos) = try await other(server)
        try await tasks.insert(Task(id: "a", text: "1", note: "x"))
        #expect(try await device.push() == nil)
        try await tasks.pull(queryID: "all")
        try await todos.pull(queryID: nil)
        try await todos.delete(id: "a")
        #expect(try await second.push() == nil)
        try await tasks.pull(queryID: "all")
        #expect(try await tasks.read().isEmpty)
        try await todos.insert(Todo(id: "a", text: "again"))
        #expect(try await second.push() == nil)
        try await tasks.pull(queryID: "all")
        #expect(try await tasks.read(id: "a").map { [$0.text, $0.note] } == ["again", nil])
    }

    @Test("A server with columns of the same names does not change the values on the device")
    func sameNames() async throws {
        let server = try await InProcessServer(tables: [
            TableDefinition(
                "Todo",
                columns: [
                    ColumnDefinition("text", .string), ColumnDefinition("rank", .integer),
                    ColumnDefinition("note", .string), ColumnDefinition("isOpen", .boolean),
                ]
            )
        ])
        let (device, tasks) = try await scene(server)
        try await tasks.insert(Task(id: "a", text: "1", isOpen: true, note: "mine"))
        #expect(try await device.push() == nil)
        let row = try #require(try await server.transport.rows("Todo").first)
        #expect(row["note"] == .null && row["isOpen"] == .null)
        try await tasks.pull(queryID: "all")
        #expect(try await tasks.read(id: "a").map { $0.isOpen && $0.note == "mine" } == true)
    }

    @Test("A change of only local columns is a new value of an observation, and is not queued")
    func observed() async throws {
        for store in try stores() {
            let (device, tasks) = try await scene(try await makeServer(), store: store)
            try await tasks.insert(Task(id: "a", text: "milk"))
            #expect(try await device.push() == nil)
            var lists = tasks.observe(where: { $0.text == "milk" }).makeAsyncIterator()
            #expect(try await lists.next()?.map(\.note) == [nil])
            var open = tasks.observe(where: { $0.isOpen }).makeAsyncIterator()
            #expect(try await open.next() == [])
            try await tasks.update(id: "a") { $0.note = "mine" }
            #expect(try await lists.next()?.map(\.note) == ["mine"])
            try await tasks.update(id: "a") { $0.isOpen = true }
            #expect(try await lists.next()?.map(\.isOpen) == [true])
            #expect(try await open.next()?.map(\.id) == ["a"])
            #expect(try await device.queue() == [])
        }
    }

    @Test("A verification counts and repairs only rows whose synced columns differ")
    func verified() async throws {
        for store in try stores() {
            let server = try await makeServer()
            let (device, tasks) = try await scene(server, store: store)
            let (second, todos) = try await other(server)
            try await tasks.insert(["a", "b", "c"].map { Task(id: $0, text: "1", note: $0) })
            #expect(try await device.push() == nil)
            try await tasks.pull(queryID: "all")
            try await todos.pull(queryID: nil)
            try await todos.update(id: "b") { $0.text = "2" }
            #expect(try await second.push() == nil)
            let result = try await tasks.verify(queryID: "all", repair: true)
            #expect(result.missing == 0)
            #expect(result.different == 1)
            #expect(result.surplus == 0)
            #expect(result.repaired == 1)
            #expect(try await tasks.read().map(\.text) == ["1", "2", "1"])
            #expect(try await tasks.read().map(\.note) == ["a", "b", "c"])
            #expect(try await tasks.verify(queryID: "all").isEqual)
        }
    }

    @Test("Local values alone do not make a row lost after a restore")
    func restored() async throws {
        try await withRestorableServer { server in
            let device = try await Device(server, tables: [Task.self])
            let tasks = try device.client.syncTable(Task.self)
            try await tasks.insert(["a", "b"].map { Task(id: $0, text: "1", note: $0) })
            #expect(try await device.push() == nil)
            let backup = try server.backup()
            for id in ["a", "b"] { try await tasks.update(id: id) { $0.text = "2" } }
            #expect(try await device.push() == nil)
            try await tasks.pull(queryID: "all")
            try await server.restore(backup)
            let second = try await Device(server)
            try await second.todos().pull(queryID: "all")
            try await second.todos().update(id: "a") { $0.text = "2" }
            #expect(try await second.push() == nil)
            #expect(try await tasks.pull(queryID: "all").lost == 1)
            let lost = try await device.context.lostRows()
            #expect(lost.map(\.itemID) == ["b"])
            #expect(lost.map(\.differingColumns) == [["text"]])
            #expect(try await tasks.read().map(\.note) == ["a", "b"])
        }
    }

    @Test("An item that resolves an error sets the local columns that it has, and keeps the others")
    func resolved() async throws {
        let ids = ["a", "b", "c", "d"]
        let server = try await makeServer()
        let (device, tasks) = try await scene(server)
        let (second, todos) = try await other(server)
        try await tasks.insert(ids.map { Task(id: $0, text: "1", note: $0) })
        #expect(try await device.push() == nil)
        try await todos.pull(queryID: nil)
        for id in ids { try await todos.update(id: id) { $0.text = "2" } }
        #expect(try await second.push() == nil)
        for id in ids { try await tasks.update(id: id) { $0.text = "3" } }
        #expect(try await device.push()?.status == .operationErrors)
        // Local columns can change while the errors wait.
        for id in ids { try await tasks.update(id: id) { $0.note = id + "!" } }
        let errors = try await device.context.operationErrors()
        try #require(errors.map(\.itemID) == ids)
        #expect(errors.map { $0.item?["note"]?.text } == ["a!", "b!", "c!", "d!"])
        #expect(errors.map { $0.serverItem?["note"]?.text } == ["a!", "b!", "c!", "d!"])
        let plain: Row = ["id": "a", "text": "2"]
        try await errors[0].cancelOperationAndUpdateItem(plain)
        var theirs = try #require(errors[1].serverItem).decode(Task.self)
        theirs.note = "set"
        try await errors[1].cancelOperationAndUpdateItem(theirs)
        var mine = try #require(errors[2].item).decode(Task.self)
        mine.text = "4"
        mine.note = "new"
        try await errors[2].updateOperationAndRetry(with: mine)
        try await errors[3].keepMine()
        for id in ["a", "b"] {
            let why = try await device.context.explain(table: "Todo", id: id)
            #expect(why.has(.serverVersion) && !why.has(.changedHere))
        }
        #expect(try await device.push() == nil)
        #expect(try await tasks.read().map(\.text) == ["2", "2", "4", "3"])
        #expect(try await tasks.read().map(\.note) == ["a!", "set", "new", "d!"])
        let rows = try await server.transport.rows("Todo").sorted { $0.id < $1.id }
        #expect(rows.map { $0["text"]?.text } == ["2", "2", "4", "3"])
        #expect(rows.allSatisfy { $0["note"] == nil })
    }

    @Test("A preview has the local columns of its seed")
    func preview() async throws {
        let seed = Task(id: "a", text: "milk", isOpen: true, note: "mine")
        let client = try await SyncClient.preview(seed: [seed])
        let task = try #require(try await client.syncTable(Task.self).read(id: "a"))
        #expect(task.isOpen && task.note == "mine")
    }

    @Test("An explanation of a row in a local table advises neither a pull nor a purge")
    func explained() async throws {
        let (device, _) = try await scene(try await makeServer())
        try await device.client.syncTable(Draft.self).insert(Draft(id: "a"))
        let cases: [(id: String, presence: RowExplanation.Code)] = [("a", .here), ("b", .absent)]
        for (id, presence) in cases {
            let why = try await device.context.explain(table: "Draft", id: id)
            #expect(why.reasons.map(\.code) == [presence, .localOnly])
            #expect(why.description.hasSuffix("its rows are neither pulled nor sent."))
        }
    }

    // MARK: - Remote tables

    @Test("A remote table neither sends nor reads local columns, and returns the caller's values")
    func remote() async throws {
        let more = #","note":"theirs","isOpen":true"#
        let transport = ScriptedTransport([
            .json(201, serverRow("a", 1, more)), .json(200, serverRow("a", 2, more)),
            .json(200, serverRow("a", 2, more)), .json(200, serverRow("a", 3, more)),
            .json(200, serverRow("a", 3, more)), page([serverRow("a", 3, more)]),
        ])
        let tasks = SyncClient(endpoint: Device.endpoint, transport: transport).table(Task.self)
        let created = try await tasks.insert(Task(id: "a", text: "x", note: "mine"))
        #expect(created.text == "server" && created.note == "mine" && !created.isOpen)
        var changed = created
        changed.note = "new"
        #expect(try await tasks.update(changed).note == "new")
        let third = try await tasks.update(id: "a") { task in
            task.rank = 4
            task.note = "third"
        }
        #expect(third.note == "third")
        let read = try #require(try await tasks.read(id: "a"))
        #expect(read.note == nil && !read.isOpen)
        #expect(try await tasks.read().map(\.note) == [nil])
        #expect(
            transport.sent.map(\.description) == [
                #"POST /tables/Todo - {"id":"a","text":"x","rank":null}"#,
                #"PATCH /tables/Todo/a - {"text":"server","rank":null}"#,
                "GET /tables/Todo/a - -", #"PATCH /tables/Todo/a "v2" {"rank":4}"#,
                "GET /tables/Todo/a - -", "GET /tables/Todo - -",
            ]
        )
    }

    @Test("Every call of a remote table for a local-only table throws before a request is sent")
    func remoteLocal() async throws {
        let transport = ScriptedTransport()
        let drafts = SyncClient(endpoint: Device.endpoint, transport: transport).table(Draft.self)
        let draft = Draft(id: "a")
        let codes = [
            await code { try await drafts.insert(draft) },
            await code { try await drafts.update(draft) },
            await code { try await drafts.update(id: "a") { $0.text = "x" } },
            await code { try await drafts.delete(draft) },
            await code { try await drafts.delete(id: "a") },
            await code { try await drafts.undelete(id: "a") },
            await code { _ = try await drafts.read(id: "a") },
            await code { _ = try await drafts.read() },
            await code { _ = try await drafts.count() },
        ]
        #expect(codes == [SyncError.Code?](repeating: .unsupportedQuery, count: 9))
        #expect(transport.sent.isEmpty)
    }

    // MARK: - The contract

    private struct Wrong: SyncRecord {
        var id = ""
        var number = ""
        static let localColumns: [PropertyPath<Wrong>] = [\.number]
        static let rules: [Rule<Wrong>] = [.unique(\.number)]
    }

    @Test(
        "Local tables and columns are not part of the schema document, and have no rules"
    )
    func document() throws {
        let document = try SchemaDocument(of: [Task.self, Draft.self])
        #expect(document.tables.map(\.name) == ["Todo"])
        #expect(document.tables[0].schema.columns.map(\.name) == ["text", "rank"])
        let error = #expect(throws: SyncError.self) { try RecordSchema.of(Wrong.self) }
        #expect(error?.code == .invalidModel)
    }
}

extension InProcessTransport {
    /// The rows of a table as the server sends them.
    fileprivate func rows(_ table: String) async throws -> [Row] {
        let response = try await send(
            TransportRequest(
                url: Device.endpoint.appending(path: "tables/\(table)"),
                headers: ["ZUMO-API-VERSION": "3.0.0"]
            )
        )
        return try #require(PulledPage(response, schema: nil)).rows
    }
}
