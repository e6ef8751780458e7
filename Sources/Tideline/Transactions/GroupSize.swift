// GroupSize: how many bytes the operations of a transaction have as the batch that they are sent in.

import TidelineCore

/// What a transaction adds to its group, while it runs.
final class GroupSize {
    /// No batch of what was changed here is larger.
    private var bytesAtMost = 64
    /// Whether operations of earlier transactions are in the group, too.
    private(set) var hasEarlier = false
    /// The first operation that the transaction appended to the queue.
    private(set) var firstAppended: Int64?

    func add(_ row: Row) {
        add(id: row.id)
        for (name, value) in row { bytesAtMost += 8 + 6 * name.utf8.count + Self.bytes(value) }
    }

    /// An operation without its body.
    func add(id: String) { bytesAtMost += Self.roomOfRequest + 3 * id.utf8.count }

    func joinedEarlier() { hasEarlier = true }

    func appended(_ id: Int64) { firstAppended = firstAppended ?? id }

    /// Whether a batch of so many bytes has room for all of it for certain.
    func certainlyFits(_ max: Int) -> Bool { !hasEarlier && bytesAtMost <= max }

    /// Method, headers and the path of the table.
    private static let roomOfRequest = 1 << 10

    /// An escaped byte of a text is six.
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

extension QueueTransaction {
    /// The bytes of the batch that a group is sent in, as it stands.
    func bytes(of group: String, root: String, _ environment: SyncEnvironment) throws -> Int {
        let members = try reader.members(of: group).map { member in
            guard member.frozen == nil, member.damage == nil else { return member }
            var frozen = member
            frozen.frozen = OperationRequest.frozen(
                member,
                local: member.result(
                    local: try store.row(id: .string(member.itemID), in: member.table)
                ),
                basis: member.basis,
                schema: catalog.schema(member.table),
                requestID: Self.anyRequestID,
                now: environment.now()
            )
            return frozen
        }
        return PushBatch.body(members, root: root).count
    }

    /// As long as any.
    private static let anyRequestID = "00000000-0000-0000-0000-000000000000"
}
