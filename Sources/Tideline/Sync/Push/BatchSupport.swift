// Whether the server takes batches, and how large they may be: what a push leaves to the next one.
//
// That a server took no batch is kept for its endpoint, with a time at which it is asked again.

import Foundation
import Synchronization
import TidelineCore

extension SyncEngine {
    /// What the last push learned of the link; anew where that is too long ago.
    func pushBudget() async throws -> PushBudget {
        guard let remote = try? remote.get() else {
            return PushBudget(limits: limits, usesBatches: true)
        }
        if remote.dialect == .classic {
            return PushBudget(limits: limits, usesBatches: false, splitsGroups: true)
        }
        let endpoint = remote.endpoint.key
        let (known, now) = (budget.withLock { $0 }, environment.now())
        if let known, known.usesBatches { return known }
        let until = try await read { try $0.batchesRefused(endpoint) }
        let seconds = Double(limits.batchRetryTime.components.seconds)
        // A clock that was wrong when it was noted must not keep batches away for ever.
        let isRefused = until.map { (now...now.addingTimeInterval(seconds)).contains($0) } ?? false
        return PushBudget(
            limits: limits,
            usesBatches: !isRefused,
            hasTakenBatch: known?.hasTakenBatch ?? false
        )
    }

    /// Keeps what a push learned; a store that fails here makes the next push learn it again.
    func keep(_ learned: PushBudget, before: PushBudget) async {
        budget.withLock { $0 = learned }
        guard before.usesBatches, !learned.usesBatches,
            let endpoint = try? remote.get().endpoint.key
        else { return }
        let seconds = Double(limits.batchRetryTime.components.seconds)
        let until = environment.now().addingTimeInterval(seconds)
        try? await transaction { try $0.setBatchesRefused(endpoint, until: until) }
    }
}

extension QueueReader {
    /// Until when the server behind an endpoint is not asked to take a batch.
    fileprivate func batchesRefused(_ endpoint: String) throws -> Date? {
        try store.row(id: .string("batch|\(endpoint)"), in: SystemTables.config)?["value"]?.text
            .flatMap { Timestamp($0)?.date }
    }
}

extension QueueTransaction {
    fileprivate func setBatchesRefused(_ endpoint: String, until: Date) throws {
        let row: Row = [
            "id": .string("batch|\(endpoint)"), "key": "batch", "keyType": 3, "table": "",
            "value": .string(Timestamp(until).text),
        ]
        try store.put([row], in: SystemTables.config)
    }
}
