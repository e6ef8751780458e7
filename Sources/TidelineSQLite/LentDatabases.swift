// LentDatabases: connections for work on the caller's own thread.
//
// A look-up costs a few microseconds, a change of thread 25. Each is lent to one caller at a time;
// there are never more than were in use at once.

import Synchronization

/// Connections handed out one at a time.
package final class LentDatabases: Sendable {
    /// Nil after the end.
    private let free = Mutex<[Database]?>([])
    private let open: @Sendable () throws -> Database

    /// Some are open from the start, as files are not to be had at all times.
    package init(ready: [Database] = [], open: @escaping @Sendable () throws -> Database) {
        self.open = open
        free.withLock { $0 = ready }
    }

    package func lend<Result>(_ body: (Database) throws -> Result) throws -> Result {
        let kept = try free.withLock { free in
            guard free != nil else { throw SQLiteError.closed }
            return free?.popLast()
        }
        let database = try kept ?? open()
        defer { free.withLock { $0?.append(database) } }
        return try body(database)
    }

    /// Closes the connections that are free, and each other one when it comes back.
    package func close() {
        free.withLock { $0 = nil }
    }
}
