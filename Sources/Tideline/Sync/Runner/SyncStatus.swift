// SyncStatus: what automatic sync is doing, as one value for an app to show.

public import Foundation

/// What automatic sync is doing.
///
/// ```swift
/// switch client.currentSyncStatus {
/// case .offline(let since): print("Offline since \(since)")
/// case .syncing(let progress): print("\(progress.sent) sent")
/// default: break
/// }
/// ```
public enum SyncStatus: Sendable, Hashable {
    /// Everything was sent and fetched; it waits for the next occasion.
    case idle
    /// A push or pull runs.
    case syncing(SyncProgress)
    /// The server cannot be reached; it is tried again by itself.
    case offline(since: Date)
    /// The server asked for a wait (`Retry-After`): nothing is sent before that time.
    ///
    /// A pull that the app itself starts is sent all the same; if it succeeds, the wait is over.
    case busy(until: Date)
    /// Something that does not pass by waiting.
    case blocked(by: SyncBlock)
}

/// How far a sync has come.
public struct SyncProgress: Sendable, Hashable {
    /// How many operations there were to send when it began.
    public var pending = 0
    /// How many operations the server has accepted.
    public var sent = 0
    /// How many rows came or went.
    public var received = 0

    /// Nothing yet.
    public init() {}

    /// Takes one step in.
    package mutating func advance(_ event: SyncEvent) {
        switch event.kind {
        case .pushStarted: pending = max(pending, event.pending ?? 0)
        case .operationCompleted: sent += 1
        case .pageApplied: received += (event.applied ?? 0) + (event.removed ?? 0)
        default: break
        }
    }
}

/// Why automatic sync cannot go on by waiting.
public enum SyncBlock: Sendable, Hashable {
    /// The server wants a sign-in.
    case signIn
    /// The operations of these rows wait for the app; all else is synced.
    ///
    /// The server rejected them, they cannot be sent, or the app does not name their table.
    case rejectedOperations(UnacceptedRows)
    /// The operations of these rows are not accepted; all else is synced.
    ///
    /// Those that are not parked are sent again by themselves; see ``FailingRow``. Parked ones wait for the app.
    case failingRows(UnacceptedRows)
    /// The server was restored from a backup and lost so many rows that are on this device; all else
    /// is synced.
    ///
    /// ``SyncContext/lostRows()`` has them: send them again or discard them.
    case lostRows(Int)
    /// What the server or the store said; it is tried again on schedule.
    case failure(code: SyncError.Code, message: String)
}
