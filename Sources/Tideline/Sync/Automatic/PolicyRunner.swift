// PolicyRunner: one sync, which is a push, the pulls of a policy, and a push of the changes made
// during the pulls.

/// A runner of one sync with the pulls of a policy.
struct PolicyRunner {
    let engine: SyncEngine

    /// - Returns: The operations that wait for the app.
    func sync(_ policy: SyncPolicy) async throws -> UnacceptedRows {
        _ = try await engine.pushRunner.pushBeforePull()
        try await forEach(policy.pulls(of: engine.syncedTableNames)) { pull in
            _ = try await engine.pullRunner.pull(
                pull.query,
                queryID: pull.queryID,
                in: pull.table,
                pushesFirst: false
            )
        }
        // Sends changes made during the pulls, and operations that a pull released.
        if let left = try await engine.pushRunner.pushBeforePull() { throw left }
        return UnacceptedRows(parked: try await engine.operationErrors.all())
    }

    /// Runs the pulls of a policy in the policy's order, ``SyncLimits/parallelPulls`` at a time.
    ///
    /// A pull waits for earlier pulls of the tables that its table refers to, so that parents are
    /// stored before their children. The number of concurrent pulls is limited because each of them
    /// keeps pages in memory.
    func forEach(
        _ pulls: [SyncPolicy.Pull],
        _ body: @escaping @Sendable (SyncPolicy.Pull) async throws -> Void
    ) async throws {
        let references = engine.catalog.references
        let parents = pulls.map { pull in
            Set(references.parents(of: pull.table).map(\.parent)).subtracting([pull.table])
        }
        try await withThrowingTaskGroup(of: Int.self) { group in
            var waiting = Array(pulls.indices)
            var unfinished = Set(pulls.indices)
            while !waiting.isEmpty {
                let isReady = { (index: Int) in
                    !unfinished.contains { $0 < index && parents[index].contains(pulls[$0].table) }
                }
                let running = unfinished.count - waiting.count
                if running < engine.limits.parallelPulls,
                    let place = waiting.firstIndex(where: isReady)
                {
                    let index = waiting.remove(at: place)
                    group.addTask {
                        try await body(pulls[index])
                        return index
                    }
                } else if let done = try await group.next() {
                    unfinished.remove(done)
                }
            }
            try await group.waitForAll()
        }
    }
}
