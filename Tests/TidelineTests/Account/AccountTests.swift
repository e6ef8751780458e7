// Accounts: operations belong to the account that made them, and so do the cursors of pulls (guarantee 10).

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct AccountTests {
    private let transport = ScriptedTransport()
    private let signIn = SignIn("anna")
    private let store = MemoryStore()

    private func device() async throws -> Device {
        try await Device(
            transport,
            store: store,
            authentication: signIn,
            generation: .datasync
        )
    }

    @Test("An operation stores the account that was signed in at the time")
    func operationsStoreTheirAccount() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "anna's"))
        signIn.change(to: nil)
        try await device.todos().insert(Todo(id: "b", text: "nobody's"))
        let accounts = try await device.context.pendingOperations().map(\.account)
        #expect(accounts == ["anna", nil])
    }

    @Test("A push sends only the operations of the signed-in account")
    func anotherAccountCannotPush() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "anna's"))
        signIn.change(to: "ben")
        #expect(try await device.push() == nil)
        #expect(transport.sent.isEmpty)
        try await device.todos().insert(Todo(id: "b", text: "ben's"))
        transport.add(.json(201, serverRow("b", 1, text: "ben's")))
        #expect(try await device.context.push().completed == 1)
        #expect(transport.sent.map(\.bearer) == ["Bearer ben-token-1"])
        #expect(try await device.queue() == ["insert a"])
        signIn.change(to: "anna")
        transport.add(.json(201, serverRow("a", 1, text: "anna's")))
        #expect(try await device.context.push().completed == 1)
        #expect(transport.sent.last?.bearer == "Bearer anna-token-1")
    }

    @Test("A push without a signed-in account sends nothing and reports why")
    func aSignedOutPushSendsNothing() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "anna's"))
        signIn.change(to: nil)
        let error = try #require(try await device.push())
        #expect(error.status == .unauthorized)
        #expect(error.description.contains("No account is signed in"))
        #expect(transport.sent.isEmpty)
        // Rows that need no sign-in are still read.
        transport.add(page([serverRow("b", 1)]))
        #expect(try await device.todos().pull(queryID: nil).applied == 1)
        #expect(transport.sent.map(\.bearer) == [nil])
    }

    @Test("A row with another account's pending operation cannot be changed")
    func aRowWithAnotherAccountsChangesStays() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "anna's"))
        signIn.change(to: "ben")
        for call in [
            { try await device.todos().update(id: "a") { $0.text = "ben's" } },
            { try await device.todos().delete(id: "a") },
            { try await device.todos().update(Todo(id: "a", text: "ben's")) },
        ] as [@Sendable () async throws -> Void] {
            #expect(await code(call) == .otherAccount)
        }
        #expect(try await device.todos().read(id: "a")?.text == "anna's")
        #expect(try await device.queue() == ["insert a"])
    }

    @Test("Operation errors are listed and resolved only under the account that made the change")
    func anotherAccountsErrorsAreNotShown() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "anna's"))
        transport.add(.json(403, #"{"error":"No."}"#))
        let error = try #require(try await device.push()?.errors.first)
        signIn.change(to: "ben")
        #expect(try await device.context.operationErrors().isEmpty)
        #expect(try await device.push() == nil)
        #expect(await code { try await error.cancelOperationAndDiscardItem() } == .otherAccount)
        signIn.change(to: "anna")
        #expect(try await device.context.operationErrors().count == 1)
        try await error.cancelOperationAndDiscardItem()
        #expect(try await device.queue() == [])
    }

    @Test("Operations made while signed out are sent after an account adopts them")
    func anAccountAdoptsAnonymousWork() async throws {
        signIn.change(to: nil)
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "nobody's"))
        #expect(await code { try await device.context.adopt() } == .unauthorized)
        signIn.change(to: "anna")
        #expect(try await device.push() == nil)
        #expect(transport.sent.isEmpty)
        #expect(try await device.context.adopt(anonymousWork: true) == 1)
        #expect(try await device.context.adopt(anonymousWork: true) == 0)
        transport.add(.json(201, serverRow("a", 1, text: "nobody's")))
        #expect(try await device.context.push().completed == 1)
        #expect(transport.sent.map(\.bearer) == ["Bearer anna-token-1"])
    }

    @Test("Discarding anonymous work removes its operations and restores the server's rows")
    func anonymousWorkIsDropped() async throws {
        signIn.change(to: nil)
        let device = try await device()
        try await device.seed([localRow("a", 1, text: "server")])
        try await device.todos().update(id: "a") { $0.text = "nobody's" }
        try await device.todos().insert(Todo(id: "b", text: "nobody's"))
        signIn.change(to: "anna")
        try await device.todos().insert(Todo(id: "c", text: "anna's"))
        #expect(try await device.context.adopt(anonymousWork: false) == 2)
        #expect(try await device.queue() == ["insert c"])
        #expect(try await device.todos().read(id: "a")?.text == "server")
        #expect(try await device.todos().read(id: "b") == nil)
    }

    @Test("Discarding several transactions of one row restores the server's row")
    func anonymousTransactionsOfOneRowAreDropped() async throws {
        signIn.change(to: nil)
        let device = try await device()
        try await device.seed([localRow("a", 1, text: "server")])
        for text in ["one", "two", "three"] {
            try await device.context.transaction { transaction in
                let todos = try transaction.table(Todo.self)
                try todos.update(id: "a") { $0.text = text }
                try todos.insert(Todo(id: text, text: text))
            }
        }
        signIn.change(to: "anna")
        #expect(try await device.context.adopt(anonymousWork: false) == 6)
        #expect(try await device.queue() == [])
        let rows = try await device.todos().read(sortedBy: [.ascending(\.id)])
        #expect(rows.map(\.text) == ["server"])
    }

    @Test("A push sends nothing more after another account signs in")
    func anAccountThatChangesEndsThePush() async throws {
        let device = try await device()
        try await device.todos().insert(Todo(id: "a", text: "anna's"))
        try await device.todos().insert(Todo(id: "b", text: "anna's"))
        let signIn = signIn
        transport.add(
            .run { _ in
                signIn.change(to: "ben")
                return .json(201, serverRow("a", 1, text: "anna's"))
            }
        )
        let error = try #require(try await device.push())
        #expect(error.status == .unauthorized)
        #expect((error.cause as? SyncError)?.code == .otherAccount)
        #expect(transport.sent.count == 1)
        signIn.change(to: "anna")
        #expect(try await device.queue() == ["insert b attempted"])
    }

    /// A row that one account may no longer see stays in the queries of the other accounts.
    @Test("Each account pulls from its own cursor") func eachAccountHasItsOwnCursor() async throws {
        let device = try await device()
        let todos = try device.todos()
        transport.add(page([serverRow("a", 1), serverRow("b", 1)]))
        try await todos.pull(queryID: "all")
        signIn.change(to: "ben")
        transport.add(page([serverRow("b", 1), serverRow("c", 3)]))
        try await todos.pull(queryID: "all")
        #expect(!transport.sent[1].query.contains("updatedAt ge"))
        #expect(transport.sent[1].bearer == "Bearer ben-token-1")
        #expect(try await todos.read(sortedBy: [.ascending(\.id)]).map(\.id) == ["a", "b", "c"])
        signIn.change(to: "anna")
        transport.add(page([]))
        try await todos.pull(queryID: "all")
        #expect(transport.sent[2].query.contains("updatedAt ge"))
        #expect(transport.sent[2].query.contains(timestamp(1)))
    }

    /// The cursor of the other account has passed these rows, so it would not pull them again.
    @Test("A full pull does not remove the rows of another account's query")
    func aFullPullKeepsAnotherAccountsRows() async throws {
        let device = try await device()
        let todos = try device.todos()
        transport.add(page([serverRow("a", 1)]))
        try await todos.pull(queryID: "all")
        signIn.change(to: "ben")
        transport.add(page([serverRow("b", 1)]), page([]))
        try await todos.pull(queryID: nil)
        #expect(try await todos.count() == 2)
        try await todos.pull(queryID: nil)
        #expect(try await todos.read().map(\.id) == ["a"])
    }

    @Test("A forced purge drops only the operations of the signed-in account")
    func aPurgeKeepsAnotherAccountsOperations() async throws {
        let device = try await device()
        let todos = try device.todos()
        try await device.seed([localRow("c", 1)])
        try await todos.insert(Todo(id: "a", text: "anna's"))
        signIn.change(to: "ben")
        try await todos.insert(Todo(id: "b", text: "ben's"))
        #expect(await code { try await todos.purge() } == .pendingOperations)
        try await todos.purge(force: true)
        #expect(try await todos.read().map(\.id) == ["a"])
        #expect(try await device.queue() == ["insert a"])
        try await todos.purge()
    }

    @Test("A purge of an account removes its rows, operations and cursors")
    func aPurgeOfAnAccountRemovesItsRowsAndOperations() async throws {
        let device = try await device()
        let todos = try device.todos()
        transport.add(page([serverRow("a", 1), serverRow("b", 1)]))
        try await todos.pull(queryID: "all")
        signIn.change(to: "ben")
        transport.add(page([serverRow("b", 1), serverRow("c", 3)]))
        try await todos.pull(queryID: "all")
        try await todos.insert(Todo(id: "d", text: "ben's"))
        signIn.change(to: "anna")
        try await todos.update(id: "a") { $0.text = "anna's" }
        signIn.change(to: "ben")
        let isRejected = await code { try await device.context.purge(account: "anna") }
        #expect(isRejected == .pendingOperations)
        #expect(try await todos.count() == 4)
        try await device.context.purge(account: "anna", force: true)
        #expect(try await todos.read(sortedBy: [.ascending(\.id)]).map(\.id) == ["b", "c", "d"])
        #expect(try await device.queue() == ["insert d"])
        // The account reads from the start when it returns.
        signIn.change(to: "anna")
        transport.add(page([]))
        try await todos.pull(queryID: "all")
        #expect(!(transport.sent.last?.query.contains("updatedAt ge") ?? true))
    }

    @Test("A purge of an account removes the rows that the account adopted")
    func aPurgeOfAnAccountRemovesAdoptedRows() async throws {
        signIn.change(to: nil)
        let device = try await device()
        let todos = try device.todos()
        transport.add(page([serverRow("public", 1)]))
        try await todos.pull(queryID: "public")
        try await todos.insert(Todo(id: "n", text: "nobody's"))
        signIn.change(to: "anna")
        try await device.context.adopt(anonymousWork: true)
        transport.add(.json(201, serverRow("n", 2, text: "nobody's")))
        try await device.context.push()
        transport.add(page([serverRow("n", 2, text: "nobody's")]))
        try await todos.pull(queryID: "all")
        try await device.context.purge(account: "anna")
        #expect(try await todos.read().map(\.id) == ["public"])
    }

    @Test("A purge of an account does not bring back a row that the account has deleted")
    func aPurgeOfAnAccountKeepsItsDeletes() async throws {
        let device = try await device()
        let todos = try device.todos()
        transport.add(page([serverRow("a", 1)]))
        try await todos.pull(queryID: "all")
        signIn.change(to: "ben")
        transport.add(page([serverRow("b", 1)]))
        try await todos.pull(queryID: "all")
        signIn.change(to: "anna")
        try await todos.delete(id: "a")
        signIn.change(to: "ben")
        try await device.context.purge(account: "anna", force: true)
        #expect(try await todos.read().map(\.id) == ["b"])
        #expect(try await device.queue() == [])
    }

    @Test("Purged values are in none of the store's files", arguments: [true, false])
    func purgedValuesAreInNoFile(ofAccount: Bool) async throws {
        try await withTemporaryFile { path in
            let device = try await Device(
                transport,
                store: SQLiteStore(path: path),
                authentication: signIn,
                generation: .datasync
            )
            let todos = try device.todos()
            let secret = "a-secret-of-anna"
            let texts = (0..<200).map { "\(secret)-\($0)" }
            transport.add(page(texts.map { serverRow($0, 1, text: $0) }))
            try await todos.pull(queryID: "all")
            try await todos.insert((0..<50).map { Todo(id: "new \($0)", text: secret) })
            try await todos.update(id: texts[0]) {
                $0.text = secret + String(repeating: "x", count: 9000)
            }
            transport.add(.status(400))
            _ = try await device.push()
            #expect(Self.isAnywhere(secret, path))
            // A pooled connection that was used before does not block the purge.
            _ = try await todos.read()
            if ofAccount {
                try await device.context.purge(account: "anna", force: true)
            } else {
                try await todos.purge(force: true)
            }
            #expect(try await todos.count() == 0)
            #expect(!Self.isAnywhere(secret, path))
        }
    }

    @Test("Values of a row that left before a purge of its account are in no file")
    func valuesOfARowThatLeftAreInNoFile() async throws {
        try await withTemporaryFile { path in
            let device = try await Device(
                transport,
                store: SQLiteStore(path: path),
                authentication: signIn,
                generation: .datasync
            )
            let todos = try device.todos()
            let secret = "a-secret-of-anna"
            transport.add(page([serverRow("a", 1, text: secret + "-1")]))
            try await todos.pull(queryID: "all")
            try await todos.update(id: "a") { $0.text = secret + "-2" }
            transport.add(.json(200, serverRow("a", 2, text: secret + "-2")))
            #expect(try await device.push() == nil)
            transport.add(page([serverRow("a", 3, text: "", deleted: true)]), page([]))
            try await todos.pull(queryID: "all")
            #expect(try await todos.count() == 0)
            let states = "SELECT count(*) FROM \"MS_TableOwnStates\""
            #expect(try Database(path: path).integer(states) != 0)
            try await device.context.purge(account: "anna")
            #expect(try Database(path: path).integer(states) == 0)
            #expect(!Self.isAnywhere(secret, path))
        }
    }

    /// The WAL is emptied after the read.
    @Test("A long read blocks neither a purge nor the next insert")
    func aLongReadDoesNotBlockAPurge() async throws {
        try await withTemporaryFile { path in
            let device = try await Device(transport, store: SQLiteStore(path: path))
            let todos = try device.todos()
            let secret = "a-secret-of-anna"
            try await todos.insert((0..<50).map { Todo(id: "new \($0)", text: secret) })
            let reader = try Database(path: path, mode: .existing)
            try reader.execute("BEGIN; SELECT count(*) FROM \"Todo\"")
            try await todos.purge(force: true)
            try await todos.insert(Todo(id: "b"))
            #expect(Self.isAnywhere(secret, path))
            try reader.execute("COMMIT")
            try await todos.insert(Todo(id: "c"))
            #expect(!Self.isAnywhere(secret, path))
        }
    }

    private static func isAnywhere(_ text: String, _ path: String) -> Bool {
        ["", "-wal"].contains { ending in
            (try? Data(contentsOf: URL(filePath: path + ending)))?.range(of: Data(text.utf8)) != nil
        }
    }

    @Test("An app without authentication pushes its operations")
    func anAppWithoutAuthenticationSendsItsOperations() async throws {
        let device = try await Device(transport, store: store)
        try await device.todos().insert(Todo(id: "a", text: "mine"))
        transport.add(.json(201, serverRow("a", 1, text: "mine")))
        #expect(try await device.push() == nil)
        #expect(await code { try await device.context.adopt() } == .unauthorized)
    }
}
