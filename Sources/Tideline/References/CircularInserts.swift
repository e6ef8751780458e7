// CircularInserts: inserts of rows that refer to each other, such as a customer and its main contact.
//
// None of these inserts can wait for the others. The server accepts them in one group, in which a row may name a parent
// that a later operation inserts. Therefore such inserts become one group, whether the app made them one by one or in
// several transactions.

import TidelineCore

extension ModelReferences {
    /// Returns whether rows of a table can refer to each other in a cycle, directly or through rows of other tables.
    func isCircular(_ table: String) -> Bool {
        var seen: Set<String> = []
        var open = parents(of: table).map(\.parent)
        while let next = open.popLast() {
            if next == table { return true }
            if seen.insert(next).inserted { open += parents(of: next).map(\.parent) }
        }
        return false
    }
}

/// A reader of inserts of rows that refer to each other.
struct CircularInserts {
    let reader: QueueReader

    /// Returns the inserts of all rows that are in a cycle of references with an operation's row, including the operation.
    ///
    /// - Parameters:
    ///   - operation: The operation.
    ///   - limit: The maximum number of operations that are examined.
    /// - Returns: The inserts; none if the row is in no such cycle, or if one of the inserts was already sent or cannot
    ///   be sent now; nil if the search needs more operations than the limit.
    /// - Throws: The errors of the store.
    func cycle(of operation: QueuedOperation, limit: Int) throws -> [QueuedOperation]? {
        guard operation.frozen == nil, operation.kind == .insert else { return [] }
        let parents = reader.unsentParents
        var found = [operation.row: operation]
        var children: [RowKey: [RowKey]] = [:]
        var open = [operation]
        while found.count < limit, let next = open.popLast() {
            for parent in parents.newParents(of: next, local: try reader.localRow(after: next)) {
                children[parent, default: []].append(next.row)
                guard found[parent] == nil, let creating = try parents.creatingOperation(of: parent)
                else {
                    continue
                }
                found[parent] = creating
                open.append(creating)
            }
        }
        // The rows that lead back to the operation's row.
        var cycle: Set<RowKey> = []
        var left = children[operation.row] ?? []
        while let row = left.popLast() {
            if cycle.insert(row).inserted { left += children[row] ?? [] }
        }
        guard cycle.contains(operation.row) else { return open.isEmpty ? [] : nil }
        let members = cycle.compactMap { found[$0] }.sorted { $0.id < $1.id }
        let areReady = members.allSatisfy {
            $0.kind == .insert && $0.frozen == nil && $0.state != .parked && $0.damage == nil
                && reader.account.maySend($0)
        }
        return areReady ? members : []
    }
}
