// The messages about transactions that cannot be.

extension SyncError {
    static func transactionTooLarge(_ rows: Int, max: Int) -> SyncError {
        SyncError(
            .transactionTooLarge,
            """
            The transaction and those that it is one with have \(rows) operations, and one batch takes \
            \(max) (SyncLimits.transactionRowsMax). Push before it, or make it of fewer changes; \
            arrays of 'insert', 'update' and 'delete' have no such bound.
            """
        )
    }

    static func transactionTooLarge(bytes: Int, max: Int) -> SyncError {
        SyncError(
            .transactionTooLarge,
            """
            The transaction and those that it is one with have \(bytes) bytes as a request, and one \
            batch takes \(max) (SyncLimits.transactionBytesMax). Push before it, or make it of less; \
            arrays of 'insert', 'update' and 'delete' have no such bound.
            """
        )
    }

    /// Nothing of it was done, unlike what a push or a pull leaves.
    static func cancelledChange(_ what: String, _ cause: CancellationError) -> SyncError {
        SyncError(
            .cancelled,
            "The \(what) was cancelled; nothing was changed. Do it again where it is still wanted.",
            cause: cause
        )
    }
}
