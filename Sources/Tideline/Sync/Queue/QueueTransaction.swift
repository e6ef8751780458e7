// QueueTransaction: changes of queue and errors within one transaction of the store.
//
// It only reads and writes rows; QueueRules, ConflictRules and the state machines make the decisions.

import TidelineCore

struct QueueTransaction {
    /// The rows with their masks.
    let held: HeldRows
    let catalog: TableCatalog
    /// The account that is signed in: new operations belong to it.
    let account: AccountView
    /// The atomic group of the operations that are queued here; they are pushed as one.
    var group: String?
    /// The size of the transaction's part of its group.
    var size: GroupSize?
    /// The watch over the task that waits for the transaction.
    var watch: TransactionWatch?
    /// Makes the ids of requests.
    var makeID: @Sendable () -> String

    /// The rows without them.
    var store: any LocalStoreWriter { held }

    var reader: QueueReader { QueueReader(store: store, catalog: catalog, account: account) }

    /// Puts a new operation at the end of the queue.
    func append(_ operation: QueuedOperation) throws {
        var operation = operation
        operation.account = account.id
        operation.group = group
        operation.requestID = makeID()
        let id = try store.append(operation.storedRow, in: SystemTables.operations)
        size?.appended(id)
    }

    func put(_ operation: QueuedOperation) throws {
        var operation = operation
        if operation.requestID == nil, operation.frozen == nil { operation.requestID = makeID() }
        try store.put([operation.storedRow], in: SystemTables.operations)
    }

    func remove(_ operation: QueuedOperation) throws {
        try store.delete(ids: [.integer(operation.id)], in: SystemTables.operations)
        // One that was released with its group has its error still.
        if operation.state == .parked || operation.group != nil {
            try removeErrors(of: operation.id)
        }
    }

    func removeErrors(of operationID: Int64) throws {
        let query = TableQuery(filter: .equal("operationId", .integer(operationID)))
        let ids = try store.rows(query, in: SystemTables.errors).compactMap { $0["id"] }
        if !ids.isEmpty { try store.delete(ids: ids, in: SystemTables.errors) }
    }

    // MARK: - Several operations of one row

    /// Makes one operation of all that wait in a row, because the app decided about the row as it is.
    ///
    /// - Returns: The first operation, as the only one; nil if nothing of the row is to be sent.
    func absorbFollowing(_ first: QueuedOperation) throws -> QueuedOperation? {
        var result: QueuedOperation? = first
        for later in try reader.allOperations(first.table, first.itemID) where later.id > first.id {
            try remove(later)
            try join(later, to: first)
            if let earlier = result {
                result = QueueRules.merge(rejected: earlier, behind: later)
            } else if later.kind != .delete {
                // Nothing was left of those before it.
                var only = later
                (only.id, only.group, only.before) = (first.id, first.group, nil)
                only.basis = first.basis
                result = only
            }
        }
        if result == nil, case .row(let row) = first.basis.lastKnown {
            // The server has a row with the id, which the delete applies to.
            var delete = first
            delete.startAnew()
            delete.kind = .delete
            delete.sendsWholeRow = false
            delete.revives = false
            delete.basis = RowBasis(base: row)
            result = delete
        }
        if result == nil || result?.kind == .delete { try endInsert(first) }
        guard var result else {
            try release(with: first)
            try remove(first)
            return nil
        }
        result.state = first.state
        result.edit = nil
        try put(result)
        return result
    }

    /// Removes the operations that follow one in its row.
    func removeFollowing(_ first: QueuedOperation) throws {
        for later in try reader.allOperations(first.table, first.itemID) where later.id > first.id {
            try endInsert(later)
            try remove(later)
            try join(later, to: first)
        }
    }

    /// The rest of an operation's atomic group becomes part of another group, which has taken in its
    /// change of a row: so that no reader sees a part of it.
    ///
    /// A group that would be too large for a batch stays as it is.
    private func join(_ later: QueuedOperation, to first: QueuedOperation) throws {
        guard first.isChained(to: later), let group = first.group, let other = later.group,
            try reader.count(group: group) + reader.count(group: other) <= Self.groupRowsMax
        else { return }
        try rename(other, to: group)
    }

    /// How many operations a batch of any server carries as one.
    private static let groupRowsMax = 1000

    /// Carries what the operations of other groups that follow one in its row have changed onto a
    /// new state of the row: `sent` is the row that the operation led to, `row` what it leads to now.
    func rebaseFollowing(_ operation: QueuedOperation, from sent: Row, onto row: Row) throws {
        let (table, id) = (operation.table, operation.itemID)
        guard try !reader.isReplaced(behind: operation) else { return }
        if var last = try reader.operations(table, id).last, last.id > operation.id,
            let before = last.before
        {
            last.before = RowMerge.rebase(local: before, from: sent, onto: row)
            try put(last)
        }
        guard let local = try store.row(id: .string(id), in: table) else { return }
        try store.put([RowMerge.rebase(local: local, from: sent, onto: row)], in: table)
    }

    // MARK: - Groups

    /// Merges the groups of an operation and of this transaction, whose change it absorbs.
    func joined(_ operation: QueuedOperation) throws -> QueuedOperation {
        guard let group else { return operation }
        size?.joinedEarlier()
        var joined = operation
        joined.group = group
        if let former = operation.group { try rename(former, to: group, but: operation.id) }
        return joined
    }

    /// Merges the groups of two operations, after one has absorbed the other.
    func joined(
        _ operation: QueuedOperation,
        with later: QueuedOperation
    ) throws
        -> QueuedOperation
    {
        guard let other = later.group, other != operation.group else { return operation }
        guard let group = operation.group else {
            var joined = operation
            joined.group = other
            return joined
        }
        try rename(other, to: group, but: later.id)
        return operation
    }

    /// Makes a group part of another one, except for an operation that the caller writes.
    func rename(_ former: String, to group: String, but id: Int64? = nil) throws {
        guard former != group else { return }
        for var member in try reader.members(of: former) where member.id != id {
            member.group = group
            try put(member)
        }
    }

    /// Releases the operations that were parked with one that the app has edited or resolved the error of.
    ///
    /// Their errors stay until they are sent: the app may be going through all of them.
    func release(with operation: QueuedOperation) throws {
        guard let group = operation.group else { return }
        for var member in try reader.members(of: group)
        where member.id != operation.id && member.state == .parked && member.damage == nil {
            member.thaw()
            try put(member)
        }
    }

    /// Keeps what is known of a row on the server with its first operation.
    func put(_ basis: RowBasis, _ table: String, _ itemID: String) throws {
        guard var first = try reader.operations(table, itemID).first else { return }
        first.basis = basis
        try put(first)
    }
}
