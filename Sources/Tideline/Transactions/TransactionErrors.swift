// TransactionErrors: the error messages about invalid transactions and reads.

extension SyncError {
    static func transactionTooLarge(_ rows: Int, max: Int) -> SyncError {
        SyncError(
            .transactionTooLarge,
            """
            The transaction has \(rows) operations, but one batch carries at most \(max) \
            (SyncLimits.transactionRowsMax). Use several smaller transactions, or pass arrays to \
            'insert', 'update' and 'delete', which have no such limit.
            """
        )
    }

    static func transactionTooLarge(bytes: Int, max: Int) -> SyncError {
        SyncError(
            .transactionTooLarge,
            """
            The transaction has \(bytes) bytes as a request, but one batch carries at most \(max) \
            (SyncLimits.transactionBytesMax). Use several smaller transactions, or pass arrays to \
            'insert', 'update' and 'delete', which have no such limit.
            """
        )
    }

    /// The error of a cancelled change, which has no effect, unlike a cancelled push or pull.
    static func cancelledChange(_ what: String, _ cause: CancellationError) -> SyncError {
        SyncError(
            .cancelled,
            "The \(what) was cancelled. Nothing was changed. Repeat it if it is still needed.",
            cause: cause
        )
    }

    /// The error of a cancelled ``SyncContext/read(_:)``.
    static func cancelledRead(_ cause: CancellationError) -> SyncError {
        SyncError(
            .cancelled,
            "The read was cancelled. Read again if the result is still needed.",
            cause: cause
        )
    }

    /// The error for a reader, or one of its tables, that is used after the end of its closure.
    static func readEnded() -> SyncError {
        SyncError(
            .transactionEnded,
            "The read has ended. Use the reader and its tables inside its closure only."
        )
    }
}
