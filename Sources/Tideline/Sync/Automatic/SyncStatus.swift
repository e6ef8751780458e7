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
    /// Everything was sent and fetched; automatic sync waits for the next occasion.
    case idle
    /// A push or pull runs.
    case syncing(SyncProgress)
    /// The server cannot be reached; sync is retried automatically.
    case offline(since: Date)
    /// The server asked for a wait (`Retry-After`): nothing is sent before that time.
    ///
    /// A pull that the app itself starts is sent nevertheless; if it succeeds, the wait is over.
    case busy(until: Date)
    /// Sync is blocked by a condition that does not pass by waiting.
    case blocked(by: SyncBlock)
}

/// The progress of a sync.
public struct SyncProgress: Sendable, Hashable {
    /// How many operations were to be sent when it started.
    public var pending = 0
    /// How many operations the server has accepted.
    public var sent = 0
    /// How many rows were stored or removed.
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
            .restoredServer, .verifyStarted, .rangeCompared, .verifyFinished, .verifyFailed,
            .purgeFinished, .rowsRemoved, .rowsChanged, .rowsMoved, .checkStarted, .tableChecked,
            .checkFinished, .checkFailed:
            break
        }
    }
}

/// The reason why automatic sync cannot continue by waiting.
public enum SyncBlock: Sendable, Hashable {
    /// The server wants a sign-in.
    case signIn
    /// The operations of these rows wait for the app; everything else is synced.
    ///
    /// The server rejected them, they cannot be sent, or the app does not declare their table.
    case rejectedOperations(UnacceptedRows)
    /// The operations of these rows are not accepted; everything else is synced.
    ///
    /// Those that are not parked are retried automatically; see ``FailingRow``. Parked ones wait for the app.
    case failingRows(UnacceptedRows)
    /// The server was restored from a backup and lost this number of rows that are on this device;
    /// everything else is synced.
    ///
    /// ``SyncContext/lostRows()`` has them: send them again or discard them.
    case lostRows(Int)
    /// Another error of the server or the store; sync is retried on schedule.
    case failure(code: SyncError.Code, message: String)
}
