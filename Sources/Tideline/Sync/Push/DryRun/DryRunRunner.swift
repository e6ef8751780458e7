// DryRunRunner: sends the operations of a push as dry runs, without storing anything.

import TidelineCore

/// A runner of dry runs.
struct DryRunRunner {
    let engine: SyncEngine

    /// The maximum number of operations in one batch, unless a transaction has more.
    private static let batchRowsMax = 200

    func run() async throws -> DryRun {
        try await engine.asking("dry run") { try await runPinned() }
    }

    private func runPinned() async throws -> DryRun {
        if await engine.account() == .signedOut { throw SyncError.signedOut() }
        if let run = try await runOnce(isLast: false) { return run }
        // The response has set the clock of the server, so the second attempt has the right times.
        return try await runOnce(isLast: true) ?? DryRun()
    }

    /// - Returns: The result; nil if the server rejected the times of the requests, unless this is the last attempt.
    private func runOnce(isLast: Bool) async throws -> DryRun? {
        let plan = try await plan()
        var outcomes: [Int64: DryRun.Outcome] = [:]
        var earlier = EarlierBatches(catalog: engine.catalog)
        let service = try plan.batches.isEmpty ? nil : engine.remote.get()
        for batch in plan.batches {
            try Task.checkCancellation()
            guard let service else { break }
            let answers = try await service.dryRun(batch, engine.catalog)
            if !isLast, answers.contains(where: \.rejectsTime) { return nil }
            let found = earlier.outcomes(of: batch, answers)
            for (operation, outcome) in zip(batch, found) {
                outcomes[operation.id] = outcome
                if outcome == .accepted { earlier.add(operation) }
            }
        }
        let sent = Dictionary(
            plan.batches.joined().map { ($0.id, $0) },
            uniquingKeysWith: { first, _ in first }
        )
        let operations = plan.queue.map { operation in
            let schema = engine.catalog.schema(operation.table)
            return DryRun.Operation(
                pending: operation.pending,
                values: sent[operation.id].flatMap {
                    OperationRequest.payload($0, schema: schema)
                },
                outcome: outcomes[operation.id] ?? plan.outcomeUnsent(operation)
            )
        }
        return DryRun(operations: operations, batches: plan.batches.count)
    }

    /// The requests of a push, and the operations that it does not send.
    private struct Plan: Sendable {
        /// The operations of the account, in order.
        var queue: [QueuedOperation]
        /// The frozen operations of each batch.
        var batches: [[QueuedOperation]]
        /// Operations that change nothing and are completed without a request.
        var unchanged: Set<Int64>
        /// Operations that cannot be sent.
        var unsendable: Set<Int64>

        func outcomeUnsent(_ operation: QueuedOperation) -> DryRun.Outcome {
            if unchanged.contains(operation.id) { return .accepted }
            let isParked = operation.state == .parked || operation.damage != nil
            return isParked || unsendable.contains(operation.id) ? .parked : .waiting
        }
    }

    /// Carries a plan out of a transaction that is rolled back.
    private struct RolledBack: Error {
        let plan: Plan
    }

    /// Freezes all operations as a push does, in a transaction that is rolled back.
    private func plan() async throws -> Plan {
        let (environment, limits) = (engine.environment, engine.limits)
        var timed = environment
        if let clock = try? engine.remote.get().clock {
            timed.now = { clock.time(at: environment.now()) }
        }
        do {
            try await engine.transaction { [timed] queue in
                throw RolledBack(plan: try Self.plan(queue, timed, limits))
            }
        } catch let error as SyncError {
            guard let rolledBack = error.cause as? RolledBack else { throw error }
            return rolledBack.plan
        }
        return Plan(queue: [], batches: [], unchanged: [], unsendable: [])
    }

    private static func plan(
        _ queue: QueueTransaction,
        _ environment: SyncEnvironment,
        _ limits: SyncLimits
    ) throws -> Plan {
        let operations = try queue.reader.operations().filter { operation in
            queue.account.owns(operation)
        }
        var plan = Plan(queue: operations, batches: [], unchanged: [], unsendable: [])
        let preparation = PushPreparation(queue: queue, environment: environment)
        var slice = PushSlice(
            after: QueueReader.start,
            rows: min(batchRowsMax, limits.batchRowsMax),
            bytes: limits.batchBytesMax
        )
        slice.blocked = try queue.reader.unreadableRows()
        while true {
            let prepared = try preparation.prepare(slice) {}
            let isLast = prepared.isAtEnd || prepared.after == slice.after
            plan.unsendable.formUnion((prepared.unsendable + prepared.stopped).map(\.id))
            if !prepared.operations.isEmpty {
                plan.batches.append(prepared.operations)
                // The operations that follow in these rows depend on the outcome.
                slice.closed.formUnion(prepared.operations.map(\.row))
            } else if isLast {
                break
            }
            if prepared.isAtEnd { break }
            slice.after = prepared.after
        }
        let left = Set(try queue.reader.operations().map(\.id))
        plan.unchanged = Set(operations.map(\.id)).subtracting(left)
        return plan
    }
}

/// The accepted operations of the batches that the server has already rolled back.
private struct EarlierBatches {
    let catalog: TableCatalog
    private var created: Set<RowKey> = []
    /// The operations that may have removed a reference, by table.
    private var changed: [String: [QueuedOperation]] = [:]

    init(catalog: TableCatalog) { self.catalog = catalog }

    mutating func add(_ operation: QueuedOperation) {
        if operation.kind == .insert || operation.revives { created.insert(operation.row) }
        if operation.kind != .insert { changed[operation.table, default: []].append(operation) }
    }

    /// Returns the outcomes of the operations of the next batch.
    ///
    /// An operation that was rejected because of a reference waits if an earlier batch would have prevented that, and
    /// so do the other operations of its transaction.
    func outcomes(of batch: [QueuedOperation], _ answers: [PushAnswer]) -> [DryRun.Outcome] {
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

    /// Returns whether the operations insert the missing parent, or remove the last known reference to the row.
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
    /// Creates the outcome that the response to an operation in a dry run shows.
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
    /// Whether the server rejects the time of the request, because the device's clock is wrong.
    ///
    /// A 412 for a version has the row. A dry run has no `Repeatability-Result`.
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
    /// The error for a server that has no dry runs, or did not process one.
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
                The server has no dry runs (\(status)), which only a Tideline server supports. Nothing was changed. \
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
