// GroupOrder: the order in which the operations of a group are sent.

import TidelineCore

/// The order in which the server accepts the operations of a group.
struct GroupOrder {
    let reader: QueueReader

    /// Returns the operations of a group in an order that the server accepts, otherwise keeping the order of the queue.
    ///
    /// Inserts of parents come before the operations on their children, and operations that take children away from a
    /// row come before its delete. In the queue, a delete can come before the delete of a child if it replaced an
    /// earlier change to its row, or if the device does not know how the two rows are related.
    func sorted(_ members: [QueuedOperation]) throws -> [QueuedOperation] {
        let references = reader.catalog.references
        let tables = Set(members.map(\.table))
        let areRelated = tables.contains { table in
            references.parents(of: table).contains { tables.contains($0.parent) }
        }
        guard areRelated || tables.count > 1, !references.isEmpty else { return members }
        var inserts: [RowKey: Int] = [:]
        var deletes: [RowKey: Int] = [:]
        for (index, member) in members.enumerated() {
            if member.kind == .insert || member.revives { inserts[member.row] = index }
            if member.kind == .delete { deletes[member.row] = index }
        }
        guard !inserts.isEmpty || !deletes.isEmpty else { return members }
        // The indices of the operations that must precede each operation.
        var before: [Int: [Int]] = [:]
        for (index, member) in members.enumerated() where member.damage == nil {
            let known = member.basis.lastKnown?.row.map {
                references.parents(of: $0, in: member.table)
            }
            if member.kind == .delete {
                for parent in known ?? [] {
                    if let delete = deletes[parent] { before[delete, default: []].append(index) }
                }
                continue
            }
            let row = try reader.localRow(after: member)
            for parent in reader.unsentParents.newParents(of: member, local: row) {
                if let insert = inserts[parent] { before[index, default: []].append(insert) }
            }
            let parents = row.map { references.parents(of: $0, in: member.table) } ?? []
            for parent in member.basis.base.map({ references.parents(of: $0, in: member.table) })
                ?? []
            where !parents.contains(parent) {
                if let delete = deletes[parent] { before[delete, default: []].append(index) }
            }
        }
        return deletesByTable(members, references)
            .sortedByDependencies { before[$0] ?? [] }
            .map { members[$0] }
    }

    /// Returns the indices of operations, with the deletes among them ordered by their tables, children first.
    private func deletesByTable(
        _ members: [QueuedOperation],
        _ references: ModelReferences
    ) -> [Int] {
        var result = Array(members.indices)
        let indices = result.filter { members[$0].kind == .delete }
        let tables = references.parentsFirst(Set(indices.map { members[$0].table }).sorted())
        guard tables.count > 1 else { return result }
        let sorted = tables.reversed().flatMap { table in
            indices.filter { members[$0].table == table }
        }
        for (index, member) in zip(indices, sorted) { result[index] = member }
        return result
    }
}
