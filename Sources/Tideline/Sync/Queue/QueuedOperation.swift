// QueuedOperation: a local change in the queue.

package import TidelineCore

/// An operation in the queue, with everything that is needed to send and complete it.
package struct QueuedOperation: Sendable, Hashable {
    package enum State: Int64, Sendable {
        /// The operation was never sent; later edits are merged into it.
        case pending = 0
        /// The operation is frozen: it was sent at least once, and its outcome is not known yet.
        case attempted = 1
        /// The operation was rejected or cannot be sent; it waits for the app or for an edit of its
        /// row.
        case parked = 2
    }

    /// The request of the first attempt, and the local row at that time.
    package struct Frozen: Sendable, Hashable {
        package var method: String
        /// The query of the request, including its question mark, or an empty string.
        package var query: String
        package var ifMatch: String?
        package var requestID: String
        /// The time of the first attempt, as an HTTP date.
        package var firstSent: String
        /// The body; nil for a delete.
        package var body: String?
        /// The local row at the time of the first attempt (`L1` in docs/sync.md); nil for a delete.
        package var sentRow: Row?
    }

    /// A column of the stored operation that cannot be decoded.
    package struct Damage: Sendable, Hashable {
        /// The column.
        package var column: String
        /// The stored row of the operation, which is kept unchanged.
        package var stored: Row
    }

    /// The position in the queue; 0 until the operation is stored.
    package var id: Int64
    package var table: String
    package var itemID: String
    package var kind: OperationKind
    package var state = State.pending
    package var frozen: Frozen?
    /// The id of the request that will send the operation; nil until the operation is stored.
    ///
    /// The id is created together with the change, so that a copy of the store uses the same id.
    package var requestID: String?
    /// The latest commit of the table that the device knew at the time of an insert with an id that
    /// the app chose.
    ///
    /// The value is in milliseconds since 1970.
    package var knownUntil: Int64?
    /// Whether the operation was in the queue when the store was copied, so that the original store
    /// may have sent it.
    package var isInherited = false
    /// The known server states of the row, which are stored with the first operation of the row.
    package var basis = RowBasis()
    /// The version that the change is based on, if it is not the version of the base row.
    ///
    /// It is empty for an older state whose version is not known. No row of the server matches the
    /// empty version.
    package var basisVersion: String?
    /// Whether all columns are sent, not only the columns that differ from the base row.
    package var sendsWholeRow = false
    /// Whether the operation undeletes a row whose tombstone is on the server.
    package var revives = false
    /// The number of times that the operation was resent because of a conflict.
    package var conflicts = 0
    /// The number of pushes in which the server failed to process the operation (5xx) but processed
    /// other requests.
    package var failedPushes = 0
    /// The number of times that the frozen request was sent.
    package var attempts = 0
    /// Whether an attempt may have taken effect although its outcome was never received.
    package var outcomeUnknown = false
    /// The row that the first attempt with an unknown outcome sent, if the operation has changed
    /// since then.
    package var unknownSent: Row?
    /// The change of the operation, if the next operation on the same row belongs to another atomic
    /// group.
    ///
    /// It has the changed columns of an update, or the row of an insert. If it is nil, the local
    /// row is the result of the operation.
    package var edit: Row?
    /// The local row before the last operation on a row, if another operation precedes it.
    package var before: Row?
    package var group: String?
    package var account: String?
    package var damage: Damage?

    package init(
        id: Int64 = 0,
        table: String,
        itemID: String,
        kind: OperationKind,
        state: State = .pending
    ) {
        self.id = id
        self.table = table
        self.itemID = itemID
        self.kind = kind
        self.state = state
    }

    package var isAttempted: Bool { state == .attempted }

    package var row: RowKey { RowKey(table, itemID) }

    /// Whether the operation replaces the whole row, as an insert does.
    package var replacesRow: Bool {
        kind == .insert || kind == .update && sendsWholeRow && basisVersion == nil
    }

    /// The base row of the change; nil if it is not stored.
    package var knownBase: Row? {
        basis.base.flatMap { basisVersion == nil || basisVersion == $0.version ? $0 : nil }
    }

    package var pending: PendingOperation {
        PendingOperation(
            id: id,
            table: table,
            itemID: itemID,
            kind: kind,
            isAttempted: frozen != nil,
            isParked: state == .parked,
            account: account,
            groupID: group
        )
    }

    /// Returns the row after the operation; `local` is the stored row.
    package func result(local: Row?) -> Row? {
        guard let edit else { return local }
        var row = (kind == .insert ? nil : basis.base) ?? Row()
        for (name, value) in edit { row[name] = value }
        row[SystemColumn.id] = .string(itemID)
        return row
    }

    /// Returns the row after the first operations on it, if others follow them.
    static func result(of operations: [QueuedOperation]) -> Row? {
        var row = operations.first?.basis.base
        for operation in operations {
            switch operation.kind {
            case .delete: row = nil
            case .insert: row = operation.edit ?? operation.frozen?.sentRow
            case .update:
                if operation.sendsWholeRow || operation.edit == nil {
                    row = operation.edit ?? operation.frozen?.sentRow ?? row
                } else {
                    for (name, value) in operation.edit ?? Row() {
                        row = row ?? Row()
                        row?[name] = value
                    }
                }
            }
            row?[SystemColumn.id] = .string(operation.itemID)
        }
        return row
    }

    /// Adds changes to the stored change of the operation, if there is one.
    package mutating func addToEdit(_ changes: Row) {
        guard edit != nil else { return }
        for (name, value) in changes { edit?[name] = value }
    }

    /// Stores the change of the operation, because an operation of another atomic group follows on
    /// the same row.
    ///
    /// - Parameter row: The row after the operation; nil if the operation deletes it.
    package mutating func seal(_ row: Row?) {
        defer { before = nil }
        guard edit == nil, kind != .delete, let row else { return }
        let start = before ?? basis.base
        if kind == .update, !sendsWholeRow, let start {
            edit = RowMerge.changes(from: start, to: row)
        } else {
            edit = RowMerge.payload(row)
        }
    }

    /// Returns whether a later operation on the same row belongs to a different atomic group.
    ///
    /// The two are never merged, because each group is sent, and may be rejected, separately.
    package func isChained(to later: QueuedOperation) -> Bool {
        guard let group, let other = later.group else { return false }
        return group != other
    }

    /// Returns the operation to its state before the first attempt.
    ///
    /// If an earlier outcome is unknown, this fact is kept, together with the row that was sent.
    package mutating func thaw() {
        if outcomeUnknown { unknownSent = unknownSent ?? frozen?.sentRow }
        state = .pending
        frozen = nil
        requestID = nil
        attempts = 0
        conflicts = 0
        failedPushes = 0
    }

    /// Resets the attempts, because all their outcomes are known.
    package mutating func resetAttempts() {
        outcomeUnknown = false
        unknownSent = nil
        thaw()
    }
}

extension QueuedOperation.Frozen {
    /// The column because of which no request can be built.
    ///
    /// Another program wrote the column, or the server sent a version that is invalid in a header
    /// field.
    var fault: String? {
        if !["POST", "PATCH", "PUT", "DELETE"].contains(method) { return "method" }
        if ifMatch?.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) == true { return "ifMatch" }
        return nil
    }
}
