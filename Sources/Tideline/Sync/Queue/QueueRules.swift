// QueueRules: what a new local change does to the queue.
//
// Pure. The rules are those of CONTRACT.md, section 2, "The queue", as a table in docs/SYNC.md.
// `last` is the last operation of the same row; before it there is at most one, which is attempted.

package enum QueueRules {
    /// What a local change asks for.
    package enum Change: Sendable, Hashable {
        case insert
        case update
        case delete
    }

    /// What becomes of the queue.
    package enum Effect: Sendable, Hashable {
        /// A new operation goes to the end of the queue.
        case append(OperationKind)
        /// `last` stays where it is and takes the change in.
        case collapse(into: OperationKind)
        /// `last` stays where it is and becomes a replacement of the deleted row.
        case replaceDeleted
        /// `last` goes; the server never hears of the row.
        case remove
        /// Nothing changes.
        case nothing
        /// The row is there already.
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
        // An entry that cannot be read stays as it is, so it takes nothing in.
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
        // The row exists exactly when the last operation is no delete: the rest cannot be.
        case (.delete, .update), (.delete, .delete): return .nothing
        case (.insert, .insert), (.update, .insert): return .alreadyExists
        }
    }

    /// What remains of a rejected operation and the one that stands behind it.
    ///
    /// The pair collapses as if the first had never been sent: the later edit releases it. Nil: the
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
