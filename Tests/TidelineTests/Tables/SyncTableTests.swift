// SyncTable: ids, reads, decoding failures, and the codes of errors.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestSupport

@Suite struct SyncTableTests {
    private let transport = ScriptedTransport()

    @Test("An empty ID becomes a lowercase UUID")
    func anEmptyIDBecomesALowerCaseUUID() async throws {
        let device = try await Device(transport)
        let created = try await device.todos().insert(Todo(text: "x"))
        #expect(UUID(uuidString: created.id) != nil)
        #expect(created.id == created.id.lowercased())
        #expect(try await device.queue() == ["insert \(created.id)"])
    }

    @Test(
        "An invalid ID is rejected",
        arguments: [
            "a/b", "a?b", "a+b", "a\"b", "a\\b", "a`b", "a\u{7}b", ".", "..", "e\u{301}",
            String(repeating: "x", count: 256),
        ]
    )
    func invalidIDsAreRejected(id: String) async throws {
        let device = try await Device(transport)
        #expect(await code { try await device.todos().insert(Todo(id: id)) } == .invalidID)
        #expect(
            await code { try await device.client.table(Todo.self).insert(Todo(id: id)) }
                == .invalidID
        )
        #expect(try await device.rows() == [])
        #expect(try await device.queue() == [])
        #expect(transport.sent.isEmpty)
    }

    @Test(
        "A row with any valid ID is inserted, read and deleted",
        arguments: [
            "\u{e9}", "日本", "a b", "A", "a'b", "100%", "{}", String(repeating: "é", count: 255),
        ]
    )
    func validIDsAreAccepted(id: String) async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        try await todos.insert(Todo(id: id, text: "x"))
        #expect(try await todos.read(id: id)?.text == "x")
        #expect(await code { try await todos.insert(Todo(id: id)) } == .alreadyExists)
        try await todos.delete(id: id)
        #expect(try await todos.read(id: id) == nil)
    }

    @Test("IDs are compared by their bytes") func idsAreComparedByTheirBytes() async throws {
        let device = try await Device(transport)
        try await device.seed([localRow("e\u{301}", 1), localRow("\u{e9}", 1)])
        try await device.todos().update(id: "\u{e9}") { $0.text = "composed" }
        #expect(try await device.todos().read(id: "e\u{301}")?.text == "server")
        #expect(try await device.todos().count(where: { $0.id == "\u{e9}" }) == 1)
    }

    @Test("An update of a missing row throws an error, and a delete has no effect")
    func changesOfMissingRowsThrow() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        #expect(await code { try await todos.update(Todo(id: "a")) } == .notFound)
        #expect(await code { try await todos.update(id: "a") { _ in } } == .notFound)
        try await todos.delete(id: "a")
        try await todos.delete(Todo(id: "a"))
        #expect(try await device.queue() == [])
        #expect(try await todos.read(id: "a") == nil)
    }

    @Test("The closure of an update cannot change the ID, and its error changes nothing")
    func anUpdateInOneStepMayNotChangeTheIDAndMayFail() async throws {
        struct Rejected: Error {}
        let device = try await Device(transport)
        let todos = try device.todos()
        try await todos.insert(Todo(id: "a", text: "x"))
        #expect(await code { try await todos.update(id: "a") { $0.id = "b" } } == .invalidID)
        await #expect(throws: Rejected.self) {
            try await todos.update(id: "a") { todo in
                todo.text = "y"
                throw Rejected()
            }
        }
        #expect(try await todos.read(id: "a")?.text == "x")
    }

    @Test("Rows are read with filters, predicates, orders, limits and OData queries")
    func rowsAreReadInEachForm() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        for (id, text, rank) in [("1", "milk", 3), ("2", "Milk", 1), ("3", "bread", 2)] {
            try await todos.insert(Todo(id: id, text: text, complete: id == "3", rank: rank))
        }
        #expect(try await todos.read().map(\.id) == ["1", "2", "3"])
        #expect(try await todos.read(where: { !$0.complete }).map(\.id) == ["1", "2"])
        #expect(
            try await todos.read(where: #Predicate { $0.text.contains("ilk") && !$0.complete })
                .map(\.id) == ["1", "2"]
        )
        #expect(try await todos.read(sortedBy: [.ascending(\.rank)]).map(\.id) == ["2", "3", "1"])
        #expect(
            try await todos.read(sortedBy: [SortDescriptor(\.text, order: .reverse)]).map(\.id)
                == ["1", "3", "2"]
        )
        #expect(try await todos.read(limit: 1, offset: 1).map(\.id) == ["2"])
        #expect(try await todos.count() == 3)
        #expect(try await todos.count(where: { $0.rank > 1 }) == 2)
        var first = try Query<Todo>(where: { $0.rank > 1 }).limited(to: 1)
        first.includesTotalCount = true
        let page = try await todos.read(first)
        #expect(page.items.map(\.id) == ["1"])
        #expect(page.totalCount == 2)
        let text = "$filter=rank gt 1&$orderby=rank&$top=1&$count=true"
        let other = try await todos.read(Query<Todo>(odata: text))
        #expect(other.items.map(\.id) == ["3"])
        #expect(other.totalCount == 2)
    }

    @Test("A row that does not decode is stored, and a read names it without its values")
    func aRowThatDoesNotDecodeIsKeptAndNamed() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        transport.add(
            page([
                serverRow("a", 1), #"{"id":"bad","text":{"secret":1},"version":"v2"}"#,
                serverRow("c", 3),
            ])
        )
        #expect(try await todos.pull(queryID: nil).applied == 3)
        let error = await #expect(throws: SyncError.self) { try await todos.read() }
        #expect(error?.code == .rowDoesNotFit)
        for part in ["Todo", "bad", "text"] {
            #expect(error?.message.contains(part) == true, "\(part)")
        }
        #expect(error?.message.contains("secret") == false)
        #expect(try await todos.read(onDecodingFailure: .skip).map(\.id) == ["a", "c"])
        #expect(await code { _ = try await todos.read(id: "bad") } == .rowDoesNotFit)
        #expect(try await todos.read(id: "a") != nil)
        try await device.client.syncTable(named: "Todo").delete(id: "bad")
        #expect(try await device.queue() == ["delete bad"])
    }

    @Test("Missing and null columns are read as their defaults")
    func missingAndNullColumnsReadAsDefaults() async throws {
        let device = try await Device(transport)
        transport.add(page([#"{"id":"a"}"#, #"{"id":"b","text":null,"complete":null}"#]))
        try await device.todos().pull(queryID: nil)
        for todo in try await device.todos().read() {
            #expect(todo.text == "")
            #expect(todo.complete == false)
            #expect(todo.rank == nil)
        }
    }

    @Test("Each invalid use of a table throws an error with its code")
    func errorsHaveTheirCodes() async throws {
        let client = SyncClient(endpoint: Device.endpoint, transport: transport)
        #expect(await code { _ = try client.syncTable(Todo.self) } == .storeNotInitialized)
        #expect(await code { try await client.syncContext.push() } == .storeNotInitialized)
        #expect(await client.syncContext.isInitialized == false)
        let device = try await Device(transport, tables: [Todo.self])
        #expect(await device.context.isInitialized)
        #expect(await code { _ = try device.client.syncTable(Note.self) } == .unknownTable)
        #expect(await code { _ = try device.client.syncTable(named: "X") } == .unknownTable)
        let todos = try device.todos()
        for id in ["", "a b", "a|b", "é", String(repeating: "x", count: 51)] {
            #expect(await code { try await todos.pull(queryID: id) } == .invalidQueryID, "\(id)")
        }
        let sorted = try Query<Todo>().sorted(by: .ascending(\.text))
        let selected = try Query<Todo>().selecting(\.text)
        #expect(await code { try await todos.pull(queryID: "a", sorted) } == .unsupportedQuery)
        #expect(await code { try await todos.pull(queryID: "a", selected) } == .unsupportedQuery)
        #expect(
            await code { try await todos.pull(queryID: "a", Query().limited(to: 3)) }
                == .unsupportedQuery
        )
        #expect(transport.sent.isEmpty)
        let named = try device.client.syncTable(named: "Todo")
        #expect(
            await code { _ = try await named.read(where: { $0["nowhere"] == 1 }) }
                == .unsupportedQuery
        )
    }

    @Test("A reserved table name is rejected") func reservedTablesAreRejected() async throws {
        let schema = TableSchema(name: "MS_TableConfig", columns: [])
        #expect(
            await code { _ = try await Device(transport, tables: [], schemas: [schema]) }
                == .invalidModel
        )
    }

    @Test(
        "An invalid table name is rejected",
        arguments: [
            "", ".", "..", "../x", "a/b", "a?b", "a#b", "a%2fb", "a\u{0}", "SQLite_master",
        ]
    )
    func invalidTableNamesAreRejected(_ name: String) async throws {
        let schema = TableSchema(name: name, columns: [ColumnDefinition("a", .string)])
        #expect(
            await code { _ = try await Device(transport, tables: [], schemas: [schema]) }
                == .invalidModel
        )
    }

    @Test("An error of the store is reported as a store failure")
    func aBrokenStoreIsAStoreFailure() async throws {
        let broken = BrokenStore()
        #expect(await code { _ = try await Device(transport, store: broken) } == .storeFailure)
    }

    @Test("Untyped rows are changed, read and pushed like records")
    func untypedRowsWorkLikeRecords() async throws {
        let device = try await Device(transport)
        let rows = try device.client.syncTable(named: "Todo")
        let created = try await rows.insert(["text": "x", "colour": "red"])
        #expect(!created.id.isEmpty)
        try await rows.update(id: created.id) { $0["rank"] = 4 }
        let found = try await rows.read(where: { $0["rank"] == 4 })
        #expect(found.first?["colour"] == "red")
        let row = #"{"id":"\#(created.id)","text":"x","colour":"red","rank":4,"version":"v1"}"#
        transport.add(.json(201, row))
        #expect(try await device.push() == nil)
        #expect(transport.sent.first?.body?.contains(#""colour":"red""#) == true)
    }
}

/// A store whose disk has failed.
private struct BrokenStore: LocalStore {
    struct DiskError: Error {}

    func open(tables: [TableSchema]) async throws {}

    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
    ) async throws -> Result {
        throw DiskError()
    }

    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
    ) async throws -> Result {
        throw DiskError()
    }

    func changes() -> AsyncStream<Set<String>> { AsyncStream { $0.finish() } }
}
