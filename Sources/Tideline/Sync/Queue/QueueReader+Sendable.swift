// QueueReader+Sendable: finds the operations that the next push can send.

import TidelineCore

extension QueueReader {
    /// Returns whether the queue has an operation that can be sent.
    func hasSendable() throws -> Bool {
        var place = QueueReader.start
        // The groups that cannot be sent.
        var stopped: Set<String> = []
        while true {
            let operations = try operations(after: place, limit: 50)
            guard let last = operations.last else { return false }
            // Operations on a table that the app no longer declares wait until the app declares it
            // again. Later operations on a row wait while one of the row's operations cannot be
            // decoded.
            let waiting = try parkedRows()
            for operation in operations {
                if let group = operation.group, stopped.contains(group) { continue }
                if try canSend(operation, waiting: waiting) { return true }
                if let group = operation.group { stopped.insert(group) }
            }
            place = last.id
        }
    }

    /// Returns whether an operation can be sent together with the rest of its group.
    private func canSend(_ operation: QueuedOperation, waiting: Set<RowKey>) throws -> Bool {
        let group = try operation.group.map { try members(of: $0) } ?? [operation]
        return try group.allSatisfy { member in
            catalog.names(tableOf: member) && !waiting.contains(member.row)
                && account.maySend(member)
        } && !group.contains { try unsentParents.waitsForParked($0) }
    }
}
