// QueueRules: the effect of a local change on the queue.
//
// Pure. The rules are the table in docs/SYNC.md, "The queue".
// `last` is the last operation of the same row; before it there is at most one, which is attempted.

package enum QueueRules {
    /// The kind of a local change.
    package enum Change: Sendable, Hashable {
        case insert
        case update
        case delete
    }

    /// The effect on the queue.
    package enum Effect: Sendable, Hashable {
        /// A new operation goes to the end of the queue.
        case append(OperationKind)
        /// `last` keeps its position and absorbs the change.
        case collapse(into: OperationKind)
        /// `last` keeps its position and becomes a replacement of the deleted row.
        case replaceDeleted
        /// `last` is removed; nothing of the row is ever sent.
        case remove
        /// Nothing changes.
        case nothing
        /// The row already exists.
        case alreadyExists
        /// There is no such row.
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
        default: break
        }
        // An operation that cannot be decoded stays unchanged, so it absorbs nothing.
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
        // An insert that may be on the server has to be deleted there.
        case (.insert, .delete): return last.outcomeUnknown ? .collapse(into: .delete) : .remove
        case (.update, .delete): return .collapse(into: .delete)
        case (.delete, .insert): return .replaceDeleted
        // The row exists exactly if the last operation is not a delete: other cases are impossible.
        case (.delete, .update), (.delete, .delete): return .nothing
        case (.insert, .insert), (.update, .insert): return .alreadyExists
        }
    }

    /// Returns the result of merging a rejected operation with the one that follows it.
    ///
    /// The pair becomes one as if the first had never been sent: the later edit releases it. Nil: the
    /// server never had the row.
    package static func merge(
        rejected: QueuedOperation,
        behind later: QueuedOperation
    ) -> QueuedOperation? {
        var result = rejected
        // If the later one has a follower of its own, so has the result: it keeps both changes.
        var edit: Row?
        if let change = later.edit {
            result.seal(rejected.frozen?.sentRow)
            edit = rejected.kind == .delete ? Row() : result.edit ?? Row()
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
        default:
            break
        }
        if let older = later.basisVersion {
            // The later edit was made to an older version: it must be measured against that one.
            result.basisVersion = older
            result.sendsWholeRow = result.kind == .update
        }
        return result
    }
}
