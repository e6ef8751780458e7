// The facts that a push leaves to the next one: whether the server accepts batches, how large they may be,
// and whether it sends `Repeatability-Result`.
//
// That a server rejected a batch is stored for its endpoint, with the time of the next attempt. That it
// accepted one, or sent `Repeatability-Result`, is stored permanently.

import Foundation
import Synchronization
import TidelineCore

extension SyncEngine {
    /// Returns the budget of the last push, or a new one if that was too long ago.
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
        let (until, hasTakenBatch, namesRequests) = try await read {
            (
                try $0.batchesRefused(endpoint), try $0.isNoted("batchTaken", endpoint),
                try $0.isNoted("requestNamed", endpoint)
            )
        }
        let seconds = Double(limits.batchRetryTime.components.seconds)
        // If the wall clock was wrong when this was stored, batches must not be avoided forever.
        let isRefused = until.map { (now...now.addingTimeInterval(seconds)).contains($0) } ?? false
        return PushBudget(
            limits: limits,
            usesBatches: !isRefused,
            hasTakenBatch: known?.hasTakenBatch ?? false || hasTakenBatch
                || remote.signs.known.contains(.batches),
            // So does every server whose lists carry an epoch.
            namesRequests: known?.namesRequests ?? false || namesRequests
                || remote.signs.known.contains(.epoch)
        )
    }

    /// Keeps what a push learned; a store that fails here makes the next push learn it again.
    func keep(_ learned: PushBudget, before: PushBudget) async {
        budget.withLock { $0 = learned }
        let isFirstBatch = learned.hasTakenBatch && !before.hasTakenBatch
        let isFirstName = learned.namesRequests && !before.namesRequests
        let isRefused = before.usesBatches && !learned.usesBatches
        guard isFirstBatch || isFirstName || isRefused,
            let endpoint = try? remote.get().endpoint.key
        else { return }
        let seconds = Double(limits.batchRetryTime.components.seconds)
        let until = environment.now().addingTimeInterval(seconds)
        if isRefused, let remote = try? remote.get() { remote.signs.refuseBatches(until: until) }
        try? await transaction { queue in
            if isFirstBatch { try queue.note("batchTaken", endpoint) }
            if isFirstName { try queue.note("requestNamed", endpoint) }
            if isRefused { try queue.setBatchesRefused(endpoint, until: until) }
        }
    }
}

extension QueueReader {
    /// Returns the time before which no batch is sent to the server of an endpoint.
    func batchesRefused(_ endpoint: String) throws -> Date? {
        try store.row(id: .string("batch|\(endpoint)"), in: SystemTables.config)?["value"]?.text
            .flatMap { Timestamp($0)?.date }
    }

    /// Returns whether the server of an endpoint ever showed a sign.
    ///
    /// If it accepted a batch, a later 404 comes from something between client and server. If it sent
    /// `Repeatability-Result`, so does a success without that field.
    func isNoted(_ sign: String, _ endpoint: String) throws -> Bool {
        try store.row(id: .string("\(sign)|\(endpoint)"), in: SystemTables.config) != nil
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

    fileprivate func note(_ sign: String, _ endpoint: String) throws {
        let row: Row = [
            "id": .string("\(sign)|\(endpoint)"), "key": .string(sign), "keyType": 3,
            "table": "", "value": "true",
        ]
        try store.put([row], in: SystemTables.config)
    }
}
