// LocalNameChangeTests: updates of an app that start or stop synchronizing tables and columns.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct LocalNameChangeTests {
    private typealias Draft = LocalOnlyTests.Draft
    /// A record with the local columns `isOpen` and `note`.
    private typealias Visit = LocalOnlyTests.Task

    /// The table of drafts in a version of the app that synchronizes it.
    private struct LaterDraft: SyncRecord, Hashable {
        var id = ""
        var text = ""
        var todo: String?
        static let tableName = "Draft"
    }

    /// The same with a stricter rule.
    private struct StrictDraft: SyncRecord, Hashable {
        var id = ""
        var text = ""
        var todo: String?
        static let tableName = "Draft"
        static let rules: [Rule<StrictDraft>] = [.maxLength(\.text, 4)]
    }

    /// The record in a version of the app that synchronizes all of its columns.
    private struct LaterVisit: SyncRecord, Hashable {
        var id = ""
        var text = ""
        var rank: Int?
        var isOpen = false
        var note: String?
        var updatedAt: Date?
        static let tableName = "Todo"
    }

    /// The same with a stricter rule.
    private struct StrictVisit: SyncRecord, Hashable {
        var id = ""
        var text = ""
        var rank: Int?
        var isOpen = false
        var note: String?
        var updatedAt: Date?
        static let tableName = "Todo"
        static let rules: [Rule<StrictVisit>] = [.maxLength(\.note, 3)]
    }

    private func makeVisitServer() async throws -> InProcessServer {
        try await InProcessServer(tables: [
            TableDefinition(
                "Draft",
                columns: [ColumnDefinition("text", .string), ColumnDefinition("todo", .string)]
            ),
            TableDefinition(
                "Todo",
                columns: [
                    ColumnDefinition("text", .string), ColumnDefinition("rank", .integer),
                    ColumnDefinition("note", .string), ColumnDefinition("isOpen", .boolean),
                ]
            ),
        ])
    }

    /// Runs `body` with a store in memory, and with one in a file at a path.
    private func eachStore(
        _ body: (_ store: any LocalStore, _ path: String) async throws -> Void
    ) async throws {
        try await body(MemoryStore(), "")
        try await withTemporaryFile { path in try await body(SQLiteStore(path: path), path) }
    }

    /// Closes a store, and returns the store of the next start of the app.
    private func reopened(_ store: any LocalStore, _ path: String) async throws -> any LocalStore {
        guard store is SQLiteStore else { return store }
        try await store.close()
        return try SQLiteStore(path: path)
    }

    // MARK: - Tables

    @Test(
        "The rows of a table that an update of the app synchronizes are kept and sent",
        arguments: ["all", nil]
    )
    func tables(queryID: String?) async throws {
        try await eachStore { store, path in
            let server = try await makeVisitServer()
            let before = try await Device(server.transport, store: store, tables: [Draft.self])
            try await before.client.syncTable(Draft.self)
                .insert([Draft(id: "a", text: "milk"), Draft(id: "b", text: "tea")])
            let device = try await Device(
                server.transport,
                store: reopened(store, path),
                tables: [LaterDraft.self]
            )
            let drafts = try device.client.syncTable(LaterDraft.self)
            #expect(try await device.queue() == ["insert a", "insert b"])
            try await drafts.pull(queryID: queryID)
            #expect(try await drafts.read().map(\.text).sorted() == ["milk", "tea"])
            #expect(try await device.push() == nil)
            try await drafts.pull(queryID: queryID)
            #expect(try await drafts.read().map(\.text).sorted() == ["milk", "tea"])
            let other = try await Device(server.transport, tables: [LaterDraft.self])
            try await other.client.syncTable(LaterDraft.self).pull(queryID: nil)
            #expect(try await other.rows("Draft").map(\.id).sorted() == ["a", "b"])
        }
    }

    @Test("The inserts of a newly synchronized table belong to the account that is signed in")
    func account() async throws {
        try await eachStore { store, path in
            let transport = ScriptedTransport()
            let before = try await Device(transport, store: store, tables: [Draft.self])
            try await before.client.syncTable(Draft.self).insert(Draft(id: "a", text: "milk"))
            let device = try await Device(
                transport,
                store: reopened(store, path),
                tables: [LaterDraft.self],
                authentication: SignIn("anna")
            )
            #expect(try await device.context.pendingOperations().map(\.account) == ["anna"])
        }
    }

    @Test("A local table that a widget does not declare is still known to be local")
    func undeclared() async throws {
        try await eachStore { store, path in
            let server = try await makeVisitServer()
            let before = try await Device(server.transport, store: store, tables: [Draft.self])
            try await before.client.syncTable(Draft.self).insert(Draft(id: "a", text: "milk"))
            let widgetStore = try await reopened(store, path)
            _ = try await Device(server.transport, store: widgetStore, tables: [Todo.self])
            let device = try await Device(
                server.transport,
                store: reopened(widgetStore, path),
                tables: [LaterDraft.self]
            )
            #expect(try await device.queue() == ["insert a"])
        }
    }

    @Test("The insert of a newly synchronized record that breaks a rule is parked with an error")
    func brokenRule() async throws {
        try await eachStore { store, path in
            let server = try await makeVisitServer()
            let before = try await Device(server.transport, store: store, tables: [Draft.self])
            try await before.client.syncTable(Draft.self)
                .insert([Draft(id: "a", text: "green tea"), Draft(id: "b", text: "tea")])
            let device = try await Device(
                server.transport,
                store: reopened(store, path),
                tables: [StrictDraft.self]
            )
            #expect(try await device.queue() == ["insert a parked", "insert b"])
            let error = try #require(try await device.context.operationErrors().first)
            let rule = BrokenRule(table: "Draft", columns: ["text"], code: .maxLength)
            #expect(error.brokenRule == rule)
            #expect(error.message.contains("was not sent"))
            try await error.updateOperationAndRetry(with: StrictDraft(id: "a", text: "soy"))
            #expect(try await device.push() == nil)
            let other = try await Device(server.transport, tables: [LaterDraft.self])
            let drafts = try other.client.syncTable(LaterDraft.self)
            try await drafts.pull(queryID: nil)
            #expect(try await drafts.read().map(\.text).sorted() == ["soy", "tea"])
        }
    }

    @Test(
        "Unsent changes of a table that an update of the app makes local are not sent",
        arguments: [false, true]
    )
    func formerTable(isDeleted: Bool) async throws {
        try await eachStore { store, path in
            let transport = ScriptedTransport()
            let before = try await Device(transport, store: store, tables: [LaterDraft.self])
            try await before.client.syncTable(LaterDraft.self)
                .insert(LaterDraft(id: "a", text: "milk"))
            let device = try await Device(
                transport,
                store: reopened(store, path),
                tables: [Draft.self]
            )
            let drafts = try device.client.syncTable(Draft.self)
            #expect(try await drafts.read().map(\.text) == ["milk"])
            #expect(try await device.queue() == [])
            if isDeleted {
                try await drafts.delete(id: "a")
            } else {
                try await drafts.update(id: "a") { $0.text = "soy" }
            }
            #expect(try await device.push() == nil)
            #expect(transport.sent.isEmpty)
            #expect(try await drafts.read().map(\.text) == (isDeleted ? [] : ["soy"]))
        }
    }

    @Test("The rest of a transaction is sent if an update of the app makes one of its tables local")
    func restOfTransaction() async throws {
        try await eachStore { store, path in
            let server = try await makeVisitServer()
            let before = try await Device(
                server.transport,
                store: store,
                tables: [LaterDraft.self, LaterVisit.self]
            )
            try await before.context.transaction { transaction in
                try transaction.table(LaterDraft.self).insert(LaterDraft(id: "a", text: "milk"))
                try transaction.table(LaterVisit.self).insert(LaterVisit(id: "t", text: "1"))
            }
            let device = try await Device(
                server.transport,
                store: reopened(store, path),
                tables: [Draft.self, LaterVisit.self]
            )
            #expect(try await device.queue() == ["insert t"])
            #expect(try await device.push() == nil)
            #expect(try await device.queue() == [])
        }
    }

    @Test("A table that is synchronized again sends the changes that were made in between")
    func synchronizedAgain() async throws {
        try await eachStore { store, path in
            let server = try await makeVisitServer()
            let first = try await Device(server.transport, store: store, tables: [LaterDraft.self])
            try await first.client.syncTable(LaterDraft.self)
                .insert([LaterDraft(id: "a", text: "milk"), LaterDraft(id: "b", text: "tea")])
            #expect(try await first.push() == nil)
            let localStore = try await reopened(store, path)
            let second = try await Device(
                server.transport,
                store: localStore,
                tables: [Draft.self]
            )
            let drafts = try second.client.syncTable(Draft.self)
            try await drafts.update(id: "a") { $0.text = "soy" }
            try await drafts.insert(Draft(id: "c", text: "new"))
            let third = try await Device(
                server.transport,
                store: reopened(localStore, path),
                tables: [LaterDraft.self]
            )
            #expect(try await third.queue() == ["update a", "update b", "insert c"])
            #expect(try await third.push() == nil)
            let other = try await Device(server.transport, tables: [LaterDraft.self])
            let others = try other.client.syncTable(LaterDraft.self)
            try await others.pull(queryID: nil)
            #expect(try await others.read().map(\.text).sorted() == ["new", "soy", "tea"])
        }
    }

    // MARK: - Columns

    @Test("The values of a column that an update of the app synchronizes are kept and sent")
    func columns() async throws {
        try await eachStore { store, path in
            let server = try await makeVisitServer()
            let other = try await Device(server.transport, tables: [LaterVisit.self])
            let others = try other.client.syncTable(LaterVisit.self)
            try await others.insert(LaterVisit(id: "b", text: "2", note: "theirs"))
            #expect(try await other.push() == nil)
            let before = try await Device(server.transport, store: store, tables: [Visit.self])
            let local = try before.client.syncTable(Visit.self)
            try await local.insert(Visit(id: "a", text: "1", isOpen: true))
            #expect(try await before.push() == nil)
            try await local.pull(queryID: "all")
            try await local.update(id: "a") { $0.note = "mine" }
            #expect(try await before.queue() == [])
            let device = try await Device(
                server.transport,
                store: reopened(store, path),
                tables: [LaterVisit.self]
            )
            let visits = try device.client.syncTable(LaterVisit.self)
            // The other row has no values of its own.
            #expect(try await device.queue() == ["update a"])
            #expect(try await device.push() == nil)
            try await visits.pull(queryID: "all")
            #expect(try await visits.read(id: "a").map { $0.isOpen && $0.note == "mine" } == true)
            #expect(try await visits.read(id: "b")?.note == "theirs")
            try await others.pull(queryID: nil)
            #expect(try await others.read(id: "a").map { $0.isOpen && $0.note == "mine" } == true)
        }
    }

    @Test("Queued operations precede an update that sends the values of newly synchronized columns")
    func queuedColumns() async throws {
        try await withTemporaryFile { path in
            let store = try SQLiteStore(path: path)
            let transport = ScriptedTransport([.json(201, serverRow("a", 1, text: "1")), .lost])
            let before = try await Device(transport, store: store, tables: [Visit.self])
            let local = try before.client.syncTable(Visit.self)
            try await local.insert(Visit(id: "a", text: "1", isOpen: true, note: "x"))
            #expect(try await before.push() == nil)
            try await local.insert(Visit(id: "b", text: "2", isOpen: true, note: "y"))
            #expect(try await before.push()?.status == .networkFailure)
            try await local.update(id: "a") { $0.rank = 5 }
            let device = try await Device(
                transport,
                store: reopened(store, path),
                tables: [LaterVisit.self]
            )
            let queue = try await device.queue()
            #expect(queue == ["insert b attempted", "update a", "update a", "update b"])
            let values = #","isOpen":true,"note":"#
            transport.add(
                .json(201, serverRow("b", 2, text: "2")),
                .json(200, serverRow("a", 3, text: "1", rank: 5)),
                .json(200, serverRow("a", 4, text: "1", rank: 5, values + #""x""#)),
                .json(200, serverRow("b", 5, text: "2", values + #""y""#))
            )
            #expect(try await device.push() == nil)
            #expect(
                transport.sent.suffix(4).map(\.description) == [
                    #"POST /tables/Todo - {"id":"b","text":"2","rank":null}"#,
                    #"PATCH /tables/Todo/a "v1" {"rank":5}"#,
                    #"PATCH /tables/Todo/a "v3" {"isOpen":true,"note":"x"}"#,
                    #"PATCH /tables/Todo/b "v2" {"isOpen":true,"note":"y"}"#,
                ]
            )
        }
    }

    /// Edits a row that has local values and that another device edits as well.
    private func editTogether(
        _ server: InProcessServer,
        _ store: any LocalStore
    ) async throws -> Device {
        let device = try await Device(server.transport, store: store, tables: [Visit.self])
        let visits = try device.client.syncTable(Visit.self)
        try await visits.insert(Visit(id: "a", text: "1", isOpen: true, note: "x"))
        #expect(try await device.push() == nil)
        let other = try await Device(server.transport, tables: [LaterVisit.self])
        let others = try other.client.syncTable(LaterVisit.self)
        try await others.pull(queryID: nil)
        try await others.update(id: "a") { $0.text = "theirs" }
        #expect(try await other.push() == nil)
        try await visits.update(id: "a") { $0.text = "mine" }
        return device
    }

    /// Checks that the device and the server have the text of the other device, and the local values.
    private func checkValues(_ device: Device, _ server: InProcessServer) async throws {
        let other = try await Device(server.transport, tables: [LaterVisit.self])
        try await other.client.syncTable(LaterVisit.self).pull(queryID: nil)
        for device in [device, other] {
            let visit = try #require(
                try await device.client.syncTable(LaterVisit.self).read(id: "a")
            )
            #expect(visit.text == "theirs")
            #expect(visit.isOpen)
            #expect(visit.note == "x")
        }
    }

    @Test("The values of a newly synchronized column remain if an earlier edit is discarded")
    func discardedEdit() async throws {
        try await eachStore { store, path in
            let server = try await makeVisitServer()
            let before = try await editTogether(server, store)
            #expect(try await before.push()?.status == .operationErrors)
            let device = try await Device(
                server.transport,
                store: reopened(store, path),
                tables: [LaterVisit.self]
            )
            #expect(try await device.queue() == ["update a attempted parked", "update a"])
            let error = try #require(try await device.context.operationErrors().first)
            try await error.cancelOperationAndDiscardItem()
            #expect(try await device.queue() == ["update a"])
            #expect(try await device.push() == nil)
            try await checkValues(device, server)
        }
    }

    @Test("The values of a newly synchronized column remain if the server wins an earlier conflict")
    func wonConflict() async throws {
        try await eachStore { store, path in
            let server = try await makeVisitServer()
            _ = try await editTogether(server, store)
            let device = try await Device(
                server.transport,
                store: reopened(store, path),
                conflicts: .serverWins,
                tables: [LaterVisit.self]
            )
            #expect(try await device.queue() == ["update a", "update a"])
            #expect(try await device.push() == nil)
            #expect(try await device.queue() == [])
            try await checkValues(device, server)
        }
    }

    @Test("The update with a newly synchronized value that breaks a rule is parked with an error")
    func brokenColumnRule() async throws {
        try await eachStore { store, path in
            let server = try await makeVisitServer()
            let before = try await Device(server.transport, store: store, tables: [Visit.self])
            let local = try before.client.syncTable(Visit.self)
            try await local.insert(Visit(id: "a", text: "1", note: "long"))
            #expect(try await before.push() == nil)
            let device = try await Device(
                server.transport,
                store: reopened(store, path),
                tables: [StrictVisit.self]
            )
            #expect(try await device.queue() == ["update a parked"])
            let error = try #require(try await device.context.operationErrors().first)
            let rule = BrokenRule(table: "Todo", columns: ["note"], code: .maxLength)
            #expect(error.brokenRule == rule)
            let visits = try device.client.syncTable(StrictVisit.self)
            try await visits.update(id: "a") { $0.note = "new" }
            #expect(try await device.push() == nil)
            try await visits.pull(queryID: nil)
            #expect(try await visits.read(id: "a")?.note == "new")
        }
    }

    // MARK: - Accounts

    /// Pulls a page as each account, and then sets the notes of rows, which stay on the device.
    private func setNotes(
        _ notes: [String: String],
        _ pages: [(String, [String])],
        _ transport: ScriptedTransport,
        _ store: any LocalStore,
        _ signIn: SignIn
    ) async throws {
        let device = try await Device(
            transport,
            store: store,
            tables: [Visit.self],
            authentication: signIn,
            generation: .datasync
        )
        let visits = try device.client.syncTable(Visit.self)
        for (account, rows) in pages {
            signIn.change(to: account)
            transport.add(page(rows))
            try await visits.pull(queryID: "all")
        }
        for (id, note) in notes { try await visits.update(id: id) { $0.note = note } }
    }

    @Test("The values of a newly synchronized column are sent by the account that pulled the row")
    func accountOfRow() async throws {
        try await eachStore { store, path in
            let (transport, signIn) = (ScriptedTransport(), SignIn("anna"))
            let pages = [("anna", [serverRow("a", 1)]), ("ben", [serverRow("b", 2)])]
            try await setNotes(["a": "hers", "b": "his"], pages, transport, store, signIn)
            signIn.change(to: "anna")
            let device = try await Device(
                transport,
                store: reopened(store, path),
                tables: [LaterVisit.self],
                authentication: signIn,
                generation: .datasync
            )
            let operations = try await device.context.pendingOperations()
            #expect(operations.map(\.itemID) == ["a", "b"])
            #expect(operations.map(\.account) == ["anna", "ben"])
            transport.add(.json(200, serverRow("a", 3, #","isOpen":false,"note":"hers""#)))
            #expect(try await device.context.push().completed == 1)
            #expect(transport.sent.last?.bearer == "Bearer anna-token-1")
            #expect(transport.sent.last?.body?.contains("hers") == true)
            #expect(try await device.queue() == ["update b"])
        }
    }

    @Test("The signed-in account sends the new values of a row that several accounts pulled")
    func accountOfSharedRow() async throws {
        try await eachStore { store, path in
            let (transport, signIn) = (ScriptedTransport(), SignIn("anna"))
            let pages = [("anna", [serverRow("a", 1)]), ("ben", [serverRow("a", 1)])]
            try await setNotes(["a": "ours"], pages, transport, store, signIn)
            signIn.change(to: "ben")
            let device = try await Device(
                transport,
                store: reopened(store, path),
                tables: [LaterVisit.self],
                authentication: signIn
            )
            #expect(try await device.context.pendingOperations().map(\.account) == ["ben"])
        }
    }

    @Test("Rows with newly synchronized values can be edited after a later sign-in")
    func laterSignIn() async throws {
        try await eachStore { store, path in
            let (transport, signIn) = (ScriptedTransport(), SignIn("anna"))
            let pages = [("anna", [serverRow("a", 1)]), ("ben", [serverRow("b", 2)])]
            try await setNotes(["a": "hers", "b": "his"], pages, transport, store, signIn)
            signIn.change(to: nil)
            let device = try await Device(
                transport,
                store: reopened(store, path),
                tables: [LaterVisit.self],
                authentication: signIn
            )
            let accounts = try await device.context.pendingOperations().map(\.account)
            #expect(accounts == ["anna", "ben"])
            signIn.change(to: "ben")
            try await device.client.syncTable(LaterVisit.self).update(id: "b") { $0.text = "new" }
            #expect(try await device.queue() == ["update a", "update b"])
        }
    }

    @Test(
        "Without a sign-in, a newly synchronized table belongs to the only account of the device",
        arguments: [[], ["anna"], ["anna", "ben"]] as [[String]]
    )
    func signedOut(accounts: [String]) async throws {
        try await eachStore { store, path in
            let (transport, signIn) = (ScriptedTransport(), SignIn(nil))
            let before = try await Device(
                transport,
                store: store,
                tables: [Draft.self, Visit.self],
                authentication: signIn
            )
            for account in accounts {
                signIn.change(to: account)
                try await before.client.syncTable(Visit.self).insert(Visit(id: account))
            }
            signIn.change(to: nil)
            try await before.client.syncTable(Draft.self).insert(Draft(id: "d", text: "milk"))
            let device = try await Device(
                transport,
                store: reopened(store, path),
                tables: [LaterDraft.self, Visit.self],
                authentication: signIn
            )
            let last = try #require(try await device.context.pendingOperations().last)
            #expect(last.itemID == "d")
            #expect(last.account == (accounts.count == 1 ? "anna" : nil))
        }
    }
}
