// UndoneEditAfterRestoreTests: edits that the user undoes, of rows that a restored server has lost.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct UndoneEditAfterRestoreTests {
    /// A state of the row on the restored server.
    enum Restored: CaseIterable {
        case missing
        case earlierRow
        case earlierTombstone
    }

    /// The actions of a user who undoes the edit.
    enum Undo: CaseIterable {
        case setsTheValueBack
        case discardsTheError
    }

    /// Returns a device with the row `changed`, of which the restored server has an earlier tombstone.
    private static func loseUndelete(_ server: RestorableServer) async throws -> Device {
        let device = try await Device(server)
        try await device.todos().insert(Todo(id: "changed", text: "before"))
        try await device.context.push()
        try await device.todos().delete(id: "changed")
        try await device.context.push()
        let backup = try server.backup()
        try await device.todos().insert(Todo(id: "changed", text: "after"))
        try await device.context.push()
        try await device.todos().pull(queryID: "all")
        try await server.restore(backup)
        return device
    }

    @Test(
        "A row that a restore lost stays if the user undoes the rejected edit",
        arguments: Restored.allCases,
        Undo.allCases
    )
    func undone(restored: Restored, undo: Undo) async throws {
        for pullsBefore in [false, true] {
            try await withRestorableServer { server in
                let id = restored == .missing ? "late" : "changed"
                let device =
                    switch restored {
                    case .missing:
                        try await PushAfterRestoreTests.lose(server, conflicts: .fail)
                    case .earlierRow:
                        try await PushAfterRestoreTests.loseText(server, conflicts: .fail)
                    case .earlierTombstone:
                        try await Self.loseUndelete(server)
                    }
                let todos = try device.todos()
                let text = try #require(try await todos.read(id: id)).text
                try await todos.update(id: id) { $0.text = "x" }
                #expect(try await device.push()?.status == .operationErrors)
                if pullsBefore { try await todos.pull(queryID: "all") }
                switch undo {
                case .setsTheValueBack:
                    try await todos.update(id: id) { $0.text = text }
                    #expect(try await device.push() == nil)
                case .discardsTheError:
                    let error = try #require(try await device.context.operationErrors().first)
                    try await error.cancelOperationAndDiscardItem()
                }
                #expect(try await device.queue() == [])
                try await todos.pull(queryID: "all")
                #expect(try await PushAfterRestoreTests.texts(device)[id] == text)
                #expect(try await device.context.lostRows().map(\.itemID) == [id])
            }
        }
    }

    @Test("The last state of a row that a restore lost comes back if its delete is discarded")
    func discardedDelete() async throws {
        try await withRestorableServer { server in
            let device = try await PushAfterRestoreTests.loseText(server, conflicts: .fail)
            try await device.todos().delete(id: "changed")
            #expect(try await device.push()?.status == .operationErrors)
            let error = try #require(try await device.context.operationErrors().first)
            try await error.cancelOperationAndDiscardItem()
            try await device.todos().pull(queryID: "all")
            #expect(try await PushAfterRestoreTests.texts(device) == ["changed": "after"])
            #expect(try await device.context.lostRows().map(\.itemID) == ["changed"])
        }
    }

    @Test("A row that was deleted after a restore leaves the device when its edit is taken back")
    func deletedAfterTheRestore() async throws {
        try await withRestorableServer { server in
            let device = try await PushAfterRestoreTests.lose(server, conflicts: .fail)
            let other = try await Device(server)
            try await other.todos().pull(queryID: "all")
            try await other.todos().delete(id: "changed")
            try await other.context.push()
            try await device.todos().update(id: "changed") { $0.text = "x" }
            #expect(try await device.push()?.status == .operationErrors)
            try await device.todos().update(id: "changed") { $0.text = "before" }
            #expect(try await device.push() == nil)
            try await device.todos().pull(queryID: "all")
            #expect(try await PushAfterRestoreTests.texts(device) == ["late": "late"])
        }
    }
}
