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
    /// How many operations are in the queue.
    public private(set) var pendingCount = 0
    /// The operations that wait for the app: those that the server rejected or that cannot be sent.
    public private(set) var errors: [TableOperationError] = []

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
                for await status in stream { self?.status = status }
            }
        )
        let waiting = engine.waitingOperations()
        queue.replace(
            with: Task { [weak self] in
                for await (count, errors) in waiting { self?.show(count, errors) }
            }
        )
    }

    private func show(_ count: Int, _ errors: [TableOperationError]) {
        pendingCount = count
        self.errors = errors
    }
}

extension SyncEngine {
    /// How many operations are queued and which wait for the app, now and after every change.
    fileprivate func waitingOperations() -> AsyncStream<(Int, [TableOperationError])> {
        let changes = store.changes()
        return AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let task = Task {
                func send() async {
                    // Where the store cannot be read, what was shown stays.
                    guard let count = try? await read({ try $0.count() }),
                        let errors = try? await operationErrors()
                    else { return }
                    continuation.yield((count, errors))
                }
                await send()
                for await tables in changes where tables.contains(SystemTables.operations) {
                    await send()
                }
                continuation.finish()
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }
}
