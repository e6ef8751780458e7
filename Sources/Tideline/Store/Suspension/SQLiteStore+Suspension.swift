// SQLiteStore: releases its files while the app is suspended, and classifies temporary errors.

import TidelineSQLite

extension SQLiteStore {
    /// Finishes running work and closes the file, which releases all locks on it.
    ///
    /// Running transactions finish first. Until ``resume()``, each read or change opens the file
    /// and closes it afterward. A store in memory ignores this call.
    public func suspend() async {
        guard let readers else { return }
        connection.setSuspended(true)
        externalChanges?.suspend()
        async let copied: Void? = log?.suspend()
        async let read: Void = readers.release()
        await writer.release()
        _ = await (copied, read)
        connection.end.clear()
    }

    /// Rolls back the running transactions; each throws ``SyncError`` with code `suspended`.
    public func interruptTransactions() {
        guard readers != nil else { return }
        connection.end.set()
        connection.interrupt()
        readers?.interrupt()
        log?.interrupt()
    }

    /// Keeps the file open from now on.
    public func resume() {
        connection.end.clear()
        connection.setSuspended(false)
        writer.keepOpen()
        readers?.keepOpen()
        log?.resume()
        externalChanges?.resume()
    }

    /// Returns the store's error for a failure of SQLite, and reopens a connection that can no
    /// longer use its file.
    func failure(_ error: SQLiteError) -> SyncError {
        if error.isInterrupt { return .interruptedBySuspension(error) }
        if error.isUnavailable { writer.reopen() }
        return .store(error, at: path)
    }

    static func isUnavailable(_ error: any Error) -> Bool {
        (error as? SQLiteError)?.isUnavailable ?? false
    }
}

extension SyncError {
    fileprivate static func interruptedBySuspension(_ cause: SQLiteError) -> SyncError {
        SyncError(
            .suspended,
            """
            The client was suspended, and this read or change did not finish in time. None of it was \
            stored. Repeat it after client.resume().
            """,
            cause: cause
        )
    }
}
