// QueueTransaction: changing queue and errors within one transaction of the store.
//
// Only look-ups and rows; what to do is decided by QueueRules, ConflictRules and the machines.

import TidelineCore

struct QueueTransaction {
    /// The rows with their masks.
    let held: HeldRows
    let catalog: TableCatalog
    /// Who is signed in: what is made now is theirs.
    let account: AccountView
    /// The group that what is done here belongs to: what is pushed as one.
    var group: String?
    /// What the transaction adds to its group.
    var size: GroupSize?
    /// Whether it is still waited for.
    var watch: TransactionWatch?

    /// The rows without them.
    var store: any LocalStoreWriter { held }

    var reader: QueueReader { QueueReader(store: store, catalog: catalog, account: account) }

    /// Puts a new operation at the end of the queue.
    func append(_ operation: QueuedOperation) throws {
        var operation = operation
        operation.account = account.id
        operation.group = group
        _ = try store.append(operation.storedRow, in: SystemTables.operations)
    }

    func put(_ operation: QueuedOperation) throws {
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

    // MARK: - Groups

    /// A change of this transaction goes into an operation that is there: its group and the one of
    /// the transaction become one.
    func joined(_ operation: QueuedOperation) throws -> QueuedOperation {
        guard let group else { return operation }
        size?.joinedEarlier()
        var joined = operation
        joined.group = group
        if let former = operation.group { try rename(former, to: group, but: operation.id) }
        return joined
    }

    /// An operation has taken in the one behind it, and belongs to the groups of both.
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

    /// A group becomes part of another one, but for an operation that is written otherwise.
    func rename(_ former: String, to group: String, but id: Int64? = nil) throws {
        guard former != group else { return }
        for var member in try reader.members(of: former) where member.id != id {
            member.group = group
            try put(member)
        }
    }

    /// The app settled or edited an operation: what was parked with it is to be sent again with it.
    ///
    /// The errors of these stay until they are sent: the app may be on its way through all of them.
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
