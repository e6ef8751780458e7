// Commands: what each word of the command line does.

import Foundation
import Tideline

struct Commands {
    private let options: Options
    private let client: SyncClient

    init(_ options: Options) {
        self.options = options
        client = SyncClient(endpoint: options.server)
    }

    func run() async throws {
        if case .help = options.command {
            print(Options.usage)
            return
        }
        try await client.syncContext.initialize(
            store: try SQLiteStore(path: options.store),
            tables: [TodoItem.self]
        )
        let todos = try client.syncTable(TodoItem.self)
        switch options.command {
        case .add(let text):
            let item = try await todos.insert(TodoItem(text: text))
            print("added \(short(item.id))  \(item.text)")
        case .list(let all, let remote):
            try await list(todos, all: all, remote: remote)
        case .done(let id):
            let item = try await todos.update(id: find(id, todos)) { $0.complete = true }
            print("done \(short(item.id))  \(item.text)")
        case .edit(let id, let text):
            let item = try await todos.update(id: find(id, todos)) { $0.text = text }
            print("changed \(short(item.id))  \(item.text)")
        case .remove(let id):
            let found = try await find(id, todos)
            try await todos.delete(id: found)
            print("removed \(short(found))")
        case .sync: try await sync(todos)
        case .status: try await status(todos)
        case .conflicts: try await conflicts()
        case .settle(let id, let keepMine): try await settle(id, keepMine: keepMine)
        case .help: break
        }
    }

    private func list(_ todos: SyncTable<TodoItem>, all: Bool, remote: Bool) async throws {
        let order: [SortTerm<TodoItem>] = [.ascending(\.text), .ascending(\.id)]
        let items: [TodoItem]
        if remote {
            items = try await client.table(TodoItem.self).read(sortedBy: order)
        } else if all {
            items = try await todos.read(sortedBy: order)
        } else {
            items = try await todos.read(where: { !$0.complete }, sortedBy: order)
        }
        for item in items {
            print("[\(item.complete ? "x" : " ")] \(short(item.id))  \(item.text)")
        }
        if items.isEmpty { print(all ? "no items" : "nothing to do") }
    }

    private func sync(_ todos: SyncTable<TodoItem>) async throws {
        let pushed: Int
        do {
            pushed = try await client.syncContext.push().completed
        } catch let error as PushError where error.status == .operationErrors {
            _ = try await todos.pull(queryID: "all")
            throw error
        }
        let pulled = try await todos.pull(queryID: "all")
        print("sent \(pushed), received \(pulled.applied), removed \(pulled.removed)")
    }

    private func status(_ todos: SyncTable<TodoItem>) async throws {
        let pending = try await client.syncContext.pendingOperations()
        let errors = try await client.syncContext.operationErrors()
        print("pending operations: \(pending.count)")
        for operation in pending {
            let state = operation.isParked ? " (rejected)" : operation.isAttempted ? " (sent)" : ""
            print("  \(operation.kind) \(short(operation.itemID))\(state)")
        }
        let last = try await todos.lastPull
        print("last sync: \(last?.formatted(.iso8601) ?? "never")")
        print("errors: \(errors.count)\(errors.isEmpty ? "" : ", see 'todo conflicts'")")
    }

    private func conflicts() async throws {
        let errors = try await client.syncContext.operationErrors()
        for error in errors {
            print("\(short(error.itemID))  \(error.kind) rejected (\(error.statusCode ?? 0))")
            print("  mine:   \(describe(error.item))")
            if isAboutTheRow(error) {
                print("  theirs: \(describe(error.serverItem))")
            } else {
                print("  \(error.message)")
            }
        }
        if errors.isEmpty {
            print("no conflicts")
        } else {
            print("Settle with 'todo conflicts keep-mine ID' or 'todo conflicts take-theirs ID'.")
        }
    }

    /// Whether the server refused because of its own row, and not because of what was sent.
    private func isAboutTheRow(_ error: TableOperationError) -> Bool {
        [404, 409, 410, 412].contains(error.statusCode ?? 0)
    }

    private func describe(_ row: Row?) -> String {
        guard let row, let item = try? row.decode(TodoItem.self) else { return "deleted" }
        return "[\(item.complete ? "x" : " ")] \(item.text)"
    }

    private func settle(_ id: String, keepMine: Bool) async throws {
        let errors = try await client.syncContext.operationErrors()
        let matches = errors.filter { $0.itemID.hasPrefix(id) }
        guard let error = matches.first, matches.count == 1 else {
            throw Mistake(
                message: "'\(id)' names \(matches.count) conflicts. See 'todo conflicts'."
            )
        }
        if keepMine {
            try await error.updateOperationAndRetry(with: error.item ?? Row())
            print("kept mine; 'todo sync' sends it")
        } else {
            try await error.cancelOperationAndDiscardItem()
            print("took theirs")
        }
    }

    /// The id that begins so.
    private func find(_ id: String, _ todos: SyncTable<TodoItem>) async throws -> String {
        let matches = try await todos.read(where: { $0.id.hasPrefix(id) }, limit: 3)
        switch matches.count {
        case 1: return matches[0].id
        case 0: throw Mistake(message: "no item begins with '\(id)'. See 'todo list --all'.")
        default:
            if matches.contains(where: { $0.id == id }) { return id }
            throw Mistake(message: "several items begin with '\(id)'. Give more letters.")
        }
    }

    private func short(_ id: String) -> String { String(id.prefix(8)) }
}
