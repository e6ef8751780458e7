// PushRunner: performs the actions of PushMachine.

import Synchronization
import TidelineCore

/// A runner of the push machine, which sends operations and stores their outcomes.
struct PushRunner {
    let engine: SyncEngine

    func push() async throws -> PushResult {
        do {
            await engine.parkedOperations.learnSchema()
            return try await sharedPush()
        } catch let error as SyncError where error.code == .suspended {
            throw PushError(status: .cancelled, cause: error)
        } catch let error as CancellationError {
            // The push was cancelled while it waited for its turn. A running push throws its own
            // `PushError`.
            throw PushError(
                status: .cancelled,
                errors: try await engine.operationErrors.all(),
                completed: 0,
                cause: error
            )
        }
    }

    /// Runs a push, or waits for the one that is running.
    ///
    /// - Throws: `CancellationError` if the task is cancelled while it waits.
    private func sharedPush() async throws -> PushResult {
        try engine.calls.check()
        return try await engine.gate.push {
            try await ExclusiveTurn(engine: engine).run {
                try await engine.pinned { try await pushInTurn() }
            }
        } hasMore: {
            try await engine.hasSendable()
        }
    }

    /// Pushes before a pull; parked operations do not prevent the pull, and the pull does not
    /// change their rows.
    ///
    /// If no account is signed in, nothing is pushed, and the server decides which rows it returns.
    ///
    /// - Returns: The error of a push that left only rows that the server fails to process, because
    ///   such rows do not prevent the pull.
    func pushBeforePull() async throws -> PushError? {
        if await engine.account() == .signedOut { return nil }
        do {
            _ = try await sharedPush()
            return nil
        } catch let error as PushError where error.status == .operationErrors {
            // The operations that are left wait for the app.
            return nil
        } catch let error as PushError where !error.failingRows.isEmpty || error.busyUntil != nil {
            return error
        } catch let error as CancellationError {
            throw SyncError.cancelled("pull", error)
        }
    }

    /// Runs the machine when the push has its turn.
    ///
    /// `isSecond` is true if this push follows one whose responses showed that the server may
    /// accept operations that it rejected before.
    private func pushInTurn(isSecond: Bool = false) async throws -> PushResult {
        try engine.calls.check()
        var machine = PushMachine(limits: engine.limits, budget: PushBudget(limits: engine.limits))
        var parked = 0
        do {
            try await engine.parkedOperations.release()
            try await engine.parkedOperations.releaseChildren()
            var budget = try await engine.serverFacts.pushBudget()
            let begin = try await engine.read { try PushBegin($0) }
            if begin.pending > 0, await engine.account() == .signedOut {
                throw PushError(
                    status: .unauthorized,
                    errors: [],
                    completed: 0,
                    cause: SyncError.signedOut()
                )
            }
            do {
                try await engine.serverWait.sleepBeforePush()
            } catch let error as SyncError where error.code == .offline {
                return try result(
                    (.network, error),
                    machine,
                    try await engine.operationErrors.all()
                )
            }
            budget.begin(afterAttempts: begin.attempts)
            machine = PushMachine(limits: engine.limits, budget: budget)
            engine.events.send(.pushStarted(pending: begin.own))
            // Every push that has started reports its end.
            defer {
                engine.events.send(.pushFinished(completed: machine.completed, parked: parked))
            }
            let end = try await run(&machine, begin)
            note(end.stop, machine)
            await engine.serverFacts.keep(machine.budget, before: budget)
            try await engine.serverFacts.store()
            // If other writes of the same push were accepted, a request to wait does not apply to
            // the whole server.
            let isWorking = end.stop == .network && (end.cause == nil || machine.completed > 0)
            engine.pushMemory.failing.withLock {
                $0 = isWorking ? machine.failuresOfRows : []
            }
            if machine.completed > 0 { try await engine.parkedOperations.countFailedPush() }
            if end.stop == nil, !isSecond, try await engine.parkedOperations.release() > 0 {
                return try await pushAgain(after: machine.completed)
            }
            let errors = try await engine.operationErrors.all()
            parked = errors.count
            return try result(end, machine, errors)
        } catch let error as SyncError
            where error.code == .storeFailure || error.code == .storeUnavailable
        {
            throw PushError(
                status: .storeFailure,
                errors: [],
                completed: machine.completed,
                cause: error
            )
        }
    }

    /// Pushes the operations that the previous push released; that push completed `completed`
    /// operations.
    private func pushAgain(after completed: Int) async throws -> PushResult {
        do {
            var result = try await pushInTurn(isSecond: true)
            result.completed += completed
            return result
        } catch var error as PushError {
            error.completed += completed
            throw error
        }
    }

    /// Logs a push that ended early.
    private func note(_ stop: PushMachine.Stop?, _ machine: PushMachine) {
        guard let stop else { return }
        var metadata = ["reason": "\(stop)", "completed": String(machine.completed)]
        metadata["status"] = machine.rejection.map { String($0.status) }
        let level: SyncLogLevel = stop == .unauthorized ? .notice : .info
        engine.events.note(
            SyncLogEntry(level, "A push ended before the end of the queue.", metadata)
        )
    }

    /// The reason why a push ended, and the underlying error, if there is one.
    private typealias End = (stop: PushMachine.Stop?, cause: (any Error)?)

    private func run(_ machine: inout PushMachine, _ begin: PushBegin) async throws -> End {
        // New operations are sent first, so that an operation that is rejected in every push does
        // not delay the others.
        let behind = engine.pushMemory.rejectedByProxy.withLock { $0 }
        defer { engine.pushMemory.rejectedByProxy.withLock { $0 = machine.lastOfNextPush } }
        var action = machine.start(lastID: begin.lastID, blocked: begin.blocked, behind: behind)
        while true {
            if case .finish(let stop) = action { return (stop, nil) }
            do {
                action = try await perform(action, &machine)
            } catch let error as CancellationError {
                _ = machine.failed(.cancelled)
                return (.cancelled, error)
            } catch let error as SyncError where error.code == .suspended {
                _ = machine.failed(.cancelled)
                return (.cancelled, error)
            } catch let error as SyncError
                where error.code == .unauthorized || error.code == .otherAccount
            {
                _ = machine.failed(.unauthorized)
                return (.unauthorized, error)
            } catch let error as SyncError where error.code == .offline {
                _ = machine.failed(.network)
                return (.network, error)
            } catch let error as TransportError {
                action = machine.lost(mayBeSmaller: error.outcomeIsUnknown)
                if case .finish(let stop) = action { return (stop, error) }
            }
        }
    }

    private func perform(
        _ action: PushMachine.Action,
        _ machine: inout PushMachine
    ) async throws -> PushMachine.Action {
        switch action {
        case .prepare(let slice):
            try Task.checkCancellation()
            return machine.prepared(try await prepare(slice))
        case .send(let operations, true):
            try checkLongWait()
            switch try await service(for: operations).send(batch: operations, engine.catalog) {
            case .replies(let replies): return machine.answered(replies)
            case .rejected(let answer):
                // The response of a proxy must not cause a transaction to be split.
                var isOriginal = false
                if machine.mustKnowServer(after: answer) {
                    isOriginal = try await engine.remote.get().isOriginal(operations[0].table)
                }
                return machine.rejected(answer, isOriginalServer: isOriginal)
            }
        case .send(let operations, false):
            try checkLongWait()
            return machine.answered(try await send(operations))
        case .read(let operation, let read):
            try checkLongWait()
            let schema = engine.catalog.schema(operation.table)
            return machine.readAnswered(
                try await engine.remote.get().followUp(read, operation, schema)
            )
        case .apply(let decidedOperations):
            let (results, unblocked) = try await apply(decidedOperations)
            return machine.applied(results, unblocked: unblocked)
        case .wait(let delay):
            try await engine.calls.sleep(Backoff.spread(delay, engine.environment.fraction()))
            return machine.waited()
        case .finish:
            preconditionFailure("the loop ends on .finish")
        }
    }

    /// Freezes a slice, or the part of it for which the disk has enough free space.
    private func prepare(_ slice: PushSlice) async throws -> PreparedSlice {
        var slice = slice.fitting(engine.store.freeBytes)
        while true {
            do {
                return try await freeze(slice)
            } catch let error as SyncError where error.isFullDisk {
                guard let half = slice.half else { throw error }
                slice = half
            }
        }
    }

    private func freeze(_ slice: PushSlice) async throws -> PreparedSlice {
        let (environment, remote) = (engine.environment, engine.remote)
        var timed = environment
        // If the endpoint cannot be used, nothing is sent.
        if let clock = try? engine.remote.get().clock {
            timed.now = { clock.time(at: environment.now()) }
        }
        let prepared = try await engine.transaction { [timed] queue in
            try PushPreparation(queue: queue, environment: timed)
                .prepare(slice) { _ = try remote.get() }
        }
        for operation in prepared.unsendable + prepared.stopped {
            engine.events.send(.parked, of: operation)
        }
        return prepared
    }

    /// Sends operations on different rows, each in a separate request.
    private func send(_ operations: [QueuedOperation]) async throws -> [PushReply] {
        let catalog = engine.catalog
        if operations.count == 1 {
            let schema = catalog.schema(operations[0].table)
            return [.answer(try await service(for: operations).send(operations[0], schema))]
        }
        return try await withThrowingTaskGroup(of: IndexedReply.self) { group in
            for (index, operation) in operations.enumerated() {
                let remote = try service(for: [operation])
                group.addTask {
                    do {
                        let schema = catalog.schema(operation.table)
                        let answer = try await remote.send(operation, schema)
                        return IndexedReply(index: index, reply: .answer(answer))
                    } catch is TransportError {
                        // An error of this request must not discard the responses to the others.
                        return IndexedReply(index: index, reply: .lost)
                    }
                }
            }
            var replies = [PushReply](repeating: .lost, count: operations.count)
            for try await placed in group { replies[placed.index] = placed.reply }
            return replies
        }
    }

    /// Returns the service for a request with one operation.
    ///
    /// If the server failed to process the operation in earlier pushes but processed other
    /// requests, `Retry-After` in the response does not apply to other requests.
    func service(for operations: [QueuedOperation]) throws -> RemoteService {
        var service = try engine.remote.get()
        service.heedsRetryAfter = operations.contains { $0.failedPushes == 0 }
        return service
    }

    /// The reply to one of several concurrent requests, with the request's index.
    private struct IndexedReply: Sendable {
        var index: Int
        var reply: PushReply
    }

    // MARK: - Applying outcomes

    /// Plans the changes for all outcomes, and then makes them in one transaction.
    ///
    /// - Returns: The result of each operation, and the operations of other groups that waited for
    ///   one of them.
    private func apply(
        _ decidedOperations: [DecidedOperation]
    ) async throws -> (results: [SettlementResult], unblocked: [Int64]) {
        let operations = RestoredOperations(engine: engine)
        let restored = try await operations.find(among: decidedOperations)
        let newEpochs = try await operations.newEpochs(of: decidedOperations)
        let resolved = try await operations.resolved(among: decidedOperations, newEpochs)
        let isRejected = decidedOperations.contains { $0.decision == .rejected }
        let conditions = isRejected ? await engine.parkedOperations.conditions() : nil
        let plans = decidedOperations.map {
            (
                $0.operation,
                SettlementRules(engine: engine).plan(
                    $0,
                    restored: restored,
                    resolved: resolved,
                    conditions: conditions
                )
            )
        }
        var (results, unblocked) = try await engine.transaction { [engine] queue in
            try queue.knownCommits.note(decidedOperations)
            try queue.tableAccounts.noteSenders(
                of: decidedOperations,
                endpoint: operations.endpoint
            )
            try queue.epochs.handle(newEpochs)
            try queue.epochs.clearFormerBits(of: decidedOperations)
            let settlement = Settlement(queue: queue)
            // Each response is for a different row, so the plans are independent. If two groups
            // merge, however, operations on other rows get the id of the merged group.
            let queued = try queue.reader.operations(ofRowsOf: plans.map(\.0))
            let mayBeRenamed = queued.values.joined().contains { $0.group != nil }
            let own = try queue.reader.ownStates.states(of: plans.map(\.0.row))
            var unblocked: [Int64] = []
            let results = try plans.map { sent, plan in
                let operations =
                    mayBeRenamed
                    ? try queue.reader.operations(sent.table, sent.itemID)
                    : queued[sent.row] ?? []
                let result = try settlement.apply(
                    sent,
                    plan,
                    among: operations,
                    own: own[sent.row] ?? []
                )
                if result == .completed,
                    let next = operations.first(where: { $0.id > sent.id }),
                    sent.isChained(to: next)
                {
                    unblocked.append(next.id)
                }
                return result
            }
            try queue.ownStates.limit(to: engine.limits.ownStatesMax)
            return (results, unblocked)
        }
        for index in results.indices where results[index] == .asked {
            results[index] = try await CustomPolicyRunner(engine: engine).ask(
                decidedOperations[index]
            )
        }
        for (decided, result) in zip(decidedOperations, results) {
            engine.events.send(result, of: decided.operation)
        }
        return (results, unblocked)
    }

    // MARK: - The end

    private func result(
        _ end: End,
        _ machine: PushMachine,
        _ errors: [TableOperationError]
    ) throws -> PushResult {
        let status: PushError.Status
        switch end.stop {
        case .network: status = .networkFailure
        case .unauthorized: status = .unauthorized
        case .cancelled: status = .cancelled
        case nil:
            if errors.isEmpty { return PushResult(completed: machine.completed) }
            status = .operationErrors
        }
        var error = PushError(
            status: status,
            errors: errors,
            completed: machine.completed,
            cause: end.cause ?? rejection(machine, end.stop)
        )
        if end.stop == .network { error.busyUntil = engine.serverWait.until }
        if end.stop == .network, end.cause == nil {
            error.failingRows = machine.failing.map {
                FailingRow(
                    table: $0.operation.table,
                    itemID: $0.operation.itemID,
                    statusCode: $0.answer.status
                )
            }
            .sorted { ($0.table, $0.itemID) < ($1.table, $1.itemID) }
        }
        throw error
    }

    /// - Throws: ``SyncError`` with code `offline` if another response asked for a longer wait than
    ///   a push allows.
    private func checkLongWait() throws {
        if engine.serverWait.remaining > engine.limits.retryDelayMax {
            try engine.serverWait.check()
        }
    }

    /// Returns the error for a response that did not come from the server, or that reports a
    /// failure of the server.
    private func rejection(_ machine: PushMachine, _ stop: PushMachine.Stop?) -> SyncError? {
        if stop == .unauthorized {
            return .signInWanted("push", reason: machine.unauthorizedAnswer?.message)
        }
        guard stop == .network, let rejection = machine.rejection,
            let server = try? engine.remote.get().endpoint.name
        else { return nil }
        // The response contains an incomplete row, or nothing was written to the row.
        let ofRow = rejection.item.map { _ in AnswerOutline(status: rejection.status) }
        guard let answer = rejection.outline ?? ofRow else { return nil }
        return .unexpectedAnswer(
            answer,
            from: server,
            to: "the push",
            isProven: rejection.isProven
        )
    }
}

/// The state of the queue at the start of a push.
private struct PushBegin: Sendable {
    var pending: Int
    /// The number of operations of the account that is signed in.
    var own: Int
    var lastID: Int64
    /// The number of times that the first operation has been sent before.
    var attempts: Int
    /// The rows with an operation that cannot be decoded.
    var blocked: Set<RowKey>

    init(_ reader: QueueReader) throws {
        let counts = try PendingCounts(reader)
        (pending, own) = (counts.total, counts.own)
        lastID = try reader.lastID()
        attempts = try reader.operations(after: QueueReader.start, limit: 1).first?.attempts ?? 0
        blocked = try reader.unreadableRows()
    }
}

extension SyncEvents {
    /// Sends the event for an operation that was completed or parked.
    func send(_ result: SettlementResult, of operation: QueuedOperation) {
        let (table, itemID, kind) = (operation.table, operation.itemID, operation.kind)
        switch result {
        case .completed:
            send(.operationCompleted(table: table, itemID: itemID, kind: kind))
        case .parked:
            send(.operationParked(table: table, itemID: itemID, kind: kind))
        case .resend, .untouched, .released, .dropped, .gone, .waiting, .asked:
            break
        }
    }
}
