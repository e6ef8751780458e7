// SyncEvent: a step of a push, a pull or another long call, as a type that can grow.

/// A step of a push or a pull, a verification, a purge or a check.
///
/// More kinds may come: pass over those that you do not know.
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
    /// What happened.
    public struct Kind: Sendable, Hashable, CustomStringConvertible {
        /// The name of the kind.
        public let description: String

        private init(_ name: String) { description = name }

        /// A push began; `pending` operations are in the queue.
        public static let pushStarted = Self("pushStarted")
        /// The server accepted an operation: `operation` of the row `itemID` in `table`.
        public static let operationCompleted = Self("operationCompleted")
        /// An operation is parked, because the server rejected it, or because it cannot be sent.
        public static let operationParked = Self("operationParked")
        /// A push ended; `completed` operations were accepted, and `parked` ones wait for the app.
        public static let pushFinished = Self("pushFinished")
        /// A pull of `table` began.
        public static let pullStarted = Self("pullStarted")
        /// A page was stored: `applied` rows came, `removed` ones went.
        public static let pageApplied = Self("pageApplied")
        /// A pull of `table` ended.
        public static let pullFinished = Self("pullFinished")
        /// A pull that had begun ended with an error of this `code`; what was stored before stays.
        public static let pullFailed = Self("pullFailed")
        /// The server was restored from a backup, or another database took its place: `lost` rows of all
        /// tables are on this device that it lacks, or has in an older state only.
        public static let restoredServer = Self("restoredServer")
        /// A verification of `table` began.
        public static let verifyStarted = Self("verifyStarted")
        /// Rows of a range that differs were compared: `missing`, `different` and `surplus` ones were
        /// found so far, and `repaired` ones are as on the server again.
        public static let rangeCompared = Self("rangeCompared")
        /// A verification of `table` ended; its counts are those of its ``VerifyResult``.
        public static let verifyFinished = Self("verifyFinished")
        /// A verification that had begun ended with an error of this `code`.
        public static let verifyFailed = Self("verifyFailed")
        /// A purge ended: `removed` rows of `table` left the device; without a table, those of an
        /// account.
        public static let purgeFinished = Self("purgeFinished")
        /// A purge, or the purge of an account, goes on: `removed` rows of `table` so far.
        ///
        /// Told for every five hundred rows, before the purge counts.
        public static let rowsRemoved = Self("rowsRemoved")
        /// A list of changes or a transaction of the app goes on: `applied` rows of `table` are changed
        /// so far.
        ///
        /// Told for every five hundred rows, before any of them counts.
        public static let rowsChanged = Self("rowsChanged")
        /// `initialize` brings the rows of `table` into the columns of a model that is another than
        /// before: `applied` ones so far.
        ///
        /// Told for every five hundred rows, before it counts.
        public static let rowsMoved = Self("rowsMoved")
        /// A check of the store began.
        public static let checkStarted = Self("checkStarted")
        /// The rows of `table` were looked at.
        public static let tableChecked = Self("tableChecked")
        /// A check of the store ended; it found so many `problems`.
        public static let checkFinished = Self("checkFinished")
        /// A check of the store that had begun ended with an error of this `code`.
        public static let checkFailed = Self("checkFailed")
    }

    /// What happened.
    public var kind: Kind
    /// The table that it happened in.
    public var table: String?
    /// The row that it happened to.
    public var itemID: String?
    /// What the operation does.
    public var operation: OperationKind?
    /// How many operations were in the queue.
    public var pending: Int?
    /// How many operations the server accepted.
    public var completed: Int?
    /// How many operations wait for the app.
    public var parked: Int?
    /// How many rows came.
    public var applied: Int?
    /// How many rows went.
    public var removed: Int?
    /// How many rows of the server are not here.
    public var missing: Int?
    /// How many rows are here in another state.
    public var different: Int?
    /// How many rows are here and not on the server.
    public var surplus: Int?
    /// How many rows were repaired.
    public var repaired: Int?
    /// How many problems a store has.
    public var problems: Int?
    /// How many rows a restored server lost.
    public var lost: Int?
    /// Why it failed.
    public var code: SyncError.Code?

    /// An event of a kind; what it tells more is set behind.
    public init(_ kind: Kind, table: String? = nil) {
        self.kind = kind
        self.table = table
    }

    /// A push began with so many operations in the queue.
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

    /// The server was restored from a backup and lost so many rows that are on this device.
    public static func restoredServer(lost: Int) -> SyncEvent {
        var event = SyncEvent(.restoredServer)
        event.lost = lost
        return event
    }

    /// A pull that had begun ended with an error; what was stored before stays.
    public static func pullFailed(table: String, code: SyncError.Code) -> SyncEvent {
        var event = SyncEvent(.pullFailed, table: table)
        event.code = code
        return event
    }
}
