// GroupSize: the size of a transaction's operations as a batch, in bytes.

import TidelineCore

/// The size of the operations that a running transaction adds to its group.
final class GroupSize {
    /// An upper bound for the size of the batch.
    private var bytesAtMost = 64
    /// Whether the group also has operations that were in the queue before the transaction.
    private var hasEarlier = false
    /// The former groups of the operations that are in the group although the transaction did not change them.
    private(set) var formerGroups: [Int64: String] = [:]

    func add(_ row: Row) {
        add(id: row.id)
        for (name, value) in row { bytesAtMost += 8 + 6 * name.utf8.count + Self.bytes(value) }
    }

    /// Adds the size of an operation without its body.
    func add(id: String) { bytesAtMost += Self.roomOfRequest + 3 * id.utf8.count }

    /// Records that a change of the transaction was merged into an operation that was already in the queue.
    func changed(_ id: Int64) {
        hasEarlier = true
        formerGroups[id] = nil
    }

    /// Records that an operation joined the group because the transaction changed another operation of its
    /// former group.
    func joined(_ id: Int64, from group: String) {
        hasEarlier = true
        formerGroups[id] = group
    }

    /// Returns whether the batch certainly has at most `max` bytes.
    func certainlyFits(_ max: Int) -> Bool { !hasEarlier && bytesAtMost <= max }

    /// The size of the method, the headers and the table's path.
    private static let roomOfRequest = 1 << 10

    /// Returns an upper bound for the size of a value; an escaped byte of a string takes six bytes.
    private static func bytes(_ value: Value) -> Int {
        switch value {
        case .string(let text): 6 * text.utf8.count
        case .json(let document): document.text.utf8.count
        case .data(let data): data.count / 3 * 4 + 4
        case .decimal: 200
        case .null, .bool, .integer, .number, .date: 32
        }
    }
}

extension GroupSize {
    /// Returns the size of the batch with a group in its current state, in bytes.
    static func bytes(
        of group: String,
        root: String,
        _ queue: QueueTransaction,
        _ environment: SyncEnvironment
    ) throws -> Int {
        let members = try queue.reader.members(of: group).map { member in
            guard member.frozen == nil, member.damage == nil else { return member }
            var frozen = member
            frozen.frozen = OperationRequest.frozen(
                member,
                local: member.result(
                    local: try queue.store.row(id: .string(member.itemID), in: member.table)
                ),
                basis: member.basis,
                schema: queue.catalog.schema(member.table),
                requestID: anyRequestID,
                now: environment.now()
            )
            return frozen
        }
        return PushBatch.body(members, root: root).count
    }

    /// A placeholder with the length of every request id.
    private static let anyRequestID = "00000000-0000-0000-0000-000000000000"
}
