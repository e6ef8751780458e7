// PolicyRunner: one sync by a policy: a push, the pulls, and a push of the changes made in the meantime.

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

    /// Runs the pulls of a policy in its order, ``SyncLimits/parallelPulls`` at a time.
    ///
    /// Each pull has pages in memory, so running all at once would use memory in proportion to the number of
    /// tables.
    func forEach(
        _ pulls: [SyncPolicy.Pull],
        _ body: @escaping @Sendable (SyncPolicy.Pull) async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, pull) in pulls.enumerated() {
                if index >= engine.limits.parallelPulls { try await group.next() }
                group.addTask { try await body(pull) }
            }
            try await group.waitForAll()
        }
    }
}
