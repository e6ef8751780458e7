// TodoList: the model of the app, without SwiftUI.

public import Foundation
public import Observation
public import Tideline

/// The model of the views: the items, the state of sync, and the conflicts.
@Observable
@MainActor
public final class TodoList {
    /// The items of the list, as stored on the device.
    public let items: LiveQuery<TodoItem>
    /// The state of sync, and the changes that the user has to resolve.
    public let sync: LiveStatus
    /// The last error as a message for the user, or nil if there was none.
    public var problem: String?

    /// Whether done items are shown, too.
    public var showsDone = false {
        didSet { showItems() }
    }

    /// Whether the app's network is switched on.
    public var isOnline: Bool {
        get {
            access(keyPath: \.isOnline)
            return link.isOn
        }
        set {
            withMutation(keyPath: \.isOnline) { link.isOn = newValue }
            if newValue { client.resumeSyncing() }
        }
    }

    @ObservationIgnored private let client: SyncClient
    @ObservationIgnored private let todos: SyncTable<TodoItem>
    @ObservationIgnored private let link: OfflineSwitch

    /// Creates the list of a client that is initialized with ``TodoItem``.
    public init(_ client: SyncClient, link: OfflineSwitch) throws {
        self.client = client
        self.link = link
        todos = try client.syncTable(TodoItem.self)
        items = LiveQuery(todos, where: { !$0.complete }, sortedBy: Self.order)
        sync = try LiveStatus(client)
    }

    /// Opens the store at a path and starts to sync.
    public static func open(
        endpoint: URL,
        path: String,
        link: OfflineSwitch = OfflineSwitch()
    ) async throws -> TodoList {
        let client = SyncClient(endpoint: endpoint, transport: link)
        try await client.syncContext.initialize(
            store: SQLiteStore(path: path),
            tables: [TodoItem.self]
        )
        let list = try TodoList(client, link: link)
        try client.startSyncing()
        return list
    }

    /// Returns a list for previews, with some items and no network.
    public static func preview(_ items: [TodoItem] = []) async throws -> TodoList {
        let client = try await SyncClient.preview(seed: items, tables: [TodoItem.self])
        return try TodoList(client, link: OfflineSwitch())
    }

    private static var order: [SortTerm<TodoItem>] { [.ascending(\.complete), .ascending(\.text)] }

    private func showItems() {
        if showsDone {
            items.update(sortedBy: Self.order)
        } else {
            items.update(where: { !$0.complete }, sortedBy: Self.order)
        }
    }

    // MARK: - Actions of the user

    /// Adds an item; blank text adds none.
    public func add(_ text: String) async {
        let text = text.trimmingCharacters(in: .whitespacesAndNewlines)
        guard !text.isEmpty else { return }
        await attempt { try await self.todos.insert(TodoItem(text: text)) }
    }

    /// Marks an item as done, or as not done.
    public func setComplete(_ item: TodoItem, _ isComplete: Bool) async {
        await attempt { try await self.todos.update(id: item.id) { $0.complete = isComplete } }
    }

    /// Changes the text of an item.
    public func rename(_ item: TodoItem, to text: String) async {
        await attempt { try await self.todos.update(id: item.id) { $0.text = text } }
    }

    /// Deletes an item.
    public func delete(_ item: TodoItem) async {
        await attempt { try await self.todos.delete(id: item.id) }
    }

    /// Sends pending changes and fetches new ones: pull to refresh.
    public func refresh() async {
        await attempt { try await self.todos.sync(queryID: "all", Query()) }
    }

    // MARK: - Conflicts

    /// A change that the server did not accept, with the item of each side.
    public struct Conflict: Identifiable {
        let error: TableOperationError
        /// The id of the conflict.
        public var id: String { error.id }
        /// The item on this device; nil for a delete.
        public var mine: TodoItem? { try? error.item?.decode(TodoItem.self) }
        /// The item on the server; nil if it was deleted or is unknown.
        public var theirs: TodoItem? { try? error.serverItem?.decode(TodoItem.self) }
        /// The reason for the conflict.
        public var message: String { error.message }
        /// Whether mine can be sent again.
        public var canKeepMine: Bool { error.canRetry }
    }

    /// The changes that wait for the user.
    public var conflicts: [Conflict] { sync.errors.map(Conflict.init) }

    /// Sends mine and overwrites theirs.
    public func keepMine(_ conflict: Conflict) async {
        let mine = conflict.error.item ?? Row()
        await attempt { try await conflict.error.updateOperationAndRetry(with: mine) }
    }

    /// Takes theirs, and drops mine.
    public func takeTheirs(_ conflict: Conflict) async {
        await attempt { try await conflict.error.cancelOperationAndDiscardItem() }
    }

    private func attempt<Result>(_ action: () async throws -> Result) async {
        do {
            _ = try await action()
            problem = nil
        } catch let error as SyncError {
            problem = error.message
        } catch let error as PushError where error.status == .operationErrors {
            // The conflicts show the details.
            problem = nil
        } catch {
            problem = "\(error)"
        }
    }
}
