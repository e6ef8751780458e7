// SyncClient: automatic sync, and a single sync with a deadline for background tasks.

import Synchronization

extension SyncClient {
    /// Starts automatic sync: after local changes, on a schedule, when the network returns and when the
    /// server reports changes.
    ///
    /// Automatic sync is optional: ``SyncContext/push()`` and `pull` do the same work, and an app may call them while
    /// automatic sync runs. If automatic sync is already running, another call restarts it with the new policy.
    /// ``syncStatus`` reports its progress.
    ///
    /// ```swift
    /// try client.startSyncing()
    /// ```
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized`.
    public func startSyncing(_ policy: SyncPolicy = SyncPolicy()) throws {
        automatic.start(try syncContext.engine(), policy)
    }

    /// Runs automatic sync until the task is cancelled.
    ///
    /// A simulation calls this method because it runs its own tasks in simulated time.
    package func runSyncing(_ policy: SyncPolicy) async throws {
        await SyncRunner(try syncContext.engine(), policy) { _ in }.run()
    }

    /// Stops the sync that ``startSyncing(_:)`` started.
    ///
    /// Everything that the sync has stored is kept.
    public func stopSyncing() { automatic.stop() }

    /// Resumes automatic sync after a sign-in.
    ///
    /// If a different account was signed in during the last full sync, all tables are synced.
    public func resumeSyncing() { automatic.handle(.token) }

    /// Reports that the signed-in account, its token or its rights have changed, for example because the account has a
    /// new role.
    ///
    /// The client discards its cached token, so the next request of any push or pull asks
    /// ``Authentication/token(refreshing:)`` for a new token. Automatic sync then syncs everything immediately and
    /// opens the server's event stream with the new token.
    ///
    /// ```swift
    /// await client.accountChanged()
    /// ```
    public func accountChanged() async {
        await tokens?.forget()
        if let engine = try? syncContext.engine() { await engine.accountChanges.accountChanged() }
        automatic.handle(.accountChanged)
    }

    /// The error that ended the last automatic sync, or nil if it succeeded.
    ///
    /// With ``SyncBlock/signIn``, the message contains the server's reason, such as "The token has expired".
    public var lastSyncError: SyncError? { automatic.lastError }

    /// The current state of automatic sync.
    ///
    /// While automatic sync is not running, this is the status after the last ``syncOnce(deadline:_:)``, or
    /// ``SyncStatus/busy(until:)`` while the server asks clients to wait.
    public var currentSyncStatus: SyncStatus {
        if !automatic.isRunning, let until = try? remote().busyUntil { return .busy(until: until) }
        return automatic.statuses.current
    }

    /// The states of automatic sync: the current one, and every change from then on.
    ///
    /// ```swift
    /// for await status in client.syncStatus {
    ///     if case .blocked(by: .signIn) = status { try await signIn() }
    /// }
    /// ```
    public var syncStatus: some AsyncSequence<SyncStatus, Never> & Sendable {
        automatic.statuses.stream()
    }

    /// Pushes and pulls once and ends by the deadline, for background tasks.
    ///
    /// The sync may be interrupted at any point: everything that it has stored is kept, and the next sync
    /// continues from there.
    ///
    /// ```swift
    /// let isDone = try await client.syncOnce(deadline: .seconds(20))
    /// ```
    ///
    /// If the server asked for a wait (`Retry-After`), nothing is pushed before that time. Pulls are still sent; if
    /// they succeed, the wait ends.
    ///
    /// Rejected operations are not an error: ``SyncContext/operationErrors()`` returns them, and
    /// ``currentSyncStatus`` includes them unless automatic sync is running.
    ///
    /// - Parameters:
    ///   - deadline: The time limit of the sync.
    ///   - policy: The policy with the queries to pull.
    /// - Returns: Whether the sync finished before the deadline.
    /// - Throws: ``PushError`` or ``SyncError``, as push and pull do. If the task is cancelled, the error has
    ///   the status or code `cancelled`.
    @discardableResult
    public func syncOnce(
        deadline: Duration,
        _ policy: SyncPolicy = SyncPolicy()
    ) async throws -> Bool {
        let engine = try syncContext.engine()
        let isSynced = Latch()
        let failure = SyncFailure()
        do {
            return try await withThrowingTaskGroup(of: Bool?.self) { group in
                group.addTask {
                    do {
                        let rejected = try await PolicyRunner(engine: engine).sync(policy)
                        self.automatic.publish(rejected: rejected)
                        isSynced.set()
                    } catch let error as SyncError where error.code == .notFound {
                        // The sync may have failed because the server lacks a table.
                        failure.error.withLock { $0 = error }
                        await engine.schemaCheck.compareIfChanged()
                        throw error
                    }
                    await engine.schemaCheck.compareIfChanged()
                    return true
                }
                group.addTask {
                    do {
                        try await engine.environment.sleep(deadline.clampedForTimers)
                        // The sync is complete even if the schemas are still being compared.
                        if let error = failure.error.withLock({ $0 }) { throw error }
                        return isSynced.isSet
                    } catch is CancellationError {
                        // The task that syncs returns the result or throws the error.
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
/// The automatic sync of a client.
final class AutomaticSync: Sendable {
    private struct State {
        /// The number of the latest start; a runner of an earlier start no longer publishes.
        var start = 0
        var runner: SyncRunner?
        var task: Task<Void, Never>?
        var lastError: SyncError?
        /// The engine and policy to run, kept while automatic sync is suspended.
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

    /// Restarts the runner that ``suspend()`` stopped.
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
            // The lock is held here, so a runner publishes its status either before this one or not at all.
            statuses.publish(.idle)
            return state.task
        }
        task?.cancel()
    }

    /// Publishes the result of a single sync, unless automatic sync publishes its own status.
    func publish(rejected: UnacceptedRows) {
        state.withLock { state in
            guard state.runner == nil else { return }
            statuses.publish(
                rejected.count == 0 ? .idle : .blocked(by: .rejectedOperations(rejected))
            )
        }
    }

    var isRunning: Bool { state.withLock { $0.runner != nil } }

    func handle(_ event: SyncMachine.Event) { state.withLock { $0.runner }?.handle(event) }

    /// The error that ended the last sync.
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

/// A broadcaster of the sync status.
///
/// Each listener receives the latest status.
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

/// The error of a single sync, kept while the schemas are still being compared.
private final class SyncFailure: Sendable {
    let error = Mutex<SyncError?>(nil)
}
