// DatabaseObservers: observers of a connection's commits and of the rows that it writes.

import Foundation

/// The way in which a checkpoint copies the write-ahead log.
package enum CheckpointMode: String, Sendable {
    /// Copies as much as possible while other connections read and write.
    case passive = "PASSIVE"
    /// Copies all of it, so that the next commit begins at its start; writers wait.
    case restart = "RESTART"
    /// Does the same, and then truncates the log to zero bytes.
    case truncate = "TRUNCATE"
}

final class LogObserver: Sendable {
    let observe: @Sendable (Int) -> Void

    init(_ observe: @escaping @Sendable (Int) -> Void) { self.observe = observe }
}

/// The tables that were written since the last call of `take()`; it must live as long as its connection.
package final class TableWriteObserver {
    private var tables: Set<String> = []
    /// The table of the last row, so that a page of rows creates its name only once.
    private var last: [CChar] = []

    package init() {}

    func wrote(_ table: UnsafePointer<CChar>) {
        if !last.isEmpty, strcmp(table, last) == 0 { return }
        last = Array(UnsafeBufferPointer(start: table, count: strlen(table) + 1))
        tables.insert(String(cString: table))
    }

    /// Returns the tables written since the last call.
    package func take() -> Set<String> {
        defer {
            tables.removeAll()
            last.removeAll()
        }
        return tables
    }
}
