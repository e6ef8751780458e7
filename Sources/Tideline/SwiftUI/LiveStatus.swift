// LiveStatus: what sync is doing and what waits, as an observable object, for views.

public import Observation

/// What automatic sync is doing, and what of the queue waits: for views.
///
/// ```swift
/// struct SyncLine: View {
///     @State private var sync: LiveStatus
///
///     init(_ client: SyncClient) throws {
///         _sync = State(initialValue: try LiveStatus(client))
///     }
///
///     var body: some View {
///         if sync.pendingCount > 0 { Text("\(sync.pendingCount) changes to send") }
///     }
/// }
/// ```
@Observable
@MainActor
public final class LiveStatus {
    /// What automatic sync is doing; `idle` where it was not started.
    public private(set) var status: SyncStatus
    /// How many operations wait in the queue, by the account that they belong to.
    public private(set) var pending = PendingCounts()
    /// How many operations of the account that is signed in wait in the queue.
    public var pendingCount: Int { pending.own }
    /// Why the last automatic sync did not come to its end; nil after one that did.
    public private(set) var lastError: SyncError?
    /// The operations that wait for the app: those that the server rejected or that cannot be sent.
    public private(set) var errors: [TableOperationError] = []
    /// The number of rows that a restored server lost; see ``SyncContext/lostRows()``.
    public private(set) var lostRowCount = 0

    @ObservationIgnored private let statuses = LiveTask()
    @ObservationIgnored private let queue = LiveTask()

    /// Watches a client.
    ///
    /// - Throws: ``SyncError`` with code `storeNotInitialized`.
    public init(_ client: SyncClient) throws {
        let engine = try client.syncContext.engine()
        status = client.currentSyncStatus
        let stream = client.automatic.statuses.stream()
        statuses.replace(
            with: Task { [weak self] in
                for await status in stream {
                    guard let self else { return }
                    self.status = status
                    lastError = client.lastSyncError
                }
            }
        )
        let waiting = engine.waitingOperations(client.automatic.statuses.stream())
        queue.replace(
            with: Task { [weak self] in
                for await (counts, errors, lost) in waiting { self?.show(counts, errors, lost) }
            }
        )
    }

    private func show(_ counts: PendingCounts, _ errors: [TableOperationError], _ lost: Int) {
        if pending != counts { pending = counts }
        if lostRowCount != lost { lostRowCount = lost }
        if !errors.isEmpty || !self.errors.isEmpty { self.errors = errors }
    }
}

extension SyncEngine {
    /// How many operations are queued and which wait for the app, now and after every change.
    ///
    /// `statuses`: after each of them the account may be another one.
    fileprivate func waitingOperations(
        _ statuses: AsyncStream<SyncStatus>
    ) -> AsyncStream<(PendingCounts, [TableOperationError], Int)> {
        let changes = store.changes()
        let accounts = accountHub.stream()
        return AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let (occasions, occasion) = AsyncStream.makeStream(
                of: Void.self,
                bufferingPolicy: .bufferingNewest(1)
            )
            let task = Task {
                await withTaskGroup { group in
                    group.addTask {
                        let watched: Set = [SystemTables.operations, SystemTables.lost]
                        for await tables in changes where !tables.isDisjoint(with: watched) {
                            occasion.yield()
                        }
                        // The store is closed.
                        occasion.finish()
                    }
                    group.addTask { for await _ in accounts { occasion.yield() } }
                    group.addTask {
                        var last: Bool?
                        for await status in statuses {
                            // A sync that runs shows many of them.
                            let isSyncing = if case .syncing = status { true } else { false }
                            if isSyncing != last { occasion.yield() }
                            last = isSyncing
                        }
                    }
                    occasion.yield()
                    for await _ in occasions {
                        guard let waiting = await self.readWaiting() else { break }
                        continuation.yield(waiting)
                    }
                    group.cancelAll()
                }
                continuation.finish()
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }

    /// Reads the queue, and tries again while the store cannot be read; nil when the task is cancelled.
    ///
    /// What is shown meanwhile stays.
    private func readWaiting() async -> (PendingCounts, [TableOperationError], Int)? {
        var failures = 0
        while !Task.isCancelled {
            if let counts = try? await read({ try $0.pendingCounts() }),
                let errors = try? await operationErrors(),
                let lost = try? await read({ try $0.lostCount() })
            {
                return (counts, errors, lost)
            }
            failures += 1
            guard (try? await environment.sleep(StoreRetry.delay(after: failures))) != nil else {
                return nil
            }
        }
        return nil
    }
}
