// QueueTransaction: changing queue and errors within one transaction of the store.
//
// Only look-ups and rows; what to do is decided by QueueRules, ConflictRules and the machines.

import TidelineCore

struct QueueTransaction {
    /// The rows with their masks.
    let held: HeldRows
    let catalog: TableCatalog

    /// The rows without them.
    var store: any LocalStoreWriter { held }

    var reader: QueueReader { QueueReader(store: store, catalog: catalog) }

    /// Puts a new operation at the end of the queue.
    func append(_ operation: QueuedOperation) throws {
        _ = try store.append(operation.storedRow, in: SystemTables.operations)
    }

    func put(_ operation: QueuedOperation) throws {
        try store.put([operation.storedRow], in: SystemTables.operations)
    }

    func remove(_ operation: QueuedOperation) throws {
        try store.delete(ids: [.integer(operation.id)], in: SystemTables.operations)
        if operation.state == .parked { try removeErrors(of: operation.id) }
    }

    func removeErrors(of operationID: Int64) throws {
        let query = TableQuery(filter: .equal("operationId", .integer(operationID)))
        let ids = try store.rows(query, in: SystemTables.errors).compactMap { $0["id"] }
        if !ids.isEmpty { try store.delete(ids: ids, in: SystemTables.errors) }
    }

    /// Keeps what is known of a row on the server with its first operation.
    func put(_ basis: RowBasis, _ table: String, _ itemID: String) throws {
        guard var first = try reader.operations(table, itemID).first else { return }
        first.basis = basis
        try put(first)
    }
}
