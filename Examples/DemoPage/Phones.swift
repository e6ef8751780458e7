// Phones: two clients of one server, each with its own store and a switch for its network.

import Foundation
import Tideline
import TodoAppModel

/// A phone: the model of the to-do app, as a view would use it.
@MainActor
struct Phone {
    let name: String
    let client: SyncClient
    let store: SQLiteStore
    let list: TodoList
    private let todos: SyncTable<TodoItem>

    init(_ name: String, server: URL, in folder: URL) async throws {
        self.name = name
        let link = OfflineSwitch()
        store = try SQLiteStore(path: folder.appending(path: "\(name).sqlite").path)
        client = try await SyncClient.open(
            endpoint: server,
            store: store,
            tables: [TodoItem.self],
            transport: link
        )
        list = try TodoList(client, link: link)
        list.showsDone = true
        todos = try client.syncTable(TodoItem.self)
        try client.startSyncing()
    }

    func close() async {
        client.stopSyncing()
        try? await store.close()
    }

    /// Returns the state that the page shows.
    func state() async throws -> PhoneState {
        var queue: [PhoneState.Operation] = []
        for operation in try await client.syncContext.pendingOperations() {
            queue.append(
                PhoneState.Operation(
                    kind: "\(operation.kind)",
                    text: try await todos.read(id: operation.itemID)?.text,
                    isParked: operation.isParked
                )
            )
        }
        return PhoneState(
            name: name,
            isOnline: list.isOnline,
            status: Self.words(for: list.sync.status),
            problem: list.problem,
            items: list.items.items.map {
                PhoneState.Item(id: $0.id, text: $0.text, complete: $0.complete)
            },
            queue: queue,
            conflicts: list.conflicts.map {
                PhoneState.Conflict(
                    id: $0.id,
                    mine: Self.words(for: $0.mine),
                    theirs: Self.words(for: $0.theirs)
                )
            }
        )
    }

    private static func words(for item: TodoItem?) -> String {
        guard let item else { return "deleted" }
        return "\(item.text) (\(item.complete ? "done" : "to do"))"
    }

    private static func words(for status: SyncStatus) -> String {
        switch status {
        case .idle: "in sync"
        case .syncing: "syncing"
        case .offline: "offline"
        case .busy: "waiting for the server"
        case .blocked(by: .signIn): "waiting for sign-in"
        case .blocked(by: .rejectedOperations): "waiting for your decision"
        case .blocked(by: .failingRows(let rows)): "the server cannot process \(rows.count) rows"
        case .blocked(by: .lostRows(let count)): "the restored server lost \(count) rows"
        case .blocked(by: .failure(_, let message)): message
        }
    }
}

/// The state of a phone, as the page shows it.
struct PhoneState: Encodable, Sendable {
    struct Item: Encodable, Sendable {
        var id: String
        var text: String
        var complete: Bool
    }

    struct Operation: Encodable, Sendable {
        var kind: String
        /// The text; nil if the row no longer exists.
        var text: String?
        var isParked: Bool
    }

    struct Conflict: Encodable, Sendable {
        var id: String
        var mine: String
        var theirs: String
    }

    var name: String
    var isOnline: Bool
    var status: String
    var problem: String?
    var items: [Item]
    var queue: [Operation]
    var conflicts: [Conflict]
}

/// A click on the page.
struct PhoneAction: Decodable, Sendable {
    enum Verb: String, Decodable {
        case add, rename, complete, delete, network, refresh, keepMine, takeTheirs
    }

    var phone: Int
    var verb: Verb
    /// The id of an item or of a conflict.
    var id: String?
    var text: String?
    var isOn: Bool?
}

/// The two phones of the demo.
@MainActor
final class Phones {
    private var phones: [Phone] = []

    nonisolated init() {}

    func open(server: URL, in folder: URL) async throws {
        for name in ["Left phone", "Right phone"] {
            phones.append(try await Phone(name, server: server, in: folder))
        }
    }

    func close() async {
        for phone in phones { await phone.close() }
        phones = []
    }

    func states() async throws -> [PhoneState] {
        var states: [PhoneState] = []
        for phone in phones { states.append(try await phone.state()) }
        return states
    }

    /// Performs an action; returns false if the phone, the item or the conflict does not exist.
    func perform(_ action: PhoneAction) async -> Bool {
        guard phones.indices.contains(action.phone) else { return false }
        let list = phones[action.phone].list
        switch action.verb {
        case .add:
            await list.add(action.text ?? "")
        case .network:
            list.isOnline = action.isOn ?? true
        case .refresh:
            await list.refresh()
        case .rename, .complete, .delete:
            guard let item = list.items.items.first(where: { $0.id == action.id }) else {
                return false
            }
            await change(item, action, list)
        case .keepMine, .takeTheirs:
            guard let conflict = list.conflicts.first(where: { $0.id == action.id }) else {
                return false
            }
            if action.verb == .keepMine {
                await list.keepMine(conflict)
            } else {
                await list.takeTheirs(conflict)
            }
        }
        return true
    }

    private func change(_ item: TodoItem, _ action: PhoneAction, _ list: TodoList) async {
        switch action.verb {
        case .rename: await list.rename(item, to: action.text ?? item.text)
        case .complete: await list.setComplete(item, action.isOn ?? true)
        case .delete: await list.delete(item)
        // They change no item.
        case .add, .network, .refresh, .keepMine, .takeTheirs: break
        }
    }
}
