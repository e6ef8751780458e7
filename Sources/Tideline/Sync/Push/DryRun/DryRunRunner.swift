// DryRunRunner: sends the operations of a push as dry runs, without storing anything.

import TidelineCore

/// A runner of dry runs.
struct DryRunRunner {
    let engine: SyncEngine

    /// The maximum number of operations in one batch, unless a single transaction has more.
    private static let batchRowsMax = 200

    func run() async throws -> DryRun {
        try await engine.asking("dry run") { try await runPinned() }
    }

    private func runPinned() async throws -> DryRun {
        if await engine.account() == .signedOut { throw SyncError.signedOut() }
        if let run = try await runOnce(isLast: false) { return run }
        // The first response has set the server's clock, so the requests of the second attempt have
        // correct times.
        return try await runOnce(isLast: true) ?? DryRun()
    }

    /// - Returns: The result; nil if the server rejected the times of the requests and this is not
    ///   the last attempt.
    private func runOnce(isLast: Bool) async throws -> DryRun? {
        let limits = engine.limits
        var run = DryRun()
        var scan = Scan(blocked: try await engine.read { try $0.unreadableRows() })
        var earlier = EarlierBatches(catalog: engine.catalog)
        while !scan.isAtEnd {
            try Task.checkCancellation()
            let left = limits.dryRunRowsMax - run.operations.count
            let isFull = left <= 0 || scan.bytes >= limits.dryRunBytesMax
            let part = try await nextPart(&scan, atMost: isFull ? 1 : left)
            guard !isFull else {
                run.isComplete = part.isEmpty
                break
            }
            if !part.batch.isEmpty {
                let answers = try await engine.remote.get().dryRun(part.batch, engine.catalog)
                if !isLast, answers.contains(where: \.rejectsTime) { return nil }
                run.batches += 1
                let found = earlier.outcomes(of: part.batch, answers)
                for (operation, outcome) in zip(part.batch, found) {
                    scan.add(operation, outcome, engine.catalog.schema(operation.table))
                    if outcome == .accepted { earlier.add(operation) }
                }
            }
            run.operations += part.entries.map { scan.result(of: $0, in: part) }
        }
        return run
    }

    /// The state of a dry run between two parts of the queue.
    private struct Scan {
        /// The position in the queue after which the next part begins.
        var after = QueueReader.start
        var isAtEnd = false
        /// The rows with an operation that cannot be decoded.
        let blocked: Set<RowKey>
        /// The rows with operations in earlier parts, whose outcome later operations depend on.
        var closed: Set<RowKey> = []
        /// The total size of the bodies so far, in bytes.
        var bytes = 0
        /// The outcomes and values of operations that were sent before their turn, because all
        /// operations of a transaction are sent together.
        private var sent: [Int64: (outcome: DryRun.Outcome, values: Row?)] = [:]

        init(blocked: Set<RowKey>) { self.blocked = blocked }

        mutating func add(
            _ operation: QueuedOperation,
            _ outcome: DryRun.Outcome,
            _ schema: TableSchema?
        ) {
            sent[operation.id] = (outcome, OperationRequest.payload(operation, schema: schema))
        }

        mutating func result(of operation: QueuedOperation, in part: Part) -> DryRun.Operation {
            let known = sent.removeValue(forKey: operation.id)
            return DryRun.Operation(
                pending: operation.pending,
                values: known?.values,
                outcome: known?.outcome ?? part.outcomeUnsent(operation)
            )
        }
    }

    /// A part of the queue, with the requests that a push would send for it.
    private struct Part: Sendable {
        /// The operations of the account in this part, in order.
        var entries: [QueuedOperation] = []
        /// The frozen operations, which may include operations of other parts if they belong to the
        /// same groups.
        var batch: [QueuedOperation] = []
        /// Operations that change nothing and are completed without a request.
        var unchanged: Set<Int64> = []
        /// Operations that cannot be sent.
        var unsendable: Set<Int64> = []
        /// The position of the last operation.
        var after = QueueReader.start
        var isAtEnd = false
        /// Whether the queue has no further operations of any account.
        var isEmpty = false

        func outcomeUnsent(_ operation: QueuedOperation) -> DryRun.Outcome {
            if unchanged.contains(operation.id) { return .accepted }
            let isParked = operation.state == .parked || operation.damage != nil
            return isParked || unsendable.contains(operation.id) ? .parked : .waiting
        }
    }

    /// An error that carries a part out of a transaction and rolls the transaction back.
    private struct RolledBack: Error {
        let part: Part
    }

    /// Freezes the operations of the next part, as a push would, in a transaction that is rolled
    /// back.
    private func nextPart(_ scan: inout Scan, atMost countMax: Int) async throws -> Part {
        var timed = engine.environment
        if let clock = try? engine.remote.get().clock {
            timed.now = { [now = engine.environment.now] in clock.time(at: now()) }
        }
        var slice = PushSlice(
            after: scan.after,
            rows: min(Self.batchRowsMax, engine.limits.batchRowsMax),
            bytes: engine.limits.batchBytesMax
        )
        (slice.closed, slice.blocked) = (scan.closed, scan.blocked)
        // A part ends at a position in the queue, so it must not take parents that come after that
        // position.
        slice.takesParents = false
        let count = min(slice.rows, countMax)
        var part = Part(isAtEnd: true, isEmpty: true)
        do {
            try await engine.transaction { [timed, slice] queue in
                throw RolledBack(part: try Self.part(queue, timed, slice, atMost: count))
            }
        } catch let error as SyncError {
            guard let rolledBack = error.cause as? RolledBack else { throw error }
            part = rolledBack.part
        }
        scan.after = part.after
        scan.isAtEnd = part.isAtEnd
        scan.bytes += part.batch.reduce(0) { $0 + ($1.frozen?.body?.utf8.count ?? 0) }
        scan.closed.formUnion(part.batch.map(\.row))
        // The rollback has put these operations back into the queue. Later operations on their rows
        // would be based on another state than in a push.
        for entry in part.entries
        where part.unchanged.contains(entry.id) || part.unsendable.contains(entry.id) {
            scan.closed.insert(entry.row)
        }
        return part
    }

    private static func part(
        _ queue: QueueTransaction,
        _ environment: SyncEnvironment,
        _ slice: PushSlice,
        atMost countMax: Int
    ) throws -> Part {
        let after = slice.after ?? QueueReader.start
        let entries = try queue.reader.allOperations(after: after, limit: countMax)
        guard let last = entries.last else { return Part(isAtEnd: true, isEmpty: true) }
        var slice = slice
        slice.upTo = last.id
        let preparation = PushPreparation(queue: queue, environment: environment)
        let prepared = try preparation.prepare(slice) {}
        // If the slice is full, it ends before the last entry.
        let end = prepared.isAtEnd || prepared.after == after ? last.id : prepared.after
        let own = entries.filter { $0.id <= end && queue.account.owns($0) }
        let left = Set(
            try queue.reader.allOperations(after: after, limit: countMax).map(\.id)
        )
        return Part(
            entries: own,
            batch: prepared.operations,
            unchanged: Set(own.map(\.id)).subtracting(left),
            unsendable: Set((prepared.unsendable + prepared.stopped).map(\.id)),
            after: end,
            isAtEnd: end == last.id && entries.count < countMax
        )
    }
}

/// The operations of the batches that the server has already rolled back.
private struct EarlierBatches {
    let catalog: TableCatalog
    /// The rows whose inserts were sent; if an insert is rejected, a push sends its children later.
    private var created: Set<RowKey> = []
    /// The operations that may have removed a reference to another row, by table.
    private var changed: [String: [QueuedOperation]] = [:]

    init(catalog: TableCatalog) { self.catalog = catalog }

    /// Adds an accepted operation.
    mutating func add(_ operation: QueuedOperation) {
        if operation.kind != .insert { changed[operation.table, default: []].append(operation) }
    }

    /// Returns the outcomes of the operations in the next batch.
    ///
    /// An operation that was rejected because of a reference waits if an earlier batch would have
    /// prevented the rejection, or if the insert of the missing parent was rejected. The other
    /// operations of its transaction then wait too.
    mutating func outcomes(
        of batch: [QueuedOperation],
        _ answers: [PushAnswer]
    ) -> [DryRun.Outcome] {
        for operation in batch where operation.kind == .insert || operation.revives {
            created.insert(operation.row)
        }
        var waitingGroups: Set<String> = []
        var found = zip(batch, answers).map { operation, answer -> DryRun.Outcome in
            guard let reference = answer.reference, resolves(reference, for: operation) else {
                return DryRun.Outcome(answer, of: operation)
            }
            if let group = operation.group { waitingGroups.insert(group) }
            return .waiting
        }
        for (place, operation) in batch.enumerated()
        where found[place] == .notExecuted {
            guard let group = operation.group, waitingGroups.contains(group) else { continue }
            found[place] = .waiting
        }
        return found
    }

    /// Returns whether earlier operations insert the missing parent, or remove the last known
    /// reference to the row.
    private func resolves(_ reference: BrokenReference, for operation: QueuedOperation) -> Bool {
        let table = catalog.schema(reference.table)?.name ?? reference.table
        switch reference.reason {
        case .parentNotFound:
            guard let id = operation.frozen?.sentRow?[reference.column]?.text else { return false }
            return created.contains(RowKey(table, id))
        case .rowIsReferenced:
            return changed[table]?.contains { child in
                child.basis.lastKnown?.row?[reference.column]?.text == operation.itemID
                    && (child.kind == .delete
                        || child.frozen?.sentRow?[reference.column]?.text != operation.itemID)
            } ?? false
        }
    }
}

extension DryRun.Outcome {
    /// Creates the outcome from the response to an operation in a dry run.
    fileprivate init(_ answer: PushAnswer, of operation: QueuedOperation) {
        switch answer.status {
        case 200..<300: self = .accepted
        case 424 where answer.isGroupFailed: self = .notExecuted
        case 412 where answer.rejectsTime: self = .failed(status: answer.status)
        case 404, 410:
            if answer.lacksTable || operation.kind == .insert {
                self = .rejected(DryRun.Rejection(answer, operation))
            } else {
                self = operation.kind == .delete ? .accepted : .conflict(nil)
            }
        case 409, 412:
            guard let item = answer.item else {
                self = .rejected(DryRun.Rejection(answer, operation))
                return
            }
            let isDeleted = item[SystemColumn.deleted] == true
            self = .conflict(isDeleted ? nil : JSONRowReader.withoutDeleted(item))
        case 408, 424, 429, 500...: self = .failed(status: answer.status)
        default: self = .rejected(DryRun.Rejection(answer, operation))
        }
    }
}

extension PushAnswer {
    /// Whether the server rejects the time of the request because the device's clock is wrong.
    ///
    /// A 412 that rejects a version contains the row. A dry run has no `Repeatability-Result`.
    fileprivate var rejectsTime: Bool { status == 412 && item == nil && isProven }
}

extension DryRun.Rejection {
    fileprivate init(_ answer: PushAnswer, _ operation: QueuedOperation) {
        self.init(
            statusCode: answer.status,
            brokenRule: answer.violation.map {
                BrokenRule(table: operation.table, columns: $0.columns, code: $0.code)
            },
            brokenReference: answer.reference,
            message: answer.message ?? ""
        )
    }
}

extension RemoteService {
    /// Sends frozen operations as a dry run, which the server rolls back.
    ///
    /// - Returns: The response to each operation.
    fileprivate func dryRun(
        _ operations: [QueuedOperation],
        _ catalog: TableCatalog
    ) async throws -> [PushAnswer] {
        let (response, _) = try await plainly(
            Request(
                method: "POST",
                url: try endpoint.batchURL(),
                headers: ["Prefer": "continue-on-error"],
                body: PushBatch.body(operations, root: endpoint.rootPath, isDryRun: true),
                isCompressible: true
            ),
            .datasync
        )
        guard let answers = PushBatch.answers(response, count: operations.count) else {
            throw SyncError.dryRunFailed(response, server: endpoint.name)
        }
        return zip(operations, answers).map { operation, answer in
            (answer ?? TransportResponse(status: 503)).pushAnswer(
                catalog.schema(operation.table),
                id: operation.itemID,
                at: serverTime
            )
        }
    }
}

extension SyncError {
    /// The error for a server that does not support dry runs or did not process this one.
    fileprivate static func dryRunFailed(_ response: TransportResponse, server: String) -> SyncError
    {
        let status = response.status
        switch status {
        case 401 where AnswerProof.wantsSignIn(response):
            return signInWanted("dry run", reason: response.problem)
        case 400, 404, 405, 415, 501:
            return SyncError(
                Code(answer: status == 400 ? 400 : 501),
                """
                The server does not support dry runs (\(status)); only a Tideline server does. Nothing was changed. \
                A push works with this server.
                """,
                statusCode: status
            )
        default:
            return unexpectedAnswer(
                AnswerOutline(response),
                from: server,
                to: "the dry run",
                isProven: AnswerProof.isServers(response)
            )
        }
    }
}
