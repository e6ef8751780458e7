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
            try await pushInTurn()
        } hasMore: {
            try await hasSendable()
        }
    }

    /// Pushes before a pull; parked operations do not stop it: their rows are left as they are.
    ///
    /// - Returns: How many operations are parked.
    @discardableResult
    func pushBeforePull() async throws -> Int {
        do {
            _ = try await sharedPush()
            return 0
        } catch let error as PushError where error.status == .operationErrors {
            return error.errors.count
        } catch let error as CancellationError {
            throw SyncError.cancelled("pull", error)
        }
    }

    /// Runs the machine; it is the push's turn.
    private func pushInTurn() async throws -> PushResult {
        var machine = PushMachine(limits: limits)
        do {
            let pending = try await read { try $0.count() }
            events.send(.pushStarted(pending: pending))
            var action = machine.start()
            while true {
                if case .finish = action { return try await finish(action, machine, cause: nil) }
                action = try await perform(action, &machine)
            }
        } catch let error as PushError {
            throw error
        } catch let error as CancellationError {
            return try await finish(machine.failed(.cancelled), machine, cause: error)
        } catch let error as TransportError {
            return try await finish(machine.failed(.network), machine, cause: error)
        } catch let error as SyncError where error.code != .storeFailure {
            // The endpoint may not be used: nothing was sent, and nothing frozen.
            throw error
        } catch {
            throw PushError(
                status: .storeFailure,
                errors: [],
                completed: machine.completed,
                cause: error
            )
        }
    }

    private func perform(
        _ action: PushMachine.Action,
        _ machine: inout PushMachine
    ) async throws -> PushMachine.Action {
        switch action {
        case .prepare(let id):
            try Task.checkCancellation()
            let (environment, remote) = (environment, remote)
            switch try await transaction({
                try Settlement(queue: $0).prepare(after: id, environment: environment) {
                    _ = try remote.get()
                }
            }) {
            case .none: return machine.prepared(nil, frozenNow: false)
            case .ready(let operation, let frozenNow):
                return machine.prepared(operation, frozenNow: frozenNow)
            case .skipped(let id): return machine.skipped(id)
            }
        case .send(let operation):
            let schema = catalog.schema(operation.table)
            return machine.answered(try await remote.get().send(operation, schema))
        case .lookUp(let operation):
            let (table, id) = (operation.table, operation.itemID)
            let schema = catalog.schema(table)
            return machine.lookedUp(try await remote.get().look(up: id, in: table, schema))
        case .sendOnTop(let operation, let server):
            try await transaction {
                let again = ConflictRules.onTop(operation, server)
                try Settlement(queue: $0).sendAgain(again, server)
            }
            return machine.settled(again: true)
        case .wait(let delay):
            try await environment.sleep(Backoff.spread(delay, environment.fraction()))
            return machine.waited()
        case .accept(let operation, let server):
            try await transaction { try Settlement(queue: $0).accept(operation, server) }
            sent(operation)
            return machine.settled(again: false)
        case .settleConflict(let operation, let server, let status, let isFirst):
            return try await settle(
                operation,
                server,
                status: status,
                isFirstAttempt: isFirst,
                &machine
            )
        case .park(let operation, let answer):
            let again = try await park(
                operation,
                nil,
                status: answer.status,
                message: answer.message
            )
            return machine.settled(again: again)
        case .finish:
            preconditionFailure("the loop ends on .finish")
        }
    }

    private func sent(_ operation: QueuedOperation) {
        events.send(
            .operationCompleted(
                table: operation.table,
                itemID: operation.itemID,
                kind: operation.kind
            )
        )
    }

    private func settle(
        _ operation: QueuedOperation,
        _ server: ServerState,
        status: Int,
        isFirstAttempt: Bool,
        _ machine: inout PushMachine
    ) async throws -> PushMachine.Action {
        let payload = OperationRequest.payload(operation, schema: catalog.schema(operation.table))
        switch ConflictRules.outcome(
            operation,
            payload: payload,
            server: server,
            isFirstAttempt: isFirstAttempt,
            policy: policy(operation.table),
            limits: limits
        )
        {
        case .alreadyApplied(let state), .takeServer(let state):
            try await transaction { try Settlement(queue: $0).accept(operation, state) }
            sent(operation)
            return machine.settled(again: false, asCompleted: true)
        case .sendAgain(let changed):
            try await transaction { try Settlement(queue: $0).sendAgain(changed, server) }
            return machine.settled(again: true)
        case .park:
            let again = try await park(operation, server, status: status, message: nil)
            return machine.settled(again: again)
        }
    }

    private func park(
        _ operation: QueuedOperation,
        _ server: ServerState?,
        status: Int,
        message: String?
    ) async throws -> Bool {
        let errorID = environment.makeID()
        let again = try await transaction { queue in
            let local = try queue.store.row(id: .string(operation.itemID), in: operation.table)
            let error = StoredError(
                id: errorID,
                operation: operation,
                statusCode: status,
                message: Self.message(operation, server, status, message),
                item: local,
                serverItem: server?.row
            )
            return try Settlement(queue: queue).park(operation, server, error: error)
        }
        if !again {
            events.send(
                .operationParked(
                    table: operation.table,
                    itemID: operation.itemID,
                    kind: operation.kind
                )
            )
        }
        return again
    }

    private static func message(
        _ operation: QueuedOperation,
        _ server: ServerState?,
        _ status: Int,
        _ text: String?
    ) -> String {
        let what =
            "The \(operation.kind) of row '\(operation.itemID)' in table '\(operation.table)'"
        switch server {
        case .row:
            return "\(what) met another change on the server (\(status)). Settle it with both rows."
        case .deleted:
            return "\(what) met a deleted row on the server (\(status)). Discard it or retry it."
        case nil:
            let reason = text.map { ": \($0)" } ?? ""
            let end = reason.hasSuffix(".") ? "" : "."
            return "\(what) was refused by the server (\(status))\(reason)\(end)"
        }
    }

    private func finish(
        _ end: PushMachine.Action,
        _ machine: PushMachine,
        cause: (any Error)?
    ) async throws -> PushResult {
        guard case .finish(let stop) = end else { preconditionFailure("an end is expected") }
        try await keepGeneration()
        let errors = try await operationErrors()
        events.send(.pushFinished(completed: machine.completed, parked: errors.count))
        let status: PushError.Status
        switch stop {
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
            cause: cause ?? refusal(machine)
        )
    }

    /// What answered in the server's place, or why the server could not.
    private func refusal(_ machine: PushMachine) -> SyncError? {
        guard let answer = machine.refusal?.outline, let server = try? remote.get().endpoint.name
        else { return nil }
        return .unexpectedAnswer(answer, from: server, to: "the push")
    }
}
