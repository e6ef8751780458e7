// InodeLock: locks a file.
//
// The descriptor stays open when the lock is released: closing it would release SQLite's locks on the file in this
// process. It is reused for the next lock of the same file, or closed after the file is deleted. The lock exists only
// on Linux: elsewhere it would conflict with SQLite's own locks.

import Foundation
import Synchronization

/// A lock on a database file itself, which works even if the lock file next to it was removed.
struct InodeLock: Sendable {
    enum Result {
        case taken(InodeLock)
        case inUse
        /// The file does not exist, or the system has no such locks.
        case unknown
    }

    private let descriptor: Int32

    private static let idle = Mutex<[FileNumber: [Int32]]>([:])

    /// Locks the file at the path.
    static func take(_ path: String) -> Result {
        #if os(Linux)
        guard let number = FileNumber(of: path) else { return .unknown }
        let waiting = idle.withLock { $0[number]?.popLast() }
        let file = waiting ?? open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return .unknown }
        if flock(file, LOCK_EX | LOCK_NB) == 0 { return .taken(InodeLock(descriptor: file)) }
        let isInUse = errno == EWOULDBLOCK
        InodeLock(descriptor: file).rest()
        return isInUse ? .inUse : .unknown
        #else
        return .unknown
        #endif
    }

    func release() {
        flock(descriptor, LOCK_UN)
        rest()
    }

    private func rest() {
        Self.idle.withLock { idle in
            for (number, files) in idle where Self.isDeleted(files.first) {
                for file in files { close(file) }
                idle[number] = nil
            }
            guard let number = FileNumber(of: descriptor) else { return }
            idle[number, default: []].append(descriptor)
        }
    }

    private static func isDeleted(_ file: Int32?) -> Bool {
        var status = stat()
        guard let file, fstat(file, &status) == 0 else { return false }
        return status.st_nlink == 0
    }
}
