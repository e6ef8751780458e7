// ServerFile: checks and locks a file.
//
// A rejected file is not changed: the check uses connections that write nothing, and a file that is not open in
// another process is read without creating SQLite's files next to it.

import Foundation
import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The file of a server's database, which is checked before it is opened.
struct ServerFile {
    let path: String

    /// Checks the file and locks it.
    ///
    /// - Parameters:
    ///   - mayBeNew: Whether the file may be missing; it is created in this case.
    ///   - mayBeBlank: Whether the file may exist without tables; nil to use `mayBeNew`.
    /// - Returns: The lock.
    /// - Throws: ``DatabaseError``; the file is unchanged.
    func lock(mayBeNew: Bool, mayBeBlank: Bool? = nil) throws -> FileLock {
        try checkLocation(mayBeNew: mayBeNew)
        // A server that has the file open may be writing to it now. Files of other programs get no lock file.
        let isKnown = access(FileLock.path(of: path), F_OK) == 0
        let lock = isKnown ? try FileLock(database: path) : nil
        try checkContent(mayBeBlank: mayBeBlank ?? mayBeNew)
        guard access(path, F_OK) != 0 || access(path, W_OK) == 0 else {
            throw DatabaseError.readOnly(path)
        }
        // This is checked after the lock is taken, because a restore may be in progress.
        if access(path, F_OK) != 0, wasBeingRestored { throw DatabaseError.halfRestored(path) }
        let fileLock = try lock ?? FileLock(database: path)
        if access(path, F_OK) != 0 {
            makePrivate()
            try fileLock.holdFile(path)
        }
        return fileLock
    }

    /// Creates an empty file that only its owner may read; SQLite gives its log the same permissions.
    private func makePrivate() {
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        // SQLite reports a failure when it opens the file.
        if file >= 0 { close(file) }
    }

    /// Rejects an existing file that is not a server's database; a server may have the file open.
    func check(mayBeBlank: Bool = false) throws {
        try checkLocation(mayBeNew: false)
        try checkContent(mayBeBlank: mayBeBlank)
    }

    // MARK: - Parts

    /// Whether a restore was begun but not completed; a completed one leaves no copy.
    private var wasBeingRestored: Bool { access(DatabaseRestore.copy(of: path), F_OK) == 0 }

    /// Performs the checks that do not read the file.
    private func checkLocation(mayBeNew: Bool) throws {
        var status = stat()
        guard stat(path, &status) != 0 else {
            switch status.st_mode & S_IFMT {
            case S_IFREG: break
            case S_IFDIR: throw DatabaseError.isFolder(path)
            default: throw DatabaseError.notAFile(path)
            }
            guard access(path, R_OK) == 0 else {
                throw DatabaseError.notPermitted(path, "cannot be read")
            }
            return
        }
        let isMissing = errno == ENOENT
        let folder = URL(filePath: path).deletingLastPathComponent().path
        guard access(folder, F_OK) == 0 else {
            throw DatabaseError.noFolder(folder, of: path)
        }
        guard isMissing else { throw DatabaseError.notPermitted(path, "cannot be opened") }
        guard mayBeNew else {
            throw wasBeingRestored ? DatabaseError.halfRestored(path) : DatabaseError.missing(path)
        }
        guard access(folder, W_OK) == 0 else { throw DatabaseError.readOnly(path) }
    }

    /// Checks the contents.
    ///
    /// A file without tables may be new, or its tables may be in a missing log.
    private func checkContent(mayBeBlank: Bool) throws {
        let hasLog = (Self.size(of: path + "-wal") ?? 0) > 0
        guard let size = Self.size(of: path), size > 0 else {
            if hasLog {
                throw wasBeingRestored
                    ? DatabaseError.halfRestored(path) : DatabaseError.staleLog(path)
            }
            guard mayBeBlank else { throw DatabaseError.blank(path) }
            return
        }
        try DatabaseError.naming(path) {
            let header = try DatabaseHeader(path: path)
            guard header.isDatabase else { throw DatabaseError.notADatabase(path) }
            // A file is switched to WAL mode before its first log is created.
            guard header.isWAL || !hasLog else { throw DatabaseError.staleLog(path) }
            let isBlank = try checkOwner(try inspect(hasLog: hasLog))
            guard mayBeBlank || !isBlank else { throw DatabaseError.blank(path) }
        }
    }

    private func inspect(hasLog: Bool) throws -> Database {
        let isClosed = !hasLog && Self.size(of: path + "-journal") == nil
        if isClosed { return try Database(path: path, mode: .frozen) }
        do {
            return try Database(path: path, mode: .readOnly)
        } catch let error as SQLiteError where error.isReadOnly {
            // A server that was killed while it created the file left a journal that only a writer can roll back.
            return try Database(path: path, mode: .existing)
        }
    }

    /// - Returns: Whether the database is still empty.
    private func checkOwner(_ database: Database) throws -> Bool {
        let owner = try database.integer("PRAGMA application_id") ?? 0
        let version = try database.integer("PRAGMA user_version") ?? 0
        let queue = try database.integer(ServerSchema.hasTable, [.text("MS_TableOperations")])
        if owner == Self.storeID || queue != 0 { throw DatabaseError.isStore(path) }
        if owner != ServerSchema.applicationID {
            guard owner == 0 else { throw DatabaseError.foreign(path) }
            // Files before storage format 3 have no application id.
            if try database.integer(ServerSchema.hasTable, [.text("tideline_tables")]) == 0 {
                let hasTables = try database.integer("SELECT count(*) FROM sqlite_master") != 0
                if hasTables || version != 0 { throw DatabaseError.foreign(path) }
                return true
            }
        }
        guard version <= ServerSchema.formatVersion else {
            throw DatabaseError.newer(path, found: version, known: ServerSchema.formatVersion)
        }
        return false
    }

    /// The application id of a client's store.
    private static let storeID: Int64 = 0x5449_4445

    static func size(of path: String) -> Int64? {
        var status = stat()
        return stat(path, &status) == 0 ? Int64(status.st_size) : nil
    }
}
