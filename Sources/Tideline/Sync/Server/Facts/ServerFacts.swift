// ServerFacts: the facts about the server that earlier runs of the app learned, and the store's
// installation id.
//
// If a server rejects a batch, this is stored for its endpoint, with the time of the next attempt.
// If it accepts a batch, or sends `Repeatability-Result`, this is stored permanently.

import Foundation
import Synchronization
import TidelineCore

/// The facts about an endpoint's server that the store keeps between runs of the app.
struct ServerFacts {
    let engine: SyncEngine

    /// Reads the facts about the endpoint's server, and the installation id, from the store.
    ///
    /// If the store fails, the facts are determined again, and requests have no installation id.
    /// The app's next call throws the error.
    func recall() async {
        await noteFile()
        guard let service = try? engine.remote.get() else { return }
        let key = service.endpoint.key
        let known = try? await engine.read { reader in
            let facts = reader.serverFacts
            return (
                try facts.generation(key), try facts.takesGzip(key), try facts.installation(),
                try facts.signs(key), try facts.batchesRejected(key), try facts.busyPeriod(key)
            )
        }
        guard let (generation, takesGzip, installation, signs, batchesRejected, busy) = known else {
            return
        }
        let period = busy.flatMap {
            BusyPeriod(
                text: $0,
                lengthMax: engine.limits.retryAfterMax,
                now: engine.environment.now(),
                uptime: engine.environment.uptime()
            )
        }
        service.busy.recall(period)
        service.generation.recall(generation)
        service.coding.recall(takesGzip)
        service.signs.recall(signs, batchesRejected: batchesRejected)
        await setInstallation(of: service, installation)
    }

    /// Finds out whether the store's file is a copy.
    ///
    /// A copy gets a new installation id. The operations in its queue are flagged as inherited,
    /// because the original store may have sent them, and newer edits since then.
    private func noteFile() async {
        guard let identity = engine.store.fileIdentity,
            let known = try? await engine.read({ try $0.serverFacts.fileIdentity() ?? "" }),
            known != identity
        else { return }
        let inherited = try? await engine.transaction { queue in
            let known = try queue.reader.serverFacts.fileIdentity()
            try queue.serverFacts.setFileIdentity(identity)
            guard let known, known != identity else { return Int?.none }
            return try queue.serverFacts.becomeAnotherInstallation()
        }
        guard let inherited = inherited ?? nil else { return }
        engine.events.note(
            SyncLogEntry(
                .notice,
                "The store is a copy of another file. It gets its own installation id.",
                ["operations": String(inherited)]
            )
        )
    }

    /// Adds the installation id of the store to the client's requests, and creates one if there is
    /// none.
    private func setInstallation(of service: RemoteService, _ known: String?) async {
        guard let make = engine.environment.makeInstallationID else { return }
        if let known {
            service.installation.id = known
            return
        }
        // Another process may have stored an id in the meantime.
        service.installation.id = try? await engine.transaction { queue in
            if let known = try queue.reader.serverFacts.installation() { return known }
            let id = make()
            try queue.serverFacts.setInstallation(id)
            return id
        }
    }

    /// Stores the facts about the server for later runs.
    func store() async throws {
        guard let service = try? engine.remote.get() else { return }
        let key = service.endpoint.key
        let (generation, takesGzip) = (service.generation.unstored, service.coding.unstored)
        let (signs, busy) = (service.signs.unstored, service.busy.unstored)
        guard generation != nil || takesGzip != nil || signs != nil || busy != nil else { return }
        try await engine.transaction { queue in
            if let busy { try queue.serverFacts.setBusyPeriod(busy.period, key) }
            if let signs { try queue.serverFacts.setSigns(signs, key) }
            if let generation { try queue.serverFacts.setGeneration(generation, key) }
            if let takesGzip { try queue.serverFacts.setTakesGzip(takesGzip, key) }
        }
        if let generation { service.generation.noteStored(generation) }
        if let takesGzip { service.coding.noteStored(takesGzip) }
        if let signs { service.signs.noteStored(signs) }
        if let busy { service.busy.noteStored(busy) }
    }

    // MARK: - Batches

    /// Returns the budget of the last push if it used batches; otherwise a new budget that is based
    /// on the stored facts.
    func pushBudget() async throws -> PushBudget {
        guard let remote = try? engine.remote.get() else {
            return PushBudget(limits: engine.limits, usesBatches: true)
        }
        if remote.dialect == .classic {
            return PushBudget(limits: engine.limits, usesBatches: false, splitsGroups: true)
        }
        let endpoint = remote.endpoint.key
        let (known, now) = (engine.pushMemory.budget.withLock { $0 }, engine.environment.now())
        if let known, known.usesBatches { return known }
        let (until, hasTakenBatch, namesRequests) = try await engine.read { reader in
            let facts = reader.serverFacts
            return (
                try facts.batchesRejected(endpoint), try facts.isNoted("batchTaken", endpoint),
                try facts.isNoted("requestNamed", endpoint)
            )
        }
        let seconds = Double(engine.limits.batchRetryTime.components.seconds)
        // If the wall clock was wrong when the time was stored, batches must not be avoided
        // forever.
        let isRejected = until.map { (now...now.addingTimeInterval(seconds)).contains($0) } ?? false
        return PushBudget(
            limits: engine.limits,
            usesBatches: !isRejected,
            hasTakenBatch: known?.hasTakenBatch ?? false || hasTakenBatch
                || remote.signs.known.contains(.batches),
            // A server whose lists have an epoch also sends `Repeatability-Result`.
            namesRequests: known?.namesRequests ?? false || namesRequests
                || remote.signs.known.contains(.epoch)
        )
    }

    /// Stores the budget of a push.
    ///
    /// If the store fails, the next push determines it again.
    func keep(_ learned: PushBudget, before: PushBudget) async {
        engine.pushMemory.budget.withLock { $0 = learned }
        let isFirstBatch = learned.hasTakenBatch && !before.hasTakenBatch
        let isFirstName = learned.namesRequests && !before.namesRequests
        let isRejected = before.usesBatches && !learned.usesBatches
        guard isFirstBatch || isFirstName || isRejected,
            let endpoint = try? engine.remote.get().endpoint.key
        else { return }
        let seconds = Double(engine.limits.batchRetryTime.components.seconds)
        let until = engine.environment.now().addingTimeInterval(seconds)
        if isRejected, let remote = try? engine.remote.get() {
            remote.signs.rejectBatches(until: until)
        }
        try? await engine.transaction { queue in
            if isFirstBatch { try queue.serverFacts.note("batchTaken", endpoint) }
            if isFirstName { try queue.serverFacts.note("requestNamed", endpoint) }
            if isRejected { try queue.serverFacts.setBatchesRejected(endpoint, until: until) }
        }
    }
}
