// SyncStatus: what automatic sync is doing, as one value for an app to show.

public import Foundation

/// The status of automatic sync.
///
/// ```swift
/// switch client.currentSyncStatus {
/// case .offline(let since): print("Offline since \(since)")
/// case .syncing(let progress): print("\(progress.sent) sent")
/// default: break
/// }
/// ```
public enum SyncStatus: Sendable, Hashable {
    /// Everything has been sent and fetched, and automatic sync is waiting for the next event.
    case idle
    /// A push or pull is running.
    case syncing(SyncProgress)
    /// The server cannot be reached; sync is retried automatically.
    case offline(since: Date)
    /// The server asked the client to wait (`Retry-After`); automatic sync sends nothing before
    /// that time.
    ///
    /// If the app starts a pull, it is sent anyway. If this pull succeeds, the wait ends.
    case busy(until: Date)
    /// Sync is blocked by a condition that does not go away without action.
    case blocked(by: SyncBlock)
}

/// The progress of a sync.
public struct SyncProgress: Sendable, Hashable {
    /// The number of operations in the queue when the sync started.
    public var pending = 0
    /// The number of operations that the server has accepted.
    public var sent = 0
    /// The number of rows that were stored or removed.
    public var received = 0

    /// Progress with all counts at zero.
    public init() {}

    /// Adds an event to the counts.
    package mutating func advance(_ event: SyncEvent) {
        switch event.payload {
        case .pushStarted(let operations): pending = max(pending, operations)
        case .operationCompleted: sent += 1
        case .pageApplied(_, let applied, let removed): received += applied + removed
        case .operationParked, .pushFinished, .pullStarted, .pullFinished, .pullFailed,
            .restoredServer, .schemaCompared, .verifyStarted, .rangeCompared, .verifyFinished,
            .verifyFailed, .purgeFinished, .rowsRemoved, .rowsChanged, .rowsMoved, .checkStarted,
            .tableChecked, .checkFinished, .checkFailed:
            break
        }
    }
}

/// The reason why automatic sync is blocked.
public enum SyncBlock: Sendable, Hashable {
    /// The user has to sign in.
    case signIn
    /// The operations on these rows wait for the app; everything else is synced.
    ///
    /// The server rejected the operations, they cannot be sent, or the app does not declare their
    /// table.
    case rejectedOperations(UnacceptedRows)
    /// The server does not accept the operations on these rows; everything else is synced.
    ///
    /// Operations that are not parked are retried automatically; see ``FailingRow``. Parked
    /// operations wait for the app.
    case failingRows(UnacceptedRows)
    /// The server was restored from a backup, and has lost this number of rows that are on this
    /// device.
    ///
    /// Everything else is synced. ``SyncContext/lostRows()`` returns these rows; the app sends them
    /// again or discards them.
    case lostRows(Int)
    /// Another error of the server or the store occurred; sync is retried on schedule.
    case failure(code: SyncError.Code, message: String)
}
