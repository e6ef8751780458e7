// LiveStatus: the state of sync and of the operation queue as an observable object, for views.

public import Observation
public import TidelineCore

/// The state of automatic sync and of the operation queue, for views.
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
    /// The current state of automatic sync; `idle` if it was not started.
    public private(set) var status: SyncStatus
    /// The numbers of queued operations, by account.
    public private(set) var pending = PendingCounts()
    /// The number of queued operations of the account that is signed in.
    public var pendingCount: Int { pending.own }
    /// The error that ended the last automatic sync, or nil if it succeeded.
    public private(set) var lastError: SyncError?
    /// The operations that wait for the app: the server rejected them, or they cannot be sent.
    public private(set) var errors: [TableOperationError] = []
    /// The number of rows that a restored server lost; see ``SyncContext/lostRows()``.
    public private(set) var lostRowCount = 0
    /// The differences between the app's tables and the server's tables; see ``SyncContext/knownSchemaDifferences``.
    public private(set) var schemaDifferences: [SchemaDifference] = []

    @ObservationIgnored private let statuses = LiveTask()
    @ObservationIgnored private let queue = LiveTask()
    @ObservationIgnored private let schema = LiveTask()

    /// Observes a client.
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
        let waiting = WaitingOperations(engine: engine).stream(client.automatic.statuses.stream())
        queue.replace(
            with: Task { [weak self] in
                for await (counts, errors, lost) in waiting { self?.show(counts, errors, lost) }
            }
        )
        let (finding, changes) = (engine.schemaFinding, engine.schemaFinding.changes())
        schemaDifferences = finding.differences
        schema.replace(
            with: Task { [weak self] in
                for await _ in changes {
                    guard let self else { return }
                    if schemaDifferences != finding.differences {
                        schemaDifferences = finding.differences
                    }
                }
            }
        )
    }

    private func show(_ counts: PendingCounts, _ errors: [TableOperationError], _ lost: Int) {
        if pending != counts { pending = counts }
        if lostRowCount != lost { lostRowCount = lost }
        if !errors.isEmpty || !self.errors.isEmpty { self.errors = errors }
    }
}

/// The numbers of queued operations, and the operations that wait for the app.
struct WaitingOperations {
    let engine: SyncEngine

    /// Emits the numbers of queued operations and the operations that wait for the app, now and after every change.
    ///
    /// The account may have changed with each element of `statuses`.
    func stream(
        _ statuses: AsyncStream<SyncStatus>
    ) -> AsyncStream<(PendingCounts, [TableOperationError], Int)> {
        let changes = engine.store.changes()
        let accounts = engine.accountHub.stream()
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
                            // A running sync emits many statuses.
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

    /// Reads the queue, and retries while the store cannot be read; returns nil if the task is cancelled.
    ///
    /// In the meantime, the view shows its last values.
    private func readWaiting() async -> (PendingCounts, [TableOperationError], Int)? {
        var failures = 0
        while !Task.isCancelled {
            if let counts = try? await engine.read({ try PendingCounts($0) }),
                let errors = try? await engine.operationErrors.all(),
                let lost = try? await engine.read({ try $0.lostRecords.count() })
            {
                return (counts, errors, lost)
            }
            failures += 1
            guard (try? await engine.environment.sleep(StoreRetry.delay(after: failures))) != nil
            else {
                return nil
            }
        }
        return nil
    }
}
