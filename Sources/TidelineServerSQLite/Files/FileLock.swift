// FileLock: lets only one server use each database file.
//
// The lock is a system lock on a file next to the database, so it ends with the process, even after a crash. The
// database itself is not locked this way, because closing a second descriptor of it would release SQLite's own locks.
// The lock file stays after the server ends; a running server stops writing if it is removed. It also identifies the
// database (FileRecord).

import Foundation
import Synchronization
import TidelineServerCore

/// A lock that is held until `release`, or until the object is deallocated.
final class FileLock: Sendable {
    private let descriptor: Mutex<Int32>
    private let holder = Mutex(InodeLock?.none)
    /// The lock file.
    let path: String
    /// The device and inode numbers of the locked file.
    let number: FileNumber?
    /// The record of the database when it was locked; nil if the lock file cannot be written.
    let record: FileRecord?
    /// Whether the lock file can be written.
    let isWritable: Bool

    /// The maximum number of links to a missing file that are followed.
    private static let linksMax = 8

    /// Returns the path of the lock file of a database; symbolic links to one file share it.
    static func path(of database: String) -> String {
        if let resolved = realpath(database, nil) {
            defer { free(resolved) }
            return String(cString: resolved) + "-lock"
        }
        // If the file does not exist yet, links may point to its future location.
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
        // If another user created the file, this process can still lock it.
        if file < 0, errno == EACCES { file = open(path, O_RDONLY | O_CLOEXEC) }
        guard file >= 0 else {
            switch errno {
            case ENOSPC, EDQUOT: throw .full(database)
            case EROFS, EACCES, EPERM: throw .readOnly(database)
            default: throw .notPermitted(path, "cannot be opened")
            }
        }
        if flock(file, LOCK_EX | LOCK_NB) != 0, errno == EWOULDBLOCK {
            let process = Self.process(in: file)
            close(file)
            throw .inUse(database, by: process)
        }
        // File systems without locks have to be trusted.
        self.path = path
        number = FileNumber(of: file)
        let lines = Self.text(in: file).split(separator: "\n", omittingEmptySubsequences: false)
        let record = lines.count > 1 ? FileRecord(lines[1]) : nil
        let isWritten = Self.put(record, in: file)
        self.record = isWritten ? record : nil
        isWritable = isWritten
        descriptor = Mutex(file)
        try holdFile(database)
    }

    /// Locks the database file itself, if it exists, because the lock file may have been removed under a server.
    ///
    /// - Throws: ``DatabaseError`` with code `inUse`.
    func holdFile(_ database: String) throws(DatabaseError) {
        guard holder.withLock({ $0 == nil }) else { return }
        switch InodeLock.take(database) {
        case .taken(let lock): holder.withLock { $0 = lock }
        case .inUse:
            release()
            throw .inUse(database, by: "")
        case .unknown: break
        }
    }

    /// Writes the record of the database; nil removes the record.
    func note(_ record: FileRecord?) {
        descriptor.withLock { descriptor in
            guard descriptor >= 0 else { return }
            _ = Self.put(record, in: descriptor)
        }
    }

    private static func put(_ record: FileRecord?, in file: Int32) -> Bool {
        let text = "\(getpid())\n" + (record.map { $0.text + "\n" } ?? "")
        let count = text.utf8.count
        return pwrite(file, text, count, 0) == count && ftruncate(file, off_t(count)) == 0
    }

    private static func text(in file: Int32) -> String {
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = pread(file, &bytes, bytes.count, 0)
        return String(decoding: bytes.prefix(max(count, 0)), as: UTF8.self)
    }

    deinit { release() }

    /// Releases the file; does nothing if it is already released.
    func release() {
        holder.withLock { holder in
            holder?.release()
            holder = nil
        }
        descriptor.withLock { descriptor in
            guard descriptor >= 0 else { return }
            // A process that is being started may have a copy of the descriptor for a moment.
            flock(descriptor, LOCK_UN)
            close(descriptor)
            descriptor = -1
        }
    }

    /// Returns ` (process 1234)`, or an empty string if the file does not contain the process ID.
    private static func process(in file: Int32) -> String {
        guard let line = text(in: file).split(separator: "\n").first,
            let number = Int(line.trimmingCharacters(in: .whitespaces))
        else { return "" }
        return " (process \(number))"
    }
}
