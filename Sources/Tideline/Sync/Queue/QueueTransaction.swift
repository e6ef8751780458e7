// QueueTransaction: changes the operation queue and its errors.
//
// It only reads and writes rows. The logic is in QueueRules, ConflictRules and the state machines.

import TidelineCore

/// A writer of the operation queue and its errors within one transaction of the store.
struct QueueTransaction {
    /// The writer that also has access to the membership masks of rows.
    let unmasked: UnmaskedWriter
    let catalog: TableCatalog
    /// The account that is signed in, which owns new operations.
    let account: AccountView
    let limits: SyncLimits
    /// The atomic group of the operations that this transaction queues.
    var group: String?
    /// The size of the part of the group that this transaction queues.
    var size: GroupSize?
    /// A check of whether the task that waits for the transaction was cancelled.
    var watch: TransactionWatch?
    /// Returns an id for a request.
    var makeID: @Sendable () -> String

    /// The writer that hides the membership masks of rows.
    var store: any LocalStoreWriter { unmasked }

    var reader: QueueReader { QueueReader(store: store, catalog: catalog, account: account) }

    /// Adds a new operation at the end of the queue.
    func append(_ operation: QueuedOperation) throws {
        var operation = operation
        operation.account = account.id
        operation.group = group
        operation.requestID = makeID()
        _ = try store.append(operation.storedRow, in: SystemTables.operations)
    }

    func put(_ operation: QueuedOperation) throws {
        var operation = operation
        if operation.requestID == nil, operation.frozen == nil { operation.requestID = makeID() }
        try store.put([operation.storedRow], in: SystemTables.operations)
    }

    /// Moves an operation that was never sent to the end of the queue.
    ///
    /// If the operation belongs to the group of another transaction, it stays where it is.
    func moveToEnd(_ id: Int64) throws {
        guard let operation = try reader.operation(id), operation.state == .pending,
            operation.group == nil || operation.group == group, try reader.lastID() != id
        else { return }
        try remove(operation)
        var moved = operation
        moved.id = 0
        try append(moved)
    }

    func remove(_ operation: QueuedOperation) throws {
        try store.delete(ids: [.integer(operation.id)], in: SystemTables.operations)
        // An operation that was released together with its group still has its error.
        if operation.state == .parked || operation.group != nil {
            try removeErrors(of: operation.id)
        }
    }

    func removeErrors(of operationID: Int64) throws {
        let query = TableQuery(filter: .equal("operationId", .integer(operationID)))
        let ids = try store.rows(query, in: SystemTables.errors).compactMap { $0["id"] }
        if !ids.isEmpty { try store.delete(ids: ids, in: SystemTables.errors) }
    }

    // MARK: - Checks

    /// Checks that all operations belong to the account of this transaction.
    ///
    /// A change can neither be merged into an operation of another account nor follow it.
    ///
    /// - Throws: ``SyncError`` with code `otherAccount`.
    func checkAccount(_ operations: [QueuedOperation]) throws {
        guard let other = operations.first(where: { !account.owns($0) }) else { return }
        throw SyncError.otherAccount(other)
    }

    /// - Throws: ``SyncError`` with code `unknownTable` if the app does not declare the table.
    func checkTable(of operation: QueuedOperation) throws {
        guard !catalog.names(tableOf: operation) else { return }
        throw SyncError.unknownTable(operation.table, known: Array(catalog.schemas.keys))
    }

    // MARK: - Several operations of one row

    /// Merges all operations of a row into one, because the app resolved the row in its current
    /// state.
    ///
    /// - Returns: The merged operation; nil if nothing has to be sent.
    func absorbFollowing(_ parked: QueuedOperation) throws -> QueuedOperation? {
        var first = parked
        var result: QueuedOperation? = first
        for later in try reader.allOperations(first.table, first.itemID) where later.id > first.id {
            try remove(later)
            first.group = try joinedGroup(of: first, with: later)
            result?.group = first.group
            if let earlier = result {
                result = QueueRules.merge(rejected: earlier, behind: later)
            } else if later.kind != .delete {
                // Nothing is left of the earlier operations.
                var only = later
                (only.id, only.group, only.before) = (first.id, first.group, nil)
                only.basis = first.basis
                result = only
            }
        }
        if result == nil, case .row(let row) = first.basis.lastKnown {
            // The server has a row with this id, which has to be deleted.
            var delete = first
            delete.resetAttempts()
            delete.kind = .delete
            delete.sendsWholeRow = false
            delete.revives = false
            delete.basis = RowBasis(base: row)
            result = delete
        }
        if result == nil || result?.kind == .delete { try ownStates.endInsert(first) }
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

    /// Removes the later operations of a row.
    func removeFollowing(_ first: QueuedOperation) throws {
        for later in try reader.allOperations(first.table, first.itemID) where later.id > first.id {
            try ownStates.endInsert(later)
            try remove(later)
            try joinedGroup(of: first, with: later)
        }
    }

    /// Returns the atomic group of an operation after a later operation on the same row was merged
    /// into it.
    ///
    /// Their groups become one group, so that no reader sees only a part of a transaction. The
    /// group of the running transaction keeps its name, because further operations are added to it.
    /// If the two groups do not fit into one batch, they stay separate.
    @discardableResult
    private func joinedGroup(
        of first: QueuedOperation,
        with later: QueuedOperation
    ) throws -> String? {
        guard let other = later.group else { return first.group }
        guard let own = first.group else { return other }
        guard own != other,
            try reader.count(group: own) + reader.count(group: other) <= Self.groupRowsMax
        else { return own }
        guard other == group else {
            try rename(other, to: own)
            return own
        }
        try rename(own, to: other)
        return other
    }

    /// The maximum number of operations in a batch that every server executes atomically.
    private static let groupRowsMax = 1000

    /// Applies the changes of later operations to a new state of the row.
    ///
    /// `sent` is the row that the operation resulted in before, and `row` is the row that it
    /// results in now.
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

    /// Merges the group of an operation into the group of this transaction, because a change of
    /// this transaction was merged into the operation.
    func joined(_ operation: QueuedOperation) throws -> QueuedOperation {
        guard let group else { return operation }
        size?.changed(operation.id)
        var joined = operation
        joined.group = group
        if let former = operation.group { try rename(former, to: group, but: operation.id) }
        return joined
    }

    /// Merges the groups of two operations, after one was merged into the other.
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

    /// Moves the operations of a group to another group, except for one operation that the caller
    /// writes.
    func rename(_ former: String, to group: String, but id: Int64? = nil) throws {
        guard former != group else { return }
        for var member in try reader.members(of: former) where member.id != id {
            member.group = group
            try put(member)
            if group == self.group { size?.joined(member.id, from: former) }
        }
    }

    /// Moves the operations that this transaction did not change back to their former groups.
    ///
    /// - Returns: Whether there are such operations.
    @discardableResult
    func separateEarlier(from group: String) throws -> Bool {
        guard let former = size?.formerGroups, !former.isEmpty else { return false }
        for var member in try reader.members(of: group) {
            guard let own = former[member.id] else { continue }
            member.group = own
            try put(member)
        }
        return true
    }

    /// Makes the other parked operations of an operation's atomic group pending again.
    ///
    /// Their errors are kept until they are sent, because the app may be iterating over them.
    func release(with operation: QueuedOperation) throws {
        guard let group = operation.group else { return }
        for var member in try reader.members(of: group)
        where member.id != operation.id && member.state == .parked && member.damage == nil {
            member.thaw()
            try put(member)
        }
    }

    /// Makes a parked operation and the other parked operations of its atomic group pending again.
    func retry(_ operation: QueuedOperation) throws {
        guard operation.damage == nil else { throw SyncError.unsendable(operation) }
        try checkTable(of: operation)
        var again = operation
        again.thaw()
        try put(again)
        try release(with: operation)
    }

    // MARK: - Rows

    /// Stores the known server states of a row with the row's first operation.
    func put(_ basis: RowBasis, _ table: String, _ itemID: String) throws {
        guard var first = try reader.operations(table, itemID).first else { return }
        first.basis = basis
        try put(first)
    }

    // MARK: - Configuration

    /// Stores a value of the configuration, and returns whether it differs from the stored value.
    ///
    /// The value nil removes the row.
    func setConfig(
        _ value: String?,
        _ table: String,
        _ key: String,
        _ keyType: Int
    ) throws -> Bool {
        let id = Value.string(QueueReader.configID(table, key, keyType))
        let stored = try store.row(id: id, in: SystemTables.config)?["value"]?.text
        guard stored.map(ItemKey.init) != value.map(ItemKey.init) else { return false }
        guard let value else {
            try store.delete(ids: [id], in: SystemTables.config)
            return true
        }
        try store.put(
            [
                [
                    "id": id, "key": .string(key), "keyType": .integer(Int64(keyType)),
                    "table": .string(table), "value": .string(value),
                ]
            ],
            in: SystemTables.config
        )
        return true
    }
}
