// BackupMark: when a database was last backed up: the time of an empty file beside it.
//
// A server tells it to who watches. Whoever makes backups by other means may touch the file.

import Foundation

package enum BackupMark {
    /// The file of a database; symbolic links to one database have one.
    private static func path(of database: String) -> String {
        guard let resolved = realpath(database, nil) else { return database + "-backup" }
        defer { free(resolved) }
        return String(cString: resolved) + "-backup"
    }

    /// Notes that a backup was made; a folder that takes no file is no reason against the backup.
    ///
    /// A file of that name with something in it is somebody's own, maybe the backup itself: it stays, and
    /// its time is told.
    package static func put(on database: String) {
        let path = path(of: database)
        var status = stat()
        guard lstat(path, &status) != 0 || status.st_size == 0 else { return }
        // Another user's file could not be touched.
        unlink(path)
        let file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o644)
        if file >= 0 { close(file) }
    }

    /// When the last backup was made, in seconds since 1970; nil where that is not known.
    package static func time(of database: String) -> Int? {
        var status = stat()
        guard stat(path(of: database), &status) == 0 else { return nil }
        #if canImport(Darwin)
        return Int(status.st_mtimespec.tv_sec)
        #else
        return Int(status.st_mtim.tv_sec)
        #endif
    }
}
