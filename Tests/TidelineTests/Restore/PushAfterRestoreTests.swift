// Pushes to a restored server before the device has read its rows: what the device learns from their responses.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct PushAfterRestoreTests {
    static func texts(_ device: Device) async throws -> [String: String] {
        Dictionary(
            uniqueKeysWithValues: try await device.todos().read().map { ($0.id, $0.text) }
        )
    }

    /// A device with the rows `changed` and `late`, of which the restore lost the latter.
    static func lose(
        _ server: RestorableServer,
        store: any LocalStore = MemoryStore(),
        conflicts: ConflictPolicy,
        authentication: SignIn? = nil
    ) async throws -> Device {
        let device = try await Device(
            server,
            store: store,
            conflicts: conflicts,
            authentication: authentication
        )
        try await device.todos().insert(Todo(id: "changed", text: "before"))
        try await device.context.push()
        let backup = try server.backup()
        try await device.todos().insert(Todo(id: "late", text: "late"))
        try await device.context.push()
        try await device.todos().pull(queryID: "all")
        try await server.restore(backup)
        return device
    }

    @Test(
        "Rows that were sent after the restore are not lost when another device changes them",
        arguments: [ConflictPolicy.serverWins, .clientWins, .merge]
    )
    func sentAfterTheRestore(policy: ConflictPolicy) async throws {
        try await withRestorableServer { server in
            let device = try await Self.lose(server, conflicts: policy)
            try await device.todos().update(id: "changed") { $0.text = "mine" }
            try await device.todos().insert(Todo(id: "new", text: "mine"))
            try await device.context.push()

            let other = try await Device(server)
            try await other.todos().pull(queryID: "all")
            for id in ["changed", "new"] {
                try await other.todos().update(id: id) { $0.text = "theirs" }
            }
            try await other.context.push()

            #expect(try await device.todos().pull(queryID: "all").lost == 1)
            #expect(try await device.context.lostRows().map(\.itemID) == ["late"])
            let texts = ["changed": "theirs", "new": "theirs", "late": "late"]
            #expect(try await Self.texts(device) == texts)
        }
    }

    @Test("An update of a row that the restore lost is an insert after an earlier push, too")
    func missingRow() async throws {
        try await withRestorableServer { server in
            let device = try await Self.lose(server, conflicts: .serverWins)
            try await device.todos().update(id: "changed") { $0.text = "mine" }
            try await device.context.push()
            try await device.todos().update(id: "late") { $0.rank = 1 }
            try await device.context.push()
            let there = try await device.client.table(Todo.self).read()
            #expect(Set(there.map(\.text)) == ["mine", "late"])
        }
    }

    @Test(
        "A row that the user deleted and inserted again is sent after a restore that lost it",
        arguments: [false, true]
    )
    func insertedAgain(anEarlierPushFoundTheRestore: Bool) async throws {
        try await withRestorableServer { server in
            let device = try await Self.lose(server, conflicts: .serverWins)
            if anEarlierPushFoundTheRestore {
                try await device.todos().update(id: "changed") { $0.text = "mine" }
                try await device.context.push()
            }
            try await device.todos().delete(id: "late")
            try await device.todos().insert(Todo(id: "late", text: "again"))
            try await device.context.push()
            let there = try await device.client.table(Todo.self).read()
            let other = anEarlierPushFoundTheRestore ? "mine" : "before"
            #expect(Set(there.map(\.text)) == [other, "again"])
        }
    }

    @Test("A row that the user deleted and inserted again is sent after a pull found the restore")
    func insertedAgainBeforeAPull() async throws {
        try await withRestorableServer { server in
            let store = MemoryStore()
            let device = try await Self.lose(server, store: store, conflicts: .serverWins)
            try await device.todos().delete(id: "late")
            try await device.todos().insert(Todo(id: "late", text: "again"))
            let blocked = try await Device(
                FailingWrites(inner: server),
                store: store,
                conflicts: .serverWins
            )
            #expect(try await blocked.todos().pull(queryID: "all").lost == 0)

            let again = try await Device(server, store: store, conflicts: .serverWins)
            #expect(try await again.push() == nil)
            let there = try await again.client.table(Todo.self).read()
            #expect(Set(there.map(\.text)) == ["before", "again"])
        }
    }

    @Test("A row that the user deleted and inserted again follows a delete on the server")
    func insertedAgainAfterADelete() async throws {
        try await withRestorableServer { server in
            let device = try await Device(server, conflicts: .serverWins)
            try await device.todos().insert(Todo(id: "changed", text: "before"))
            try await device.context.push()
            try await device.todos().pull(queryID: "all")
            let other = try await Device(server)
            try await other.todos().pull(queryID: "all")
            try await other.todos().delete(id: "changed")
            try await other.context.push()
            try await device.todos().delete(id: "changed")
            try await device.todos().insert(Todo(id: "changed", text: "again"))
            #expect(try await device.push() == nil)
            #expect(try await device.client.table(Todo.self).read().map(\.id) == [])
            #expect(try await Self.texts(device) == [:])
        }
    }

    @Test("An edit from before a restore does not revive a row that was deleted after the restore")
    func deletedAfterTheRestore() async throws {
        try await withRestorableServer { server in
            let device = try await Self.lose(server, conflicts: .serverWins)
            try await device.todos().update(id: "changed") { $0.text = "mine" }
            let other = try await Device(server)
            try await other.todos().pull(queryID: "all")
            try await other.todos().delete(id: "changed")
            try await other.context.push()
            #expect(try await device.push() == nil)
            #expect(try await device.client.table(Todo.self).read().map(\.id) == [])
            #expect(try await Self.texts(device) == ["late": "late"])
        }
    }

    @Test("An edit of a row whose undelete the restore lost revives the row")
    func undeletedAfterTheBackup() async throws {
        try await withRestorableServer { server in
            let device = try await Device(server, conflicts: .serverWins)
            try await device.todos().insert(Todo(id: "changed", text: "before"))
            try await device.context.push()
            try await device.todos().delete(id: "changed")
            try await device.context.push()
            let backup = try server.backup()
            try await device.todos().insert(Todo(id: "changed", text: "again"))
            try await device.context.push()
            try await device.todos().pull(queryID: "all")
            try await server.restore(backup)
            try await device.todos().update(id: "changed") { $0.rank = 1 }
            #expect(try await device.push() == nil)
            let there = try await device.client.table(Todo.self).read()
            #expect(there.map(\.text) == ["again"] && there.first?.rank == 1)
            #expect(try await Self.texts(device) == ["changed": "again"])
        }
    }

    /// A network that loses the response to the first insert.
    private final class LosingAnswer: Transport {
        private let inner: any Transport
        private let losesNext = Mutex(false)

        init(_ inner: any Transport) { self.inner = inner }

        func losesNextInsert() { losesNext.withLock { $0 = true } }

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            let response = try await inner.send(request)
            let isLost = losesNext.withLock { losesNext in
                defer { if response.status == 201 { losesNext = false } }
                return losesNext && response.status == 201
            }
            if isLost {
                throw TransportError(.connectionLost, "lost", outcomeIsUnknown: true)
            }
            return response
        }
    }

    private struct Draft: SyncRecord {
        static let isLocalOnly = true
        static let references = [Reference(\Draft.todoID, to: Todo.self, onDelete: .cascade)]
        var id = ""
        var todoID: String?
    }

    @Test("A row that was inserted again stays on the device if the insert's answer is replayed")
    func repeatedInsert() async throws {
        try await withRestorableServer { server in
            let network = LosingAnswer(server)
            let device = try await Device(
                network,
                conflicts: .serverWins,
                tables: [Todo.self, Draft.self]
            )
            let backup = try server.backup()
            try await device.todos().insert(Todo(id: "late", text: "late"))
            try await device.context.push()
            try await device.todos().pull(queryID: "all")
            let drafts = try device.client.syncTable(Draft.self)
            try await drafts.insert(Draft(id: "d", todoID: "late"))
            try await server.restore(backup)

            try await device.todos().update(id: "late") { $0.rank = 1 }
            network.losesNextInsert()
            await #expect(throws: PushError.self) { try await device.context.push() }
            #expect(try await device.push() == nil)
            #expect(try await device.todos().read().map(\.rank) == [1])
            #expect(try await drafts.read().map(\.id) == ["d"])
            try await device.todos().pull(queryID: "all")
            #expect(try await device.todos().read().map(\.rank) == [1])
        }
    }

    /// A portal answers 200 with a page of its own.
    @Test(
        "An update of a row that the restore lost stays in the queue until a list can be read",
        arguments: [200, 401, 429, 503]
    )
    func missingRowWithoutAList(status: Int) async throws {
        try await withRestorableServer { server in
            let lists = FailingLists(inner: server)
            let device = try await Device(lists, conflicts: .serverWins)
            let backup = try server.backup()
            try await device.todos().insert(Todo(id: "late", text: "late"))
            try await device.context.push()
            try await device.todos().pull(queryID: "all")
            try await server.restore(backup)
            try await device.todos().update(id: "late") { $0.rank = 1 }
            lists.status.withLock { $0 = status }
            await #expect(throws: PushError.self) { try await device.context.push() }
            #expect(try await Self.texts(device) == ["late": "late"])
            #expect(try await device.queue() == ["update late attempted"])

            lists.status.withLock { $0 = nil }
            try await device.context.push()
            let there = try await device.client.table(Todo.self).read()
            #expect(there.map(\.text) == ["late"] && there.first?.rank == 1)
        }
    }

    @Test(
        "An update of a row that the restore lost is an insert if the device never pulled"
    )
    func missingRowWithoutAPull() async throws {
        try await withRestorableServer { server in
            let device = try await Device(server, conflicts: .serverWins)
            let backup = try server.backup()
            try await device.todos().insert(Todo(id: "late", text: "late"))
            try await device.context.push()
            try await server.restore(backup)
            try await device.todos().update(id: "late") { $0.rank = 1 }
            try await device.context.push()
            let there = try await device.client.table(Todo.self).read()
            #expect(there.map(\.text) == ["late"] && there.first?.rank == 1)
            #expect(try await Self.texts(device) == ["late": "late"])
            try await device.todos().pull(queryID: "all")
            #expect(try await device.context.lostRows().isEmpty)
        }
    }

    @Test("Until the next pull, a purge keeps rows that the restore may have lost")
    func purge() async throws {
        try await withRestorableServer { server in
            let device = try await Self.lose(server, conflicts: .serverWins)
            try await device.todos().update(id: "changed") { $0.text = "mine" }
            try await device.context.push()
            let error = await #expect(throws: SyncError.self) { try await device.todos().purge() }
            #expect(error?.code == .pendingOperations)
            #expect(error?.message.contains("1 row(s) of 'Todo'") == true)
            try await device.todos().purge(where: { $0.id == "changed" })
            #expect(try await Self.texts(device) == ["late": "late"])
            try await device.todos().pull(queryID: "all")
            #expect(try await device.context.lostRows().map(\.itemID) == ["late"])
            try await device.todos().purge(force: true)
            #expect(try await device.todos().count() == 0)
        }
    }

    @Test("Until the next pull, a purge of an account keeps rows that the restore may have lost")
    func purgeOfAnAccount() async throws {
        try await withRestorableServer { server in
            let device = try await Self.lose(
                server,
                conflicts: .serverWins,
                authentication: SignIn("anna")
            )
            try await device.todos().update(id: "changed") { $0.text = "mine" }
            try await device.context.push()
            let error = await #expect(throws: SyncError.self) {
                try await device.context.purge(account: "anna")
            }
            #expect(error?.message.contains("1 row(s) of 'Todo'") == true)
            #expect(try await Self.texts(device) == ["changed": "mine", "late": "late"])
            try await device.context.purge(account: "anna", force: true)
            #expect(try await device.todos().count() == 0)
        }
    }

    @Test("Until the next pull, a purge keeps all rows if the server was restored to its beginning")
    func purgeAfterALossOfAllRows() async throws {
        try await withRestorableServer { server in
            let backup = try server.backup()
            let device = try await Self.lose(server, conflicts: .serverWins)
            try await server.restore(backup)
            try await device.todos().insert(Todo(id: "new", text: "new"))
            try await device.context.push()
            await #expect(throws: SyncError.self) { try await device.todos().purge() }
            #expect(try await device.todos().count() == 3)
            #expect(try await device.todos().pull(queryID: "all").lost == 2)
        }
    }

    @Test("The event counts the lost rows even if a push learned of the new epoch first")
    func event() async throws {
        try await withRestorableServer { server in
            let device = try await Self.lose(server, conflicts: .serverWins)
            let events = device.context.events
            let event = Task { await events.first { $0.kind == .restoredServer } }
            await Task.yield()
            try await device.todos().update(id: "changed") { $0.text = "mine" }
            try await device.context.push()
            try await device.todos().pull(queryID: "all")
            #expect(await event.value == .restoredServer(lost: 1))
        }
    }

    @Test(
        "A server's conflict rule cannot replace a state that the restore lost with an older one",
        arguments: [ConflictRule.serverWins, .clientWins],
        [ConflictPolicy.fail, .serverWins, .clientWins, .merge]
    )
    func serverResolves(rule: ConflictRule, policy: ConflictPolicy) async throws {
        try await withRestorableServer(conflict: rule) { server in
            let device = try await Self.loseText(server, conflicts: policy)
            try await device.todos().update(id: "changed") { $0.rank = 7 }
            #expect(try await device.push() == nil)
            #expect(try await Self.texts(device) == ["changed": "after"])
            #expect(try await device.context.lostRows().map(\.itemID) == ["changed"])
            try await device.todos().pull(queryID: "all")
            #expect(try await device.context.sendLostRowsAgain() == 1)
            try await device.context.push()
            let there = try await device.client.table(Todo.self).read(id: "changed")
            #expect(there?.text == "after" && there?.rank == 7)
        }
    }

    @Test(
        "A lost state stays on the device although a pull has returned the older state",
        arguments: [ConflictRule.serverWins, .clientWins]
    )
    func serverResolvesAfterAPull(rule: ConflictRule) async throws {
        try await withRestorableServer(conflict: rule) { server in
            let store = MemoryStore()
            let device = try await Self.loseText(server, store: store, conflicts: .serverWins)
            try await device.todos().update(id: "changed") { $0.rank = 7 }
            let blocked = try await Device(
                FailingWrites(inner: server),
                store: store,
                conflicts: .serverWins
            )
            #expect(try await blocked.todos().pull(queryID: "all").lost == 0)

            let again = try await Device(server, store: store, conflicts: .serverWins)
            let events = again.context.events
            let event = Task { await events.first { $0.kind == .restoredServer } }
            await Task.yield()
            #expect(try await again.push() == nil)
            try #require(try await again.context.lostRowCount == 1)
            #expect(try await Self.texts(again) == ["changed": "after"])
            try await again.todos().pull(queryID: "all")
            #expect(await event.value == .restoredServer(lost: 1))
        }
    }

    /// A device whose last text of the only row the restore lost.
    static func loseText(
        _ server: RestorableServer,
        store: any LocalStore = MemoryStore(),
        conflicts: ConflictPolicy,
        authentication: SignIn? = nil
    ) async throws -> Device {
        let device = try await Device(
            server,
            store: store,
            conflicts: conflicts,
            authentication: authentication
        )
        try await device.todos().insert(Todo(id: "changed", text: "before"))
        try await device.context.push()
        let backup = try server.backup()
        try await device.todos().update(id: "changed") { $0.text = "after" }
        try await device.context.push()
        try await device.todos().pull(queryID: "all")
        try await server.restore(backup)
        return device
    }

    /// A server that fails for every write.
    private struct FailingWrites: Transport {
        let inner: any Transport

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            guard request.method == "GET" else {
                return TransportResponse(status: 500, headers: ["Tideline-Schema": "1"])
            }
            return try await inner.send(request)
        }

        func stream(_ request: TransportRequest) async throws -> TransportStream {
            try await inner.stream(request)
        }
    }

    /// A server that answers lists with a status, if one is set.
    private final class FailingLists: Transport {
        let inner: any Transport
        let status = Mutex<Int?>(nil)

        init(inner: any Transport) { self.inner = inner }

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            if request.method == "GET", let status = status.withLock({ $0 }) {
                let headers: HTTPFields = status == 401 ? ["WWW-Authenticate": "Bearer"] : [:]
                return TransportResponse(status: status, headers: headers)
            }
            return try await inner.send(request)
        }

        func stream(_ request: TransportRequest) async throws -> TransportStream {
            try await inner.stream(request)
        }
    }

    private struct Customer: SyncRecord {
        var id = ""
        var name = ""
    }

    private struct Job: SyncRecord {
        static let references = [
            Reference(\Job.customerID, to: Customer.self, onDelete: .cascade)
        ]
        var id = ""
        var customerID: String?
        var note = ""
    }

    private static let firm = [
        TableDefinition("Customer", columns: [ColumnDefinition("name", .string)]),
        TableDefinition(
            "Job",
            columns: [
                ColumnDefinition("customerID", .string), ColumnDefinition("note", .string),
            ],
            references: [TableReference("customerID", to: "Customer", onDelete: .cascade)]
        ),
    ]

    @Test("Children that were rejected are sent when their lost parent is sent again")
    func childrenOfALostParent() async throws {
        try await withRestorableServer(more: Self.firm) { server in
            let device = try await Device(
                server,
                conflicts: .serverWins,
                tables: [Customer.self, Job.self]
            )
            let customers = try device.client.syncTable(Customer.self)
            let jobs = try device.client.syncTable(Job.self)
            try await customers.insert(Customer(id: "early"))
            try await jobs.insert(Job(id: "moved", customerID: "early"))
            try await device.context.push()
            let backup = try server.backup()
            try await customers.insert(Customer(id: "late"))
            try await jobs.update(id: "moved") { $0.customerID = "late" }
            try await device.context.push()
            for table in ["Customer", "Job"] {
                try await device.client.syncTable(named: table).pull(queryID: "all")
            }
            try await server.restore(backup)

            try await jobs.insert(Job(id: "new", customerID: "late"))
            try await jobs.update(id: "moved") { $0.note = "edited" }
            #expect(try await device.push()?.errors.map(\.itemID) == ["new", "moved"])
            try await customers.pull(queryID: "all")
            #expect(try await device.context.sendLostRowsAgain() == 1)
            #expect(try await device.push() == nil)
            let there = try await device.client.table(Job.self).read()
            #expect(Set(there.map(\.id)) == ["moved", "new"])
            #expect(there.allSatisfy { $0.customerID == "late" })
            #expect(there.first { $0.id == "moved" }?.note == "edited")
            #expect(try await device.context.operationErrors().isEmpty)
        }
    }

    /// A network on which the app edits a row while a write is in progress.
    private final class EditingNetwork: Transport {
        private let inner: any Transport
        private let edit = Mutex<(@Sendable () async throws -> Void)?>(nil)

        init(_ inner: any Transport) { self.inner = inner }

        func edits(_ body: @escaping @Sendable () async throws -> Void) {
            edit.withLock { $0 = body }
        }

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            let response = try await inner.send(request)
            guard request.method != "GET" else { return response }
            let edit = edit.withLock { edit in
                defer { edit = nil }
                return edit
            }
            try await edit?()
            return response
        }

        func stream(_ request: TransportRequest) async throws -> TransportStream {
            try await inner.stream(request)
        }
    }

    @Test(
        "A push during which the app edits the row sends the lost state, too",
        arguments: [ConflictRule.serverWins, .clientWins]
    )
    func editDuringThePush(rule: ConflictRule) async throws {
        try await withRestorableServer(conflict: rule) { server in
            let store = MemoryStore()
            _ = try await Self.loseText(server, store: store, conflicts: .serverWins)
            let network = EditingNetwork(server)
            let device = try await Device(network, store: store, conflicts: .serverWins)
            try await device.todos().update(id: "changed") { $0.rank = 7 }
            network.edits { try await device.todos().update(id: "changed") { $0.complete = true } }
            #expect(try await device.push() == nil)
            let there = try await device.client.table(Todo.self).read(id: "changed")
            #expect(there?.text == "after" && there?.rank == 7 && there?.complete == true)
            #expect(try await device.todos().pull(queryID: "all").lost == 0)
        }
    }
}
