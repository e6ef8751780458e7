// Commands: the commands of `todo`.

import Foundation
import Tideline

struct Commands {
    private let options: Options
    private let client: SyncClient

    init(_ options: Options) {
        self.options = options
        client = SyncClient(
            endpoint: options.server,
            allowsInsecureEndpoint: options.allowsInsecureEndpoint
        )
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
        let conflicts = Conflicts(context: client.syncContext)
        switch options.command {
        case .add(let text):
            let item = try await todos.insert(TodoItem(text: text))
            Terminal.say("added \(short(item.id))  \(item.text)")
        case .list(let all, let remote): try await list(all: all, remote: remote)
        case .done(let id):
            let item = try await todos.update(id: find(id)) { $0.complete = true }
            Terminal.say("done \(short(item.id))  \(item.text)")
        case .edit(let id, let text):
            let item = try await todos.update(id: find(id)) { $0.text = text }
            Terminal.say("changed \(short(item.id))  \(item.text)")
        case .remove(let id):
            let found = try await find(id)
            try await todos.delete(id: found)
            Terminal.say("removed \(short(found))")
        case .sync(let verify):
            try await sync(todos)
            if verify { try await self.verify(todos) }
        case .status: try await status(todos)
        case .why(let id): try await why(id)
        case .conflicts: try await conflicts.show()
        case .keepMine(let id): try await conflicts.keepMine(id)
        case .takeTheirs(let id, let discards):
            try await conflicts.takeTheirs(id, discards: discards)
        case .help: break
        }
    }

    /// Reads untyped rows, so that a row that does not decode does not hide the others.
    private func list(all: Bool, remote: Bool) async throws {
        let order: [SortTerm<Row>] = [.ascending("text"), .ascending("id")]
        let name = TodoItem.tableName
        let rows =
            remote
            ? try await client.table(named: name).read(sortedBy: order)
            : try await client.syncTable(named: name).read(sortedBy: order)
        let ids = ShortIDs(rows.map(\.id))
        var count = 0
        var misfits: [SyncError] = []
        for row in rows {
            do {
                let item = try row.decode(TodoItem.self)
                guard all || remote || !item.complete else { continue }
                count += 1
                Terminal.say("[\(item.complete ? "x" : " ")] \(ids[item.id])  \(item.text)")
            } catch let error as SyncError {
                misfits.append(error)
            }
        }
        if count == 0 { Terminal.say(all ? "no items" : "nothing to do") }
        for misfit in misfits { Terminal.warn("an item cannot be shown. \(misfit.words)") }
    }

    private func sync(_ todos: SyncTable<TodoItem>) async throws {
        var pushed = 0
        var rejected: PushError?
        do {
            pushed = try await client.syncContext.push().completed
        } catch let error as PushError where error.status == .operationErrors {
            rejected = error
        }
        do {
            let pulled = try await todos.pull(queryID: "all")
            if let rejected { throw rejected }
            Terminal.say("sent \(pushed), received \(pulled.applied), removed \(pulled.removed)")
        } catch {
            guard let rejected, (error as? PushError)?.status != .operationErrors else {
                throw error
            }
            throw SyncFailure(rejected: rejected, pull: error)
        }
    }

    private func verify(_ todos: SyncTable<TodoItem>) async throws {
        let result = try await todos.verify(queryID: "all", repair: true)
        if result.isEqual {
            Terminal.say(
                "verified: device and server have the same \(try await todos.count()) items"
            )
        } else {
            Terminal.say(
                "verified: \(result.missing) missing, \(result.different) different, "
                    + "\(result.surplus) too many; repaired \(result.repaired)"
            )
        }
    }

    private func status(_ todos: SyncTable<TodoItem>) async throws {
        let pending = try await client.syncContext.pendingOperations()
        let errors = try await client.syncContext.operationErrors()
        Terminal.say("pending operations: \(pending.count)")
        let ids = ShortIDs(pending.map(\.itemID))
        for operation in pending {
            let state =
                operation.isParked
                ? " (rejected)" : operation.isAttempted ? " (sent, no response yet)" : ""
            Terminal.say("  \(operation.kind) \(ids[operation.itemID])\(state)")
        }
        let last = try await todos.lastPull
        Terminal.say("last sync: \(last?.formatted(.iso8601) ?? "never")")
        Terminal.say("errors: \(errors.count)\(errors.isEmpty ? "" : ", see 'todo conflicts'")")
    }

    /// Explains an item: one of this device, one with a pending delete, or another one with this id.
    private func why(_ id: String) async throws {
        let waiting = Set(try await client.syncContext.pendingOperations().map(\.itemID))
            .filter { $0.hasPrefix(id) }
        let found: String
        let isWhole = try await isHere(id)
        if isWhole || waiting.contains(id) {
            found = id
        } else if let only = waiting.first, waiting.count == 1 {
            found = only
        } else {
            found = try await matches(id).isEmpty ? id : find(id)
        }
        let name = TodoItem.tableName
        let explanation = try await client.syncContext.explain(table: name, id: found)
        Terminal.say(found)
        for reason in explanation.reasons { Terminal.say("  \(reason)") }
        if explanation.has(.parked) || explanation.has(.damaged) {
            Terminal.say("  Run 'todo conflicts' to see how to resolve it.")
        }
    }

    /// Returns this id if an item has it, otherwise the only id that begins with it.
    private func find(_ id: String) async throws -> String {
        if try await isHere(id) { return id }
        let matches = try await matches(id)
        switch matches.count {
        case 1: return matches[0].id
        case 0: throw Mistake(message: "no item begins with '\(id)'. See 'todo list --all'.")
        default: throw Mistake(message: "several items begin with '\(id)'. Give more letters.")
        }
    }

    private func isHere(_ id: String) async throws -> Bool {
        try await client.syncTable(named: TodoItem.tableName).read(id: id) != nil
    }

    /// Returns the first items whose ids begin with this text.
    private func matches(_ id: String) async throws -> [Row] {
        try await client.syncTable(named: TodoItem.tableName)
            .read(where: { $0["id", as: String.self].hasPrefix(id) }, limit: 2)
    }
}
