// The decision about an operation after a response, before anything is stored.

import TidelineCore

extension SyncEngine {
    /// `restored`: the operations that met an older state of their row than they were based on.
    ///
    /// `conditions`: those of a refusal; nil if none of the answers is one.
    func outcome(
        _ settling: PushSettling,
        restored: Set<Int64> = [],
        conditions: ParkedConditions?
    ) -> PushOutcome {
        let operation = settling.operation
        switch settling.verdict {
        case .accepted(let server):
            let isOwn = !settling.answer.mayHoldOthers || holdsSent(operation, server)
            return .accept(server, isOwn: isOwn, isDone: true)
        case .undeleted(let server):
            return .sendAgain(ConflictRules.onTop(operation, server), server)
        case .rejected:
            var text = parkText(operation, nil, settling.answer)
            if ParkedConditions.mayPass(text.status) {
                text.conditions = conditions
                if let schema = settling.answer.schema { text.conditions?.schema = schema }
            }
            return .park(nil, text)
        case .conflict(let server, let wasRead):
            let schema = catalog.schema(operation.table)
            let payload = OperationRequest.payload(operation, schema: schema)
            switch ConflictRules.outcome(
                operation,
                payload: payload,
                server: server,
                wasRead: wasRead,
                isFirstAnswer: settling.answer.wasAcceptedAsRequest,
                isSentElsewhere: settling.answer.isOfOtherRequest,
                isRestored: restored.contains(operation.id),
                policy: policy(operation.table),
                schema: schema,
                limits: limits
            ) {
            case .alreadyApplied(let state):
                // A merge rule may have chosen the server's values.
                let isDone = state.row.flatMap { row in payload.map { RowMerge.holds(row, $0) } }
                return .accept(
                    state,
                    isOwn: holdsSent(operation, state),
                    isDone: isDone ?? false
                )
            case .takeServer(let state): return .accept(state, isOwn: false, isDone: false)
            case .sendAgain(let changed): return .sendAgain(changed, server)
            case .tryAnew(let changed): return .tryAnew(changed)
            case .rebase(let row): return .rebase(row)
            case .merged(let merged, let row): return .merge(merged, onto: row)
            case .ask(let state): return .ask(state)
            case .contested(let columns, let faults):
                var text = parkText(operation, server, settling.answer, columns)
                if let reason = SyncError.failedRules(faults) { text.message += " " + reason }
                return .park(server, text)
            case .park: return .park(server, parkText(operation, server, settling.answer))
            }
        }
    }

    /// Whether a state has all values of the row that an operation sent.
    private func holdsSent(_ operation: QueuedOperation, _ state: ServerState) -> Bool {
        guard let row = state.row, let sent = operation.frozen?.sentRow else { return false }
        return RowMerge.holds(row, sent)
    }

    func parkText(
        _ operation: QueuedOperation,
        _ server: ServerState?,
        _ answer: PushAnswer,
        _ contested: [String] = []
    ) -> ParkText {
        ParkText(
            errorID: environment.makeID(),
            status: answer.status,
            message: SyncError.refusedOperation(operation, server, answer, contested)
        )
    }
}
