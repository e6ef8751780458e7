// SyncEvent: a step of a push, a pull or another long call, as a type that can grow.

/// An event of a push, a pull, a verification, a purge or a check.
///
/// Later versions may add kinds: ignore those that you do not know.
///
/// ```swift
/// for await event in client.syncContext.events {
///     switch event.kind {
///     case .pushFinished: show("\(event.completed ?? 0) sent, \(event.parked ?? 0) wait")
///     case .pageApplied: show("\(event.applied ?? 0) rows came")
///     default: break
///     }
/// }
/// ```
public struct SyncEvent: Sendable, Hashable {
    /// The kind of an event.
    public struct Kind: Sendable, Hashable, CustomStringConvertible {
        package enum Name: String, Sendable, CaseIterable {
            case pushStarted
            case operationCompleted
            case operationParked
            case pushFinished
            case pullStarted
            case pageApplied
            case pullFinished
            case pullFailed
            case restoredServer
            case verifyStarted
            case rangeCompared
            case verifyFinished
            case verifyFailed
            case purgeFinished
            case rowsRemoved
            case rowsChanged
            case rowsMoved
            case checkStarted
            case tableChecked
            case checkFinished
            case checkFailed
        }

        package let name: Name

        package init(_ name: Name) { self.name = name }

        /// The name of the kind.
        public var description: String { name.rawValue }

        /// A push began; `pending` operations are in the queue.
        public static let pushStarted = Self(.pushStarted)
        /// The server accepted an operation: `operation` of the row `itemID` in `table`.
        public static let operationCompleted = Self(.operationCompleted)
        /// An operation is parked, because the server rejected it, or because it cannot be sent.
        public static let operationParked = Self(.operationParked)
        /// A push ended; `completed` operations were accepted, and `parked` ones wait for the app.
        public static let pushFinished = Self(.pushFinished)
        /// A pull of `table` began.
        public static let pullStarted = Self(.pullStarted)
        /// A page was stored: it brought `applied` rows and removed `removed` rows.
        public static let pageApplied = Self(.pageApplied)
        /// A pull of `table` ended.
        public static let pullFinished = Self(.pullFinished)
        /// A pull that had started ended with an error of this `code`; the pages that were stored stay.
        public static let pullFailed = Self(.pullFailed)
        /// The server was restored from a backup, or its database was replaced: `lost` rows of all tables are on
        /// this device, and are missing on the server or there only in an older state.
        public static let restoredServer = Self(.restoredServer)
        /// A verification of `table` began.
        public static let verifyStarted = Self(.verifyStarted)
        /// Rows of a range that differs were compared: `missing`, `different` and `surplus` rows were
        /// found so far, and `repaired` rows are as on the server again.
        public static let rangeCompared = Self(.rangeCompared)
        /// A verification of `table` ended; its counts are those of its ``VerifyResult``.
        public static let verifyFinished = Self(.verifyFinished)
        /// A verification that had started ended with an error of this `code`.
        public static let verifyFailed = Self(.verifyFailed)
        /// A purge ended: `removed` rows of `table` were removed from the device; without a table, those of
        /// an account.
        public static let purgeFinished = Self(.purgeFinished)
        /// A purge, or the purge of an account, is running: `removed` rows of `table` so far.
        ///
        /// Reported every 500 rows, before the purge takes effect.
        public static let rowsRemoved = Self(.rowsRemoved)
        /// A list of changes or a transaction of the app is running: `applied` rows of `table` have been
        /// changed so far.
        ///
        /// Reported every 500 rows, before any of the changes takes effect.
        public static let rowsChanged = Self(.rowsChanged)
        /// `initialize` is moving the rows of `table` into the columns of another model: `applied` rows so
        /// far.
        ///
        /// Reported every 500 rows, before the move takes effect.
        public static let rowsMoved = Self(.rowsMoved)
        /// A check of the store began.
        public static let checkStarted = Self(.checkStarted)
        /// The rows of `table` were checked.
        public static let tableChecked = Self(.tableChecked)
        /// A check of the store ended; it found `problems` problems.
        public static let checkFinished = Self(.checkFinished)
        /// A check of the store that had started ended with an error of this `code`.
        public static let checkFailed = Self(.checkFailed)
    }

    /// The kind of the event.
    public var kind: Kind
    /// The table of the event.
    public var table: String?
    /// The row of the event.
    public var itemID: String?
    /// The kind of the operation: insert, update or delete.
    public var operation: OperationKind?
    /// How many operations were in the queue.
    public var pending: Int?
    /// How many operations the server accepted.
    public var completed: Int?
    /// How many operations wait for the app.
    public var parked: Int?
    /// How many rows a page, a pull or a change brought.
    public var applied: Int?
    /// How many rows were removed.
    public var removed: Int?
    /// How many rows of the server are not on the device.
    public var missing: Int?
    /// How many rows on the device differ from the server's.
    public var different: Int?
    /// How many rows are on the device and not on the server.
    public var surplus: Int?
    /// How many rows were repaired.
    public var repaired: Int?
    /// How many problems a store has.
    public var problems: Int?
    /// How many rows a restored server lost.
    public var lost: Int?
    /// The code of the error that ended it.
    public var code: SyncError.Code?

    /// Makes an event of a kind; its other properties are set afterwards.
    public init(_ kind: Kind, table: String? = nil) {
        self.kind = kind
        self.table = table
    }

    /// A push started with `pending` operations in the queue.
    public static func pushStarted(pending: Int) -> SyncEvent {
        var event = SyncEvent(.pushStarted)
        event.pending = pending
        return event
    }

    /// The server accepted an operation.
    public static func operationCompleted(
        table: String,
        itemID: String,
        kind: OperationKind
    ) -> SyncEvent {
        var event = SyncEvent(.operationCompleted, table: table)
        event.itemID = itemID
        event.operation = kind
        return event
    }

    /// An operation is parked.
    public static func operationParked(
        table: String,
        itemID: String,
        kind: OperationKind
    ) -> SyncEvent {
        var event = SyncEvent(.operationParked, table: table)
        event.itemID = itemID
        event.operation = kind
        return event
    }

    /// A push ended; `parked` counts the operations that wait for the app.
    public static func pushFinished(completed: Int, parked: Int) -> SyncEvent {
        var event = SyncEvent(.pushFinished)
        event.completed = completed
        event.parked = parked
        return event
    }

    /// A pull began.
    public static func pullStarted(table: String) -> SyncEvent {
        SyncEvent(.pullStarted, table: table)
    }

    /// A page was stored.
    public static func pageApplied(table: String, applied: Int, removed: Int) -> SyncEvent {
        var event = SyncEvent(.pageApplied, table: table)
        event.applied = applied
        event.removed = removed
        return event
    }

    /// A pull ended.
    public static func pullFinished(table: String, applied: Int, removed: Int) -> SyncEvent {
        var event = SyncEvent(.pullFinished, table: table)
        event.applied = applied
        event.removed = removed
        return event
    }

    /// The server was restored from a backup and lost `lost` rows that are on this device.
    public static func restoredServer(lost: Int) -> SyncEvent {
        var event = SyncEvent(.restoredServer)
        event.lost = lost
        return event
    }

    /// A pull that had started ended with an error; the pages that were stored stay.
    public static func pullFailed(table: String, code: SyncError.Code) -> SyncEvent {
        var event = SyncEvent(.pullFailed, table: table)
        event.code = code
        return event
    }
}
