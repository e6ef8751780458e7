// DatabaseBackup: backs up a database.
//
// `VACUUM INTO` copies one state of the database in one read transaction, which blocks no other connection; the log
// grows in the meantime. The copy is complete or absent: it is created under another name, flushed, checked, and only
// then renamed.

import Foundation
import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// A copy of a database, made while its server runs.
package struct DatabaseBackup: Sendable {
    let source: String
    let target: String

    package init(of source: String, to target: String) {
        self.source = source
        self.target = target
    }

    /// Creates the copy, which only its owner may read.
    ///
    /// - Returns: Its size in bytes.
    /// - Throws: ``DatabaseError``; the file `target` is not changed.
    package func make() throws -> Int64 {
        try ServerFile(path: source).check()
        try checkTarget()
        removeAbandoned()
        let partial = partialPrefix + String(getpid())
        let lock = try reserve(partial)
        defer {
            Self.remove(partial)
            // A process that is being started may have a copy of the descriptor for a moment.
            flock(lock, LOCK_UN)
            close(lock)
        }
        try copy(to: partial)
        try flagAsBackup(partial)
        try flush(partial)
        try verify(partial)
        try name(partial)
        try Self.flushFolder(of: target)
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
            "'\(path)' already exists, and a backup never overwrites a file. Choose another name."
        )
    }

    /// Creates the copy's file, and locks it until it is closed or this process ends.
    private func reserve(_ partial: String) throws -> Int32 {
        let file = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw systemError("cannot be created") }
        // File systems without locks have to be trusted.
        _ = flock(file, LOCK_EX | LOCK_NB)
        return file
    }

    private var partialPrefix: String { target + ".partial-" }

    /// Removes incomplete copies of killed backups to the same target, whose locks are free.
    private func removeAbandoned() {
        let name = URL(filePath: partialPrefix).lastPathComponent
        let files = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        for file in files where file.hasPrefix(name) {
            // The journal, which SQLite creates next to it, has no lock of its own.
            let number = file.dropFirst(name.count).prefix { $0 != "-" }
            guard !number.isEmpty, number.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
                continue
            }
            Self.removeUnlocked(folder + "/" + name + number)
        }
    }

    private static func removeUnlocked(_ partial: String) {
        let file = open(partial, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard file >= 0 else {
            if errno == ENOENT { remove(partial) }
            return
        }
        if flock(file, LOCK_EX | LOCK_NB) == 0 { remove(partial) }
        flock(file, LOCK_UN)
        close(file)
    }

    private static func remove(_ partial: String) {
        for end in ["", "-journal"] { unlink(partial + end) }
    }

    private func copy(to partial: String) throws {
        let database = try DatabaseError.naming(source) {
            let database = try Database(path: source, mode: .existing)
            try SchemaChange.rejectPartialCopy(database)
            return database
        }
        do {
            try database.prepare("VACUUM INTO ?1").run([.text(partial)])
        } catch let error as SQLiteError where error.isFull || error.isInputOutput {
            // The source is only read, so a write error is about the copy.
            throw error.isFull
                ? DatabaseError.full(target) : DatabaseError(error, path: target)
        } catch let error as SQLiteError {
            throw DatabaseError(error, path: source)
        }
    }

    /// Marks the copy as a backup, in case a server is started with it without a restore.
    private func flagAsBackup(_ partial: String) throws {
        try DatabaseError.naming(target) {
            let copy = try Database(path: partial, mode: .existing)
            guard try copy.integer(ServerSchema.hasTable, [.text("tideline_tables")]) != 0 else {
                return
            }
            try copy.transaction {
                try FileIdentity.remove(copy)
                try FileIdentity(name: FileIdentity.backup, inode: 0).put(copy)
            }
        }
    }

    private func flush(_ path: String) throws {
        let file = open(path, O_RDWR | O_CLOEXEC)
        guard file >= 0 else { throw systemError("cannot be written") }
        defer { close(file) }
        #if canImport(Darwin)
        if fcntl(file, F_FULLFSYNC) == 0 { return }
        #endif
        guard fsync(file) == 0 else { throw systemError("cannot be written") }
    }

    /// Makes the name of a file durable; some file systems do not flush folders.
    static func flushFolder(of path: String) throws {
        let folder = URL(filePath: path).deletingLastPathComponent().path
        let file = open(folder, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { throw DatabaseError.noFolder(folder, of: path) }
        _ = fsync(file)
        close(file)
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

    /// Gives the copy its name with a link, which, unlike a rename, fails if the name exists.
    private func name(_ partial: String) throws {
        if link(partial, target) == 0 { return }
        switch errno {
        case EEXIST: throw Self.exists(target)
        case EPERM, ENOTSUP, ENOSYS, EMLINK:
            try checkTarget()
            guard rename(partial, target) == 0 else { throw systemError("cannot be created") }
        default: throw systemError("cannot be created")
        }
    }

    private func systemError(_ what: String) -> DatabaseError {
        switch errno {
        case ENOSPC, EDQUOT: .full(target)
        case EROFS, EACCES, EPERM: .notPermitted(target, "cannot be written")
        default:
            DatabaseError(.unavailable, "'\(target)' \(what): \(String(cString: strerror(errno))).")
        }
    }
}
