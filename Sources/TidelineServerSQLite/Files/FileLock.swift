// FileLock: one server for each database file.
//
// The lock is one of the system on a file beside the database, so it ends with the process, however
// that ends. The database itself is not locked so: closing a second descriptor of it would take
// away SQLite's own locks. The lock file stays: removing it could let two servers in at once.

import Foundation
import Synchronization
import TidelineServerCore

/// A lock that is held until `release`, or until it is forgotten.
final class FileLock: Sendable {
    private let descriptor: Mutex<Int32>

    /// How many links to a file that is not there are followed.
    private static let linksMax = 8

    /// The lock file of a database; symbolic links to one file have one.
    static func path(of database: String) -> String {
        if let resolved = realpath(database, nil) {
            defer { free(resolved) }
            return String(cString: resolved) + "-lock"
        }
        // The file is not there yet; links may lead to where it will be.
        var file = URL(filePath: database)
        for _ in 0..<linksMax {
            guard
                let target = try? FileManager.default.destinationOfSymbolicLink(atPath: file.path)
            else { break }
            file = URL(filePath: target, relativeTo: file.deletingLastPathComponent())
        }
        guard let folder = realpath(file.deletingLastPathComponent().path, nil) else {
            return file.path + "-lock"
        }
        defer { free(folder) }
        return String(cString: folder) + "/" + file.lastPathComponent + "-lock"
    }

    /// Locks the database file for a server.
    ///
    /// - Throws: ``DatabaseError`` with code `inUse`, or `notPermitted`.
    init(database: String) throws(DatabaseError) {
        let path = Self.path(of: database)
        var file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o644)
        // Another user made it: its lock can be taken all the same.
        if file < 0, errno == EACCES { file = open(path, O_RDONLY | O_CLOEXEC) }
        guard file >= 0 else {
            switch errno {
            case ENOSPC, EDQUOT: throw .full(database)
            case EROFS, EACCES, EPERM: throw .readOnly(database)
            default: throw .notPermitted(path, "may not be opened")
            }
        }
        if flock(file, LOCK_EX | LOCK_NB) != 0, errno == EWOULDBLOCK {
            let process = Self.process(in: file)
            close(file)
            throw .inUse(database, by: process)
        }
        // File systems without locks have to be trusted.
        let text = "\(getpid())\n"
        if ftruncate(file, 0) == 0 { _ = write(file, text, text.utf8.count) }
        descriptor = Mutex(file)
    }

    deinit { release() }

    /// Lets others have the file; nothing when it was done before.
    func release() {
        descriptor.withLock { descriptor in
            guard descriptor >= 0 else { return }
            // A process that is just being started may have a copy of the descriptor for a moment.
            flock(descriptor, LOCK_UN)
            close(descriptor)
            descriptor = -1
        }
    }

    /// ` (process 1234)`, or nothing when the file does not say.
    private static func process(in file: Int32) -> String {
        var bytes = [UInt8](repeating: 0, count: 16)
        let count = pread(file, &bytes, bytes.count, 0)
        guard count > 0,
            let number = Int(
                String(decoding: bytes.prefix(count), as: UTF8.self)
                    .trimmingCharacters(in: .whitespacesAndNewlines)
            )
        else { return "" }
        return " (process \(number))"
    }
}
