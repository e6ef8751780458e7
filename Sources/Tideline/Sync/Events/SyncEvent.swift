// SyncEvent: an event of a push, a pull or another long call. Later versions can add kinds.

/// An event of a push, a pull, a verification, a purge or a check.
///
/// Later versions may add kinds; ignore the kinds that your app does not know.
///
/// ```swift
/// for await event in client.syncContext.events {
///     switch event.kind {
///     case .pushFinished: show("\(event.completed ?? 0) sent, \(event.parked ?? 0) parked")
///     case .pageApplied: show("\(event.applied ?? 0) rows pulled")
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
            case schemaCompared
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
        /// The server accepted an `operation` on the row `itemID` of `table`.
        public static let operationCompleted = Self(.operationCompleted)
        /// An operation is parked because the server rejected it, or because it cannot be sent.
        public static let operationParked = Self(.operationParked)
        /// A push ended; `completed` operations were accepted, and `parked` operations wait for the
        /// app.
        public static let pushFinished = Self(.pushFinished)
        /// A pull of `table` began.
        public static let pullStarted = Self(.pullStarted)
        /// A page was applied: `applied` rows were stored, and `removed` rows were removed.
        public static let pageApplied = Self(.pageApplied)
        /// A pull of `table` ended.
        public static let pullFinished = Self(.pullFinished)
        /// A pull that had started ended with an error of this `code`; the pages that it stored are
        /// kept.
        public static let pullFailed = Self(.pullFailed)
        /// The server was restored from a backup, or its database was replaced.
        ///
        /// Rows that are on this device, `lost` in all tables together, are missing on the server
        /// or have an older state there.
        public static let restoredServer = Self(.restoredServer)
        /// The tables of the app were compared with the server's tables, and `differences` were
        /// found.
        ///
        /// The comparison runs because a response had another `Tideline-Schema` than before. For
        /// the result, see ``SyncContext/knownSchemaDifferences``.
        public static let schemaCompared = Self(.schemaCompared)
        /// A verification of `table` began.
        public static let verifyStarted = Self(.verifyStarted)
        /// The rows of a range that differs were compared.
        ///
        /// So far, the verification has found `missing`, `different` and `surplus` rows, and
        /// `repaired` rows match the server again.
        public static let rangeCompared = Self(.rangeCompared)
        /// A verification of `table` ended; the event has the counts of its ``VerifyResult``.
        public static let verifyFinished = Self(.verifyFinished)
        /// A verification that had started ended with an error of this `code`.
        public static let verifyFailed = Self(.verifyFailed)
        /// A purge ended and removed `removed` rows of `table`, or of an account if there is no
        /// table, from the device.
        public static let purgeFinished = Self(.purgeFinished)
        /// A purge of a table or of an account is running; it has removed `removed` rows of `table`
        /// so far.
        ///
        /// The event is reported every 500 rows, before the purge takes effect.
        public static let rowsRemoved = Self(.rowsRemoved)
        /// A list of changes or a transaction of the app is running; it has changed `applied` rows
        /// of `table` so far.
        ///
        /// The event is reported every 500 rows, before any of the changes takes effect.
        public static let rowsChanged = Self(.rowsChanged)
        /// `initialize` is converting the rows of `table` to a changed model, or adding them to a
        /// search index; it has processed `applied` rows so far.
        ///
        /// The event is reported every 500 rows, or every 2,000 rows of a search index, before the
        /// change takes effect.
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

    /// The data of an event; each kind has its own case.
    package enum Payload: Sendable, Hashable {
        case pushStarted(pending: Int)
        case operationCompleted(OperationInfo)
        case operationParked(OperationInfo)
        case pushFinished(completed: Int, parked: Int)
        case pullStarted(table: String)
        case pageApplied(table: String, applied: Int, removed: Int)
        case pullFinished(table: String, applied: Int, removed: Int)
        case pullFailed(table: String, SyncError.Code)
        case restoredServer(lost: Int)
        case schemaCompared(differences: Int)
        case verifyStarted(table: String)
        case rangeCompared(table: String, VerifyResult)
        case verifyFinished(table: String, VerifyResult)
        case verifyFailed(table: String, SyncError.Code)
        case purgeFinished(table: String?, removed: Int)
        case rowsRemoved(table: String, removed: Int)
        case rowsChanged(table: String, applied: Int)
        case rowsMoved(table: String, applied: Int)
        case checkStarted
        case tableChecked(table: String)
        case checkFinished(problems: Int)
        case checkFailed(SyncError.Code)
    }

    /// The operation of an event.
    package struct OperationInfo: Sendable, Hashable {
        package var table: String
        package var itemID: String
        package var kind: OperationKind
    }

    package let payload: Payload

    package init(_ payload: Payload) { self.payload = payload }

    /// The kind of the event.
    public var kind: Kind { Kind(name) }

    /// The name of the event's kind.
    package var name: Kind.Name {
        switch payload {
        case .pushStarted: .pushStarted
        case .operationCompleted: .operationCompleted
        case .operationParked: .operationParked
        case .pushFinished: .pushFinished
        case .pullStarted: .pullStarted
        case .pageApplied: .pageApplied
        case .pullFinished: .pullFinished
        case .pullFailed: .pullFailed
        case .restoredServer: .restoredServer
        case .schemaCompared: .schemaCompared
        case .verifyStarted: .verifyStarted
        case .rangeCompared: .rangeCompared
        case .verifyFinished: .verifyFinished
        case .verifyFailed: .verifyFailed
        case .purgeFinished: .purgeFinished
        case .rowsRemoved: .rowsRemoved
        case .rowsChanged: .rowsChanged
        case .rowsMoved: .rowsMoved
        case .checkStarted: .checkStarted
        case .tableChecked: .tableChecked
        case .checkFinished: .checkFinished
        case .checkFailed: .checkFailed
        }
    }
}

// MARK: - Properties

extension SyncEvent {
    /// The table of the event.
    public var table: String? {
        switch payload {
        case .operationCompleted(let operation), .operationParked(let operation): operation.table
        case .pullStarted(let table), .pageApplied(let table, _, _), .pullFinished(let table, _, _),
            .pullFailed(let table, _), .verifyStarted(let table), .rangeCompared(let table, _),
            .verifyFinished(let table, _), .verifyFailed(let table, _), .rowsRemoved(let table, _),
            .rowsChanged(let table, _), .rowsMoved(let table, _), .tableChecked(let table):
            table
        case .purgeFinished(let table, _): table
        case .pushStarted, .pushFinished, .restoredServer, .schemaCompared, .checkStarted,
            .checkFinished, .checkFailed:
            nil
        }
    }

    /// The row of the event.
    public var itemID: String? { operationInfo?.itemID }

    /// The kind of the operation: insert, update or delete.
    public var operation: OperationKind? { operationInfo?.kind }

    /// The number of operations in the queue.
    public var pending: Int? {
        if case .pushStarted(let pending) = payload { pending } else { nil }
    }

    /// The number of operations that the server accepted.
    public var completed: Int? {
        if case .pushFinished(let completed, _) = payload { completed } else { nil }
    }

    /// The number of operations that wait for the app.
    public var parked: Int? {
        if case .pushFinished(_, let parked) = payload { parked } else { nil }
    }

    /// The number of rows that a page, a pull or a change stored.
    public var applied: Int? { rowCounts.applied }

    /// The number of rows that were removed.
    public var removed: Int? { rowCounts.removed }

    private var rowCounts: (applied: Int?, removed: Int?) {
        switch payload {
        case .pageApplied(_, let applied, let removed),
            .pullFinished(_, let applied, let removed):
            (applied, removed)
        case .rowsChanged(_, let applied), .rowsMoved(_, let applied): (applied, nil)
        case .purgeFinished(_, let removed), .rowsRemoved(_, let removed): (nil, removed)
        case .pushStarted, .operationCompleted, .operationParked, .pushFinished, .pullStarted,
            .pullFailed, .restoredServer, .schemaCompared, .verifyStarted, .rangeCompared,
            .verifyFinished, .verifyFailed, .checkStarted, .tableChecked, .checkFinished,
            .checkFailed:
            (nil, nil)
        }
    }

    /// The number of rows on the server that are missing on the device.
    public var missing: Int? { comparison?.missing }

    /// The number of rows on the device that differ from the server's.
    public var different: Int? { comparison?.different }

    /// The number of rows on the device that are missing on the server.
    public var surplus: Int? { comparison?.surplus }

    /// The number of rows that were repaired.
    public var repaired: Int? { comparison?.repaired }

    /// The number of problems of a store.
    public var problems: Int? {
        if case .checkFinished(let problems) = payload { problems } else { nil }
    }

    /// The number of rows on this device that the restored server has lost.
    public var lost: Int? {
        if case .restoredServer(let lost) = payload { lost } else { nil }
    }

    /// The number of differences between the app's tables and the server's tables.
    public var differences: Int? {
        if case .schemaCompared(let differences) = payload { differences } else { nil }
    }

    /// The code of the error that ended a pull, a verification or a check.
    public var code: SyncError.Code? {
        if case .pullFailed(_, let code) = payload { return code }
        if case .verifyFailed(_, let code) = payload { return code }
        if case .checkFailed(let code) = payload { return code }
        return nil
    }

    private var operationInfo: OperationInfo? {
        if case .operationCompleted(let operation) = payload { return operation }
        if case .operationParked(let operation) = payload { return operation }
        return nil
    }

    private var comparison: VerifyResult? {
        if case .rangeCompared(_, let result) = payload { return result }
        if case .verifyFinished(_, let result) = payload { return result }
        return nil
    }
}

// MARK: - Pushes and pulls

extension SyncEvent {
    /// A push started with `pending` operations in the queue.
    public static func pushStarted(pending: Int) -> SyncEvent {
        SyncEvent(.pushStarted(pending: pending))
    }

    /// The server accepted an operation.
    public static func operationCompleted(
        table: String,
        itemID: String,
        kind: OperationKind
    ) -> SyncEvent {
        let operation = OperationInfo(table: table, itemID: itemID, kind: kind)
        return SyncEvent(.operationCompleted(operation))
    }

    /// An operation is parked.
    public static func operationParked(
        table: String,
        itemID: String,
        kind: OperationKind
    ) -> SyncEvent {
        let operation = OperationInfo(table: table, itemID: itemID, kind: kind)
        return SyncEvent(.operationParked(operation))
    }

    /// A push ended; `parked` is the number of operations that wait for the app.
    public static func pushFinished(completed: Int, parked: Int) -> SyncEvent {
        SyncEvent(.pushFinished(completed: completed, parked: parked))
    }

    /// A pull began.
    public static func pullStarted(table: String) -> SyncEvent {
        SyncEvent(.pullStarted(table: table))
    }

    /// A page was stored.
    public static func pageApplied(table: String, applied: Int, removed: Int) -> SyncEvent {
        SyncEvent(.pageApplied(table: table, applied: applied, removed: removed))
    }

    /// A pull ended.
    public static func pullFinished(table: String, applied: Int, removed: Int) -> SyncEvent {
        SyncEvent(.pullFinished(table: table, applied: applied, removed: removed))
    }

    /// The server was restored from a backup and has lost `lost` rows that are on this device.
    public static func restoredServer(lost: Int) -> SyncEvent {
        SyncEvent(.restoredServer(lost: lost))
    }

    /// A pull that had started ended with an error; the pages that were stored are kept.
    public static func pullFailed(table: String, code: SyncError.Code) -> SyncEvent {
        SyncEvent(.pullFailed(table: table, code))
    }
}
