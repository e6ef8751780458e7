// QueueRules: local changes and the operations that are already in the queue.
//
// Pure. The rules are the table in docs/sync.md, "The queue".
// `last` is the last operation of the same row; before it there is at most one, which is attempted.

/// The rules for the effect of a local change on the queue.
package enum QueueRules {
    /// The kind of a local change.
    package enum Change: Sendable, Hashable {
        case insert
        case update
        case delete
    }

    /// The effect on the queue.
    package enum Effect: Sendable, Hashable {
        /// A new operation is added at the end of the queue.
        case append(OperationKind)
        /// The change is merged into `last`, which keeps its position.
        case collapse(into: OperationKind)
        /// `last` keeps its position and replaces the deleted row.
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
    /// The two become one operation, as if the first had never been sent. Nil means that the server never had
    /// the row.
    package static func merge(
        rejected: QueuedOperation,
        behind later: QueuedOperation
    ) -> QueuedOperation? {
        var result = rejected
        // If the later operation has a follower, the result has one too, so it stores both changes.
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
            // A row that was deleted and inserted again is sent even if it did not change, because the server may have
            // deleted it.
            if later.replacesRow { result.sendsWholeRow = true }
        case (.insert, .insert), (.insert, .update), (.update, .insert), (.delete, .update):
            break
        }
        if let older = later.basisVersion {
            // The later edit was made to an older version, so it is compared with that version.
            result.basisVersion = older
            result.sendsWholeRow = result.kind == .update
        }
        return result
    }
}
