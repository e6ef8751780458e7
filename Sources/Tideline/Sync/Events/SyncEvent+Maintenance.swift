// The events of maintenance: schema comparisons, verifications, purges, and checks of the store.

extension SyncEvent {
    /// The app's tables were compared with the server's tables.
    public static func schemaCompared(differences: Int) -> SyncEvent {
        SyncEvent(.schemaCompared(differences: differences))
    }

    /// A verification began.
    public static func verifyStarted(table: String) -> SyncEvent {
        SyncEvent(.verifyStarted(table: table))
    }

    /// Rows of a range were compared; the counts of `result` are the totals so far.
    public static func rangeCompared(table: String, _ result: VerifyResult) -> SyncEvent {
        SyncEvent(.rangeCompared(table: table, result.rowCounts))
    }

    /// A verification ended.
    public static func verifyFinished(table: String, _ result: VerifyResult) -> SyncEvent {
        SyncEvent(.verifyFinished(table: table, result.rowCounts))
    }

    /// A verification that had started ended with an error.
    public static func verifyFailed(table: String, code: SyncError.Code) -> SyncEvent {
        SyncEvent(.verifyFailed(table: table, code))
    }

    /// A purge ended.
    ///
    /// If the purge removed the rows of an account, the event has no table.
    public static func purgeFinished(table: String?, removed: Int) -> SyncEvent {
        SyncEvent(.purgeFinished(table: table, removed: removed))
    }

    /// The number of rows after which a long change reports its progress.
    static let rowsAtOnce = 500

    /// A purge is running; `removed` rows have been removed so far.
    public static func rowsRemoved(table: String, removed: Int) -> SyncEvent {
        SyncEvent(.rowsRemoved(table: table, removed: removed))
    }

    /// A list of changes or a transaction is running; `applied` rows have been changed so far.
    public static func rowsChanged(table: String, applied: Int) -> SyncEvent {
        SyncEvent(.rowsChanged(table: table, applied: applied))
    }

    /// `initialize` is converting rows to a changed model, or indexing them for search; `applied`
    /// rows are done.
    public static func rowsMoved(table: String, applied: Int) -> SyncEvent {
        SyncEvent(.rowsMoved(table: table, applied: applied))
    }

    /// A check of the store began.
    public static let checkStarted = SyncEvent(.checkStarted)

    /// The rows of a table were checked.
    public static func tableChecked(table: String) -> SyncEvent {
        SyncEvent(.tableChecked(table: table))
    }

    /// A check of the store ended.
    public static func checkFinished(problems: Int) -> SyncEvent {
        SyncEvent(.checkFinished(problems: problems))
    }

    /// A check of the store that had started ended with an error.
    public static func checkFailed(code: SyncError.Code) -> SyncEvent {
        SyncEvent(.checkFailed(code))
    }
}

extension VerifyResult {
    /// The row counts that an event reports, without `requests` and `lost`.
    fileprivate var rowCounts: VerifyResult {
        VerifyResult(missing: missing, different: different, surplus: surplus, repaired: repaired)
    }
}

extension SyncError.Code {
    /// The code for an error that ended a pull, a verification or a check.
    init(of error: any Error) {
        self = error is CancellationError ? .cancelled : (error as? SyncError)?.code ?? .offline
    }
}
