// TodoList: what a user of the app sees and does on two devices, without its views.

import Foundation
import Observation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TodoAppModel

@Suite(.timeLimit(.minutes(10))) @MainActor struct TodoListTests {
    /// Waits until something that is observed holds.
    private func until(_ condition: @MainActor () -> Bool) async {
        while !condition() {
            await withCheckedContinuation { (next: CheckedContinuation<Void, Never>) in
                withObservationTracking {
                    if condition() { next.resume() }
                } onChange: {
                    next.resume()
                }
            }
        }
    }

    private func server() async throws -> InProcessServer {
        let columns = [ColumnDefinition("text", .string), ColumnDefinition("complete", .boolean)]
        return try await InProcessServer(tables: [TableDefinition("TodoItem", columns: columns)])
    }

    private func device(_ server: InProcessServer) async throws -> TodoList {
        let link = OfflineSwitch(server.transport)
        let client = SyncClient(
            endpoint: try #require(URL(string: "http://localhost")),
            transport: link
        )
        try await client.syncContext.initialize(
            store: SQLiteStore(path: ":memory:"),
            tables: [TodoItem.self]
        )
        return try TodoList(client, link: link)
    }

    @Test("Two devices edit offline, resolve a conflict and converge")
    func twoDevicesOfflineAndBack() async throws {
        let server = try await server()
        let (phone, tablet) = (try await device(server), try await device(server))
        await phone.add("  Buy milk ")
        await phone.add("   ")
        await until { phone.items.items.map(\.text) == ["Buy milk"] }
        await phone.refresh()
        await tablet.refresh()
        await until { tablet.items.items.map(\.text) == ["Buy milk"] }
        #expect(phone.problem == nil && tablet.problem == nil)

        phone.isOnline = false
        await phone.rename(try #require(phone.items.items.first), to: "Buy oat milk")
        await until { phone.items.items.map(\.text) == ["Buy oat milk"] }
        await phone.refresh()
        #expect(phone.problem != nil)
        await until { phone.sync.pendingCount == 1 }
        await tablet.rename(try #require(tablet.items.items.first), to: "Buy soy milk")
        await tablet.refresh()

        phone.isOnline = true
        await phone.refresh()
        await until { phone.conflicts.count == 1 }
        let conflict = try #require(phone.conflicts.first)
        #expect(conflict.mine?.text == "Buy oat milk")
        #expect(conflict.theirs?.text == "Buy soy milk")
        #expect(conflict.canKeepMine)
        await phone.keepMine(conflict)
        await until { phone.conflicts.isEmpty }
        await phone.refresh()
        await tablet.refresh()
        await until { tablet.items.items.map(\.text) == ["Buy oat milk"] }

        await tablet.setComplete(try #require(tablet.items.items.first), true)
        await until { tablet.items.items.isEmpty }
        tablet.showsDone = true
        await until { tablet.items.items.map(\.complete) == [true] }
        await tablet.delete(try #require(tablet.items.items.first))
        await until { tablet.items.items.isEmpty }
        await tablet.refresh()
        await phone.refresh()
        await until { phone.items.items.isEmpty && phone.sync.pendingCount == 0 }
    }

    @Test("Taking the other device's version resolves a conflict")
    func theirsIsTaken() async throws {
        let server = try await server()
        let (phone, tablet) = (try await device(server), try await device(server))
        await phone.add("one")
        await phone.refresh()
        await tablet.refresh()
        await until { phone.items.items.count == 1 && tablet.items.items.count == 1 }
        await tablet.rename(tablet.items.items[0], to: "theirs")
        await tablet.refresh()
        await phone.rename(phone.items.items[0], to: "mine")
        await phone.refresh()
        await until { phone.conflicts.count == 1 }
        await phone.takeTheirs(phone.conflicts[0])
        await until { phone.items.items.map(\.text) == ["theirs"] && phone.conflicts.isEmpty }
    }

    @Test("A preview shows its items without a server") func aPreviewShowsItsItems() async throws {
        let list = try await TodoList.preview([TodoItem(id: "a", text: "Buy milk")])
        await until { list.items.items.map(\.text) == ["Buy milk"] }
        await list.refresh()
        #expect(list.problem?.isEmpty == false)
    }
}
