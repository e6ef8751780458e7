// SyncClient+Suspension: ends all work before the app is suspended, and continues afterwards.

extension SyncClient {
    /// Ends all work within 200 ms and releases every lock on a file, because the app is about to be suspended.
    ///
    /// Running requests are cancelled, and pushes, pulls and calls of ``RemoteTable`` throw
    /// ``SyncError/Code/suspended`` or a ``PushError`` with the status `cancelled`, even if the transport or
    /// the authentication ignores its cancellation. No change is lost: a request whose response did not arrive
    /// is sent again unchanged. Automatic sync is paused.
    ///
    /// Local reads and changes still work. Each opens the file and closes it again. A running change or read
    /// has 130 ms to end; then it is rolled back and throws ``SyncError/Code/suspended``.
    ///
    /// ```swift
    /// await client.suspend()
    /// ```
    ///
    /// A second call does nothing. ``resume()`` continues.
    public func suspend() async {
        automatic.suspend()
        calls.suspend()
        guard let engine = try? syncContext.engine() else { return }
        let (store, environment) = (engine.store, engine.environment)
        let idle = engine.gate.whenIdle()
        let done = Latch()
        // In simulated time none of this takes time.
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

    /// Continues after ``suspend()``: automatic sync starts again if it ran before.
    public func resume() {
        if let engine = try? syncContext.engine() { engine.store.resume() }
        calls.resume()
        automatic.resume()
    }

    /// The time limit for cancelled pushes and pulls to end.
    private static var workTime: Duration { .milliseconds(90) }
    /// The time limit for transactions before they are rolled back.
    private static var transactionTime: Duration { .milliseconds(130) }
    /// The time limit for rolling them back.
    private static var interruptTime: Duration { .milliseconds(50) }
}
