// Transactions that change the same rows offline: all of them succeed, each is sent on its own, and a rejection of one
// does not reject the earlier ones.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct TransactionChainTests {
    private typealias Scene = GroupScene

    /// Makes a visit: increments a counter that all visits share, and inserts a row of its own.
    private func visit(
        _ number: Int,
        _ device: Device,
        text: String = "visit",
        counter: String = "a"
    ) async throws {
        try await device.context.transaction { transaction in
            let todos = try transaction.table(Todo.self)
            try todos.update(id: counter) { $0.rank = ($0.rank ?? 0) + 1 }
            try transaction.table(Note.self).insert(Note(id: "v\(number)", body: text))
        }
    }

    @Test("A chain of 1,200 offline transactions that share a row is sent in order")
    func manyTransactionsOfOneRow() async throws {
        try await withTemporaryFile { path in
            let scene = try await Scene(store: SQLiteStore(path: path))
            for number in 0..<1200 { try await visit(number, scene.device) }
            #expect(try await scene.device.todos().read(id: "a")?.rank == 1200)
            #expect(try await scene.device.context.pendingOperationCount == 2400)
            #expect(try await scene.device.context.push().completed == 2400)
            #expect(try await scene.other.client.table(Todo.self).read(id: "a")?.rank == 1200)
            #expect(try await scene.other.client.table(Note.self).count() == 1200)
            #expect(scene.tap.groups.allSatisfy { $0 == ["g1", "g1"] })
            #expect(try await scene.device.context.pendingOperationCount == 0)
        }
    }

    @Test("A chain of 40 transactions of 150 kB that share a row exceeds a batch and succeeds")
    func largeTransactionsOfOneRow() async throws {
        let scene = try await Scene()
        let signature = String(repeating: "s", count: 150_000)
        for number in 0..<40 { try await visit(number, scene.device, text: signature) }
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.other.client.table(Todo.self).read(id: "a")?.rank == 40)
        #expect(try await scene.other.client.table(Note.self).count() == 40)
    }

    @Test("A rejected row parks its own transaction, and other transactions wait or succeed")
    func aRejectedRowParksItsTransaction() async throws {
        let scene = try await Scene()
        // The server already has a note with this id and another text.
        try await scene.other.client.table(Note.self).insert(Note(id: "v7", body: "theirs"))
        for number in 0..<50 { try await visit(number, scene.device) }
        let error = try #require(try await scene.device.push())
        #expect(error.status == .operationErrors)
        #expect(error.errors.map(\.itemID) == ["a", "v7"])
        #expect(error.completed == 14)
        #expect(try await scene.other.client.table(Todo.self).read(id: "a")?.rank == 7)
        #expect(try await scene.other.client.table(Note.self).count() == 8)
        #expect(try await scene.device.todos().read(id: "a")?.rank == 50)

        // A transaction of other rows is not blocked.
        try await visit(50, scene.device, counter: "b")
        #expect(try await scene.device.push()?.completed == 2)

        // The app discards the visit: the later ones are sent.
        for error in try await scene.device.context.operationErrors() {
            try await error.cancelOperationAndDiscardItem()
        }
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.other.client.table(Note.self).count() == 51)
        let rank = try await scene.other.client.table(Todo.self).read(id: "a")?.rank
        #expect(rank == 50)
        #expect(try await scene.device.todos().read(id: "a")?.rank == 50)
    }

    @Test("A retry of the rejected row also sends the other operations")
    func aRetryReleasesTheRest() async throws {
        let scene = try await Scene()
        try await scene.other.client.table(Note.self).insert(Note(id: "v1", body: "theirs"))
        for number in 0..<4 { try await visit(number, scene.device) }
        let errors = try #require(try await scene.device.push()).errors
        let conflict = try #require(errors.first { $0.itemID == "v1" })
        try await conflict.updateOperationAndRetry(with: Note(id: "v1", body: "both"))
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.other.client.table(Todo.self).read(id: "a")?.rank == 4)
        #expect(try await scene.other.client.table(Note.self).read(id: "v1")?.body == "both")
    }

    @Test("An edit of a rejected row is sent with all of its earlier changes")
    func anEditReleasesTheRow() async throws {
        let scene = try await Scene()
        try await scene.interfere("a")
        for number in 0..<4 { try await visit(number, scene.device) }
        #expect(try await scene.device.push()?.errors.map(\.itemID) == ["a", "v0"])
        try await scene.device.todos().update(id: "a") { $0.complete = true }
        let error = try #require(try await scene.device.push())
        #expect(error.errors.map(\.itemID).contains("a"))
        let conflict = try #require(error.errors.first { $0.itemID == "a" })
        try await conflict.updateOperationAndRetry(with: try #require(conflict.item))
        #expect(try await scene.device.push() == nil)
        let row = try #require(try await scene.other.client.table(Todo.self).read(id: "a"))
        #expect(row.rank == 4 && row.complete)
        #expect(try await scene.other.client.table(Note.self).count() == 4)
    }

    @Test("A change of another device survives the transactions of this device")
    func anotherDevicesChangeIsKept() async throws {
        let scene = try await Scene(conflicts: .merge)
        for number in 0..<3 { try await visit(number, scene.device) }
        try await scene.interfere("a", text: "theirs")
        try await scene.device.todos().update(id: "a") { $0.complete = true }
        #expect(try await scene.device.push() == nil)
        let row = try #require(try await scene.other.client.table(Todo.self).read(id: "a"))
        #expect(row.rank == 3 && row.text == "theirs" && row.complete)
        #expect(try await scene.device.todos().read(id: "a") == row)
    }

    @Test("Lost answers and restarts lose and duplicate no transaction", arguments: [1, 2, 3])
    func lostAnswersAndRestarts(lost: Int) async throws {
        try await withTemporaryFile { path in
            var fates = [BatchTap.Fate](repeating: .deliver, count: lost)
            fates[lost - 1] = .dropAnswer
            fates += [.dropAnswer, .dropAnswer, .dropAnswer]
            let scene = try await Scene(fates, store: SQLiteStore(path: path))
            for number in 0..<6 { try await visit(number, scene.device) }
            _ = try await scene.device.push()
            let again = try await Device(scene.server.transport, store: SQLiteStore(path: path))
            try await visit(6, again)
            #expect(try await again.push() == nil)
            #expect(try await scene.other.client.table(Todo.self).read(id: "a")?.rank == 7)
            #expect(try await scene.other.client.table(Note.self).count() == 7)
            try await again.todos().pull(queryID: "all")
            #expect(try await again.todos().read(id: "a")?.rank == 7)
        }
    }

    /// A process that is killed after a transaction of the store stores nothing more.
    @Test("A kill between any two transactions of the store loses and duplicates nothing")
    func aKillAnywhere() async throws {
        var kept = 0
        while true {
            let isWhole = try await withTemporaryFile { path in
                let store = TroubledStore(try SQLiteStore(path: path))
                let scene = try await Scene(rows: ["a", "b"], store: store)
                for number in 0..<4 { try await visit(number, scene.device) }
                try await scene.device.todos().update(id: "b") { $0.text = "alone" }
                store.kill(after: kept)
                let error = try await scene.device.push()
                // The process has ended; another one opens the file.
                let again = try await Device(scene.server.transport, store: SQLiteStore(path: path))
                #expect(try await again.todos().read(id: "a")?.rank == 4)
                try await visit(4, again)
                #expect(try await again.push() == nil, "after \(kept) transactions")
                let remote = scene.other.client.table(Todo.self)
                #expect(try await remote.read(id: "a")?.rank == 5)
                #expect(try await remote.read(id: "b")?.text == "alone")
                #expect(try await scene.other.client.table(Note.self).count() == 5)
                try await again.todos().pull(queryID: "all")
                #expect(try await again.todos().read(id: "a")?.rank == 5)
                #expect(try await again.queue().isEmpty)
                return error == nil
            }
            if isWhole { break }
            kept += 1
        }
        // Each transaction of the chain is frozen and completed on its own.
        #expect(kept >= 8, "\(kept) transactions of the store")
    }

    @Test(
        "A stored edit that cannot be read is reported, and other operations are sent",
        arguments: ["edit", "before"],
        ["'{\"rank\":'", "'[]'", "'x'", "''", "x'00'", "7"]
    )
    func aDamagedEditIsNamed(column: String, text: String) async throws {
        try await withTemporaryFile { path in
            let scene = try await Scene(store: SQLiteStore(path: path))
            for number in 0..<2 { try await visit(number, scene.device) }
            try await scene.device.todos().update(id: "b") { $0.text = "alone" }
            let place = column == "edit" ? "min(id)" : "max(id)"
            try Database(path: path).execute(
                """
                UPDATE MS_TableOperations SET "\(column)" = \(text) WHERE id =
                (SELECT \(place) FROM MS_TableOperations WHERE itemId = 'a')
                """
            )
            let device = try await Device(scene.tap, store: SQLiteStore(path: path))
            #expect(try await device.context.pendingOperations().count == 5)
            let error = try #require(try await device.push())
            #expect(error.status == .operationErrors)
            #expect(error.errors.first?.itemID == "a")
            #expect(error.errors.first?.message.contains("'\(column)'") == true)
            #expect(try await scene.other.client.table(Todo.self).read(id: "b")?.text == "alone")
            // The first transaction is complete if the second one is damaged.
            let notes = try await scene.other.client.table(Note.self).count()
            #expect(notes == (column == "edit" ? 0 : 1))
            for _ in 0..<5 {
                for error in try await device.context.operationErrors() where !error.canRetry {
                    try await error.cancelOperationAndDiscardItem()
                }
                for error in try await device.context.operationErrors() { try await error.retry() }
                _ = try await device.push()
            }
            #expect(try await device.queue().isEmpty)
            #expect(try await scene.other.client.table(Note.self).count() == 2)
        }
    }

    /// Found by the simulation, seed 108.
    @Test("A row inserted after a delete keeps no value of the deleted row")
    func insertedAfterADelete() async throws {
        let scene = try await Scene(conflicts: .serverWins)
        try await visit(0, scene.device)
        try await scene.other.client.table(Todo.self).update(id: "a") { $0.rank = 41 }
        try await scene.device.context.transaction { transaction in
            try transaction.table(Todo.self).delete(id: "a")
            try transaction.table(Note.self).insert(Note(id: "v1", body: "deletes"))
        }
        try await scene.device.context.transaction { transaction in
            try transaction.table(Todo.self).insert(Todo(id: "a", text: "new"))
            try transaction.table(Note.self).insert(Note(id: "v2", body: "inserts"))
        }
        #expect(try await scene.device.push() == nil)
        let row = try #require(try await scene.other.client.table(Todo.self).read(id: "a"))
        #expect(row.text == "new" && row.rank == nil)
        #expect(try await scene.device.todos().read(id: "a")?.rank == nil)
    }

    @Test("A row deleted and inserted in one transaction keeps no value of the server's row")
    func deletedAndInsertedInOne() async throws {
        let scene = try await Scene(conflicts: .serverWins)
        try await visit(0, scene.device)
        try await scene.other.client.table(Todo.self).update(id: "a") { $0.rank = 41 }
        try await scene.device.context.transaction { transaction in
            let todos = try transaction.table(Todo.self)
            try todos.delete(id: "a")
            try todos.insert(Todo(id: "a", text: "new"))
            try transaction.table(Note.self).insert(Note(id: "v1", body: "replaces"))
        }
        try await scene.device.context.transaction { transaction in
            try transaction.table(Todo.self).update(id: "a") { $0.text = "last" }
            try transaction.table(Note.self).insert(Note(id: "v2", body: "edits"))
        }
        #expect(try await scene.device.push() == nil)
        let row = try #require(try await scene.other.client.table(Todo.self).read(id: "a"))
        #expect(row.text == "last" && row.rank == nil)
    }

    @Test("A row that one transaction inserts and another deletes is sent in both")
    func insertedAndDeleted() async throws {
        let scene = try await Scene()
        try await visit(0, scene.device)
        try await scene.device.context.transaction { transaction in
            try transaction.table(Note.self).delete(id: "v0")
            try transaction.table(Todo.self).update(id: "b") { $0.text = "after" }
        }
        #expect(try await scene.device.client.syncTable(Note.self).count() == 0)
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.serverContents() == ["a first", "b after"])
        #expect(try await scene.device.context.pendingOperationCount == 0)
    }

    /// Found by the simulation, seed 16 with locked phones.
    @Test(
        "A retry joins the three transactions that deleted and wrote one row"
    )
    func retriedTogether() async throws {
        let scene = try await Scene(rows: ["a", "b", "c"])
        try await scene.set("a", "b", to: "1")
        try await scene.device.todos().delete(id: "b")
        try await scene.device.context.transaction { transaction in
            let todos = try transaction.table(Todo.self)
            try todos.insert(Todo(id: "b", text: "2"))
            try todos.update(id: "a") { $0.text = "2" }
        }
        try await scene.set("b", "a", to: "3")
        try await scene.interfere("a")
        let errors = try #require(try await scene.device.push()).errors
        let conflict = try #require(errors.first { $0.itemID == "a" })
        // The app resolves a row of all three transactions, which become one.
        try await conflict.updateOperationAndRetry(with: try #require(conflict.item))
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.serverContents() == ["a 3", "b 3", "c first"])
        #expect(try await scene.device.todos().read(id: "b")?.text == "3")
        #expect(try await scene.device.queue().isEmpty)
    }

    /// Found by the simulation, seed 106553.
    @Test("A retry of a row that was inserted, deleted and inserted updates the server's row")
    func retriedInsertsOfOneRow() async throws {
        let scene = try await Scene()
        try await scene.other.client.table(Todo.self).insert(Todo(id: "n", text: "theirs"))
        for (number, text) in [(1, "one"), (3, "three")] {
            try await scene.device.context.transaction { transaction in
                try transaction.table(Todo.self).insert(Todo(id: "n", text: text))
                try transaction.table(Note.self).insert(Note(id: "v\(number)", body: text))
            }
            guard number == 1 else { continue }
            try await scene.device.context.transaction { transaction in
                try transaction.table(Todo.self).delete(id: "n")
                try transaction.table(Note.self).insert(Note(id: "v2", body: "deletes"))
            }
        }
        let errors = try #require(try await scene.device.push()).errors
        let conflict = try #require(errors.first { $0.itemID == "n" })
        try await conflict.updateOperationAndRetry(with: Todo(id: "n", text: "mine"))
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.other.client.table(Todo.self).read(id: "n")?.text == "mine")
        #expect(try await scene.device.todos().read(id: "n")?.text == "mine")
        #expect(try await scene.device.queue().isEmpty)
    }

    @Test("A retry of a row that was inserted and deleted deletes the server's row")
    func retriedInsertAndDelete() async throws {
        let scene = try await Scene()
        try await scene.other.client.table(Todo.self).insert(Todo(id: "n", text: "theirs"))
        try await scene.device.context.transaction { transaction in
            try transaction.table(Todo.self).insert(Todo(id: "n", text: "one"))
            try transaction.table(Note.self).insert(Note(id: "v1", body: "inserts"))
        }
        try await scene.device.context.transaction { transaction in
            try transaction.table(Todo.self).delete(id: "n")
            try transaction.table(Note.self).insert(Note(id: "v2", body: "deletes"))
        }
        let errors = try #require(try await scene.device.push()).errors
        let conflict = try #require(errors.first { $0.itemID == "n" })
        try await conflict.updateOperationAndRetry(with: Todo(id: "n", text: "mine"))
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.other.client.table(Todo.self).read(id: "n") == nil)
        #expect(try await scene.device.queue().isEmpty)
    }

    @Test("A transaction between two that a retry joins keeps its position")
    func betweenTwoRetriedTogether() async throws {
        let scene = try await Scene(rows: ["a", "b", "c"])
        try await scene.set("a", "b", to: "1")
        try await scene.set("b", "c", to: "2")
        try await scene.set("a", "b", to: "3")
        try await scene.interfere("a")
        let errors = try #require(try await scene.device.push()).errors
        let conflict = try #require(errors.first { $0.itemID == "a" })
        try await conflict.updateOperationAndRetry(with: try #require(conflict.item))
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.serverContents() == ["a 3", "b 3", "c 2"])
        #expect(try await scene.device.todos().read(id: "b")?.text == "3")
        #expect(try await scene.device.queue().isEmpty)
    }

    /// Found by the simulation, seed 697.
    @Test("A row inserted after an overruled delete keeps no value of the server's row")
    func insertedAfterADeleteThatGaveWay() async throws {
        let scene = try await Scene(conflicts: .serverWins)
        try await scene.device.context.transaction { transaction in
            try transaction.table(Todo.self).delete(id: "a")
            try transaction.table(Note.self).insert(Note(id: "v1", body: "deletes"))
        }
        try await scene.device.context.transaction { transaction in
            try transaction.table(Todo.self).insert(Todo(id: "a", text: "new"))
            try transaction.table(Note.self).insert(Note(id: "v2", body: "inserts"))
        }
        try await scene.device.context.transaction { transaction in
            try transaction.table(Todo.self).update(id: "a") { $0.text = "last" }
            try transaction.table(Note.self).insert(Note(id: "v3", body: "edits"))
        }
        try await scene.other.client.table(Todo.self).update(id: "a") { $0.rank = 41 }
        #expect(try await scene.device.push() == nil)
        let row = try #require(try await scene.other.client.table(Todo.self).read(id: "a"))
        #expect(row.text == "last" && row.rank == nil)
        #expect(try await scene.device.todos().read(id: "a") == row)
    }
}
