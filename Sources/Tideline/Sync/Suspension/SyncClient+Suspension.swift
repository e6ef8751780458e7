// SyncClient+Suspension: ends all work before the app is suspended, and continues afterwards.

extension SyncClient {
    /// Ends all work within 200 ms and releases every lock on a file, because the app is about to be suspended.
    ///
    /// Requests that run are cancelled, and pushes, pulls and calls of ``RemoteTable`` throw
    /// ``SyncError/Code/suspended`` or a ``PushError`` with the status `cancelled`, whatever a transport or an
    /// authentication does with its cancellation. Nothing is lost: a request whose response did not arrive is sent
    /// again unchanged. Automatic sync is paused.
    ///
    /// Local reads and changes still work. Each opens the file for itself and keeps no file open afterward. A
    /// change or a read that already runs has 130 ms to end; then it is undone and throws
    /// ``SyncError/Code/suspended``.
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

    /// How long pushes and pulls that were cancelled may take to end.
    private static var workTime: Duration { .milliseconds(90) }
    /// How long transactions may take before they are undone.
    private static var transactionTime: Duration { .milliseconds(130) }
    /// How long it may take to undo them.
    private static var interruptTime: Duration { .milliseconds(50) }
}
