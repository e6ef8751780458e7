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

    /// Says that the signed-in account, its token or its rights have changed, such as by a new role.
    ///
    /// The token that the client keeps is forgotten, so the next request of any push or pull asks
    /// ``Authentication/token(refreshing:)`` for another one. Automatic sync syncs everything at once, and opens
    /// the server's events with the new token.
    ///
    /// ```swift
    /// await client.accountChanged()
    /// ```
    public func accountChanged() async {
        await tokens?.forget()
        if let engine = try? syncContext.engine() { await engine.accountChanged() }
        automatic.tell(.accountChanged)
    }

    /// Why the last automatic sync did not come to its end; nil after one that did.
    ///
    /// With ``SyncBlock/signIn`` its message has the server's reason, such as "The token has expired".
    public var lastSyncError: SyncError? { automatic.lastError }

    /// What automatic sync is doing now.
    ///
    /// While it does not run, this is what the last ``syncOnce(deadline:_:)`` left, or ``SyncStatus/busy(until:)``
    /// while the server asks for a wait.
    public var currentSyncStatus: SyncStatus {
        if !automatic.isRunning, let until = try? remote().busyUntil { return .busy(until: until) }
        return automatic.statuses.current
    }

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
    /// If the server asked for a wait (`Retry-After`), nothing is pushed before that time, and the pulls are
    /// sent all the same: if they succeed, the wait is over.
    ///
    /// Rejected operations are not an error: ``SyncContext/operationErrors()`` returns them, and
    /// ``currentSyncStatus`` names them unless automatic sync runs.
    ///
    /// - Parameters:
    ///   - deadline: How long it may take.
    ///   - policy: What it pulls.
    /// - Returns: Whether it came to its end.
    /// - Throws: ``PushError`` or ``SyncError``, as push and pull do, also when the task is cancelled:
    ///   then with the status or code `cancelled`.
    @discardableResult
    public func syncOnce(
        deadline: Duration,
        _ policy: SyncPolicy = SyncPolicy()
    ) async throws -> Bool {
        let engine = try syncContext.engine()
        do {
            return try await withThrowingTaskGroup(of: Bool?.self) { group in
                group.addTask {
                    let rejected = try await engine.syncOnce(policy)
                    self.automatic.publish(rejected: rejected)
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
    /// - Returns: The operations that wait for the app.
    fileprivate func syncOnce(_ policy: SyncPolicy) async throws -> UnacceptedRows {
        _ = try await pushBeforePull()
        try await forEach(policy.pulls(of: tableNames)) { pull in
            _ = try await self.pull(
                pull.query,
                queryID: pull.queryID,
                in: pull.table,
                pushesFirst: false
            )
        }
        // What was changed meanwhile, and what a pull released.
        if let left = try await pushBeforePull() { throw left }
        return UnacceptedRows(parked: try await operationErrors())
    }
}

/// The one automatic sync of a client.
final class AutomaticSync: Sendable {
    private struct State {
        /// Which start the runner is of: a runner that was stopped shows nothing any more.
        var start = 0
        var runner: SyncRunner?
        var task: Task<Void, Never>?
        var lastError: SyncError?
        /// What to run, also while it rests.
        var work: (engine: SyncEngine, policy: SyncPolicy)?
        var isSuspended = false
    }

    let statuses = SyncStatuses()
    private let state = Mutex(State())

    func start(_ engine: SyncEngine, _ policy: SyncPolicy) {
        stop()
        let start = state.withLock { state -> Int? in
            state.start += 1
            state.work = (engine, policy)
            return state.isSuspended ? nil : state.start
        }
        guard let start else { return }
        let runner = SyncRunner(
            engine,
            policy,
            publish: { [weak self] in self?.publish($0, of: start) },
            ended: { [weak self] in self?.note($0, of: start) }
        )
        state.withLock { state in
            guard state.start == start else { return }
            state.runner = runner
            state.task = Task { await runner.run() }
        }
    }

    /// Stops the runner until ``resume()``.
    func suspend() {
        let work = state.withLock { state in
            state.isSuspended = true
            return state.work
        }
        stop()
        state.withLock { if $0.isSuspended, $0.work == nil { $0.work = work } }
    }

    /// Starts what ran before ``suspend()``.
    func resume() {
        let work = state.withLock { state in
            defer { state.isSuspended = false }
            return state.isSuspended ? state.work : nil
        }
        if let work { start(work.engine, work.policy) }
    }

    func stop() {
        let task = state.withLock { state in
            state.start += 1
            state.work = nil
            defer { (state.runner, state.task) = (nil, nil) }
            // Held: what a runner publishes meanwhile comes before, or not at all.
            statuses.publish(.idle)
            return state.task
        }
        task?.cancel()
    }

    /// Shows what one sync left, unless automatic sync shows what it does.
    func publish(rejected: UnacceptedRows) {
        state.withLock { state in
            guard state.runner == nil else { return }
            statuses.publish(
                rejected.count == 0 ? .idle : .blocked(by: .rejectedOperations(rejected))
            )
        }
    }

    var isRunning: Bool { state.withLock { $0.runner != nil } }

    func tell(_ event: SyncMachine.Event) { state.withLock { $0.runner }?.tell(event) }

    /// Why the last sync did not come to its end.
    var lastError: SyncError? { state.withLock { $0.lastError } }

    private func note(_ error: SyncError?, of start: Int) {
        state.withLock { state in
            if state.start == start { state.lastError = error }
        }
    }

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
