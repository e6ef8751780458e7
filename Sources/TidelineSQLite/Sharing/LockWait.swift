// LockWait: how long and how often a connection tries to get a lock that another connection holds.

#if SQLCipher
import CSQLCipher
#else
import CSQLite
#endif

/// The wait for a lock that another connection holds, in equal short steps.
///
/// `sqlite3_busy_timeout` soon backs off to 100 ms between attempts, too long to catch a lock that is released briefly
/// by a process that commits one transaction after another: the waiting process would fail with `SQLITE_BUSY`.
package enum LockWait {
    /// The milliseconds between two attempts.
    static let step: Int32 = 5

    /// Sets the time after which statements of a connection fail if they cannot get a lock.
    ///
    /// With 0 they do not wait.
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

    /// Whether a statement waits for another step after that many attempts; `limit` is in milliseconds.
    package static func mayWait(after attempts: Int32, limit: Int) -> Bool {
        Int(attempts) * Int(step) < limit
    }
}
