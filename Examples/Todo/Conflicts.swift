// Conflicts: what the server rejected, and how it is settled.

import Tideline

struct Conflicts {
    let context: SyncContext

    func show() async throws {
        let errors = try await context.operationErrors()
        for error in errors {
            Terminal.say(
                "\(short(Self.name(error)))  \(error.kind) \(outcome(error))"
            )
            Terminal.say("  server: \(Self.reason(error))")
            Terminal.say("  mine:   \(error.item.map(describe) ?? absent(error))")
            Terminal.say("  theirs: \(theirs(error))")
        }
        if errors.isEmpty {
            Terminal.say("no conflicts")
        } else {
            Terminal.say(
                "Settle with 'todo conflicts keep-mine ID' or 'todo conflicts take-theirs ID'."
            )
        }
    }

    /// What the conflict is called here: an entry that does not say its item has an id of its own.
    private static func name(_ error: TableOperationError) -> String {
        error.itemID.isEmpty ? error.id : error.itemID
    }

    /// What happened, in words of this program.
    static func reason(_ error: TableOperationError) -> String {
        guard error.statusCode == nil else { return error.message }
        let what =
            if error.table != TodoItem.tableName {
                "It belongs to no list that this program knows."
            } else if error.itemID.isEmpty {
                "The store does not say any more which item it is for."
            } else if error.item == nil, error.kind != .delete {
                "The item is not on this device."
            } else {
                "What the store has of it cannot be read whole."
            }
        let id = short(name(error))
        return "The \(error.kind) '\(id)' cannot be sent. \(what) Drop it with 'todo conflicts "
            + "take-theirs \(id) --discard' and make the change again."
    }

    private func outcome(_ error: TableOperationError) -> String {
        error.statusCode.map { "rejected (\($0))" } ?? "not sent"
    }

    private func absent(_ error: TableOperationError) -> String {
        error.kind == .delete ? "deleted" : "not on this device"
    }

    private func theirs(_ error: TableOperationError) -> String {
        switch error.serverCopy {
        case .row(let row): describe(row)
        case .deleted: "deleted"
        // A row that this caller may not see.
        case .neverSeen where error.statusCode == 409: "an item that the server does not show"
        case .neverSeen: "none; there is no such item on the server"
        }
    }

    private func describe(_ row: Row) -> String {
        guard let item = try? row.decode(TodoItem.self) else {
            return "an item that does not fit this program"
        }
        return "[\(item.complete ? "x" : " ")] \(item.text)"
    }

    func keepMine(_ id: String) async throws {
        guard let error = try await find(id) else {
            Terminal.say("mine is kept already; 'todo sync' sends it")
            return
        }
        guard let mine = error.item ?? (error.kind == .delete ? Row() : nil) else {
            throw Mistake(message: "there is no item of mine to keep. \(Self.reason(error))")
        }
        do {
            try await error.updateOperationAndRetry(with: mine)
        } catch let failure as SyncError where error.statusCode == nil && failure.cause == nil {
            throw Mistake(message: "mine cannot be kept as it is. \(Self.reason(error))")
        }
        Terminal.say("kept mine; 'todo sync' sends it")
    }

    func takeTheirs(_ id: String, discards: Bool) async throws {
        guard let error = try await find(id) else {
            throw Mistake(
                message: """
                    '\(id)' is no conflict any more: it was changed since, and 'todo sync' sends it.
                    """
            )
        }
        let lost = error.serverCopy == .neverSeen ? error.item.map(describe) : nil
        if let lost, !discards {
            throw Mistake(
                message: """
                    There is no item of theirs to take. \(Self.reason(error)) Nothing was changed: \
                    this is the only copy of '\(lost)'. Mend it with 'todo edit', or drop it for \
                    good with 'todo conflicts take-theirs \(id) --discard'.
                    """
            )
        }
        try await error.cancelOperationAndDiscardItem()
        Terminal.say(lost.map { "dropped \(short(Self.name(error)))  \($0)" } ?? "took theirs")
    }

    /// The conflict whose id begins so; nil when its item only waits to be sent.
    private func find(_ id: String) async throws -> TableOperationError? {
        let matches = try await context.operationErrors().filter { Self.name($0).hasPrefix(id) }
        if let exact = matches.first(where: { Self.name($0) == id }) ?? matches.first,
            matches.count == 1 || Self.name(exact) == id
        {
            return exact
        }
        guard matches.isEmpty else {
            throw Mistake(message: "several conflicts begin with '\(id)'. Give more letters.")
        }
        let waits = try await context.pendingOperations().contains { $0.itemID.hasPrefix(id) }
        guard waits else {
            throw Mistake(message: "no conflict begins with '\(id)'. See 'todo conflicts'.")
        }
        return nil
    }
}

/// As much of an id as people read and type.
func short(_ id: String) -> String { String(id.prefix(8)) }
