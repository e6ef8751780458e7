// Atomic groups that are joined, that wait for each other, and that contain operations which cannot be sent.

import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct GroupJoinTests {
    private typealias Scene = GroupScene

    @Test("Each operation of a transaction without remaining changes is completed once")
    func aGroupWithoutChangesIsCompletedOnce() async throws {
        let scene = try await Scene(rows: ["a", "b", "c"])
        try await scene.set("a", "b", "c", to: "mine")
        for id in ["a", "b", "c"] {
            try await scene.device.todos().update(id: id) { $0.text = "first" }
        }
        try await scene.device.todos().insert(Todo(id: "d"))
        #expect(try await scene.device.context.push().completed == 4)
        #expect(scene.tap.bodies.isEmpty)
        #expect(try await scene.device.queue().isEmpty)
    }

    /// Each of two rejected transactions has a row that a later transaction with the other's row changed, too.
    @Test(
        "Transactions whose rows cross are sent one after the other",
        arguments: [ConflictPolicy.fail, .clientWins]
    )
    func groupsThatCrossStayApart(policy: ConflictPolicy) async throws {
        let scene = try await Scene(rows: ["a", "b", "x", "y"], conflicts: policy)
        try await scene.interfere("x")
        try await scene.interfere("y")
        try await scene.set("a", "x", to: "one")
        try await scene.set("b", "y", to: "two")
        scene.tap.add(
            .first {
                try await scene.set("x", "b", to: "three")
                try await scene.set("y", "a", to: "four")
            }
        )
        let error = try await scene.device.push()
        #expect(scene.tap.groups.first == ["g1", "g1", "g3", "g3"])
        if policy == .fail {
            #expect(error?.errors.map(\.itemID) == ["a", "x", "b", "y"])
            #expect(Set(error?.errors.map(\.groupID) ?? []).count == 2)
            #expect(
                try await scene.serverContents() == ["a first", "b first", "x theirs", "y theirs"]
            )
        } else {
            #expect(error == nil)
            #expect(try await scene.device.queue().isEmpty)
            #expect(try await scene.serverContents() == ["a four", "b three", "x three", "y four"])
        }
    }

    /// A row that stays because of a later edit has the values of the transaction.
    @Test("A transaction is resent with an edit of a deleted row, and then without that row")
    func anEditAfterADroppedMemberIsSentAfterItsGroup() async throws {
        let scene = try await Scene(conflicts: .serverWins)
        try await scene.set("a", "b", to: "mine")
        scene.tap.add(
            .first {
                try await scene.other.client.table(Todo.self).delete(id: "a")
                try await scene.device.todos().update(id: "a") { $0.rank = 3 }
            }
        )
        #expect(try await scene.device.push() == nil)
        #expect(scene.tap.groups == [["g1", "g1"], ["g1", "g1"], ["-"]])
        #expect(scene.tap.bodies.last?.contains("/tables/Todo/b") == true)
        #expect(scene.tap.singles.isEmpty)
        #expect(try await scene.serverContents() == ["b mine"])
    }

    @Test("Three transactions whose rows cross in a cycle are all sent")
    func aCircleOfGroupsIsSent() async throws {
        let scene = try await Scene(
            rows: ["a", "b", "c", "d", "x", "y", "z"],
            conflicts: .clientWins
        )
        for id in ["x", "y", "z"] { try await scene.interfere(id) }
        try await scene.set("a", "x", to: "1")
        try await scene.set("b", "y", to: "2")
        try await scene.set("c", "z", to: "3")
        scene.tap.add(
            .first {
                try await scene.set("x", "b", to: "4")
                try await scene.set("y", "c", to: "5")
                try await scene.set("z", "a", to: "6")
                try await scene.device.todos().update(id: "d") { $0.text = "alone" }
            }
        )
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.device.queue().isEmpty)
        #expect(scene.tap.groups.count >= 2)
        #expect(
            try await scene.serverContents()
                == ["a 6", "b 4", "c 5", "d alone", "x 4", "y 5", "z 6"]
        )
    }

    @Test("A transaction that deletes an insert with an unknown outcome deletes it on the server")
    func aJoinedInsertOfUnknownOutcomeIsDeletedOnTheServer() async throws {
        let scene = try await Scene()
        try await scene.change("a", text: "one")
        let device = scene.device
        let rejected = #"{"id":"1","status":422,"body":{"error":"No."}}"#
        scene.tap.add(
            .say("{\"responses\":[\(rejected)]}") {
                // The insert arrived, and the part of the answer that reports it was lost.
                try await scene.other.client.table(Note.self).insert(Note(id: "n", body: "one"))
                try await device.context.transaction { transaction in
                    try transaction.table(Todo.self).update(id: "a") { $0.text = "two" }
                    try transaction.table(Note.self).delete(id: "n")
                }
            }
        )
        #expect(try await device.push() == nil)
        #expect(try await device.queue().isEmpty)
        #expect(try await scene.serverContents() == ["a two", "b first"])
    }

    @Test("The delete of a parked insert with an unknown outcome reaches the server")
    func aParkedMemberOfUnknownOutcomeIsDeletedOnTheServer() async throws {
        try await withTemporaryFile { path in
            let scene = try await Scene([.dropAnswer], store: SQLiteStore(path: path))
            try await scene.change("a")
            #expect(try await scene.device.push()?.status == .networkFailure)
            try damage(path, "base = '{\"id\":'", of: "a")
            let error = try #require(try await scene.device.push())
            #expect(error.errors.map(\.itemID) == ["a", "n"])
            #expect(scene.tap.bodies.count == 1)
            try await error.errors[0].cancelOperationAndDiscardItem()
            try await scene.device.client.syncTable(Note.self).delete(id: "n")
            #expect(try await scene.device.push() == nil)
            #expect(try await scene.serverContents() == ["a mine", "b first"])
        }
    }

    @Test(
        "No operation of a transaction is sent if one of them cannot be decoded",
        arguments: ["a", "b", "n"],
        ["base = '{\"id\":'", "kind = 9", "latest = 'x'"]
    )
    func aDamagedMemberBlocksItsGroup(damaged: String, how: String) async throws {
        try await withTemporaryFile { path in
            let scene = try await Scene(store: SQLiteStore(path: path))
            try await scene.change("a", "b")
            try await scene.device.todos().insert(Todo(id: "z", text: "alone"))
            try damage(path, how, of: damaged)
            for push in 1...2 {
                let error = try #require(try await scene.device.push())
                #expect(error.completed == (push == 1 ? 1 : 0))
                #expect(error.errors.map(\.itemID) == ["a", "b", "n"])
                for error in error.errors {
                    let isDamaged = error.itemID == damaged
                    #expect(error.canRetry != isDamaged)
                    let words =
                        isDamaged
                        ? ["MS_TableOperations", "cancelOperationAndDiscardItem"]
                        : ["row '\(damaged)'", "same transaction"]
                    for word in words { #expect(error.message.contains(word)) }
                }
            }
            #expect(scene.tap.bodies.isEmpty)
            #expect(try await scene.serverContents() == ["a first", "b first", "z alone"])

            // A retry of another row does not send the group either; without the damaged operation the others are sent.
            var errors = try await scene.device.context.operationErrors()
            let other = try #require(errors.first { $0.itemID != damaged })
            try await other.updateOperationAndRetry(with: try #require(other.item))
            #expect(try await scene.device.push()?.errors.count == 3)
            errors = try await scene.device.context.operationErrors()
            for error in errors where error.itemID == damaged {
                try await error.cancelOperationAndDiscardItem()
            }
            for error in errors where error.itemID == other.itemID {
                try await error.updateOperationAndRetry(with: try #require(error.item))
            }
            #expect(try await scene.device.push() == nil)
            #expect(scene.tap.groups == [["g1", "g1"]])
            let mine = ["a mine", "b mine", "z alone", "note n mine"]
            let truth = try await scene.serverContents()
            #expect(
                truth
                    == mine.map { mine in
                        mine.hasPrefix("\(damaged) ") ? "\(damaged) first" : mine
                    }.filter { damaged != "n" || $0 != "note n mine" }
            )
        }
    }

    @Test("An operation whose transaction cannot be decoded is not sent alone")
    func anOperationWithoutItsGroupIsNotSentAlone() async throws {
        try await withTemporaryFile { path in
            let scene = try await Scene(store: SQLiteStore(path: path))
            try await scene.change("a", "b")
            try damage(path, "\"group\" = x'00'", of: "b")
            let error = try #require(try await scene.device.push())
            #expect(error.errors.map(\.itemID) == ["b"])
            #expect(error.errors[0].message.contains("'group'"))
            #expect(try await scene.serverContents() == ["a mine", "b first", "note n mine"])
        }
    }

    @Test("An edit does not overtake a transaction of its row that has an undeclared table")
    func anEditAfterAWaitingGroupWaits() async throws {
        try await withTemporaryFile { path in
            let scene = try await Scene([.dropRequest], store: SQLiteStore(path: path))
            try await scene.change("a")
            #expect(try await scene.device.push()?.status == .networkFailure)
            let tap = BatchTap(scene.server.transport)
            let less = try await Device(tap, store: SQLiteStore(path: path), tables: [Todo.self])
            try await less.todos().update(id: "a") { $0.rank = 3 }
            #expect(try await less.push()?.errors.map(\.itemID) == ["n"])
            #expect(tap.bodies.isEmpty && tap.singles.isEmpty)
            let whole = try await Device(tap, store: SQLiteStore(path: path))
            #expect(try await whole.push() == nil)
            #expect(try await scene.serverContents() == ["a mine", "b first", "note n mine"])
            #expect(try await scene.other.client.table(Todo.self).read(id: "a")?.rank == 3)
        }
    }

    private func damage(_ path: String, _ how: String, of id: String) throws {
        try Database(path: path).execute(
            "UPDATE MS_TableOperations SET \(how) WHERE itemId = '\(id)'"
        )
    }
}
