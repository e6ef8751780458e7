// SyncClient+Suspension: ends all work before the app is suspended, and continues afterward.

extension SyncClient {
    /// Ends all work within 200 ms and releases all file locks, because the app is about to be
    /// suspended.
    ///
    /// Running requests are cancelled, even if the transport or the authentication ignores its
    /// cancellation. Pushes, pulls and calls of ``RemoteTable`` throw ``SyncError/Code/suspended``,
    /// or a ``PushError`` with the status `cancelled`. No change is lost: a request whose response
    /// did not arrive is resent unchanged. Automatic sync is paused.
    ///
    /// Local reads and changes still work; each one opens the file and closes it again. A read or
    /// change that is running has 130 ms to finish. After that, it is rolled back and throws
    /// ``SyncError/Code/suspended``.
    ///
    /// ```swift
    /// await client.suspend()
    /// ```
    ///
    /// A second call does nothing. Call ``resume()`` to continue.
    public func suspend() async {
        automatic.suspend()
        calls.suspend()
        guard let engine = try? syncContext.engine() else { return }
        let (store, environment) = (engine.store, engine.environment)
        let idle = engine.gate.whenIdle()
        let done = Latch()
        // In simulated time, none of the following takes time.
        if Task.hasOwnExecutor { return await store.suspend() }
        Task {
            _ = await idle.wait(Self.workTime, environment)
            await store.suspend()
            done.set()
        }
        if await done.wait(Self.transactionTime, environment) { return }
        store.interruptTransactions()
        _ = await done.wait(Self.interruptTime, environment)
    }

    /// Continues after ``suspend()``; automatic sync restarts if it was running before.
    public func resume() {
        if let engine = try? syncContext.engine() { engine.store.resume() }
        calls.resume()
        automatic.resume()
    }

    /// The time limit for pushes and pulls to end after they are cancelled.
    private static var workTime: Duration { .milliseconds(90) }
    /// The time after which transactions that are still running are rolled back.
    private static var transactionTime: Duration { .milliseconds(130) }
    /// The time limit for the rollback of these transactions.
    private static var interruptTime: Duration { .milliseconds(50) }
}
