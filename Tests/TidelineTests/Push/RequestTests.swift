// The requests of a push: method, path, If-Match and body of each operation, and of collapsed operations.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestSupport

@Suite struct RequestTests {
    private let transport = ScriptedTransport()

    private func device(_ policy: ConflictPolicy = .fail) async throws -> Device {
        try await Device(transport, conflicts: policy)
    }

    @Test("An insert is sent as a POST of the whole record") func anInsertIsAPost() async throws {
        let device = try await device()
        let created = try await device.todos().insert(Todo(id: "a b", text: "milk", rank: nil))
        #expect(created.id == "a b")
        transport.add(.json(201, serverRow("a b", 1, text: "milk")))
        #expect(try await device.push() == nil)
        let sent = try #require(transport.sent.first)
        #expect(sent.method == "POST")
        #expect(sent.target == "/tables/Todo")
        #expect(sent.ifMatch == nil)
        #expect(sent.body == #"{"id":"a b","text":"milk","complete":false,"rank":null}"#)
        #expect(try await device.rows() == [localRow("a b", 1, text: "milk")])
        #expect(try await device.queue() == [])
    }

    @Test("An update is sent as a PATCH of the changed columns")
    func anUpdateIsAPatchOfTheChangedColumns() async throws {
        let device = try await device()
        try await device.seed([localRow("a/ü", 1, rank: 1)])
        try await device.todos().update(id: "a/ü") { $0.rank = nil }
        transport.add(.json(200, serverRow("a/ü", 2)))
        #expect(try await device.push() == nil)
        let sent = try #require(transport.sent.first)
        #expect(sent.method == "PATCH")
        #expect(sent.target == "/tables/Todo/a%2F%C3%BC")
        #expect(sent.ifMatch == "\"v1\"")
        #expect(sent.body == #"{"rank":null}"#)
        #expect(try await device.rows() == [localRow("a/ü", 2)])
    }

    @Test("A delete is sent with If-Match and without a body")
    func aDeleteHasIfMatchAndNoBody() async throws {
        let device = try await device()
        try await device.seed([localRow("a", 1)])
        try await device.todos().delete(id: "a")
        transport.add(.status(204))
        #expect(try await device.push() == nil)
        let sent = try #require(transport.sent.first)
        #expect(sent.description == "DELETE /tables/Todo/a \"v1\" -")
        #expect(try await device.rows() == [])
    }

    @Test("An update of a record type without a version property sends If-Match")
    func aRecordWithoutVersionStillSendsIfMatch() async throws {
        let device = try await Device(transport, tables: [Plain.self])
        try await device.seed([localRow("a", 7)])
        let plain = try device.client.syncTable(Plain.self)
        try await plain.update(id: "a") { $0.text = "new" }
        transport.add(.json(200, serverRow("a", 8, text: "new")))
        #expect(try await device.push() == nil)
        #expect(transport.sent.map(\.ifMatch) == ["\"v7\""])
        #expect(transport.sent.map(\.body) == [#"{"text":"new"}"#])
    }

    @Test("Columns that the model does not declare are stored but not sent")
    func unknownColumnsAreKeptAndNotSent() async throws {
        let device = try await device()
        let extra = serverRow("a", 1, #","colour":"red","tags":["x"]"#)
        transport.add(page([extra]))
        try await device.todos().pull(queryID: nil)
        try await device.todos().update(id: "a") { $0.text = "mine" }
        #expect(try await device.rows().first?["colour"] == "red")
        let changed = #","colour":"blue","tags":[]"#
        transport.add(.json(200, serverRow("a", 2, text: "mine", changed)))
        #expect(try await device.push() == nil)
        #expect(transport.sent.last?.body == #"{"text":"mine"}"#)
        #expect(try await device.rows().first?["colour"] == "blue")
    }

    /// Changes of one row, and the resulting requests; nothing was sent before.
    static let collapses: [(String, [Step], isThere: Bool, [String])] = [
        ("insert, update", [.insert, .update], false, ["POST"]),
        ("insert, delete", [.insert, .delete], false, []),
        ("insert, update, delete", [.insert, .update, .delete], false, []),
        ("insert, delete, insert", [.insert, .delete, .insert], false, ["POST"]),
        ("update, update", [.update, .update], true, ["PATCH"]),
        ("update, delete", [.update, .delete], true, ["DELETE"]),
        ("delete, delete", [.delete, .delete], true, ["DELETE"]),
        ("delete, insert", [.delete, .insert], true, ["PATCH"]),
        ("delete, insert, update", [.delete, .insert, .update], true, ["PATCH"]),
        ("delete, insert, delete", [.delete, .insert, .delete], true, ["DELETE"]),
        ("update and back", [.update, .back], true, []),
    ]

    enum Step: Sendable {
        case insert
        case update
        case back
        case delete
    }

    @Test("Unsent changes of a row collapse into at most one request", arguments: collapses)
    func changesCollapse(
        name: String,
        steps: [Step],
        isThere: Bool,
        methods: [String]
    ) async throws {
        let device = try await device()
        if isThere { try await device.seed([localRow("a", 1)]) }
        for (number, step) in steps.enumerated() {
            let todos = try device.todos()
            switch step {
            case .insert: try await todos.insert(Todo(id: "a", text: "new"))
            case .update: try await todos.update(id: "a") { $0.text = "edit \(number)" }
            case .back: try await todos.update(id: "a") { $0.text = "server" }
            case .delete: try await todos.delete(id: "a")
            }
        }
        transport.add(.run { $0.method == "DELETE" ? .status(200) : .json(200, serverRow("a", 2)) })
        #expect(try await device.push() == nil)
        #expect(transport.sent.map(\.method) == methods)
        #expect(transport.sent.allSatisfy { $0.method == "POST" || $0.ifMatch == "\"v1\"" })
        #expect(try await device.context.pendingOperationCount == 0)
    }

    @Test("A delete takes the queue position of the update that it replaces")
    func aCollapsedDeleteKeepsItsPosition() async throws {
        let device = try await device()
        try await device.seed([localRow("a", 1), localRow("b", 1)])
        try await device.todos().update(id: "a") { $0.text = "x" }
        try await device.todos().update(id: "b") { $0.text = "x" }
        try await device.todos().delete(id: "a")
        #expect(try await device.queue() == ["delete a", "update b"])
    }

    @Test("A delete and an insert of one row are sent as an update of all columns")
    func deleteAndInsertReplaceTheWholeRow() async throws {
        let device = try await device()
        try await device.seed([localRow("a", 1, rank: 5)])
        try await device.todos().delete(id: "a")
        try await device.todos().insert(Todo(id: "a", text: "anew"))
        transport.add(.json(200, serverRow("a", 2, text: "anew")))
        #expect(try await device.push() == nil)
        #expect(transport.sent.first?.body == #"{"text":"anew","complete":false,"rank":null}"#)
        #expect(transport.sent.first?.ifMatch == "\"v1\"")
    }

    @Test("Operations of all tables are sent in the order of the changes")
    func operationsOfAllTablesAreSentInTheOrderOfTheChanges() async throws {
        let device = try await device()
        let notes = try device.client.syncTable(Note.self)
        try await device.todos().insert(Todo(id: "1"))
        try await notes.insert(Note(id: "2"))
        try await device.todos().insert(Todo(id: "3"))
        transport.add(
            .json(201, serverRow("1", 1)),
            .json(201, #"{"id":"2","body":"","version":"v1"}"#),
            .json(201, serverRow("3", 2))
        )
        #expect(try await device.push() == nil)
        #expect(
            transport.sent.map(\.target) == ["/tables/Todo", "/tables/Note", "/tables/Todo"]
        )
    }

    @Test("An insert does not send the declared defaults of columns without a value")
    func declaredDefaultsAreLeftToTheServer() async throws {
        let schema = TableSchema(
            name: "Free",
            columns: [
                ColumnDefinition("text", .string),
                ColumnDefinition("done", .boolean, nullable: false, default: false),
            ]
        )
        let device = try await Device(transport, tables: [], schemas: [schema])
        let free = try device.client.syncTable(named: "Free")
        try await free.insert(["id": "a", "text": "x"])
        transport.add(.json(201, #"{"id":"a","text":"x","done":false,"version":"v1"}"#))
        #expect(try await device.push() == nil)
        #expect(transport.sent.first?.body == #"{"id":"a","text":"x"}"#)
    }

    @Test("The path of the endpoint is a prefix of the path of a request")
    func thePathBeforeTheTablesIsKept() async throws {
        let client = SyncClient(
            endpoint: URL(string: "http://localhost:8080/api/v1/")!,
            transport: transport
        )
        transport.add(.json(200, serverRow("a", 1)))
        _ = try await client.table(Todo.self).read(id: "a")
        #expect(transport.sent.first?.target == "/api/v1/tables/Todo/a")
    }
}
