// UnsentParents: operations on rows whose parents the server does not have yet, because the parents' inserts are still
// in the queue.
//
// The insert of a parent usually comes first in the queue. It does not if the insert is parked or retried, or if a row
// that already has an operation in the queue gets a new parent.

import TidelineCore

extension QueueReader {
    /// The parents that the server does not have yet.
    var unsentParents: UnsentParents { UnsentParents(reader: self) }
}

/// A reader of the operations that create parents of other rows.
struct UnsentParents {
    let reader: QueueReader

    /// Returns the operation that creates a parent of an operation's row and has to be sent first; nil if there is
    /// none.
    ///
    /// - Parameters:
    ///   - operation: The operation, which was not sent yet.
    ///   - local: The row after the operation.
    ///   - isSent: Returns whether an operation on a row is sent earlier.
    /// - Returns: The operation.
    /// - Throws: The errors of the store.
    func parent(
        of operation: QueuedOperation,
        local: Row?,
        isSent: (RowKey) -> Bool = { _ in false }
    ) throws -> QueuedOperation? {
        for parent in newParents(of: operation, local: local) where !isSent(parent) {
            guard let creating = try creatingOperation(of: parent),
                reader.catalog.names(tableOf: creating), reader.account.owns(creating)
            else { continue }
            if let group = operation.group, creating.group == group { continue }
            // A group that has a later operation on the same row is sent after this operation.
            if let group = creating.group,
                try reader.members(of: group).contains(where: { $0.row == operation.row })
            {
                continue
            }
            if try isAncestor(operation.row, of: creating) { continue }
            return creating
        }
        return nil
    }

    /// Returns the parents that the server checks when it executes an operation.
    func newParents(of operation: QueuedOperation, local: Row?) -> [RowKey] {
        guard operation.kind != .delete, operation.damage == nil, let local else { return [] }
        let named = reader.catalog.references.parents(of: local, in: operation.table)
        guard operation.kind == .update, !operation.revives, let base = operation.basis.base else {
            return named
        }
        // After a restore, the server may have a state of the row with another parent.
        let server = operation.basis.latest?.row ?? base
        let known = reader.catalog.references.parents(of: server, in: operation.table)
        return named.filter { !known.contains($0) }
    }

    /// Returns the operation that inserts or restores a row on the server; nil if there is none.
    func creatingOperation(of row: RowKey) throws -> QueuedOperation? {
        try reader.operations(row.table, row.itemID).first {
            $0.kind == .insert || $0.kind == .update && $0.revives
        }
    }

    /// Returns whether any operation may create a row of one of these tables.
    func mayCreate(rowsOf tables: Set<String>) throws -> Bool {
        let kinds: Filter =
            .equal("kind", .integer(Int64(OperationKind.insert.rawValue)))
            || .equal("revives", .bool(true))
        return try tables.contains { table in
            var query = TableQuery(filter: .equal("table", .string(table)) && kinds)
            query.select = ["id"]
            query.limit = 1
            return try !reader.store.rows(query, in: SystemTables.operations).isEmpty
        }
    }

    /// Returns the ids of the first updates and deletes of a table's rows after an operation, excluding parked
    /// operations and updates that restore a row.
    fileprivate func updatesAndDeletes(
        in table: String,
        after id: Int64,
        limit: Int
    ) throws -> [Int64] {
        var query = TableQuery(
            filter: .equal("table", .string(table)) && .greater("id", .integer(id))
                && .differs("kind", from: .integer(Int64(OperationKind.insert.rawValue)))
                && .differs("revives", from: .bool(true))
                && .differs("state", from: .integer(QueuedOperation.State.parked.rawValue))
        )
        query.select = ["id"]
        query.order = [SortKey(column: "id")]
        query.limit = limit
        return try reader.store.rows(query, in: SystemTables.operations).compactMap { row in
            guard case .integer(let id)? = row["id"] else { return nil }
            return id
        }
    }

    /// Returns whether a row is an ancestor of an operation's row, in which case the operations on the two rows cannot
    /// wait for each other.
    private func isAncestor(_ row: RowKey, of operation: QueuedOperation) throws -> Bool {
        var left = Self.ancestorsMax
        var seen: Set = [operation.row]
        var open = [operation]
        while let next = open.popLast(), left > 0 {
            left -= 1
            let local = try reader.localRow(after: next)
            for parent in newParents(of: next, local: local) {
                if parent == row { return true }
                guard seen.insert(parent).inserted else { continue }
                if let creating = try creatingOperation(of: parent) { open.append(creating) }
            }
        }
        return false
    }

    /// The maximum number of operations that a check examines.
    static let ancestorsMax = 64

    /// Returns whether an operation waits for a parked operation, directly or through other operations.
    func waitsForParked(_ operation: QueuedOperation) throws -> Bool {
        guard operation.frozen == nil, !reader.catalog.references.isEmpty else { return false }
        var children = DelayedChildren()
        var next = operation
        for _ in 0..<Self.ancestorsMax {
            let waited =
                next.kind == .delete
                ? try children.first(of: next, reader)
                : try parent(of: next, local: try reader.localRow(after: next))
            guard let waited else { return false }
            if waited.state == .parked { return true }
            next = waited
        }
        return false
    }
}

extension PushPreparation {
    /// Returns whether an operation has to wait until the server has accepted the insert of a parent.
    ///
    /// The delete of a row waits for the operations that take children away from it (DelayedChildren).
    func waitsForParent(_ operation: QueuedOperation, _ work: inout Work) throws -> Bool {
        guard operation.frozen == nil else { return false }
        if operation.kind == .delete { return try waitsForChildren(operation, &work) }
        guard try mayWaitForParents(operation.table, &work) else { return false }
        let rows = work.rows
        let parent = try queue.reader.unsentParents.parent(
            of: operation,
            local: try row(after: operation),
            isSent: { rows.contains($0) }
        )
        return parent != nil
    }

    /// Returns whether the queue has an operation, outside of this slice, that creates a parent of an operation's row.
    func mayHaveUnsentParent(_ operation: QueuedOperation, _ work: inout Work) throws -> Bool {
        guard operation.frozen == nil, operation.kind != .delete,
            try mayWaitForParents(operation.table, &work)
        else { return false }
        let parents = queue.reader.unsentParents
        return try parents.newParents(of: operation, local: row(after: operation)).contains {
            try !work.rows.contains($0) && parents.creatingOperation(of: $0) != nil
        }
    }

    /// Takes the operations that create the parents of an operation's row, preceded by the operations that create the
    /// parents' own parents.
    ///
    /// An app may have inserted a long chain of rows with the children first. Without this step, each slice would
    /// contain only one row of the chain.
    func takeParents(of operation: QueuedOperation, _ work: inout Work) throws -> Step {
        var chain: [QueuedOperation] = []
        var seen: Set = [operation.row]
        var next = operation
        while chain.count < Self.chainMax, !work.waitingRows.contains(next.row) {
            let rows = work.rows
            let parent = try queue.reader.unsentParents.parent(
                of: next,
                local: row(after: next),
                isSent: { rows.contains($0) }
            )
            guard let parent, try mayGoAhead(parent, before: operation, &work),
                seen.insert(parent.row).inserted
            else { break }
            chain.append(parent)
            next = parent
        }
        var step = Step.passed
        // This may park or take operations of the page that was already read.
        if !chain.isEmpty { work.hasChangedOthers = true }
        for parent in chain.reversed() {
            step = try take(parent, isFirst: false, takesParents: false, &work)
            guard step == .taken else { break }
        }
        work.waitingRows.formUnion(seen.subtracting(work.rows))
        return step
    }

    /// The maximum number of operations that are taken at a time before a child.
    private static let chainMax = 1000

    /// Returns whether an operation may be sent before its turn, together with `current`, the operation whose
    /// turn it is.
    private func mayGoAhead(
        _ operation: QueuedOperation,
        before current: QueuedOperation,
        _ work: inout Work
    ) throws -> Bool {
        guard operation.state == .pending, operation.frozen == nil, operation.damage == nil,
            operation.group == nil, operation.id <= work.slice.upTo ?? .max,
            // Retried operations come before other operations that are earlier in the queue.
            !work.slice.first.contains(current.id),
            !work.slice.first.contains(operation.id), !work.slice.closed.contains(operation.row)
        else { return false }
        // An earlier operation of the row, such as a delete, is sent first.
        guard
            try queue.reader.operations(operation.table, operation.itemID).first?.id == operation.id
        else { return false }
        // An update or delete of another row of the table may free a unique value that this row has.
        let other = try firstUpdateOrDelete(in: operation.table, after: current.id, &work)
        return other.map { operation.id < $0 } ?? true
    }

    /// Returns the id of the first update or delete of a table's rows after an operation; nil if there is none.
    private func firstUpdateOrDelete(
        in table: String,
        after id: Int64,
        _ work: inout Work
    ) throws -> Int64? {
        if let known = work.laterUpdatesAndDeletes[table] {
            // Operations have their turn in the order of the queue, so this list has all later ids up to its last id.
            if let first = known.first(where: { $0 > id }) { return first }
            guard known.count == Self.operationsAtOnce else { return nil }
        }
        let ids = try queue.reader.unsentParents.updatesAndDeletes(
            in: table,
            after: id,
            limit: Self.operationsAtOnce
        )
        work.laterUpdatesAndDeletes[table] = ids
        return ids.first
    }

    /// The maximum number of ids that are read at a time.
    private static let operationsAtOnce = 1000

    /// Returns whether the delete of a row waits for an operation that takes a child away from the row.
    private func waitsForChildren(_ delete: QueuedOperation, _ work: inout Work) throws -> Bool {
        guard !queue.catalog.references.children(of: delete.table).isEmpty else { return false }
        return try work.delayed.first(of: delete, queue.reader, taken: work.ids) != nil
    }

    private func row(after operation: QueuedOperation) throws -> Row? {
        operation.result(
            local: try store.row(id: .string(operation.itemID), in: operation.table)
        )
    }

    /// Returns whether the queue may have inserts of parents of a table's rows.
    func mayWaitForParents(_ table: String, _ work: inout Work) throws -> Bool {
        if let known = work.tablesWithInserts[table] { return known }
        let parents = Set(queue.catalog.references.parents(of: table).map(\.parent))
        let mayWait = try !parents.isEmpty && queue.reader.unsentParents.mayCreate(rowsOf: parents)
        work.tablesWithInserts[table] = mayWait
        return mayWait
    }
}

extension Settlement {
    /// Returns a rejected operation to the queue if an operation in the queue removes the reason for the rejection;
    /// nil otherwise.
    ///
    /// Such an operation inserts a missing parent, or takes a child away from a deleted row.
    func waitForReference(
        _ rejected: QueuedOperation,
        _ later: QueuedOperation?,
        _ text: ParkText
    ) throws -> SettlementResult? {
        switch text.reference?.reason {
        case nil: return nil
        case .parentNotFound: guard try lacksUnsentParent(rejected) else { return nil }
        case .rowIsReferenced: guard try hasDelayedChild(rejected) else { return nil }
        }
        if let later, !rejected.isChained(to: later) { return try collapse(rejected, later) }
        var again = rejected
        if later != nil { try keepEdit(of: rejected, in: &again) }
        again.thaw()
        try queue.put(again)
        return .waiting
    }

    private func lacksUnsentParent(_ rejected: QueuedOperation) throws -> Bool {
        var known = rejected
        known.frozen = nil
        let stored = try queue.store.row(id: .string(known.itemID), in: known.table)
        let local = rejected.frozen?.sentRow ?? known.result(local: stored)
        let parents = queue.reader.unsentParents
        let isInGroup = try parents.newParents(of: known, local: local).contains { parent in
            guard let group = known.group else { return false }
            return try parents.creatingOperation(of: parent)?.group == group
        }
        return try !isInGroup && parents.parent(of: known, local: local) != nil
    }

    private func hasDelayedChild(_ rejected: QueuedOperation) throws -> Bool {
        var children = DelayedChildren()
        return try children.first(of: rejected, queue.reader) != nil
    }
}
