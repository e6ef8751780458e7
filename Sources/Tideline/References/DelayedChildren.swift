// DelayedChildren: operations that take children away from a row, and that are sent before the delete of the row.
//
// Such an operation deletes a child or gives it another parent. It precedes the delete in the queue, but it is retried
// later if the server failed to process it, and parked if the server rejected it. If the delete overtook the operation,
// the server would reject the delete, delete the child with its parent, or clear the child's reference.

import TidelineCore

/// The operations that take children away from rows, read once for each slice.
struct DelayedChildren {
    typealias Edge = ModelReferences.Edge

    /// The operations that may take a child away, by reference and parent.
    private var byParent: [Edge: [String: [QueuedOperation]]] = [:]

    /// The maximum number of operations of a table that are examined.
    ///
    /// Delayed operations come first in the queue. If there are more operations than this, the server may
    /// reject the delete.
    private static let operationsMax = 1000

    /// Returns an operation that has to be sent before the delete of a row; nil if there is none.
    ///
    /// - Parameters:
    ///   - delete: The delete.
    ///   - reader: The queue.
    ///   - taken: The ids of the operations that are sent earlier.
    /// - Returns: The operation.
    /// - Throws: The errors of the store.
    mutating func first(
        of delete: QueuedOperation,
        _ reader: QueueReader,
        taken: Set<Int64> = []
    ) throws -> QueuedOperation? {
        for (operation, edge) in try all(of: delete, reader) {
            // If both operations are in one batch and the server rejects the first, `restrict` prevents the delete.
            // With another rule, the server would delete a child that was moved, or clear its reference.
            let mayPrecede = operation.kind == .delete || edge.rule == .restrict
            if mayPrecede, taken.contains(operation.id) { continue }
            if try waits(operation, for: delete, reader) { continue }
            return operation
        }
        return nil
    }

    /// Returns all operations that take children away from a row, except operations in the group of its delete.
    mutating func all(
        of delete: QueuedOperation,
        _ reader: QueueReader
    ) throws -> [(operation: QueuedOperation, edge: Edge)] {
        guard delete.kind == .delete, delete.damage == nil else { return [] }
        var result: [(operation: QueuedOperation, edge: Edge)] = []
        for edge in reader.catalog.references.children(of: delete.table) {
            for operation in try operations(by: edge, reader)[delete.itemID] ?? [] {
                guard operation.group == nil || operation.group != delete.group,
                    operation.row != delete.row
                else { continue }
                let row = operation.kind == .delete ? nil : try reader.localRow(after: operation)
                if row?[edge.column]?.text != delete.itemID { result.append((operation, edge)) }
            }
        }
        return result
    }

    private mutating func operations(
        by edge: Edge,
        _ reader: QueueReader
    ) throws -> [String: [QueuedOperation]] {
        if let known = byParent[edge] { return known }
        var found: [String: [QueuedOperation]] = [:]
        for operation in try firstOperations(of: edge.child, reader) {
            for parent in operation.parentsBefore(by: edge.column) {
                found[parent, default: []].append(operation)
            }
        }
        byParent[edge] = found
        return found
    }

    /// Returns whether an operation waits for another operation that is sent alone, through operations that are also
    /// sent alone.
    ///
    /// If each waited for the other, neither would ever be sent. Groups that wait for each other are
    /// merged (WaitCycle).
    private mutating func waits(
        _ operation: QueuedOperation,
        for other: QueuedOperation,
        _ reader: QueueReader
    ) throws -> Bool {
        guard try isSentAlone(other, reader) else { return false }
        var left = UnsentParents.ancestorsMax
        var seen: Set = [operation.id]
        var open = [operation]
        while let next = open.popLast(), left > 0 {
            left -= 1
            if next.id == other.id { return true }
            guard try isSentAlone(next, reader) else { continue }
            var before = try all(of: next, reader).map(\.operation)
            if let earlier = try reader.operation(before: next) { before.append(earlier) }
            if let parent = try reader.unsentParents.parent(
                of: next,
                local: try reader.localRow(after: next)
            ) {
                before.append(parent)
            }
            open += before.filter { seen.insert($0.id).inserted }
        }
        return false
    }

    /// Returns whether an operation belongs to no group, or is the last remaining operation of its group.
    private func isSentAlone(
        _ operation: QueuedOperation,
        _ reader: QueueReader
    ) throws -> Bool {
        guard let group = operation.group else { return true }
        return try reader.count(group: group) == 1
    }

    /// Returns the first operations of a table's rows that this account may send, in order.
    private func firstOperations(
        of table: String,
        _ reader: QueueReader
    ) throws -> [QueuedOperation] {
        var query = TableQuery(filter: .equal("table", .string(table)))
        query.order = [SortKey(column: "id")]
        query.limit = Self.operationsMax
        return try reader.store.rows(query, in: SystemTables.operations)
            .map { QueuedOperation(storedRow: $0, schema: reader.catalog.schema) }
            .filter { $0.damage == nil && reader.account.owns($0) }
    }
}

extension QueuedOperation {
    /// Returns the parents that the row may have on the server before the operation is executed.
    fileprivate func parentsBefore(by column: String) -> Set<String> {
        var states = [basis.base, before, unknownSent]
        if kind == .delete { states.append(basis.latest?.row) }
        if kind == .insert { states.append(frozen?.sentRow) }
        return Set(states.compactMap { $0?[column]?.text })
    }
}
