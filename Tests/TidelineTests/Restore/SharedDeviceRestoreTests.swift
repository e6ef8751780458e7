// SharedDeviceRestoreTests: devices that several accounts use, whose server was restored from a backup.

import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestSupport

@Suite struct SharedDeviceRestoreTests {
    private static func ids(_ device: Device) async throws -> [String] {
        try await device.todos().read(sortedBy: [.ascending(\.id)]).map(\.id)
    }

    @Test(
        "A row that another account pulled without a query id does not count as lost",
        arguments: LostRowPolicy.allCases
    )
    func pulledByAnotherAccountWithoutAnID(policy: LostRowPolicy) async throws {
        try await withRestorableServer { server in
            let signIn = SignIn("anna")
            let device = try await Device(server, authentication: signIn, lostRows: policy)
            let backup = try server.backup()
            try await device.todos().insert(Todo(id: "anna's", text: "anna"))
            try await device.context.push()
            try await device.todos().pull(queryID: nil)
            try await server.restore(backup)
            signIn.change(to: "ben")
            for _ in 0..<2 {
                let result = try await device.todos().pull(queryID: nil)
                #expect(result.lost == 0 && result.removed == 0)
            }
            #expect(try await device.context.lostRowCount == 0)
            #expect(try await device.queue() == [])
            for account in ["anna", "ben"] {
                let purge = { try await device.context.purge(account: account) }
                #expect(await code(purge) == .pendingOperations)
            }
            #expect(try await Self.ids(device) == ["anna's"])
            try await device.context.purge(account: "anna", force: true)
            #expect(try await Self.ids(device).isEmpty)
        }
    }

    @Test(
        "A row that another account sent and never pulled does not count as lost",
        arguments: LostRowPolicy.allCases
    )
    func sentByAnotherAccount(policy: LostRowPolicy) async throws {
        try await withRestorableServer { server in
            let signIn = SignIn("ben")
            let device = try await Device(server, authentication: signIn, lostRows: policy)
            let backup = try server.backup()
            try await device.todos().pull(queryID: "all")
            signIn.change(to: "anna")
            try await device.todos().insert(Todo(id: "anna's", text: "anna"))
            try await device.context.push()
            try await server.restore(backup)
            signIn.change(to: "ben")
            for _ in 0..<2 {
                let result = try await device.todos().pull(queryID: "all")
                #expect(result.lost == 0 && result.removed == 0)
            }
            #expect(try await device.context.lostRowCount == 0)
            #expect(try await device.queue() == [])
            #expect(try await Self.ids(device) == ["anna's"])
        }
    }

    @Test("A row that an account sent before the first pull stays after the pulls of another")
    func sentBeforeTheFirstPull() async throws {
        try await withRestorableServer { server in
            let signIn = SignIn("anna")
            let device = try await Device(server, authentication: signIn)
            let backup = try server.backup()
            try await device.todos().insert(Todo(id: "anna's", text: "anna"))
            try await device.context.push()
            try await server.restore(backup)
            signIn.change(to: "ben")
            try await device.todos().pull(queryID: "all")
            try await device.todos().pull(queryID: "some", where: { $0.text == "ben" })
            signIn.change(to: "anna")
            try await device.todos().pull(queryID: "all")
            #expect(try await Self.ids(device) == ["anna's"])
        }
    }

    @Test("Rows are compared with the latest restore, not one before another account's first pull")
    func sentBeforeALaterRestore() async throws {
        try await withRestorableServer { server in
            let signIn = SignIn("anna")
            let device = try await Device(server, authentication: signIn)
            let empty = try server.backup()
            try await device.todos().insert(Todo(id: "anna's", text: "anna"))
            try await device.context.push()
            try await server.restore(empty)
            signIn.change(to: "ben")
            try await device.todos().pull(queryID: "some", where: { $0.text != "anna" })
            try await device.todos().insert(Todo(id: "ben's", text: "before"))
            try await device.context.push()
            try await device.todos().pull(queryID: "some", where: { $0.text != "anna" })
            let backup = try server.backup()
            try await device.todos().update(id: "ben's") { $0.text = "after" }
            try await device.context.push()
            try await device.todos().pull(queryID: "some", where: { $0.text != "anna" })
            try await server.restore(backup)
            let other = try await Device(server)
            try await other.todos().pull(queryID: "all")
            try await other.todos().update(id: "ben's") { $0.text = "other" }
            try await other.context.push()
            #expect(
                try await device.todos().pull(queryID: "some", where: { $0.text != "anna" }).lost
                    == 1
            )
        }
    }

    @Test("Rows of a store of the original SDK do not count as rows of another account")
    func originalStore() async throws {
        try await withRestorableServer { server in
            try await withTemporaryFile { path in
                try Database(path: path).execute(
                    FormatStepTests.original + """
                        INSERT INTO Todo VALUES ('gone', 'AAAAAAAAAAE=', 'old', 0);
                        """
                )
                let backup = try server.backup()
                let device = try await Device(
                    server,
                    store: SQLiteStore(path: path),
                    authentication: SignIn("anna")
                )
                try await device.todos().insert(Todo(id: "new", text: "anna"))
                #expect(try await device.push() == nil)
                for _ in 0..<2 { try await device.todos().pull(queryID: nil) }
                // The server has no row 'gone', and the pulls removed it.
                #expect(try await Self.ids(device) == ["new"])
                #expect(try await device.context.lostRowCount == 0)
                try await server.restore(backup)
                #expect(try await device.todos().pull(queryID: nil).lost == 1)
                #expect(try await device.context.lostRows().map(\.itemID) == ["new"])
            }
        }
    }

    @Test("A row of an account's own query is lost for that account only")
    func ownQuery() async throws {
        try await withRestorableServer { server in
            let signIn = SignIn("ben")
            let device = try await Device(server, authentication: signIn)
            let backup = try server.backup()
            try await device.todos().pull(queryID: "some", where: { $0.text == "ben" })
            signIn.change(to: "anna")
            try await device.todos().insert(Todo(id: "anna's", text: "anna"))
            try await device.context.push()
            try await device.todos().pull(queryID: "all")
            try await server.restore(backup)
            signIn.change(to: "ben")
            let result = try await device.todos().pull(queryID: "some", where: { $0.text == "ben" })
            #expect(result.lost == 0 && result.removed == 0)
            signIn.change(to: "anna")
            #expect(try await device.todos().pull(queryID: "all").lost == 1)
            #expect(try await device.context.lostRows().map(\.itemID) == ["anna's"])
            signIn.change(to: "ben")
            #expect(try await device.context.lostRows().isEmpty)
        }
    }

    @Test(
        "After a purge of the former account, the rows of a pull without a query id are lost",
        arguments: [false, true]
    )
    func purgedAccount(byTable: Bool) async throws {
        try await withRestorableServer { server in
            let signIn = SignIn("anna")
            let device = try await Device(server, authentication: signIn)
            let backup = try server.backup()
            try await device.todos().insert(Todo(id: "anna's", text: "anna"))
            try await device.context.push()
            if byTable {
                try await device.todos().purge(force: true)
            } else {
                try await device.context.purge(account: "anna")
            }
            try await server.restore(backup)
            signIn.change(to: "ben")
            try await device.todos().insert(Todo(id: "ben's", text: "ben"))
            try await device.context.push()
            try await device.todos().pull(queryID: nil)
            try await server.restore(backup)
            #expect(try await device.todos().pull(queryID: nil).lost == 1)
            #expect(try await device.context.lostRows().map(\.itemID) == ["ben's"])
        }
    }

    @Test(
        "A forced purge of an account keeps no row that a restore has lost",
        arguments: [false, true]
    )
    func purgedEdit(isDelete: Bool) async throws {
        try await withRestorableServer { server in
            let signIn = SignIn("anna")
            let device = try await PushAfterRestoreTests.loseText(
                server,
                conflicts: .fail,
                authentication: signIn
            )
            if isDelete {
                try await device.todos().delete(id: "changed")
            } else {
                try await device.todos().update(id: "changed") { $0.text = "x" }
            }
            #expect(try await device.push()?.status == .operationErrors)
            signIn.change(to: "ben")
            try await device.context.purge(account: "anna", force: true)
            #expect(try await Self.ids(device).isEmpty)
            for account in ["ben", "anna"] {
                signIn.change(to: account)
                #expect(try await device.context.lostRows().isEmpty)
            }
        }
    }

    @Test("A lost row of another account is neither changed nor purged")
    func lostByAnotherAccount() async throws {
        try await withRestorableServer { server in
            let signIn = SignIn("anna")
            let device = try await Device(server, authentication: signIn)
            let todos = try device.todos()
            let backup = try server.backup()
            try await todos.insert(Todo(id: "anna's", text: "anna"))
            try await device.context.push()
            try await todos.pull(queryID: "all")
            try await server.restore(backup)
            #expect(try await todos.pull(queryID: "all").lost == 1)
            signIn.change(to: "ben")
            try await todos.insert(Todo(id: "ben's", text: "ben"))
            try await device.context.push()
            for call in [
                { try await device.todos().update(id: "anna's") { $0.text = "ben" } },
                { try await device.todos().delete(id: "anna's") },
            ] as [@Sendable () async throws -> Void] {
                #expect(await code(call) == .otherAccount)
            }
            try await todos.purge(where: { $0.id == "ben's" })
            #expect(try await Self.ids(device) == ["anna's"])
            for force in [false, true] {
                try await todos.purge(force: force)
                #expect(try await Self.ids(device) == ["anna's"])
            }
            signIn.change(to: "anna")
            #expect(try await device.context.lostRows().map(\.itemID) == ["anna's"])
            try await todos.update(id: "anna's") { $0.text = "again" }
            #expect(try await device.queue() == ["insert anna's"])
        }
    }
}
