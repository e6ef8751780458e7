// DatabaseRestore: a backup in the place of a database that was lost.
//
// The copy is made under another name, with a new epoch, so that it never has its own name without
// one. What was there is moved aside and never deleted.

import Foundation
import TidelineCore
import TidelineSQLite
import TidelineServerCore

package struct DatabaseRestore: Sendable {
    package struct Result: Sendable {
        /// What lists carry from now on.
        package var epoch: String
        /// Where the database went that was there; nil when there was none.
        package var former: String?
    }

    let backup: String
    let target: String

    package init(of backup: String, to target: String) {
        self.backup = backup
        self.target = target
    }

    /// Puts the backup in place.
    ///
    /// - Parameter now: Names what is moved aside, in seconds since 1970.
    /// - Returns: The new epoch, and what was moved aside.
    /// - Throws: ``DatabaseError``; what was there is there still then, under its name or, where only
    ///   the last step failed, under the other one.
    package func make(now: Int64) throws -> Result {
        guard !Self.isSame(backup, target) else {
            throw DatabaseError(
                .exists,
                "'\(backup)' is the database itself. Name the file of a backup."
            )
        }
        try ServerFile(path: backup).check()
        try checkBackupHasContent()
        // A database that is damaged, or of others, is moved aside as well: only its server matters.
        let lock = try FileLock(database: target)
        defer { lock.release() }
        let copy = target + ".restoring"
        for end in Self.ends { unlink(copy + end) }
        _ = try DatabaseBackup(of: backup, to: copy).make()
        let epoch = try DatabaseCare(path: copy).renewEpoch()
        // The care of the copy had a lock of its own.
        unlink(FileLock.path(of: copy))
        keepOwner(of: target, on: copy)
        let former = try moveAside(now)
        guard rename(copy, target) == 0 else { throw failure(target) }
        try DatabaseBackup.flushFolder(of: target)
        return Result(epoch: epoch, former: former)
    }

    private static let ends = ["", "-wal", "-shm", "-journal"]

    private static func isSame(_ one: String, _ other: String) -> Bool {
        var (first, second) = (stat(), stat())
        guard stat(one, &first) == 0, stat(other, &second) == 0 else { return false }
        return first.st_dev == second.st_dev && first.st_ino == second.st_ino
    }

    /// An empty file is a database to SQLite, and a backup to nobody.
    private func checkBackupHasContent() throws {
        guard ServerFile.size(of: backup) ?? 0 > 0 else {
            throw DatabaseError(.damaged, "'\(backup)' is empty, and no backup.")
        }
    }

    /// The server's user has to write it, whoever restores it.
    private func keepOwner(of path: String, on copy: String) {
        var status = stat()
        let folder = URL(filePath: path).deletingLastPathComponent().path
        guard stat(path, &status) == 0 || stat(folder, &status) == 0 else { return }
        // Only the system's own user may give files away, and to others it is theirs already.
        _ = chown(copy, status.st_uid, status.st_gid)
    }

    /// The database first: a log without it is refused by whoever finds it.
    private func moveAside(_ now: Int64) throws -> String? {
        let found = Self.ends.filter { access(target + $0, F_OK) == 0 }
        guard !found.isEmpty else { return nil }
        let name = target + ".lost-\(now)"
        var former = name
        var number = 1
        while Self.ends.contains(where: { access(former + $0, F_OK) == 0 }) {
            number += 1
            former = name + "-\(number)"
        }
        for end in found {
            guard rename(target + end, former + end) == 0 else { throw failure(target + end) }
        }
        return former
    }

    private func failure(_ path: String) -> DatabaseError {
        DatabaseError(
            .unavailable,
            "'\(path)' cannot be renamed: \(String(cString: strerror(errno)))."
        )
    }
}
