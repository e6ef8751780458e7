// UnsentParents: operations on rows whose parents the server does not have yet, because their inserts are in the queue.
//
// The order of the queue usually has the insert of a parent first. It does not if the insert is parked or sent again,
// or if a row that is in the queue already gets a new parent.

import TidelineCore

extension QueueReader {
    /// Returns the operation that creates a parent of an operation's row and has to be sent first; nil if there is
    /// none.
    ///
    /// - Parameters:
    ///   - operation: The operation, which was not sent yet.
    ///   - local: The row after the operation.
    ///   - isSent: Returns whether an operation on a row is sent before.
    /// - Returns: The operation.
    /// - Throws: The errors of the store.
    func unsentParent(
        of operation: QueuedOperation,
        local: Row?,
        isSent: (RowKey) -> Bool = { _ in false }
    ) throws -> QueuedOperation? {
        for parent in newParents(of: operation, local: local) where !isSent(parent) {
            guard let creating = try creatingOperation(of: parent),
                catalog.names(tableOf: creating), account.owns(creating)
            else { continue }
            if let group = operation.group, creating.group == group { continue }
            // A group that has a later operation on the same row is sent after this one.
            if let group = creating.group,
                try members(of: group).contains(where: { $0.row == operation.row })
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
        let named = catalog.references.parents(of: local, in: operation.table)
        guard operation.kind == .update, !operation.revives, let base = operation.basis.base else {
            return named
        }
        let known = catalog.references.parents(of: base, in: operation.table)
        return named.filter { !known.contains($0) }
    }

    /// Returns the operation of a row that inserts or restores it on the server; nil if there is none.
    func creatingOperation(of row: RowKey) throws -> QueuedOperation? {
        try operations(row.table, row.itemID).first {
            $0.kind == .insert || $0.kind == .update && $0.revives
        }
    }

    /// Returns whether any operation may create a row of one of some tables.
    func mayCreate(rowsOf tables: Set<String>) throws -> Bool {
        let kinds: Filter =
            .equal("kind", .integer(Int64(OperationKind.insert.rawValue)))
            || .equal("revives", .bool(true))
        return try tables.contains { table in
            var query = TableQuery(filter: .equal("table", .string(table)) && kinds)
            query.select = ["id"]
            query.limit = 1
            return try !store.rows(query, in: SystemTables.operations).isEmpty
        }
    }

    /// Returns the updates of a table's rows before an operation that were not sent yet, at most a thousand.
    func updates(
        of table: String,
        before operation: QueuedOperation
    ) throws -> [QueuedOperation] {
        let isUpdate: Filter =
            .equal("table", .string(table))
            && .equal("kind", .integer(Int64(OperationKind.update.rawValue)))
        let isPending: Filter =
            .equal("state", .integer(QueuedOperation.State.pending.rawValue))
            && .less("id", .integer(operation.id))
        var query = TableQuery(filter: isUpdate && isPending)
        query.order = [SortKey(column: "id")]
        query.limit = 1000
        return try store.rows(query, in: SystemTables.operations)
            .map { QueuedOperation(storedRow: $0, schema: catalog.schema) }
            .filter { $0.damage == nil }
    }

    /// Returns whether rows refer to each other in a cycle, so that none of their inserts can wait for another.
    private func isAncestor(_ row: RowKey, of operation: QueuedOperation) throws -> Bool {
        var left = Self.ancestorsMax
        var seen: Set = [operation.row]
        var open = [operation]
        while let next = open.popLast(), left > 0 {
            left -= 1
            let local = try localRow(after: next)
            for parent in newParents(of: next, local: local) {
                if parent == row { return true }
                guard seen.insert(parent).inserted else { continue }
                if let creating = try creatingOperation(of: parent) { open.append(creating) }
            }
        }
        return false
    }

    /// The maximum number of ancestors that a check follows.
    private static let ancestorsMax = 64

    /// Returns whether an operation waits for one that is parked, directly or through others.
    func waitsForParked(_ operation: QueuedOperation) throws -> Bool {
        guard operation.frozen == nil, !catalog.references.parents(of: operation.table).isEmpty
        else { return false }
        var next = operation
        for _ in 0..<Self.ancestorsMax {
            let local = try localRow(after: next)
            guard let parent = try unsentParent(of: next, local: local) else { return false }
            if parent.state == .parked { return true }
            next = parent
        }
        return false
    }

    /// Returns whether an operation waits for another one or for its group, by the parents of rows that are created.
    ///
    /// If the other one waited for it as well, neither would ever be sent.
    func waits(_ operation: QueuedOperation, for other: QueuedOperation) throws -> Bool {
        var left = Self.ancestorsMax
        var seen: Set = [operation.id]
        var open = [operation]
        while let next = open.popLast(), left > 0 {
            left -= 1
            let group = try next.group.map { try members(of: $0) } ?? [next]
            if group.contains(where: { $0.id == other.id }) { return true }
            for member in group {
                let parent = try unsentParent(of: member, local: try localRow(after: member))
                if let parent, seen.insert(parent.id).inserted { open.append(parent) }
            }
        }
        return false
    }

    private func localRow(after operation: QueuedOperation) throws -> Row? {
        guard catalog.names(tableOf: operation) else { return nil }
        return operation.result(
            local: try store.row(id: .string(operation.itemID), in: operation.table)
        )
    }
}

extension PushPreparation {
    /// Returns whether an operation has to wait until the server has accepted the insert of a parent.
    ///
    /// The delete of a row waits for the children that an earlier operation moves to such a parent. Otherwise the
    /// server would delete them with the row.
    func waitsForParent(_ operation: QueuedOperation, _ work: inout Work) throws -> Bool {
        guard operation.frozen == nil else { return false }
        if operation.kind == .delete { return try waitsForChildren(operation, &work) }
        guard try mayWaitForParents(operation.table, &work) else { return false }
        let rows = work.rows
        let parent = try queue.reader.unsentParent(
            of: operation,
            local: try row(after: operation),
            isSent: { rows.contains($0) }
        )
        return parent != nil
    }

    private func row(after operation: QueuedOperation) throws -> Row? {
        operation.result(
            local: try store.row(id: .string(operation.itemID), in: operation.table)
        )
    }

    /// Returns whether the queue may have inserts of parents of a table's rows.
    private func mayWaitForParents(_ table: String, _ work: inout Work) throws -> Bool {
        if let known = work.tablesWithInserts[table] { return known }
        let parents = Set(queue.catalog.references.parents(of: table).map(\.parent))
        let mayWait = try !parents.isEmpty && queue.reader.mayCreate(rowsOf: parents)
        work.tablesWithInserts[table] = mayWait
        return mayWait
    }

    private func waitsForChildren(_ delete: QueuedOperation, _ work: inout Work) throws -> Bool {
        for edge in queue.catalog.references.children(of: delete.table) {
            guard try mayWaitForParents(edge.child, &work) else { continue }
            for update in try queue.reader.updates(of: edge.child, before: delete) {
                guard !work.ids.contains(update.id),
                    update.group == nil || update.group != delete.group,
                    update.basis.base?[edge.column]?.text == delete.itemID,
                    try row(after: update)?[edge.column]?.text != delete.itemID
                else { continue }
                if try queue.reader.waits(update, for: delete) { continue }
                return true
            }
        }
        return false
    }

    /// Returns the operations of a group with the inserts of parents before the operations on their children, the
    /// deletes of children before those of their parents, and otherwise in their order.
    ///
    /// A delete can come before that of a child if it replaced an earlier change of its row.
    func parentsFirst(_ members: [QueuedOperation]) throws -> [QueuedOperation] {
        let tables = Set(members.map(\.table))
        let references = queue.catalog.references
        let hasBoth = tables.contains { table in
            references.parents(of: table).contains { tables.contains($0.parent) }
        }
        guard hasBoth else { return members }
        var places: [RowKey: Int] = [:]
        for (place, member) in members.enumerated()
        where member.kind == .insert || member.revives {
            places[member.row] = place
        }
        var children: [RowKey: [Int]] = [:]
        for (place, member) in members.enumerated() where member.kind == .delete {
            guard let row = member.basis.lastKnown?.row else { continue }
            for parent in references.parents(of: row, in: member.table) {
                children[parent, default: []].append(place)
            }
        }
        guard !places.isEmpty || !children.isEmpty else { return members }
        var result: [QueuedOperation] = []
        var seen: Set<Int> = []
        for place in members.indices {
            // The operations on the way from this one to those before it, each with the ones that are left.
            var path: [(place: Int, left: [Int])] = []
            func enter(_ place: Int) throws {
                guard seen.insert(place).inserted else { return }
                let member = members[place]
                guard member.kind != .delete else {
                    path.append((place, children[member.row] ?? []))
                    return
                }
                let stored = try store.row(id: .string(member.itemID), in: member.table)
                let parents = queue.reader.newParents(
                    of: member,
                    local: member.result(local: stored)
                )
                path.append((place, parents.compactMap { places[$0] }))
            }
            try enter(place)
            while let last = path.indices.last {
                if let parent = path[last].left.popLast() {
                    try enter(parent)
                } else {
                    result.append(members[path.removeLast().place])
                }
            }
        }
        return result
    }
}

extension Settlement {
    /// Returns a rejected operation to the queue if its parent is missing on the server because the parent's own
    /// insert is still in the queue; nil otherwise.
    func waitForParent(
        _ rejected: QueuedOperation,
        _ later: QueuedOperation?,
        _ text: ParkText
    ) throws -> PushSettled? {
        guard let reference = text.reference, reference.reason == .parentNotFound else {
            return nil
        }
        var known = rejected
        known.frozen = nil
        let stored = try queue.store.row(id: .string(known.itemID), in: known.table)
        let local = rejected.frozen?.sentRow ?? known.result(local: stored)
        let parents = queue.reader.newParents(of: known, local: local)
        let isInGroup = try parents.contains { parent in
            guard let group = known.group else { return false }
            return try queue.reader.creatingOperation(of: parent)?.group == group
        }
        guard try !isInGroup && queue.reader.unsentParent(of: known, local: local) != nil else {
            return nil
        }
        if let later, !rejected.isChained(to: later) { return try collapse(rejected, later) }
        var again = rejected
        if later != nil { try keepEdit(of: rejected, in: &again) }
        again.thaw()
        try queue.put(again)
        return .waiting
    }
}
