// Values of the server are stored unchanged, whatever columns the model declares, and filters find them as soon as the
// model has their column.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct KeptAsItCameTests {
    private let transport = ScriptedTransport()

    private static let schema = TableSchema(
        name: "Odd",
        columns: [
            ColumnDefinition("text", .string), ColumnDefinition("rank", .integer),
            ColumnDefinition("size", .number), ColumnDefinition("price", .decimal),
            ColumnDefinition("done", .boolean), ColumnDefinition("due", .dateTime),
            ColumnDefinition("shape", .json), ColumnDefinition("bytes", .binary),
            ColumnDefinition("note", .string),
        ]
    )

    private static let values: [(String, String, Value)] = [
        ("text", "5", .integer(5)), ("text", "5.5", .number(5.5)), ("text", "true", .bool(true)),
        ("text", "{\"a\": 1}", .json(JSON(checked: "{\"a\":1}"))), ("text", "\"007\"", "007"),
        ("rank", "\"007\"", "007"), ("rank", "\"seven\"", "seven"), ("rank", "true", .bool(true)),
        ("rank", "7.5", .number(7.5)), ("rank", "7", .integer(7)),
        ("size", "\"1e3\"", "1e3"), ("size", "false", .bool(false)), ("size", "2", .number(2)),
        ("done", "1", .integer(1)), ("done", "\"1\"", "1"), ("done", "true", .bool(true)),
        ("due", "5", .integer(5)), ("due", "\"5\"", "5"), ("due", "true", .bool(true)),
        ("shape", "true", .json(JSON(checked: "true"))),
        ("shape", "\"x\"", .json(JSON(checked: "\"x\""))),
        ("bytes", "7", .integer(7)), ("bytes", "\"?\"", "?"),
    ]

    @Test(
        "An edit of one column does not send values of other types in other columns",
        arguments: [true, false]
    )
    func anEditOfOneColumnSendsThatColumn(inMemory: Bool) async throws {
        let store: any LocalStore =
            inMemory ? MemoryStore() : try SQLiteStore(path: ":memory:", inline: true)
        let device = try await Device(transport, store: store, tables: [], schemas: [Self.schema])
        let odd = try device.client.syncTable(named: "Odd")
        let rows = Self.values.enumerated().map { index, value in
            "{\"id\":\"r\(index)\",\"version\":\"v1\",\"updatedAt\":\"\(timestamp(1))\","
                + "\"\(value.0)\":\(value.1)}"
        }
        transport.add(page(rows))
        try await odd.pull(queryID: "all")
        for (index, value) in Self.values.enumerated() {
            let id = "r\(index)"
            #expect(try await odd.read(id: id)?[value.0] == value.2, "\(value)")
            try await odd.update(id: id) { $0["note"] = "n" }
            transport.add(
                .json(
                    200,
                    "{\"id\":\"\(id)\",\"version\":\"v2\",\"\(value.0)\":\(value.1),"
                        + "\"note\":\"n\"}"
                )
            )
            try await device.context.push()
            #expect(transport.sent.last?.body == "{\"note\":\"n\"}", "\(value)")
        }
    }

    private struct Before: SyncRecord {
        static let tableName = "Odd"
        var id = ""
        var rank = ""
    }

    private struct After: SyncRecord, Hashable {
        static let tableName = "Odd"
        var id = ""
        var text: String?
        var rank = 0
        var due: Date?
    }

    /// A model that gains a column, and one that changes a column's type.
    @Test("Filters find the values of a column that a model gains")
    func aColumnThatAModelGainsIsFoundByFilters() async throws {
        try await withTemporaryFile { path in
            let first = try await Device(
                transport,
                store: SQLiteStore(path: path),
                tables: [Before.self]
            )
            transport.add(
                page([
                    "{\"id\":\"a\",\"text\":\"x\",\"rank\":\"7\"}",
                    "{\"id\":\"b\",\"text\":\"y\",\"rank\":8}",
                    "{\"id\":\"c\",\"text\":4,\"rank\":9}", "{\"id\":\"d\",\"rank\":\"ten\"}",
                ])
            )
            try await first.client.syncTable(Before.self).pull(queryID: "all")
            try await (first.store as? SQLiteStore)?.close()
            do {
                let database = try Database(path: path)
                try database.execute("CREATE INDEX mine ON Odd (rank)")
            }
            for _ in 0..<2 {
                let store = try SQLiteStore(path: path)
                let second = try await Device(transport, store: store, tables: [After.self])
                let odd = try second.client.syncTable(After.self)
                let ids = try await odd.read(where: { $0.text == "y" }).map(\.id)
                #expect(ids == ["b"])
                let ranked = try await odd.read(
                    where: { $0.rank >= 7 },
                    sortedBy: [.descending(\.rank)],
                    onDecodingFailure: .skip
                )
                #expect(ranked.map(\.id) == ["b", "a"])
                let rows = try second.client.syncTable(named: "Odd")
                #expect(try await rows.read(id: "c")?["text"] == .integer(4))
                #expect(try await rows.read(id: "d")?["rank"] == "ten")
                try await store.close()
            }
            let database = try Database(path: path)
            #expect(
                try database.integer("SELECT count(*) FROM sqlite_master WHERE name = 'mine'") == 1
            )
        }
    }

    private struct Ranked: SyncRecord {
        static let tableName = "Odd"
        var id = ""
        var rank = 0
    }

    @Test("A pending insert still sends a column that the model has lost")
    func aColumnThatAModelLostIsStillSent() async throws {
        try await withTemporaryFile { path in
            let first = try SQLiteStore(path: path)
            let full = try await Device(transport, store: first, tables: [After.self])
            let due = Date(timeIntervalSince1970: 1_700_000_000.123)
            let odd = try full.client.syncTable(After.self)
            try await odd.insert(After(id: "d", text: "t", rank: 1, due: due))
            try await first.close()
            do {
                let database = try Database(path: path)
                try database.execute("CREATE INDEX mine ON Odd (due)")
            }
            let second = try SQLiteStore(path: path)
            let part = try await Device(transport, store: second, tables: [Ranked.self])
            try await part.client.syncTable(Ranked.self).update(id: "d") { $0.rank = 2 }
            transport.add(.json(500, ""))
            await #expect(throws: PushError.self) { try await part.context.push() }
            let body = try #require(transport.sent.last?.body)
            for member in [#""text":"t""#, #""due":"2023-11-14T22:13:20.123Z""#, #""rank":2"#] {
                #expect(body.contains(member))
            }
            try await second.close()
            let again = try await Device(
                transport,
                store: SQLiteStore(path: path),
                tables: [After.self]
            )
            let found = try await again.client.syncTable(After.self).read(where: { $0.due == due })
            #expect(found.map(\.rank) == [2])
        }
    }

    /// An older or a newer model in between, with which rows are edited and pulled.
    @Test("A column that a model loses and gains again has the server's values")
    func aColumnThatAModelLosesAndGainsAgainIsUnchanged() async throws {
        try await withTemporaryFile { path in
            let first = try SQLiteStore(path: path)
            let full = try await Device(transport, store: first, tables: [After.self])
            let rows = ["a", "b", "c"].map {
                "{\"id\":\"\($0)\",\"text\":\"\($0)1\",\"rank\":1,"
                    + "\"updatedAt\":\"\(timestamp(1))\",\"version\":\"v1\"}"
            }
            transport.add(page(rows))
            try await full.client.syncTable(After.self).pull(queryID: "all")
            try await first.close()

            let second = try SQLiteStore(path: path)
            let part = try await Device(transport, store: second, tables: [Ranked.self])
            let ranked = try part.client.syncTable(Ranked.self)
            try await ranked.update(id: "a") { $0.rank = 2 }
            transport.add(
                .json(200, #"{"id":"a","text":"a1","rank":2,"version":"v2"}"#),
                page([
                    "{\"id\":\"b\",\"text\":\"b2\",\"rank\":1,\"updatedAt\":\"\(timestamp(2))\","
                        + "\"version\":\"v2\"}"
                ]),
                page([])
            )
            try await ranked.pull(queryID: "all")
            #expect(transport.sent.contains { $0.body == #"{"rank":2}"# })
            try await ranked.update(id: "c") { $0.rank = 3 }
            try await second.close()

            let third = try SQLiteStore(path: path)
            let again = try await Device(transport, store: third, tables: [After.self])
            let odd = try again.client.syncTable(After.self)
            for (id, text) in [("a", "a1"), ("b", "b2"), ("c", "c1")] {
                #expect(try await odd.read(id: id)?.text == text)
                #expect(try await odd.read(where: { $0.text == text }).map(\.id) == [id])
            }
            transport.add(.json(200, #"{"id":"c","text":"c1","rank":3,"version":"v2"}"#))
            try await again.context.push()
            #expect(transport.sent.last?.body == #"{"rank":3}"#)
            #expect(try await odd.read(id: "c")?.text == "c1")
            let changed = try await third.read { reader in
                try reader.uncertainRows(nil, in: "Odd").changed
            }
            #expect(changed == [])
        }
    }

    // MARK: - Letter case

    private struct Capital: SyncRecord, Hashable {
        static let tableName = "todo"
        var id = ""
        var title = ""
        var isComplete = false
        var version: String?

        enum CodingKeys: String, CodingKey {
            case id
            case title = "Text"
            case isComplete = "COMPLETE"
            case version
        }
    }

    @Test("The columns of a model match the server's in any letter case")
    func aModelsColumnsMatchTheServersInAnyCase() async throws {
        let server = try await makeServer()
        let plain = SyncClient(endpoint: Device.endpoint, transport: server.transport)
            .table(Todo.self)
        try await plain.insert(Todo(id: "a", text: "theirs"))
        try await withTemporaryFile { path in
            let device = try await Device(
                server.transport,
                store: SQLiteStore(path: path),
                tables: [Capital.self]
            )
            let todos = try device.client.syncTable(Capital.self)
            try await todos.pull(queryID: "all", where: { $0.title == "theirs" })
            #expect(try await todos.read(id: "a")?.title == "theirs")
            try await todos.update(id: "a") { $0.isComplete = true }
            try await todos.insert(Capital(id: "b", title: "mine"))
            try await device.context.push()
            #expect(try await todos.read(id: "b")?.title == "mine")
            #expect(try await todos.read(id: "a")?.isComplete == true)
            #expect(try await plain.read(id: "a")?.complete == true)
            #expect(try await plain.read(id: "b")?.text == "mine")
            #expect(try await device.client.table(Capital.self).read(id: "b")?.title == "mine")
            let second = try await todos.pull(queryID: "all", where: { $0.title == "theirs" })
            #expect(second.requests == 1)
            // The same file with the names of the server.
            let again = try await Device(
                server.transport,
                store: SQLiteStore(path: path),
                tables: [Todo.self]
            )
            #expect(try await again.todos().read(id: "a")?.text == "theirs")
            let rows = try await again.client.syncTable(named: "tODo").read()
            #expect(rows.map(\.id).sorted() == ["a"])
        }
    }

    @Test(
        "The cursor and the version are found in any letter case of the system columns",
        arguments: [("updatedAt", "version"), ("UpdatedAt", "Version"), ("UPDATEDAT", "VERSION")]
    )
    func aCursorIsFoundInAnyCase(updatedAt: String, version: String) async throws {
        let device = try await Device(transport, tables: [Plain.self])
        let row = serverRow("a", 5).replacing("\"updatedAt\"", with: "\"\(updatedAt)\"")
            .replacing("\"version\"", with: "\"\(version)\"")
        transport.add(page([row]), page([row]))
        let plain = try device.client.syncTable(Plain.self)
        #expect(try await plain.pull(queryID: "all").applied == 1)
        #expect(try await plain.pull(queryID: "all").applied == 0)
        let cursor = "updatedAt ge \(timestamp(5))"
        #expect(transport.sent.last?.query.contains(cursor) == true)
        try await plain.update(id: "a") { $0.text = "mine" }
        transport.add(.json(200, serverRow("a", 6, text: "mine")))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.ifMatch == "\"v5\"")
    }

    @Test("Operations queued under another letter case of the table's name are pushed")
    func aQueueBelongsToItsTableInAnyCase() async throws {
        try await withTemporaryFile { path in
            let old = try await Device(
                transport,
                store: SQLiteStore(path: path),
                tables: [Capital.self]
            )
            try await old.seed([["id": "b", "text": "x", "version": "v1"]], "todo")
            try await old.client.syncTable(Capital.self).insert(Capital(id: "a", title: "mine"))
            try await old.client.syncTable(Capital.self).delete(id: "b")
            let new = try await Device(
                transport,
                store: SQLiteStore(path: path),
                tables: [Todo.self]
            )
            #expect(try await new.context.operationErrors().isEmpty)
            transport.add(.json(201, serverRow("a", 1, text: "mine")), .status(204))
            #expect(try await new.push() == nil)
            #expect(transport.sent.map(\.method) == ["POST", "DELETE"])
            #expect(try await new.queue().isEmpty)
            #expect(try await new.rows() == [localRow("a", 1, text: "mine")])
        }
    }

    @Test("Cursors and query membership belong to their table in any letter case")
    func cursorsAndQueryMembershipBelongToTheirTableInAnyCase() async throws {
        let server = try await makeServer()
        let remote = SyncClient(endpoint: Device.endpoint, transport: server.transport)
            .table(Todo.self)
        for id in ["a", "b", "c"] { try await remote.insert(Todo(id: id)) }
        try await withTemporaryFile { path in
            let old = try await Device(
                server.transport,
                store: SQLiteStore(path: path),
                tables: [Capital.self]
            )
            try await old.client.syncTable(Capital.self).pull(queryID: "all")
            try await (old.store as? SQLiteStore)?.close()
            try await remote.delete(id: "b")
            let new = try await Device(server.transport, store: SQLiteStore(path: path))
            let result = try await new.todos().pull(queryID: "all")
            #expect(result.applied == 0 && result.removed == 1 && result.requests == 1)
            #expect(try await new.todos().read().map(\.id).sorted() == ["a", "c"])
            try await new.todos().purge(force: true)
            #expect(try await new.todos().pull(queryID: "all").applied == 2)
        }
    }

    @Test("Tables whose names differ only in letter case are rejected")
    func tablesThatDifferOnlyInCaseAreRejected() async throws {
        await #expect(throws: SyncError.self) {
            try await Device(transport, tables: [Todo.self, Capital.self])
        }
        await #expect(throws: SyncError.self) {
            try await Device(
                transport,
                tables: [],
                schemas: [TableSchema(name: "A", columns: []), TableSchema(name: "a", columns: [])]
            )
        }
        await #expect(throws: SyncError.self) {
            try await Device(
                transport,
                tables: [],
                schemas: [TableSchema(name: "ms_tableconfig", columns: [])]
            )
        }
    }
}
