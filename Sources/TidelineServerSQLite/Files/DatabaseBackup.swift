// DatabaseBackup: a copy of a database while its server runs.
//
// `VACUUM INTO` copies one state of the database in one read transaction, which holds up nobody;
// the log grows meanwhile. The copy is whole or not there: it is made under another name, flushed,
// checked, and only then given its own.

import Foundation
import TidelineCore
import TidelineSQLite
import TidelineServerCore

package struct DatabaseBackup: Sendable {
    let source: String
    let target: String

    package init(of source: String, to target: String) {
        self.source = source
        self.target = target
    }

    /// Makes the copy, readable by its owner only.
    ///
    /// - Returns: Its size in bytes.
    /// - Throws: ``DatabaseError``; there is no file `target` then, or the one that was there.
    package func make() throws -> Int64 {
        try ServerFile(path: source).check()
        try checkTarget()
        let partial = "\(target).partial-\(getpid())"
        try reserve(partial)
        defer { for end in ["", "-journal"] { unlink(partial + end) } }
        try copy(to: partial)
        try flush(partial, isFolder: false)
        try verify(partial)
        try name(partial)
        try flush(folder, isFolder: true)
        return ServerFile.size(of: target) ?? 0
    }

    // MARK: - Steps

    private var folder: String { URL(filePath: target).deletingLastPathComponent().path }

    private func checkTarget() throws {
        for end in ["", "-wal", "-journal"] {
            var status = stat()
            if lstat(target + end, &status) == 0 { throw Self.exists(target + end) }
        }
        guard access(folder, F_OK) == 0 else { throw DatabaseError.noFolder(folder, of: target) }
    }

    private static func exists(_ path: String) -> DatabaseError {
        DatabaseError(
            .exists,
            "'\(path)' exists, and a backup overwrites nothing. Give it another name."
        )
    }

    private func reserve(_ partial: String) throws {
        let file = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw systemError("cannot be made") }
        close(file)
    }

    private func copy(to partial: String) throws {
        let database = try DatabaseError.naming(source) {
            try Database(path: source, mode: .existing)
        }
        do {
            try database.prepare("VACUUM INTO ?1").run([.text(partial)])
        } catch let error as SQLiteError where error.isFull || error.isInputOutput {
            // The source is only read, so what cannot be written is the copy.
            throw error.isFull
                ? DatabaseError.full(target) : DatabaseError(error, path: target)
        } catch let error as SQLiteError {
            throw DatabaseError(error, path: source)
        }
    }

    private func flush(_ path: String, isFolder: Bool) throws {
        let file = open(path, (isFolder ? O_RDONLY : O_RDWR) | O_CLOEXEC)
        guard file >= 0 else { throw systemError("cannot be written") }
        defer { close(file) }
        #if canImport(Darwin)
        if fcntl(file, F_FULLFSYNC) == 0 { return }
        #endif
        // Some file systems flush no folders.
        guard fsync(file) == 0 || isFolder else { throw systemError("cannot be written") }
    }

    private func verify(_ partial: String) throws {
        try DatabaseError.naming(source) {
            let copy = try Database(path: partial, mode: .frozen)
            let statement = try copy.prepare("PRAGMA quick_check")
            defer { statement.reset() }
            guard try statement.step(), statement.text(0) == "ok" else {
                throw DatabaseError.damaged(source)
            }
        }
    }

    /// A link refuses a name that is taken, which a rename would not.
    private func name(_ partial: String) throws {
        if link(partial, target) == 0 { return }
        switch errno {
        case EEXIST: throw Self.exists(target)
        case EPERM, ENOTSUP, ENOSYS, EMLINK:
            try checkTarget()
            guard rename(partial, target) == 0 else { throw systemError("cannot be made") }
        default: throw systemError("cannot be made")
        }
    }

    private func systemError(_ what: String) -> DatabaseError {
        switch errno {
        case ENOSPC, EDQUOT: .full(target)
        case EROFS, EACCES, EPERM: .notPermitted(target, "may not be written")
        default:
            DatabaseError(.unavailable, "'\(target)' \(what): \(String(cString: strerror(errno))).")
        }
    }
}
