// PushSlice, PushPreparation: which operations go out next, and freezing them, in one transaction.

import TidelineCore

/// Which operations are to be sent next.
package struct PushSlice: Sendable, Hashable {
    /// Operations that are to go first, by their ids.
    package var first: [Int64] = []
    /// Then those behind this place of the queue; nil: no others.
    package var after: Int64?
    /// The most operations.
    package var rows: Int
    /// The most bytes of their bodies, if there is more than one.
    package var bytes: Int
    /// Rows of which nothing is sent now.
    package var closed: Set<RowKey> = []
    /// Rows with an entry that cannot be read: what stands behind it was made to a state that nobody
    /// knows, and waits for the app.
    package var blocked: Set<RowKey> = []
    /// Operations whose last request certainly did nothing, by their ids.
    package var refused: Set<Int64> = []
}

/// The operations of a slice, frozen.
package struct PreparedSlice: Sendable, Hashable {
    package var operations: [QueuedOperation] = []
    /// Those that were to go first and did not fit.
    package var left: [Int64] = []
    /// How many changed nothing and were done without a request.
    package var skipped = 0
    /// Operations that cannot be sent, and are parked now.
    package var unsendable: [QueuedOperation] = []
    /// The place behind the last operation that was looked at.
    package var after: Int64
    /// Whether nothing is behind that place.
    package var isAtEnd = false
    /// How many bytes the bodies have.
    package var bytes = 0

    package init(after: Int64) { self.after = after }
}

/// Freezes the operations of a slice.
struct PushPreparation {
    let queue: QueueTransaction
    let environment: SyncEnvironment

    private var store: any LocalStoreWriter { queue.store }

    private enum Step {
        case taken
        case passed
        case full
    }

    /// `mayBeSent` throws where nothing can be: then nothing is frozen either.
    func prepare(_ slice: PushSlice, mayBeSent: () throws -> Void) throws -> PreparedSlice {
        var result = PreparedSlice(after: slice.after ?? 0)
        var slice = slice
        var rows: Set<RowKey> = []
        for (index, id) in slice.first.enumerated() {
            guard let operation = try queue.reader.operation(id), operation.state != .parked else {
                continue
            }
            if try take(operation, &slice, &rows, &result) == .full {
                result.left = Array(slice.first[index...])
                break
            }
        }
        guard var place = slice.after, result.left.isEmpty else {
            return try checked(result, mayBeSent)
        }
        let ahead = Set(slice.first)
        scan: while result.operations.count < slice.rows {
            let found = try queue.reader.operations(
                after: place,
                limit: max(1, slice.rows - result.operations.count)
            )
            if found.isEmpty { result.isAtEnd = true }
            for operation in found {
                let isClosed =
                    ahead.contains(operation.id) || slice.closed.contains(operation.row)
                if !isClosed, try take(operation, &slice, &rows, &result) == .full { break scan }
                place = operation.id
                result.after = place
            }
            if found.isEmpty { break }
        }
        return try checked(result, mayBeSent)
    }

    private func checked(
        _ result: PreparedSlice,
        _ mayBeSent: () throws -> Void
    ) throws -> PreparedSlice {
        if !result.operations.isEmpty { try mayBeSent() }
        return result
    }

    private func take(
        _ operation: QueuedOperation,
        _ slice: inout PushSlice,
        _ rows: inout Set<RowKey>,
        _ result: inout PreparedSlice
    ) throws -> Step {
        if operation.damage != nil {
            slice.blocked.insert(operation.row)
            try park(operation, &result)
            return .passed
        }
        if slice.blocked.contains(operation.row) { return .passed }
        // Operations of a table that the app no longer names wait until it names it again.
        guard queue.catalog.names(tableOf: operation) else { return .passed }
        guard result.operations.count < slice.rows, !rows.contains(operation.row) else {
            return .full
        }
        guard let frozen = try frozen(operation, slice, &result) else { return .passed }
        let bytes = frozen.frozen?.body?.utf8.count ?? 0
        guard result.operations.isEmpty || result.bytes + bytes <= slice.bytes else { return .full }
        if frozen != operation { try queue.put(frozen) }
        result.bytes += bytes
        rows.insert(operation.row)
        result.operations.append(frozen)
        return .taken
    }

    /// The operation as it is sent; nil when there is nothing to send.
    private func frozen(
        _ stored: QueuedOperation,
        _ slice: PushSlice,
        _ result: inout PreparedSlice
    ) throws -> QueuedOperation? {
        var operation = stored
        if operation.frozen != nil {
            // One that was refused with its batch was not tried.
            guard !slice.refused.contains(operation.id) else { return operation }
            operation.attempts += 1
            operation.outcomeUnknown = true
            return operation
        }
        operation.attempts += 1
        let local = try store.row(id: .string(operation.itemID), in: operation.table)
        if local == nil, operation.kind != .delete {
            try park(operation, &result)
            return nil
        }
        if operation.kind == .update, operation.basisVersion == nil, operation.basis.base == nil {
            if operation.sendsWholeRow, let version = local?.version {
                operation.basisVersion = version
            } else {
                // The server never had the row, as far as is known: without a version to be
                // measured against, a change of it must not hit somebody else's.
                operation.kind = .insert
            }
        }
        operation.frozen = OperationRequest.frozen(
            operation,
            local: local,
            basis: operation.basis,
            schema: queue.catalog.schema(operation.table),
            requestID: environment.makeID(),
            now: environment.now()
        )
        guard operation.frozen != nil else {
            let later = try queue.reader.operations(operation.table, operation.itemID)
                .first { $0.id > operation.id }
            try Settlement(queue: queue)
                .finish(stored, later, operation.basis.lastKnown)
            result.skipped += 1
            return nil
        }
        operation.state = .attempted
        if operation.frozen?.fault != nil {
            let entry = operation.storedRow
            try park(QueuedOperation(storedRow: entry, schema: queue.catalog.schema), &result)
            return nil
        }
        return operation
    }

    /// An operation that cannot be sent waits for the app, with an error that says why.
    private func park(_ operation: QueuedOperation, _ result: inout PreparedSlice) throws {
        var parked = operation
        parked.state = .parked
        try queue.put(parked)
        let error = StoredError(
            id: environment.makeID(),
            operation: parked,
            statusCode: nil,
            message: SyncError.unsendable(operation).message,
            item: nil,
            serverItem: nil
        )
        try queue.removeErrors(of: operation.id)
        try store.put([error.row], in: SystemTables.errors)
        result.unsendable.append(parked)
    }
}
