// DatabaseRestore: restores a database.
//
// The copy is created under another name and gets a new epoch before it gets its final name. The old files are moved
// aside and never deleted. The renames happen in this order:
//
//     PATH -> PATH.lost-…, PATH-wal -> PATH.lost-…-wal, PATH.restoring -> PATH
//
// So an interrupted restore leaves the database, or the backup, or no PATH but PATH.restoring, in which case no
// server creates a new database (ServerFile). It never leaves a file with the log of another one.

import Foundation
import TidelineCore
import TidelineSQLite
import TidelineServerCore

/// The replacement of a lost database by a backup.
package struct DatabaseRestore: Sendable {
    package struct Result: Sendable {
        /// The epoch of the database after the restore.
        package var epoch: String
        /// The path that the old database was moved to; nil if there was none.
        package var former: String?
    }

    let backup: String
    let target: String

    package init(of backup: String, to target: String) {
        self.backup = backup
        self.target = target
    }

    /// Returns whether a file is a server's database without its log, and not a backup, so that the contents of
    /// the log are missing.
    package static func mayLackItsLog(_ path: String) -> Bool {
        let header = try? DatabaseHeader(path: path)
        return header?.isWAL == true && ServerFile.size(of: path + "-wal") ?? 0 == 0
    }

    /// Restores the backup.
    ///
    /// - Parameter now: The time in seconds since 1970, for the names of the files that are moved aside.
    /// - Returns: The new epoch, and the path of the old database.
    /// - Throws: ``DatabaseError``; the old database is then unchanged.
    package func make(now: Int64) throws -> Result {
        guard !Self.isSame(backup, target) else {
            throw DatabaseError(
                .exists,
                "'\(backup)' is the database itself. Name the file of a backup."
            )
        }
        let copy = Self.copy(of: target)
        guard !Self.isSame(backup, copy) else {
            throw DatabaseError(
                .exists,
                "'\(backup)' is the temporary file of a restore and would be overwritten. Rename it first."
            )
        }
        try ServerFile(path: backup).check()
        // A database that is damaged, or of another program, is moved aside as well; it only must not be in use.
        let lock = try FileLock(database: target)
        defer { lock.release() }
        let wasCutShort = access(copy, F_OK) == 0
        remove(copy)
        let epoch: String
        do {
            _ = try DatabaseBackup(of: backup, to: copy).make()
            epoch = try renewEpoch(of: copy)
        } catch {
            remove(copy)
            throw error
        }
        keepOwner(of: target, on: copy)
        let former = try replace(by: copy, now, goesOn: wasCutShort)
        // The epoch is new, so no history has to be compared.
        lock.note(nil)
        try DatabaseBackup.flushFolder(of: target)
        return Result(epoch: epoch, former: former)
    }

    /// Returns the name under which the copy is created.
    static func copy(of path: String) -> String { path + ".restoring" }

    private func remove(_ copy: String) {
        for end in Self.ends { unlink(copy + end) }
        // The maintenance of the copy has a lock of its own.
        unlink(FileLock.path(of: copy))
    }

    /// Renews the epoch of the copy, and closes it, which moves its log into it.
    ///
    /// If that fails, so does the restore, because the old epoch would still apply.
    private func renewEpoch(of copy: String) throws -> String {
        let epoch = try DatabaseMaintenance(path: copy).renewEpoch()
        unlink(FileLock.path(of: copy))
        let stored = try DatabaseError.naming(copy) {
            let file = try Database(path: copy, mode: .frozen)
            let statement = try file.prepare(ServerSchema.readEpoch)
            defer { statement.reset() }
            return try statement.step() ? statement.text(0) : ""
        }
        guard stored == epoch, ServerFile.size(of: copy + "-wal") ?? 0 == 0 else {
            throw DatabaseError(
                .unavailable,
                "'\(copy)' cannot be written completely. Check the disk, then try again."
            )
        }
        return epoch
    }

    private static let ends = ["", "-wal", "-shm", "-journal"]

    private static func isSame(_ one: String, _ other: String) -> Bool {
        var (first, second) = (stat(), stat())
        guard stat(one, &first) == 0, stat(other, &second) == 0 else { return false }
        return first.st_dev == second.st_dev && first.st_ino == second.st_ino
    }

    /// Gives the copy the owner of the old file, because the server's user must be able to write it.
    private func keepOwner(of path: String, on copy: String) {
        var status = stat()
        let folder = URL(filePath: path).deletingLastPathComponent().path
        guard stat(path, &status) == 0 || stat(folder, &status) == 0 else { return }
        // Only the superuser may change owners, and for other users the copy has the right owner already.
        _ = chown(copy, status.st_uid, status.st_gid)
    }

    /// Moves the old files aside, the database first, and renames the copy to the target; undoes this if a step fails.
    ///
    /// `goesOn` is true if an earlier restore was interrupted, possibly within these steps.
    ///
    /// - Returns: The new path of the old database.
    /// - Throws: ``DatabaseError``
    private func replace(by copy: String, _ now: Int64, goesOn: Bool) throws -> String? {
        let found = Self.ends.filter { access(target + $0, F_OK) == 0 }
        let earlier = goesOn ? formerOfAnother(found) : nil
        let former = found.isEmpty ? nil : earlier ?? freeName(now)
        var steps = former.map { former in found.map { (target + $0, former + $0) } } ?? []
        steps.append((copy, target))
        var done: [(String, String)] = []
        for (index, (name, next)) in steps.enumerated() {
            // The moved files keep their new names even after a crash, before other files get the old names.
            if index == steps.count - 1 { try? DatabaseBackup.flushFolder(of: target) }
            if rename(name, next) == 0 {
                done.append((name, next))
                continue
            }
            let fault = String(cString: strerror(errno))
            let isUndone = done.reversed().allSatisfy { rename($0.1, $0.0) == 0 }
            if isUndone { remove(copy) }
            throw DatabaseError(
                .unavailable,
                "'\(name)' cannot be renamed: \(fault). "
                    + (isUndone
                        ? "The database was not changed."
                        : "The old database is now '\(former ?? target)' and cannot be moved back.")
            )
        }
        return former
    }

    private func freeName(_ now: Int64) -> String {
        let name = target + ".lost-\(now)"
        var former = name
        var number = 1
        while Self.ends.contains(where: { access(former + $0, F_OK) == 0 }) {
            number += 1
            former = name + "-\(number)"
        }
        return former
    }

    /// Returns the path to which an interrupted restore moved the database, if it had not yet moved the other files.
    private func formerOfAnother(_ found: [String]) -> String? {
        guard !found.contains("") else { return nil }
        let place = URL(filePath: target)
        let folder = place.deletingLastPathComponent().path
        let prefix = place.lastPathComponent + ".lost-"
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        let moved = names.filter { name in
            name.hasPrefix(prefix)
                && name.dropFirst(prefix.count).allSatisfy {
                    $0.isASCII && $0.isNumber || $0 == "-"
                }
        }
        .map { target + $0.dropFirst(place.lastPathComponent.count) }
        // It is the one that was renamed last.
        let last = moved.max { Self.renamed($0) < Self.renamed($1) }
        guard let last, !found.contains(where: { access(last + $0, F_OK) == 0 }) else { return nil }
        return last
    }

    /// Returns when the name of a file last changed, in nanoseconds.
    private static func renamed(_ path: String) -> Int64 {
        var status = stat()
        guard stat(path, &status) == 0 else { return 0 }
        #if canImport(Darwin)
        let time = status.st_ctimespec
        #else
        let time = status.st_ctim
        #endif
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
