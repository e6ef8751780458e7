// BackupMarker: the modification time of the file is the time of the backup.
//
// A server reports the time to monitoring. Operators with another backup method may touch the file.

import Foundation

/// The time of a database's last backup, stored with an empty file next to it.
package enum BackupMarker {
    /// Returns the path of the file for a database; symbolic links to one database share a file.
    private static func path(of database: String) -> String {
        guard let resolved = realpath(database, nil) else { return database + "-backup" }
        defer { free(resolved) }
        return String(cString: resolved) + "-backup"
    }

    /// Records that a backup was made; if the folder does not accept the file, the backup is still valid.
    ///
    /// An existing file that is not empty has a different purpose, and may be the backup itself. It is kept, and its
    /// time is reported.
    package static func put(on database: String) {
        let path = path(of: database)
        var status = stat()
        guard lstat(path, &status) != 0 || status.st_size == 0 else { return }
        // A file of another user could not be touched.
        unlink(path)
        let file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o644)
        if file >= 0 { close(file) }
    }

    /// Returns the time of the last backup in seconds since 1970; nil if it is not known.
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
