// SettlementRules: makes the plan for an operation with a known outcome, before anything is stored.

import TidelineCore

/// The rules that turn an outcome into changes of the row, the queue and the errors.
struct SettlementRules {
    let engine: SyncEngine

    /// Plans what an outcome changes.
    ///
    /// - Parameters:
    ///   - decided: The operation with its outcome.
    ///   - restored: The operations whose row the server's restore has set back to an older state
    ///     than their base.
    ///   - resolved: The operations whose base the server has lost, and that it resolved against a
    ///     different state.
    ///   - conditions: The conditions that are stored with a rejection; nil if no response is a
    ///     rejection.
    /// - Returns: The plan.
    func plan(
        _ decided: DecidedOperation,
        restored: Set<Int64> = [],
        resolved: Set<Int64> = [],
        conditions: ParkedConditions?
    ) -> SettlementPlan {
        let operation = decided.operation
        switch decided.decision {
        case .accepted(.row(let row)) where resolved.contains(operation.id):
            return .lose(row, ConflictRules.onTop(operation, .row(row)))
        case .accepted(let server):
            guard decided.answer.mayHaveOtherWrites else {
                return .accept(server, isOwn: true, isDone: true)
            }
            // The server may have discarded the operation.
            let payload = OperationRequest.payload(
                operation,
                schema: engine.catalog.schema(operation.table)
            )
            return .accept(
                server,
                isOwn: holdsSent(operation, server),
                isDone: !decided.answer.isResolved || holds(server, payload)
            )
        case .undeleted(let server):
            return .sendAgain(ConflictRules.onTop(operation, server), server)
        case .rejected:
            var text = parkText(operation, nil, decided.answer)
            if ParkedConditions.mayPass(text.status) {
                text.conditions = conditions
                if let schema = decided.answer.schema { text.conditions?.schema = schema }
            }
            return .park(nil, text)
        case .conflict(let server, let wasRead):
            let schema = engine.catalog.schema(operation.table)
            let payload = OperationRequest.payload(operation, schema: schema)
            switch ConflictRules.outcome(
                operation,
                payload: payload,
                server: server,
                wasRead: wasRead,
                isFirstAnswer: decided.answer.wasAcceptedAsRequest,
                isSentElsewhere: decided.answer.isOfOtherRequest,
                isRestored: restored.contains(operation.id),
                policy: engine.policy(operation.table),
                schema: schema,
                limits: engine.limits
            ) {
            case .alreadyApplied(let state):
                // A merge rule may have chosen the values of the server.
                return .accept(
                    state,
                    isOwn: holdsSent(operation, state),
                    isDone: holds(state, payload)
                )
            case .takeServer(let state): return .accept(state, isOwn: false, isDone: false)
            case .sendAgain(let changed): return .sendAgain(changed, server)
            case .retry(let changed): return .retry(changed)
            case .rebase(let row): return .rebase(row)
            case .merged(let merged, let row): return .merge(merged, onto: row)
            case .ask(let state): return .ask(state)
            case .contested(let columns, let faults):
                var text = parkText(operation, server, decided.answer, columns)
                if let reason = SyncError.failedRules(faults) { text.message += " " + reason }
                return .park(server, text)
            case .park: return .park(server, parkText(operation, server, decided.answer))
            }
        }
    }

    /// Returns whether a state has all values of the row that an operation sent.
    private func holdsSent(_ operation: QueuedOperation, _ state: ServerState) -> Bool {
        holds(state, operation.frozen?.sentRow)
    }

    private func holds(_ state: ServerState, _ values: Row?) -> Bool {
        guard let row = state.row, let values else { return false }
        return RowMerge.holds(row, values)
    }

    func parkText(
        _ operation: QueuedOperation,
        _ server: ServerState?,
        _ answer: PushAnswer,
        _ contested: [String] = []
    ) -> ParkText {
        var text = ParkText(
            errorID: engine.environment.makeID(),
            status: answer.status,
            message: SyncError.rejectedOperation(operation, server, answer, contested),
            brokenRule: answer.violation.map {
                BrokenRule(table: operation.table, columns: $0.columns, code: $0.code)
            }
        )
        if server == nil, let reference = answer.reference {
            text.message = reference.message(of: operation)
            text.reference = reference
        }
        return text
    }
}
