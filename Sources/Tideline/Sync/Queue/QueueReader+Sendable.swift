// The operations that the next push can send.

import TidelineCore

extension QueueReader {
    /// Returns whether an operation that can be sent is in the queue.
    func hasSendable() throws -> Bool {
        var place = QueueReader.start
        while true {
            let operations = try operations(after: place, limit: 50)
            guard let last = operations.last else { return false }
            // Operations of a table that the app no longer declares wait until it declares it again; later
            // operations of a row wait while one of its operations cannot be decoded.
            let waiting = try parkedRows()
            for operation in operations {
                if try canSend(operation, waiting: waiting) { return true }
            }
            place = last.id
        }
    }

    /// Returns whether an operation and the rest of its group can be sent.
    private func canSend(_ operation: QueuedOperation, waiting: Set<RowKey>) throws -> Bool {
        func canSend(_ operation: QueuedOperation) -> Bool {
            catalog.names(tableOf: operation) && !waiting.contains(operation.row)
                && account.maySend(operation)
        }
        guard canSend(operation), try !waitsForParked(operation) else { return false }
        return try operation.group.map { try members(of: $0).allSatisfy(canSend) } ?? true
    }
}
