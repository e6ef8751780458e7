// Conflicts: shows the changes that the server rejected, and resolves them.

import Tideline

struct Conflicts {
    let context: SyncContext

    func show() async throws {
        let errors = try await context.operationErrors()
        for error in errors {
            Terminal.say(
                "\(Self.typed(error, among: errors))  \(error.kind) \(outcome(error))"
            )
            Terminal.say("  server: \(Self.reason(error, among: errors))")
            Terminal.say("  mine:   \(error.item.map(describe) ?? absent(error))")
            Terminal.say("  theirs: \(theirs(error))")
        }
        if errors.isEmpty {
            Terminal.say("no conflicts")
        } else {
            Terminal.say(
                "Resolve with 'todo conflicts keep-mine ID' or 'todo conflicts take-theirs ID'."
            )
        }
    }

    /// Returns the item's id, or the error's own id if the operation does not name its item.
    private static func name(_ error: TableOperationError) -> String {
        error.itemID.isEmpty ? error.id : error.itemID
    }

    /// Returns the shortest unique prefix of the name, for the user to type.
    private static func typed(
        _ error: TableOperationError,
        among errors: [TableOperationError]
    ) -> String {
        error.itemID.isEmpty ? error.id : ShortIDs(errors.map(name))[error.itemID]
    }

    /// Explains errors in the terms of this program.
    static func reasons(_ errors: [TableOperationError]) -> String {
        errors.map { reason($0, among: errors) }.joined(separator: " ")
    }

    /// Explains the error of one change.
    ///
    /// `keepsMine`: whether the local change can still be kept.
    static func reason(
        _ error: TableOperationError,
        among errors: [TableOperationError],
        keepsMine: Bool = true
    ) -> String {
        guard error.statusCode == nil else { return error.message }
        let what =
            if error.table != TodoItem.tableName {
                "Its table is unknown to this program."
            } else if error.itemID.isEmpty {
                "The store no longer has its item."
            } else if error.item == nil, error.kind != .delete {
                "The item is not on this device."
            } else {
                "The stored change or the stored response of the server cannot be read."
            }
        let id = typed(error, among: errors)
        let drop = "with 'todo conflicts take-theirs \(id) --discard' and make the change again."
        let remedy =
            keepsMine && error.canRetry && error.item != nil
            ? "Keep mine with 'todo conflicts keep-mine \(id)', or drop it \(drop)"
            : "Drop it \(drop)"
        return "The \(error.kind) '\(id)' cannot be sent. \(what) \(remedy)"
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
        // The caller may not see the row.
        case .neverSeen where error.statusCode == 409: "an item that the server does not show"
        case .neverSeen: "none; the server does not have this item"
        }
    }

    private func describe(_ row: Row) -> String {
        guard let item = try? row.decode(TodoItem.self) else {
            return "an item that does not fit this program"
        }
        return "[\(item.complete ? "x" : " ")] \(item.text)"
    }

    func keepMine(_ id: String) async throws {
        let errors = try await context.operationErrors()
        guard let error = try await find(id, in: errors) else {
            Terminal.say("mine is already kept; 'todo sync' sends it")
            return
        }
        let reason = Self.reason(error, among: errors, keepsMine: false)
        guard let mine = error.item ?? (error.kind == .delete ? Row() : nil) else {
            throw Mistake(message: "this device has no item to keep. \(reason)")
        }
        do {
            try await error.updateOperationAndRetry(with: mine)
        } catch let failure as SyncError where error.statusCode == nil && failure.cause == nil {
            throw Mistake(message: "mine cannot be kept unchanged. \(reason)")
        }
        Terminal.say("kept mine; 'todo sync' sends it")
    }

    func takeTheirs(_ id: String, discards: Bool) async throws {
        let errors = try await context.operationErrors()
        guard let error = try await find(id, in: errors) else {
            throw Mistake(
                message: """
                    '\(id)' is no longer a conflict: it was edited since, and 'todo sync' sends it.
                    """
            )
        }
        let lost = error.serverCopy == .neverSeen ? error.item.map(describe) : nil
        if let lost, !discards {
            throw Mistake(
                message: """
                    The server has no item to take. \(Self.reason(error, among: errors)) \
                    Nothing was changed: this is the only copy of '\(lost)'. Fix it with 'todo edit', or drop it for \
                    good with 'todo conflicts take-theirs \(id) --discard'.
                    """
            )
        }
        try await error.cancelOperationAndDiscardItem()
        let shown = Self.typed(error, among: errors)
        Terminal.say(lost.map { "dropped \(shown)  \($0)" } ?? "took theirs")
    }

    /// Returns the conflict whose id begins with this text, or nil if its operation is only pending.
    private func find(
        _ id: String,
        in errors: [TableOperationError]
    ) async throws -> TableOperationError? {
        let matches = errors.filter { Self.name($0).hasPrefix(id) }
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

/// Returns the first letters of an id, which people read and type.
func short(_ id: String) -> String { String(id.prefix(8)) }

/// The shortest unique prefixes of ids, for users to read and type.
struct ShortIDs {
    private var shortened: [String: String] = [:]

    init(_ ids: [String]) {
        let sorted = Set(ids).sorted()
        for (id, next) in zip(sorted, sorted.dropFirst()) {
            let same = zip(id, next).prefix { $0 == $1 }.count
            let known = shortened[id] ?? short(id)
            shortened[id] = String(id.prefix(max(known.count, same + 1)))
            shortened[next] = String(next.prefix(max(short(next).count, same + 1)))
        }
    }

    subscript(id: String) -> String { shortened[id] ?? short(id) }
}
