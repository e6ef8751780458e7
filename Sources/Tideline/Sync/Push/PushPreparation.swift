// PushPreparation: freezes the operations of a slice in one transaction.
//
// Either all operations of an atomic group are taken, or none; see PushPreparation+Groups.swift.

import TidelineCore

/// The preparation of a slice of the queue, which freezes the slice's operations.
struct PushPreparation {
    let queue: QueueTransaction
    let environment: SyncEnvironment

    var store: any LocalStoreWriter { queue.store }

    /// The number of operations that the first read of the queue returns; each further read returns
    /// twice as many as the one before.
    private static let firstPageRows = 32

    enum Step {
        case taken
        case passed
        case full
    }

    /// A slice that is being prepared.
    struct Work {
        var slice: PushSlice
        var result: PreparedSlice
        /// The rows of the operations that were taken; `ids` has the ids of the operations.
        var rows: Set<RowKey> = []
        var ids: Set<Int64> = []
        /// Whether the slice contains only one group.
        var isClosed = false
        /// Whether a group or a parent has been examined since the queue was read, which may have
        /// removed or changed other operations.
        var hasChangedOthers = false
        /// Whether the queue has any groups; nil if this has not been checked yet.
        var hasGroups: Bool?
        /// Whether the queue may have inserts of parents of a table's rows; contains only the
        /// tables checked so far.
        var tablesWithInserts: [String: Bool] = [:]
        /// The ids of the next updates and deletes in the queue, by table; contains only the
        /// operations read so far.
        var laterUpdatesAndDeletes: [String: [Int64]] = [:]
        /// Whether a search for a cycle of references with many rows has run.
        var hasExaminedLongCycle = false
        /// The rows whose operations wait for a parent that does not fit into this slice.
        var waitingRows: Set<RowKey> = []
        /// The operations that deletes of parents wait for; contains only the operations read so
        /// far.
        var delayed = DelayedChildren()

        init(_ slice: PushSlice) {
            self.slice = slice
            result = PreparedSlice(after: slice.after ?? QueueReader.start)
        }

        func hasRoom(for count: Int, bytes: Int) -> Bool {
            result.operations.isEmpty
                || result.operations.count + count <= slice.rows
                    && result.bytes + bytes <= slice.bytes
        }

        mutating func add(_ frozen: QueuedOperation) {
            result.bytes += frozen.frozen?.body?.utf8.count ?? 0
            rows.insert(frozen.row)
            ids.insert(frozen.id)
            result.operations.append(frozen)
        }
    }

    /// Prepares a slice; if `mayBeSent` throws, nothing is frozen.
    func prepare(_ slice: PushSlice, mayBeSent: () throws -> Void) throws -> PreparedSlice {
        var work = Work(slice)
        for (index, id) in slice.first.enumerated() {
            guard let operation = try queue.reader.operation(id), operation.state != .parked else {
                continue
            }
            if try take(operation, isFirst: true, &work) == .full {
                work.result.left = Array(slice.first[index...])
                break
            }
        }
        guard var place = slice.after, work.result.left.isEmpty else {
            return try checked(work.result, mayBeSent)
        }
        let ahead = Set(slice.first)
        // The first page is small, because a slice may end early at a row that it already contains.
        var pageRows = Self.firstPageRows
        scan: while work.result.operations.count < slice.rows {
            let found = try queue.reader.operations(
                after: place,
                limit: max(1, min(pageRows, slice.rows - work.result.operations.count))
            )
            pageRows *= 2
            if found.isEmpty { work.result.isAtEnd = true }
            work.hasChangedOthers = false
            for entry in found {
                if let last = slice.upTo, entry.id > last {
                    work.result.isAtEnd = true
                    break scan
                }
                let isClosed = ahead.contains(entry.id) || slice.closed.contains(entry.row)
                if !isClosed, let operation = try current(entry, work),
                    try take(operation, isFirst: false, &work) == .full
                {
                    break scan
                }
                place = entry.id
                work.result.after = place
            }
            if found.isEmpty { break }
        }
        return try checked(work.result, mayBeSent)
    }

    /// Returns the current state of an operation; nil if there is nothing left to send for it.
    private func current(_ entry: QueuedOperation, _ work: Work) throws -> QueuedOperation? {
        guard work.hasChangedOthers else { return entry }
        guard !work.ids.contains(entry.id), let operation = try queue.reader.operation(entry.id),
            operation.state != .parked
        else { return nil }
        return operation
    }

    private func checked(
        _ result: PreparedSlice,
        _ mayBeSent: () throws -> Void
    ) throws -> PreparedSlice {
        if !result.operations.isEmpty { try mayBeSent() }
        return result
    }

    /// Freezes an operation, or the whole group that it belongs to.
    ///
    /// If the slice `takesParents`, the inserts of the operation's parents are frozen before it.
    func take(
        _ operation: QueuedOperation,
        isFirst: Bool,
        takesParents: Bool = true,
        _ work: inout Work
    ) throws -> Step {
        if work.ids.contains(operation.id) { return .passed }
        if work.slice.groups != .split, let group = operation.group {
            work.hasChangedOthers = true
            let members = try queue.reader.members(of: group)
            if members.count > 1 {
                return try take(members, of: group, isFirst: isFirst, &work)
            }
        }
        if operation.damage != nil, queue.account.owns(operation) {
            try parkDamaged(operation, &work)
            return .passed
        }
        guard mayGo(operation, work) else { return .passed }
        guard work.result.operations.count < work.slice.rows, !work.isClosed,
            !work.rows.contains(operation.row)
        else { return .full }
        var isWaiting = try isBehindGroup(operation, &work)
        if !isWaiting, try mayHaveUnsentParent(operation, &work) {
            if let group = try joinCycle(of: operation, &work) {
                work.hasChangedOthers = true
                let members = try queue.reader.members(of: group)
                return try take(members, of: group, isFirst: isFirst, &work)
            }
            if takesParents, work.slice.takesParents, work.slice.groups == .together,
                try takeParents(of: operation, &work) == .full
            {
                return .full
            }
            guard work.result.operations.count < work.slice.rows, !work.isClosed else {
                return .full
            }
            isWaiting = try waitsForParent(operation, &work)
        } else if !isWaiting, operation.kind == .delete {
            isWaiting = try waitsForParent(operation, &work)
        }
        if isWaiting {
            work.result.isWaiting = true
            return .passed
        }
        guard let frozen = try frozen(operation, work.slice, &work.result) else { return .passed }
        guard work.hasRoom(for: 1, bytes: frozen.frozen?.body?.utf8.count ?? 0) else {
            return .full
        }
        if frozen != operation { try queue.put(frozen) }
        work.add(frozen)
        return .taken
    }

    /// Returns whether the operation can be sent now.
    ///
    /// Operations on a table that the app does not declare wait until the app declares it.
    /// Operations of another account wait until that account is signed in.
    func mayGo(_ operation: QueuedOperation, _ work: Work) -> Bool {
        !work.slice.blocked.contains(operation.row) && queue.catalog.names(tableOf: operation)
            && queue.account.maySend(operation)
    }

    /// Returns whether the first operation of the row precedes this one and belongs to a group that
    /// has to wait.
    private func isBehindGroup(
        _ operation: QueuedOperation,
        _ work: inout Work
    ) throws -> Bool {
        guard operation.frozen == nil else { return false }
        let hasGroups = try work.hasGroups ?? queue.reader.hasGroups()
        work.hasGroups = hasGroups
        guard hasGroups else { return false }
        let first = try queue.reader.operations(operation.table, operation.itemID).first
        return first.map { $0.id != operation.id && $0.group != nil } ?? false
    }

    /// Returns the frozen operation; nil if nothing has to be sent for it.
    func frozen(
        _ queued: QueuedOperation,
        _ slice: PushSlice,
        _ result: inout PreparedSlice
    ) throws -> QueuedOperation? {
        var operation = queued
        if operation.frozen != nil {
            // An operation that was rejected together with its batch was not executed.
            guard !slice.rejected.contains(operation.id) else { return operation }
            operation.attempts += 1
            operation.outcomeUnknown = true
            return operation
        }
        operation.attempts += 1
        let stored = try store.row(id: .string(operation.itemID), in: operation.table)
        let local = operation.result(local: stored)
        if local == nil, operation.kind != .delete {
            try park(operation, &result)
            return nil
        }
        if let local, let violation = brokenComparison(in: local, of: operation) {
            try park(queued, as: violation, item: local, &result)
            return nil
        }
        if operation.kind == .update, operation.basisVersion == nil, operation.basis.base == nil {
            if operation.sendsWholeRow, let version = local?.version {
                operation.basisVersion = version
            } else {
                // As far as the device knows, the server never had the row. A change without a base
                // version must not overwrite another writer's row.
                operation.kind = .insert
            }
        }
        operation.frozen = OperationRequest.frozen(
            operation,
            local: local,
            basis: operation.basis,
            schema: queue.catalog.schema(operation.table),
            requestID: operation.requestID ?? environment.makeID(),
            now: environment.now()
        )
        guard operation.frozen != nil else {
            try skip(queued)
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

    /// Removes an operation that changes nothing; the newest known row of the server replaces the
    /// local row.
    ///
    /// If a restored server may have lost the row, the local row stays, and a later operation
    /// remains based on it.
    private func skip(_ operation: QueuedOperation) throws {
        let later = try queue.reader.operations(operation.table, operation.itemID)
            .first { $0.id > operation.id }
        let settlement = Settlement(queue: queue)
        guard try queue.lostRecords.mayHaveLostBase(of: operation) else {
            return try settlement.finish(operation, later, operation.basis.lastKnown)
        }
        try settlement.finish(operation, later, nil)
        if later == nil { try queue.lostRecords.keepBase(of: operation) }
    }

    /// Returns the comparison rule that an update breaks in combination with the server's row.
    ///
    /// The device checked the update when the app made it. Since then, the server's row may have
    /// replaced an earlier change of the row, or a newer version of the app may have added the
    /// rule.
    private func brokenComparison(
        in local: Row,
        of operation: QueuedOperation
    ) -> RuleViolation? {
        guard operation.kind == .update, let base = operation.knownBase,
            let rules = queue.catalog.rules(of: operation.table), rules.hasComparisons
        else { return nil }
        return rules.compare(
            local,
            changing: Set(RowMerge.changes(from: base, to: local).names)
        )
    }

    /// Parks an operation that cannot be decoded; later operations of its row wait for it.
    func parkDamaged(_ operation: QueuedOperation, _ work: inout Work) throws {
        work.slice.blocked.insert(operation.row)
        try park(operation, &work.result)
    }

    /// Parks an operation that cannot be sent, with an error that gives the reason.
    ///
    /// If there is a `violation`, the operation is parked as a conflict between `item` and the
    /// server's row.
    private func park(
        _ operation: QueuedOperation,
        as violation: RuleViolation? = nil,
        item: Row? = nil,
        _ result: inout PreparedSlice
    ) throws {
        var parked = operation
        parked.state = .parked
        try queue.put(parked)
        let error = StoredError(
            id: environment.makeID(),
            operation: parked,
            statusCode: nil,
            message: violation.map { SyncError.brokenComparison(operation, $0) }
                ?? SyncError.unsendable(operation).message,
            item: item,
            serverItem: violation == nil ? nil : operation.basis.base
        )
        try queue.removeErrors(of: operation.id)
        try store.put([error.row], in: SystemTables.errors)
        result.unsendable.append(parked)
    }
}
