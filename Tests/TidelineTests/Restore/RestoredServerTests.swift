// RestoredServerTests: devices whose server's database was restored from a backup, or replaced by another one.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct RestoredServerTests {
    private static func texts(_ device: Device) async throws -> [String: String] {
        Dictionary(
            uniqueKeysWithValues: try await device.todos().read().map { ($0.id, $0.text) }
        )
    }

    /// A server with `kept` and `changed` in its backup, which lost the row `late` and the second text of
    /// `changed`; both devices have everything.
    private static func lose(
        _ server: RestorableServer,
        store: any LocalStore = MemoryStore(),
        queryID: String? = "all",
        lostRows: LostRowPolicy = .ask
    ) async throws -> (Device, Device) {
        let one = try await Device(server, store: store, lostRows: lostRows)
        let two = try await Device(server)
        try await one.todos().insert([
            Todo(id: "kept", text: "kept"), Todo(id: "changed", text: "before"),
        ])
        try await one.context.push()
        let backup = try server.backup()
        try await one.todos().insert(Todo(id: "late", text: "late"))
        try await one.todos().update(id: "changed") { $0.text = "after" }
        try await one.context.push()
        for device in [one, two] { try await device.todos().pull(queryID: queryID) }
        try await server.restore(backup)
        return (one, two)
    }

    @Test("Rows and texts that the restore lost stay on every device", arguments: ["all", nil])
    func lostRowsStay(queryID: String?) async throws {
        try await withRestorableServer { server in
            let (one, two) = try await Self.lose(server, queryID: queryID)
            for device in [one, two] {
                let result = try await device.todos().pull(queryID: queryID)
                #expect(result.lost == 2 && result.removed == 0)
                // Further pulls change nothing.
                for _ in 0..<2 {
                    let again = try await device.todos().pull(queryID: queryID)
                    #expect(again.lost == 0 && again.removed == 0)
                }
                #expect(
                    try await Self.texts(device)
                        == ["kept": "kept", "changed": "after", "late": "late"]
                )
                let lost = try await device.context.lostRows()
                #expect(lost.map(\.itemID) == ["changed", "late"])
                #expect(lost.map { $0.serverItem?["text"]?.text } == ["before", nil])
                #expect(lost.map(\.isDeletedOnServer) == [false, false])
                #expect(lost[0].differingColumns == ["text"])
                #expect(try await device.context.lostRowCount == 2)
            }
        }
    }

    @Test(
        "An edit of another device on the restored server does not hide lost values",
        arguments: LostRowPolicy.allCases
    )
    func anotherDeviceWasFirst(policy: LostRowPolicy) async throws {
        try await withRestorableServer { server in
            let (one, _) = try await Self.lose(server, lostRows: policy)
            // A device that never stored the lost text, and one that deletes a row.
            let third = try await Device(server)
            try await third.todos().pull(queryID: "all")
            try await third.todos().update(id: "changed") { $0.text = "third" }
            try await third.todos().update(id: "kept") { $0.text = "news" }
            try await third.context.push()
            let result = try await one.todos().pull(queryID: "all")
            #expect(result.lost == 2 && result.removed == 0)
            try await one.context.push()
            let lost = try await one.context.lostRows()
            let theirs = try await third.client.table(Todo.self).read(id: "changed")?.text
            // The third device's text stays on the server until the app decides.
            #expect(theirs == "third")
            switch policy {
            case .ask:
                #expect(lost.map(\.itemID) == ["changed", "late"])
                #expect(lost.first?.serverItem?["text"] == "third")
                #expect(try await Self.texts(one)["changed"] == "after")
                try await lost.first?.sendAgain()
                try await one.context.push()
                let now = try await third.client.table(Todo.self).read(id: "changed")?.text
                #expect(now == "after")
            case .sendAgain:
                #expect(lost.map(\.itemID) == ["changed"])
                #expect(try await Self.texts(one)["changed"] == "after")
            case .discard:
                #expect(lost.isEmpty)
                #expect(try await Self.texts(one)["changed"] == "third")
            }
            // Edits without a loss are sent as usual.
            #expect(try await Self.texts(one)["kept"] == "news")
        }
    }

    @Test("A row whose edit was discarded after a restore takes the server's later texts")
    func discardedEdit() async throws {
        try await withRestorableServer { server in
            let (one, two) = try await Self.lose(server)
            // The edit is pending while the pull returns the restored server's row, and then has a conflict.
            try await one.todos().update(id: "kept") { $0.text = "mine" }
            try await two.todos().pull(queryID: "all")
            try await two.todos().update(id: "kept") { $0.text = "news" }
            try await two.context.push()
            try await one.todos().pull(queryID: "all")
            await #expect(throws: PushError.self) { try await one.context.push() }
            for error in try await one.context.operationErrors() {
                try await error.cancelOperationAndDiscardItem()
            }
            #expect(try await Self.texts(one)["kept"] == "news")
            try await two.todos().update(id: "kept") { $0.text = "later" }
            try await two.context.push()
            try await one.todos().pull(queryID: "all")
            #expect(try await Self.texts(one)["kept"] == "later")
            #expect(try await one.context.lostRows().map(\.itemID) == ["changed", "late"])
        }
    }

    @Test("An epoch contains the latest commit of the restored database")
    func restorePoints() {
        #expect(RestorePoint(epoch: "0123456789abcdef.65f1a").commit == 0x65f1a)
        for epoch in [nil, "", "0123456789abcdef", "a.", "a.0", "a.-1", "a.b.c", "a.x"] as [String?]
        {
            #expect(RestorePoint(epoch: epoch).commit == nil)
        }
    }

    @Test("The event reports how many rows are lost")
    func event() async throws {
        try await withRestorableServer { server in
            let (one, _) = try await Self.lose(server)
            let events = one.context.events
            let event = Task { await events.first { $0.kind == .restoredServer } }
            await Task.yield()
            try await one.todos().pull(queryID: "all")
            #expect(await event.value == .restoredServer(lost: 2))
        }
    }

    @Test("A row that is sent again is restored on the server and on every device")
    func sendAgain() async throws {
        try await withRestorableServer { server in
            let (one, two) = try await Self.lose(server)
            for device in [one, two] { try await device.todos().pull(queryID: "all") }
            #expect(try await one.context.sendLostRowsAgain { $0.itemID == "late" } == 1)
            let changed = try #require(try await one.context.lostRows().first)
            try await changed.sendAgain()
            await #expect(throws: SyncError.self) { try await changed.sendAgain() }
            #expect(try await Set(one.queue()) == ["insert late", "update changed"])
            try await one.context.push()
            #expect(try await one.context.lostRowCount == 0)
            for device in [one, two] {
                try await device.todos().pull(queryID: "all")
                #expect(
                    try await Self.texts(device)
                        == ["kept": "kept", "changed": "after", "late": "late"]
                )
                // The second device has nothing left to send, because the server has the same row.
                #expect(try await device.context.lostRowCount == 0)
            }
            let result = try await two.todos().verify(queryID: "all")
            #expect(result.isEqual && result.lost == 0)
        }
    }

    @Test("A discarded row becomes the server's row, or is removed from the device")
    func discard() async throws {
        try await withRestorableServer { server in
            let (one, _) = try await Self.lose(server)
            try await one.todos().pull(queryID: "all")
            #expect(try await one.context.discardLostRows() == 2)
            #expect(try await Self.texts(one) == ["kept": "kept", "changed": "before"])
            #expect(try await one.context.lostRowCount == 0)
            try await one.todos().pull(queryID: "all")
            #expect(try await one.todos().verify(queryID: "all").isEqual)
        }
    }

    @Test("A policy resends or discards lost rows automatically")
    func policies() async throws {
        for policy in [LostRowPolicy.sendAgain, .discard] {
            try await withRestorableServer { server in
                let (one, _) = try await Self.lose(server, lostRows: policy)
                try await one.todos().pull(queryID: "all")
                try await one.context.push()
                try await one.todos().pull(queryID: "all")
                #expect(try await one.context.lostRowCount == 0)
                let expected =
                    policy == .discard
                    ? ["kept": "kept", "changed": "before"]
                    : ["kept": "kept", "changed": "after", "late": "late"]
                #expect(try await Self.texts(one) == expected)
                let there = try await one.client.table(Todo.self).read()
                #expect(
                    Dictionary(uniqueKeysWithValues: there.map { ($0.id, $0.text) }) == expected
                )
            }
        }
    }

    @Test("Lost rows are still lost after a restart of the app")
    func restart() async throws {
        try await withRestorableServer { server in
            try await withTemporaryFile { file in
                let store = try SQLiteStore(path: file)
                let (one, _) = try await Self.lose(server, store: store)
                try await one.todos().pull(queryID: "all")
                try await store.close()
                let again = try await Device(server, store: try SQLiteStore(path: file))
                #expect(try await again.context.lostRowCount == 2)
                try await again.todos().pull(queryID: "all")
                #expect(try await again.context.lostRows().map(\.itemID) == ["changed", "late"])
                try await again.context.sendLostRowsAgain()
                try await again.context.push()
                let there = try await again.client.table(Todo.self).read(id: "late")
                #expect(there?.text == "late")
            }
        }
    }

    @Test("An empty database that replaces the old one takes no row from a device")
    func emptyDatabase() async throws {
        for count in [2, 100] {
            try await withRestorableServer { server in
                let device = try await Device(server)
                try await device.todos()
                    .insert((0..<count).map { Todo(id: "row-\($0)", text: "\($0)") })
                try await device.context.push()
                try await device.todos().pull(queryID: "all")
                try await server.restore(nil)
                server.forgetSent()
                #expect(try await device.todos().pull(queryID: "all").lost == count)
                #expect(try await device.todos().count() == count)
                // The delta link, the list, and the request whether the server has any row at all.
                #expect(server.sent.count <= 3)
                try await device.context.sendLostRowsAgain()
                try await device.context.push()
                #expect(try await device.client.table(Todo.self).count() == count)
            }
        }
    }

    @Test("An edit of a lost row is sent as the request that the restored server needs")
    func edits() async throws {
        try await withRestorableServer { server in
            let (one, two) = try await Self.lose(server)
            for device in [one, two] { try await device.todos().pull(queryID: "all") }
            try await one.todos().update(id: "late") { $0.rank = 7 }
            try await one.todos().update(id: "changed") { $0.rank = 8 }
            #expect(try await one.queue() == ["insert late", "update changed"])
            #expect(try await one.context.lostRowCount == 0)
            try await one.context.push()
            let there = try await one.client.table(Todo.self).read()
            #expect(
                Set(there.map { "\($0.id) \($0.text) \($0.rank ?? 0)" }) == [
                    "kept kept 0", "late late 7", "changed after 8",
                ]
            )
            // The other device keeps its copies until it decides: they differ from the server's.
            try await two.todos().pull(queryID: "all")
            #expect(try await two.context.lostRows().map(\.itemID) == ["changed", "late"])
            #expect(try await two.context.lostRows().map { $0.serverItem?["rank"] } == [8, 7])
            try await two.context.discardLostRows()
            try await two.todos().pull(queryID: "all")
            #expect(try await two.todos().verify(queryID: "all").isEqual)
        }
    }

    @Test("A delete of a lost row needs no request if the server does not have the row")
    func deletes() async throws {
        try await withRestorableServer { server in
            let (one, _) = try await Self.lose(server)
            try await one.todos().pull(queryID: "all")
            try await one.todos().delete(id: "late")
            try await one.todos().delete(id: "changed")
            #expect(try await one.queue() == ["delete changed"])
            try await one.context.push()
            try await one.todos().pull(queryID: "all")
            #expect(try await Self.texts(one) == ["kept": "kept"])
            #expect(try await one.context.lostRowCount == 0)
        }
    }

    @Test("A row that is deleted after the restore is removed from every device")
    func deletedSince() async throws {
        try await withRestorableServer { server in
            let (one, two) = try await Self.lose(server)
            try await one.todos().pull(queryID: "all")
            try await one.context.sendLostRowsAgain()
            try await one.context.push()
            try await one.todos().pull(queryID: "all")
            for id in ["kept", "late"] { try await one.todos().delete(id: id) }
            try await one.context.push()
            // This device notices the restored server only now.
            try await two.todos().pull(queryID: "all")
            #expect(try await Self.texts(two) == ["changed": "after"])
            #expect(try await two.context.lostRowCount == 0)
        }
    }

    @Test("A row whose deletion the restore lost is restored")
    func undoneDelete() async throws {
        try await withRestorableServer { server in
            let device = try await Device(server)
            try await device.todos().insert(Todo(id: "a", text: "a"))
            try await device.context.push()
            let backup = try server.backup()
            try await device.todos().delete(id: "a")
            try await device.context.push()
            try await device.todos().pull(queryID: "all")
            try await server.restore(backup)
            try await device.todos().pull(queryID: "all")
            #expect(try await Self.texts(device) == ["a": "a"])
        }
    }

    @Test("A row that was undeleted after the backup is lost, not deleted")
    func undoneRevival() async throws {
        try await withRestorableServer { server in
            let device = try await Device(server)
            try await device.todos().insert(Todo(id: "a", text: "a"))
            try await device.context.push()
            try await device.client.table(Todo.self).delete(id: "a")
            let backup = try server.backup()
            try await device.client.table(Todo.self).undelete(id: "a")
            try await device.todos().pull(queryID: "all")
            try await server.restore(backup)
            #expect(try await device.todos().pull(queryID: "all").lost == 1)
            #expect(try await device.context.lostRows().map(\.isDeletedOnServer) == [true])
            try await device.context.sendLostRowsAgain()
            try await device.context.push()
            #expect(try await device.client.table(Todo.self).read(id: "a")?.text == "a")
        }
    }

    @Test("Rows that only matched the query in the lost state are lost, too")
    func filters() async throws {
        try await withRestorableServer { server in
            let device = try await Device(server)
            try await device.todos().insert([Todo(id: "a", text: "a"), Todo(id: "b", text: "b")])
            try await device.context.push()
            let backup = try server.backup()
            try await device.todos().update(id: "a") { $0.complete = true }
            try await device.context.push()
            let other = try await Device(server)
            try await other.todos().pull(queryID: "done", where: { $0.complete })
            #expect(try await Self.texts(other) == ["a": "a"])
            try await server.restore(backup)
            #expect(try await other.todos().pull(queryID: "done", where: { $0.complete }).lost == 1)
            let lost = try #require(try await other.context.lostRows().first)
            #expect(lost.serverItem?["complete"] == false)
            try await lost.discard()
            // The server's row is not in the query.
            #expect(try await other.todos().count() == 0)
        }
    }

    @Test("Each of two queries finds its lost rows")
    func twoQueries() async throws {
        try await withRestorableServer { server in
            let device = try await Device(server)
            let backup = try server.backup()
            try await device.todos().insert([
                Todo(id: "a", text: "a"), Todo(id: "b", text: "b", complete: true),
            ])
            try await device.context.push()
            try await device.todos().pull(queryID: "open", where: { !$0.complete })
            try await device.todos().pull(queryID: "done", where: { $0.complete })
            try await server.restore(backup)
            for _ in 0..<2 {
                try await device.todos().pull(queryID: "open", where: { !$0.complete })
                try await device.todos().pull(queryID: "done", where: { $0.complete })
            }
            #expect(try await device.context.lostRows().map(\.itemID) == ["a", "b"])
        }
    }

    @Test("A second restore, from a better backup, finds the lost rows again")
    func betterBackup() async throws {
        try await withRestorableServer { server in
            let device = try await Device(server)
            let empty = try server.backup()
            try await device.todos().insert([Todo(id: "a", text: "a"), Todo(id: "b", text: "b")])
            try await device.context.push()
            let good = try server.backup()
            try await device.todos().insert(Todo(id: "c", text: "c"))
            try await device.context.push()
            try await device.todos().pull(queryID: "all")
            try await server.restore(empty)
            #expect(try await device.todos().pull(queryID: "all").lost == 3)
            try await server.restore(good)
            try await device.todos().pull(queryID: "all")
            #expect(try await device.context.lostRows().map(\.itemID) == ["c"])
            #expect(try await device.todos().count() == 3)
            #expect(try await device.todos().verify(queryID: "all").isEqual)
        }
    }

    @Test("A purge rejects the removal of lost rows, and removes them if it is forced")
    func purge() async throws {
        try await withRestorableServer { server in
            let (one, _) = try await Self.lose(server)
            try await one.todos().pull(queryID: "all")
            #expect(await code { try await one.todos().purge() } == .pendingOperations)
            try await one.todos().purge(where: { $0.id == "kept" })
            #expect(try await one.context.lostRowCount == 2)
            try await one.todos().purge(force: true)
            #expect(try await one.context.lostRowCount == 0)
            try await one.todos().pull(queryID: "all")
            #expect(try await Self.texts(one) == ["kept": "kept", "changed": "before"])
        }
    }

    @Test("A verification and an explanation report that a row is lost, and do not repair it")
    func verify() async throws {
        try await withRestorableServer { server in
            let (one, _) = try await Self.lose(server)
            // No pull has noticed the restored server yet.
            let early = try await one.todos().verify(queryID: "all", repair: true)
            #expect(early.surplus == 0 && early.different == 0 && early.lost == 2)
            #expect(try await one.todos().count() == 3)
            try await one.todos().pull(queryID: "all")
            let late = try await one.todos().verify(queryID: "all", repair: true)
            #expect(late.isEqual && late.lost == 2)
            #expect(try await one.todos().count() == 3)
            let why = try await one.context.explain(table: "Todo", id: "late")
            #expect(why.has(.lost) && why.isHere)
            #expect(try await !one.context.explain(table: "Todo", id: "kept").has(.lost))
        }
    }

    @Test("An expired link and a full pull still remove rows that the server deleted")
    func onlyARestoreLoses() async throws {
        try await withRestorableServer(softDelete: false) { server in
            let (one, two) = (try await Device(server), try await Device(server))
            try await one.todos().insert([Todo(id: "a", text: "a"), Todo(id: "b", text: "b")])
            try await one.context.push()
            try await two.todos().pull(queryID: nil)
            try await one.client.table(Todo.self).delete(id: "a")
            #expect(try await two.todos().pull(queryID: nil).removed == 1)
            #expect(try await two.context.lostRowCount == 0)
        }
    }

    @Test("The status of automatic sync shows lost rows")
    func status() async throws {
        try await withRestorableServer { server in
            let (one, _) = try await Self.lose(server)
            var policy = SyncPolicy()
            policy.isLive = false
            policy.interval = nil
            try one.client.startSyncing(policy)
            for await status in one.client.syncStatus {
                if case .blocked(by: .lostRows(2)) = status { break }
            }
            one.client.stopSyncing()
            var machine = SyncMachine(SyncPolicy())
            _ = machine.handle(.started, at: .now)
            _ = machine.handle(.finished(.lost(2)), at: .now)
            #expect(machine.status == .blocked(by: .lostRows(2)))
        }
    }

    // MARK: - The queue

    @Test(
        "A pending edit never gives way to the older state of a restored server",
        arguments: [ConflictPolicy.serverWins, .clientWins, .merge, .fail]
    )
    func queuedEdits(policy: ConflictPolicy) async throws {
        try await withRestorableServer { server in
            let store = MemoryStore()
            _ = try await Self.lose(server, store: store)
            let device = try await Device(server, store: store, conflicts: policy)
            try await device.todos().update(id: "late") { $0.rank = 1 }
            try await device.todos().update(id: "changed") { $0.rank = 2 }
            let error = try await device.push()
            #expect(
                try await Self.texts(device) == [
                    "kept": "kept", "changed": "after", "late": "late",
                ]
            )
            if case .fail = policy.kind {
                #expect(error?.errors.map(\.itemID) == ["late", "changed"])
                return
            }
            let there = try await device.client.table(Todo.self).read()
            let lines = Set(there.map { "\($0.id) \($0.text) \($0.rank ?? 0)" })
            #expect(lines.contains("changed after 2"))
            // A merge has no base: the app decides.
            if case .merge = policy.kind {
                #expect(error?.errors.map(\.itemID) == ["late"])
            } else {
                #expect(lines.contains("late late 1"))
            }
        }
    }

    /// Found by the simulation, seed 869 with a restored server.
    @Test("Rows that were sent before the first pull are lost, too", arguments: ["all", nil])
    func sentBeforeTheFirstPull(queryID: String?) async throws {
        try await withRestorableServer { server in
            let device = try await Device(server)
            try await device.todos().insert(Todo(id: "kept", text: "kept"))
            try await device.context.push()
            let backup = try server.backup()
            try await device.todos().insert(Todo(id: "late", text: "late"))
            try await device.todos().update(id: "kept") { $0.text = "after" }
            try await device.context.push()
            try await server.restore(backup)
            let result = try await device.todos().pull(queryID: queryID)
            #expect(result.lost == 2 && result.removed == 0)
            #expect(try await device.context.lostRows().map(\.itemID) == ["kept", "late"])
            #expect(try await Self.texts(device) == ["kept": "after", "late": "late"])
        }
    }

    /// Found by the simulation, seed 20977.
    @Test("Rows that the signed-in account sent before the first pull are lost, too")
    func sentByTheAccountBeforeTheFirstPull() async throws {
        try await withRestorableServer { server in
            let device = try await Device(server, authentication: SignIn("anna"))
            let backup = try server.backup()
            for text in ["first", "second"] {
                try await device.todos().insert(Todo(id: text, text: text))
                try await device.context.push()
            }
            try await server.restore(backup)
            let result = try await device.todos().pull(queryID: "all")
            #expect(result.lost == 2 && result.removed == 0)
            #expect(try await device.context.lostRows().map(\.itemID) == ["first", "second"])
            #expect(try await Self.texts(device) == ["first": "first", "second": "second"])
        }
    }

    @Test(
        "A row that another account sent before the first pull does not count as lost"
    )
    func sentByAnotherAccountBeforeTheFirstPull() async throws {
        try await withRestorableServer { server in
            let signIn = SignIn("anna")
            let device = try await Device(server, authentication: signIn)
            let backup = try server.backup()
            try await device.todos().insert(Todo(id: "anna's", text: "anna"))
            try await device.context.push()
            signIn.change(to: "ben")
            try await device.todos().insert(Todo(id: "ben's", text: "ben"))
            try await device.context.push()
            try await server.restore(backup)
            let result = try await device.todos().pull(queryID: "all")
            #expect(result.lost == 0 && result.removed == 0)
            #expect(try await device.context.lostRowCount == 0)
        }
    }

    @Test("A first pull from a server that was not restored reports no restore")
    func firstPull() async throws {
        try await withRestorableServer { server in
            let device = try await Device(server)
            try await device.todos().insert([
                Todo(id: "a", text: "a"), Todo(id: "b", text: "b", rank: 5),
            ])
            try await device.context.push()
            let events = device.context.events
            let restores = Task {
                var (restores, pulls) = (0, 0)
                for await event in events {
                    if event.kind == .restoredServer { restores += 1 }
                    if event.kind == .pullFinished { pulls += 1 }
                    if pulls == 2 { break }
                }
                return restores
            }
            await Task.yield()
            // One of the rows is in no query, and is removed.
            let result = try await device.todos().pull(queryID: "some", where: { $0.text == "a" })
            #expect(result.lost == 0)
            #expect(try await Self.texts(device) == ["a": "a"])
            #expect(try await device.context.lostRowCount == 0)
            try await device.todos().pull(queryID: "some", where: { $0.text == "a" })
            #expect(await restores.value == 0)
        }
    }

    /// A gateway that answers when the server is asked for rows by their ids.
    private struct LookUpGateway: Transport {
        let inner: any Transport
        let status: Int
        let body: String

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            let query = request.url.query(percentEncoded: false) ?? ""
            guard query.contains("id in ") else { return try await inner.send(request) }
            return TransportResponse(status: status, body: Array(body.utf8))
        }

        func stream(_ request: TransportRequest) async throws -> TransportStream {
            try await inner.stream(request)
        }
    }

    /// Found by the simulation, seed 1047.
    @Test(
        "A gateway's page in response to a lookup of rows is ignored, and needs no sign-in",
        arguments: [
            (401, "<html>Sign in</html>"), (403, "Blocked"), (200, #"{"items":[]}"#), (502, ""),
        ]
    )
    func gatewayInALookUp(status: Int, body: String) async throws {
        try await withRestorableServer { server in
            let store = MemoryStore()
            _ = try await Self.lose(server, store: store)
            let gateway = LookUpGateway(inner: server, status: status, body: body)
            let blocked = try await Device(gateway, store: store)
            let code = await code { try await blocked.todos().pull(queryID: "all") }
            #expect(code == (status == 200 ? .badResponse : .serverError))
            #expect(try await blocked.context.lostRows().map(\.itemID) == ["changed"])
            let device = try await Device(server, store: store)
            try await device.todos().pull(queryID: "all")
            #expect(try await device.context.lostRows().map(\.itemID) == ["changed", "late"])
        }
    }
}
