// QueueRules: decides how a local change affects the operations that are already in the queue.
//
// Pure. The rules are in the table in docs/sync.md, "The queue". `last` is the last operation on
// the same row.

/// The rules for the effect of a local change on the queue.
package enum QueueRules {
    /// The kind of a local change.
    package enum Change: Sendable, Hashable {
        case insert
        case update
        case delete
    }

    /// The effect of a local change on the queue.
    package enum Effect: Sendable, Hashable {
        /// A new operation is added at the end of the queue.
        case append(OperationKind)
        /// The change is merged into `last`, which keeps its position.
        case collapse(into: OperationKind)
        /// The row of `last` was deleted; `last` keeps its position and now replaces the row.
        case replaceDeleted
        /// `last` is removed, and nothing is sent.
        case remove
        /// The queue does not change.
        case nothing
        /// The row already exists.
        case alreadyExists
        /// The row does not exist.
        case notFound
    }

    package static func effect(
        of change: Change,
        rowExists: Bool,
        last: QueuedOperation?
    ) -> Effect {
        switch change {
        case .insert where rowExists: return .alreadyExists
        case .update where !rowExists: return .notFound
        case .delete where !rowExists: return .nothing
        case .insert, .update, .delete: break
        }
        // An operation that cannot be decoded stays unchanged, so nothing is merged into it.
        guard let last, last.state != .attempted, last.damage == nil else {
            switch change {
            case .insert: return .append(.insert)
            case .update: return .append(.update)
            case .delete: return .append(.delete)
            }
        }
        switch (last.kind, change) {
        case (.insert, .update): return .collapse(into: .insert)
        case (.update, .update): return .collapse(into: .update)
        // If the server may have the row of an insert, the row has to be deleted there.
        case (.insert, .delete): return last.outcomeUnknown ? .collapse(into: .delete) : .remove
        case (.update, .delete): return .collapse(into: .delete)
        case (.delete, .insert): return .replaceDeleted
        // The row exists unless the last operation is a delete, so the other cases are impossible.
        case (.delete, .update), (.delete, .delete): return .nothing
        case (.insert, .insert), (.update, .insert): return .alreadyExists
        }
    }

    /// Returns the result of merging a rejected operation with the operation that follows it.
    ///
    /// The result is one operation, as if the rejected one had never been sent. It is nil if the
    /// server never had the row.
    package static func merge(
        rejected: QueuedOperation,
        behind later: QueuedOperation
    ) -> QueuedOperation? {
        var result = rejected
        // If the later operation stores its change, another operation follows it. The result then
        // stores both changes.
        var edit: Row?
        if let change = later.edit {
            result.seal(rejected.frozen?.sentRow)
            edit = rejected.kind == .delete || later.replacesRow ? Row() : result.edit ?? Row()
            for (name, value) in change { edit?[name] = value }
        }
        result.thaw()
        result.edit = edit
        switch (rejected.kind, later.kind) {
        case (.insert, .delete) where !rejected.outcomeUnknown:
            return nil
        case (.delete, .insert):
            result.kind = .update
            result.sendsWholeRow = true
        case (_, .delete):
            result.kind = .delete
            result.edit = nil
        case (.update, .update):
            // A row that was deleted and inserted again is sent even if its values are unchanged,
            // because the server may have deleted it.
            if later.replacesRow { result.sendsWholeRow = true }
        case (.insert, .insert), (.insert, .update), (.update, .insert), (.delete, .update):
            break
        }
        if let older = later.basisVersion {
            // The later edit was made to an older version, so the result is based on that version.
            result.basisVersion = older
            result.sendsWholeRow = result.kind == .update
        }
        return result
    }
}
