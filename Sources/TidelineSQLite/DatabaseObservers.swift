// DatabaseObservers: observers of a connection's commits and of the rows that it writes.

import Foundation

/// The kind of a checkpoint.
package enum CheckpointMode: String, Sendable {
    /// Copies as much as possible while other connections read and write.
    case passive = "PASSIVE"
    /// Copies everything, so that the next commit writes to the start of the log; writers wait.
    case restart = "RESTART"
    /// Like `restart`, and also truncates the log to zero bytes.
    case truncate = "TRUNCATE"
}

/// An observer of a connection's commits, which receives the length of the write-ahead log.
final class LogObserver: Sendable {
    let observe: @Sendable (Int) -> Void

    init(_ observe: @escaping @Sendable (Int) -> Void) { self.observe = observe }
}

/// An observer of the tables that a connection writes; it must live as long as the connection.
package final class TableWriteObserver {
    private var tables: Set<String> = []
    /// The table of the last row, so that a page of rows creates the table's string only once.
    private var last: [CChar] = []

    private let ignoredPrefix: [CChar]

    /// Tables whose names begin with `prefix` are not reported.
    package init(ignoringPrefix prefix: String = "") {
        ignoredPrefix = prefix.utf8CString.dropLast()
    }

    func wrote(_ table: UnsafePointer<CChar>) {
        if !ignoredPrefix.isEmpty, strncmp(table, ignoredPrefix, ignoredPrefix.count) == 0 {
            return
        }
        if !last.isEmpty, strcmp(table, last) == 0 { return }
        last = Array(UnsafeBufferPointer(start: table, count: strlen(table) + 1))
        tables.insert(String(cString: table))
    }

    /// Returns the tables that were written since the last call.
    package func take() -> Set<String> {
        defer {
            tables.removeAll()
            last.removeAll()
        }
        return tables
    }
}
