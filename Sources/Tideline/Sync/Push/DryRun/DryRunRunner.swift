// DryRunRunner: sends the operations of a push as dry runs, without storing anything.

import TidelineCore

/// A runner of dry runs.
struct DryRunRunner {
    let engine: SyncEngine

    /// The maximum number of operations in one batch, unless a transaction has more.
    private static let batchRowsMax = 200

    func run() async throws -> DryRun {
        do {
            try engine.calls.check()
            return try await engine.pinned { try await runPinned() }
        } catch let error as TransportError {
            throw SyncError.offline(error)
        } catch let error as CancellationError {
            throw SyncError.cancelled("dry run", error)
        }
    }

    private func runPinned() async throws -> DryRun {
        if await engine.account() == .signedOut { throw SyncError.signedOut() }
        let plan = try await plan()
        var outcomes: [Int64: DryRun.Outcome] = [:]
        let service = try plan.batches.isEmpty ? nil : engine.remote.get()
        for batch in plan.batches {
            try Task.checkCancellation()
            guard let service else { break }
            let answers = try await service.dryRun(batch, engine.catalog)
            for (operation, answer) in zip(batch, answers) {
                outcomes[operation.id] = DryRun.Outcome(answer, of: operation)
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
            return isParked || unsendable.contains(operation.id) ? .parked : .waits
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

extension DryRun.Outcome {
    /// Creates the outcome that the response to an operation in a dry run shows.
    fileprivate init(_ answer: PushAnswer, of operation: QueuedOperation) {
        switch answer.status {
        case 200..<300: self = .accepted
        case 424 where answer.isGroupFailed: self = .stoppedWithTransaction
        case 404, 410:
            if answer.lacksTable || operation.kind == .insert {
                self = .rejected(DryRun.Refusal(answer, operation))
            } else {
                self = operation.kind == .delete ? .accepted : .conflict(nil)
            }
        case 409, 412:
            guard let item = answer.item else {
                self = .rejected(DryRun.Refusal(answer, operation))
                return
            }
            let isDeleted = item[SystemColumn.deleted] == true
            self = .conflict(isDeleted ? nil : JSONRowReader.withoutDeleted(item))
        case 408, 424, 429, 500...: self = .failed(status: answer.status)
        default: self = .rejected(DryRun.Refusal(answer, operation))
        }
    }
}

extension DryRun.Refusal {
    fileprivate init(_ answer: PushAnswer, _ operation: QueuedOperation) {
        self.init(
            statusCode: answer.status,
            brokenRule: answer.violation.map {
                BrokenRule(table: operation.table, columns: $0.columns, code: $0.code)
            },
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
                The server has no dry runs (\(status)): they need a Tideline server. Nothing was changed; a push \
                works with other servers, too.
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
