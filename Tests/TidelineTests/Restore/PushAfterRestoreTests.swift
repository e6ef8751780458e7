// Pushes to a restored server before the device has read its rows: what the device learns from their responses.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct PushAfterRestoreTests {
    private static func texts(_ device: Device) async throws -> [String: String] {
        Dictionary(
            uniqueKeysWithValues: try await device.todos().read().map { ($0.id, $0.text) }
        )
    }

    /// A device with the rows `changed` and `late`, of which the restore lost the latter.
    private static func lose(
        _ server: RestorableServer,
        conflicts: ConflictPolicy
    ) async throws -> Device {
        let device = try await Device(server, conflicts: conflicts)
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
        "rows that were sent after the restore are not lost when another device changes them",
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

    @Test("an update of a row that the restore lost is an insert after an earlier push, too")
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

    @Test("the event reports rows that the restore lost, although a push saw the new epoch first")
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
}
