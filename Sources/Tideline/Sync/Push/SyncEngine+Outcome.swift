// What an answer to an operation comes to, before anything of it is stored.

import TidelineCore

extension SyncEngine {
    func outcome(_ settling: PushSettling) -> PushOutcome {
        let operation = settling.operation
        switch settling.verdict {
        case .accepted(let server):
            return .accept(server, isOwn: true)
        case .undeleted(let server):
            return .sendAgain(ConflictRules.onTop(operation, server), server)
        case .rejected:
            return .park(nil, parkText(operation, nil, settling.answer))
        case .conflict(let server, let wasRead):
            let schema = catalog.schema(operation.table)
            let payload = OperationRequest.payload(operation, schema: schema)
            switch ConflictRules.outcome(
                operation,
                payload: payload,
                server: server,
                wasRead: wasRead,
                isFirstAnswer: settling.answer.wasAcceptedAsRequest,
                policy: policy(operation.table),
                schema: schema,
                limits: limits
            ) {
            case .alreadyApplied(let state):
                let sent = operation.frozen?.sentRow
                let isOwn = state.row.map { row in sent.map { RowMerge.holds(row, $0) } ?? false }
                return .accept(state, isOwn: isOwn ?? false)
            case .takeServer(let state): return .accept(state, isOwn: false)
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
