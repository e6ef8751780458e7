// SyncClient: automatic sync, and one sync within a bound for background tasks.

import Synchronization

extension SyncClient {
    /// Syncs by itself: after local changes, on schedule, when the network returns and when the
    /// server tells of changes.
    ///
    /// Nothing depends on it: ``SyncContext/push()`` and `pull` do the same, and may be called
    /// beside it. Called again, it goes on with the new policy. Watch ``syncStatus``.
    ///
    /// ```swift
    /// try client.startSyncing()
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized`.
    public func startSyncing(_ policy: SyncPolicy = SyncPolicy()) throws {
        automatic.start(try syncContext.engine(), policy)
    }

    /// Syncs by itself until the task is cancelled: for simulated time, whose tasks are its own.
    package func runSyncing(_ policy: SyncPolicy) async throws {
        await SyncRunner(try syncContext.engine(), policy) { _ in }.run()
    }

    /// Ends what ``startSyncing(_:)`` began; what it has stored stays.
    public func stopSyncing() { automatic.stop() }

    /// Tells automatic sync that somebody signed in, so that it goes on.
    public func resumeSyncing() { automatic.tell(.token) }

    /// What automatic sync is doing now.
    public var currentSyncStatus: SyncStatus { automatic.statuses.current }

    /// What automatic sync is doing: now, and after every change.
    ///
    /// ```swift
    /// for await status in client.syncStatus {
    ///     if case .blocked(by: .signIn) = status { try await signIn() }
    /// }
    /// ```
    public var syncStatus: some AsyncSequence<SyncStatus, Never> { automatic.statuses.stream() }

    /// Pushes and pulls once and ends by the deadline; for background tasks.
    ///
    /// It may be cut anywhere: what it has stored stays, and the next sync goes on from there.
    ///
    /// ```swift
    /// let isDone = try await client.syncOnce(deadline: .seconds(20))
    /// ```
    ///
    /// - Parameters:
    ///   - deadline: How long it may take.
    ///   - policy: What it pulls.
    /// - Returns: Whether it came to its end.
    /// - Throws: ``PushError`` or ``SyncError``, as push and pull do, also when the task is cancelled:
    ///   then with the status or code `cancelled`. Operations that the server rejected are an error
    ///   after everything else is done.
    @discardableResult
    public func syncOnce(
        deadline: Duration,
        _ policy: SyncPolicy = SyncPolicy()
    ) async throws -> Bool {
        let engine = try syncContext.engine()
        do {
            return try await withThrowingTaskGroup(of: Bool?.self) { group in
                group.addTask {
                    try await engine.syncOnce(policy)
                    return true
                }
                group.addTask {
                    do {
                        try await engine.environment.sleep(deadline.clampedForTimers)
                        return false
                    } catch is CancellationError {
                        // The sync says what it left.
                        return nil
                    }
                }
                defer { group.cancelAll() }
                for try await isWhole in group {
                    if let isWhole { return isWhole }
                }
                return false
            }
        } catch let error as CancellationError {
            throw SyncError.cancelled("sync", error)
        }
    }
}

extension SyncEngine {
    fileprivate func syncOnce(_ policy: SyncPolicy) async throws {
        try await pushBeforePull()
        try await withThrowingTaskGroup { group in
            for pull in policy.pulls(of: tableNames) {
                group.addTask {
                    _ = try await self.pull(pull.query, queryID: pull.queryID, in: pull.table)
                }
            }
            try await group.waitForAll()
        }
        // Throws for what is parked.
        _ = try await push()
    }
}

/// The one automatic sync of a client.
final class AutomaticSync: Sendable {
    private struct State {
        /// Which start the runner is of: a runner that was stopped shows nothing any more.
        var start = 0
        var runner: SyncRunner?
        var task: Task<Void, Never>?
    }

    let statuses = SyncStatuses()
    private let state = Mutex(State())

    func start(_ engine: SyncEngine, _ policy: SyncPolicy) {
        stop()
        let start = state.withLock { state in
            state.start += 1
            return state.start
        }
        let runner = SyncRunner(engine, policy) { [weak self] in self?.publish($0, of: start) }
        state.withLock { state in
            guard state.start == start else { return }
            state.runner = runner
            state.task = Task { await runner.run() }
        }
    }

    func stop() {
        let task = state.withLock { state in
            state.start += 1
            defer { (state.runner, state.task) = (nil, nil) }
            // Held: what a runner publishes meanwhile comes before, or not at all.
            statuses.publish(.idle)
            return state.task
        }
        task?.cancel()
    }

    func tell(_ event: SyncMachine.Event) { state.withLock { $0.runner }?.tell(event) }

    private func publish(_ status: SyncStatus, of start: Int) {
        state.withLock { state in
            if state.start == start { statuses.publish(status) }
        }
    }

    deinit { state.withLock { $0.task }?.cancel() }
}

/// The status and whoever watches it; each sees the latest.
final class SyncStatuses: Sendable {
    private struct State {
        var current = SyncStatus.idle
        var next = 0
        var watchers: [Int: AsyncStream<SyncStatus>.Continuation] = [:]
    }

    private let state = Mutex(State())

    var current: SyncStatus { state.withLock { $0.current } }

    func publish(_ status: SyncStatus) {
        state.withLock { state in
            state.current = status
            for watcher in state.watchers.values { watcher.yield(status) }
        }
    }

    func stream() -> AsyncStream<SyncStatus> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let id = state.withLock { state in
                state.next += 1
                state.watchers[state.next] = continuation
                continuation.yield(state.current)
                return state.next
            }
            continuation.onTermination = { [weak self] _ in
                _ = self?.state.withLock { $0.watchers.removeValue(forKey: id) }
            }
        }
    }
}
