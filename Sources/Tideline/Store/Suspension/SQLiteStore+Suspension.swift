// SQLiteStore: releasing its files while the app is suspended, and errors that pass.

import TidelineSQLite

extension SQLiteStore {
    /// Ends what runs and closes the file, so that no lock on it is held.
    ///
    /// Transactions that run come to their end first. Until ``resume()`` each read and each change opens the file
    /// for itself and closes it again. A store in memory ignores this.
    public func suspend() async {
        guard let readers else { return }
        connection.setSuspended(true)
        foreign?.suspend()
        async let copied: Void? = log?.suspend()
        async let read: Void = readers.release()
        await writer.release()
        _ = await (copied, read)
        connection.end.clear()
    }

    /// Undoes the transactions that run; each throws ``SyncError`` with code `suspended`.
    public func interruptTransactions() {
        guard readers != nil else { return }
        connection.end.set()
        connection.interrupt()
        readers?.interrupt()
        log?.interrupt()
    }

    /// Keeps the file open again.
    public func resume() {
        connection.end.clear()
        connection.setSuspended(false)
        writer.keepOpen()
        readers?.keepOpen()
        log?.resume()
        foreign?.resume()
    }

    /// A failure of SQLite as an error of the store; a connection that cannot use its file is opened again.
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
            The client was suspended while this read or change ran, and it was not done when the time was \
            over: nothing of it was stored. Do it again after client.resume().
            """,
            cause: cause
        )
    }
}
