// LockWait: the time and interval with which a connection retries a lock that another connection
// holds.

#if SQLCipher
import CSQLCipher
#else
import CSQLite
#endif

/// The wait for a lock that another connection holds, in short steps of equal length.
///
/// `sqlite3_busy_timeout` soon waits 100 ms between attempts. That is too long to catch a lock that
/// another process releases only briefly between consecutive transactions: the waiting process
/// would fail with `SQLITE_BUSY`.
package enum LockWait {
    /// The time between two attempts, in milliseconds.
    static let step: Int32 = 5

    /// Sets the time after which a connection's statements fail if they cannot get a lock.
    ///
    /// If the time is 0, the statements do not wait.
    static func set(_ milliseconds: Int32, on handle: OpaquePointer) {
        sqlite3_busy_handler(
            handle,
            { limit, attempts in
                guard LockWait.mayWait(after: attempts, limit: Int(bitPattern: limit)) else {
                    return 0
                }
                sqlite3_sleep(LockWait.step)
                return 1
            },
            UnsafeMutableRawPointer(bitPattern: Int(milliseconds))
        )
    }

    /// Returns whether a statement waits another step after the given number of attempts; `limit`
    /// is in milliseconds.
    package static func mayWait(after attempts: Int32, limit: Int) -> Bool {
        Int(attempts) * Int(step) < limit
    }
}
