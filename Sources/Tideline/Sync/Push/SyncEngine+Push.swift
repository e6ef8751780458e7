// Push: the runner of PushMachine.

import TidelineCore

extension SyncEngine {
    func push() async throws -> PushResult {
        do {
            return try await sharedPush()
        } catch let error as CancellationError {
            // While it waited for its turn: the push itself ends with an error of its own.
            throw PushError(
                status: .cancelled,
                errors: try await operationErrors(),
                completed: 0,
                cause: error
            )
        }
    }

    /// Pushes, or waits for the push that runs.
    ///
    /// - Throws: `CancellationError` when the task is cancelled while it waits.
    private func sharedPush() async throws -> PushResult {
        try await gate.push {
            try await aloneOnStore { try await pinned { try await pushInTurn() } }
        } hasMore: {
            try await hasSendable()
        }
    }

    /// Pushes before a pull; parked operations do not stop it: their rows are left as they are.
    ///
    /// While nobody is signed in nothing is pushed, and the server decides what is read.
    func pushBeforePull() async throws {
        if await account() == .signedOut { return }
        do {
            _ = try await sharedPush()
        } catch let error as PushError where error.status == .operationErrors {
            // They wait for the app.
        } catch let error as CancellationError {
            throw SyncError.cancelled("pull", error)
        }
    }

    /// Runs the machine; it is the push's turn.
    private func pushInTurn() async throws -> PushResult {
        var machine = PushMachine(limits: limits, budget: PushBudget(limits: limits))
        var parked = 0
        do {
            var budget = try await pushBudget()
            let begin = try await read { try PushBegin($0) }
            if begin.pending > 0, await account() == .signedOut {
                throw PushError(
                    status: .unauthorized,
                    errors: [],
                    completed: 0,
                    cause: SyncError.signedOut()
                )
            }
            budget.begin(afterAttempts: begin.attempts)
            machine = PushMachine(limits: limits, budget: budget)
            events.send(.pushStarted(pending: begin.pending))
            // What begins has an end, whatever happens in between.
            defer { events.send(.pushFinished(completed: machine.completed, parked: parked)) }
            let end = try await run(&machine, begin)
            note(end.stop, machine)
            await keep(machine.budget, before: budget)
            try await keepServer()
            let errors = try await operationErrors()
            parked = errors.count
            return try result(end, machine, errors)
        } catch let error as SyncError where error.code == .storeFailure {
            throw PushError(
                status: .storeFailure,
                errors: [],
                completed: machine.completed,
                cause: error
            )
        }
    }

    /// Tells the log of a push that ended early.
    private func note(_ stop: PushMachine.Stop?, _ machine: PushMachine) {
        guard let stop else { return }
        var metadata = ["reason": "\(stop)", "completed": String(machine.completed)]
        metadata["status"] = machine.refusal.map { String($0.status) }
        let level: SyncLogLevel = stop == .unauthorized ? .notice : .info
        events.note(SyncLogEntry(level, "A push ended before the end of the queue.", metadata))
    }

    /// Why a push ended, and the error below, if there is one.
    private typealias End = (stop: PushMachine.Stop?, cause: (any Error)?)

    private func run(_ machine: inout PushMachine, _ begin: PushBegin) async throws -> End {
        var action = machine.start(lastID: begin.lastID, blocked: begin.blocked)
        while true {
            if case .finish(let stop) = action { return (stop, nil) }
            do {
                action = try await perform(action, &machine)
            } catch let error as CancellationError {
                _ = machine.failed(.cancelled)
                return (.cancelled, error)
            } catch let error as SyncError
                where error.code == .unauthorized || error.code == .otherAccount
            {
                _ = machine.failed(.unauthorized)
                return (.unauthorized, error)
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
            switch try await remote.get().send(batch: operations, catalog) {
            case .replies(let replies): return machine.answered(replies)
            case .refused(let answer): return machine.refused(answer)
            }
        case .send(let operations, false):
            return machine.answered(try await send(operations))
        case .look(let operation, let look):
            let schema = catalog.schema(operation.table)
            return machine.looked(try await remote.get().look(look, operation, schema))
        case .settle(let settlings):
            return machine.settled(try await settle(settlings))
        case .wait(let delay):
            try await environment.sleep(Backoff.spread(delay, environment.fraction()))
            return machine.waited()
        case .finish:
            preconditionFailure("the loop ends on .finish")
        }
    }

    /// Freezes a slice, or as much of it as there is room for.
    private func prepare(_ slice: PushSlice) async throws -> PreparedSlice {
        var slice = slice.fitting((store as? any RoomTeller)?.room)
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
        let (environment, remote) = (environment, remote)
        var timed = environment
        // Whoever has no server to ask sends nothing.
        if let clock = try? remote.get().clock {
            timed.now = { clock.time(at: environment.now()) }
        }
        let prepared = try await transaction { [timed] queue in
            try PushPreparation(queue: queue, environment: timed)
                .prepare(slice) { _ = try remote.get() }
        }
        for operation in prepared.unsendable + prepared.stopped { report(.parked, of: operation) }
        return prepared
    }

    /// Sends operations of different rows, each in a request of its own.
    private func send(_ operations: [QueuedOperation]) async throws -> [PushReply] {
        let (remote, catalog) = (try remote.get(), catalog)
        if operations.count == 1 {
            let schema = catalog.schema(operations[0].table)
            return [.answer(try await remote.send(operations[0], schema))]
        }
        return try await withThrowingTaskGroup(of: PlacedReply.self) { group in
            for (index, operation) in operations.enumerated() {
                group.addTask {
                    do {
                        let schema = catalog.schema(operation.table)
                        let answer = try await remote.send(operation, schema)
                        return PlacedReply(index: index, reply: .answer(answer))
                    } catch is TransportError {
                        // The answers of the others are not lost with this one.
                        return PlacedReply(index: index, reply: .lost)
                    }
                }
            }
            var replies = [PushReply](repeating: .lost, count: operations.count)
            for try await placed in group { replies[placed.index] = placed.reply }
            return replies
        }
    }

    /// What came back for one of several requests.
    private struct PlacedReply: Sendable {
        var index: Int
        var reply: PushReply
    }

    // MARK: - Settling

    /// Decides each answer, then stores what came of all of them in one transaction.
    private func settle(_ settlings: [PushSettling]) async throws -> [PushSettled] {
        let outcomes = settlings.map { ($0.operation, outcome($0)) }
        var results = try await noting { queue, seen in
            let settlement = Settlement(queue: queue)
            // No two answers are to one row, so that none changes what another finds; but where two
            // groups become one, operations of other rows get the name of the one.
            let queued = try queue.reader.operations(ofRowsOf: outcomes.map(\.0))
            let mayBeRenamed = queued.values.joined().contains { $0.group != nil }
            return try outcomes.map { sent, outcome in
                let operations =
                    mayBeRenamed
                    ? try queue.reader.operations(sent.table, sent.itemID)
                    : queued[sent.row] ?? []
                return try settlement.settle(sent, outcome, among: operations, seen: seen)
            }
        }
        for index in results.indices where results[index] == .asked {
            results[index] = try await ask(settlings[index])
        }
        for (settling, result) in zip(settlings, results) { report(result, of: settling.operation) }
        return results
    }

    private func report(_ result: PushSettled, of operation: QueuedOperation) {
        let (table, itemID, kind) = (operation.table, operation.itemID, operation.kind)
        switch result {
        case .completed:
            events.send(.operationCompleted(table: table, itemID: itemID, kind: kind))
        case .parked:
            events.send(.operationParked(table: table, itemID: itemID, kind: kind))
        case .again, .untouched, .released, .dropped, .gone, .asked:
            break
        }
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
        throw PushError(
            status: status,
            errors: errors,
            completed: machine.completed,
            cause: end.cause ?? (end.stop == .network ? refusal(machine) : nil)
        )
    }

    /// What answered in the server's place, or why the server could not.
    private func refusal(_ machine: PushMachine) -> SyncError? {
        guard let refusal = machine.refusal, let server = try? remote.get().endpoint.name
        else { return nil }
        // A row that is not whole, or that nothing was written to.
        let ofRow = refusal.item.map { _ in AnswerOutline(status: refusal.status) }
        guard let answer = refusal.outline ?? ofRow else { return nil }
        return .unexpectedAnswer(answer, from: server, to: "the push")
    }
}

/// The queue at the begin of a push.
private struct PushBegin: Sendable {
    var pending: Int
    var lastID: Int64
    /// How often the first operation was sent before.
    var attempts: Int
    /// Rows with an entry that cannot be read.
    var blocked: Set<RowKey>

    init(_ reader: QueueReader) throws {
        pending = try reader.count()
        lastID = try reader.lastID()
        attempts = try reader.operations(after: QueueReader.start, limit: 1).first?.attempts ?? 0
        blocked = try reader.unreadableRows()
    }
}
