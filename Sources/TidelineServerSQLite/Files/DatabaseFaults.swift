// DatabaseFaults: converts the errors of SQLite and the system about a file to messages for an operator.

import Foundation
package import TidelineSQLite
package import TidelineServerCore

extension DatabaseError {
    /// Converts the error of a call of SQLite on this file.
    package init(_ error: SQLiteError, path: String) {
        switch error {
        case _ where error.isBusy:
            self.init(
                .inUse,
                "'\(path)' is locked by another program. Wait until that program finishes, then try again."
            )
        case _ where error.isReadOnly: self = .readOnly(path)
        case _ where error.isNotPermitted: self = .notPermitted(path, "cannot be opened")
        case _ where error.isCorrupt: self = .damaged(path)
        case _ where error.isFull: self = .full(path)
        case _ where error.isNotADatabase: self = .notADatabase(path)
        case _ where error.isCannotOpen:
            self.init(
                .unavailable,
                "'\(path)' cannot be opened. Check the file, its folder and their permissions."
            )
        case _ where error.isInputOutput:
            self.init(
                .unavailable,
                """
                '\(path)' cannot be read or written (I/O error \(error.code)). Check whether \
                the disk is full and whether the system reports disk errors.
                """
            )
        default:
            self.init(
                .unavailable,
                "'\(path)' cannot be used (SQLite result \(error.code))."
            )
        }
    }

    /// Runs `body`, and converts SQLite's errors to errors that contain the path.
    static func naming<Result>(_ path: String, _ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as SQLiteError {
            throw DatabaseError(error, path: path)
        }
    }

    static func halfRestored(_ path: String) -> DatabaseError {
        DatabaseError(
            .missing,
            """
            The file '\(path)' does not exist, but '\(path).restoring' does: a restore was interrupted. Run \
            'tideline restore FILE' with the same backup again.
            """
        )
    }

    static func missing(_ path: String) -> DatabaseError {
        DatabaseError(.missing, "The file '\(path)' does not exist.")
    }

    static func noFolder(_ folder: String, of path: String) -> DatabaseError {
        DatabaseError(
            .missing,
            "The folder of '\(path)' does not exist. Create it first: mkdir -p '\(folder)'"
        )
    }

    static func isFolder(_ path: String) -> DatabaseError {
        DatabaseError(.foreign, "'\(path)' is a folder. Use the path of a file.")
    }

    static func notAFile(_ path: String) -> DatabaseError {
        DatabaseError(.foreign, "'\(path)' is a device, pipe or socket, not a file.")
    }

    static func notPermitted(_ path: String, _ what: String) -> DatabaseError {
        DatabaseError(
            .notPermitted,
            "'\(path)' \(what) by this user. Change the owner or the permissions of the file."
        )
    }

    static func readOnly(_ path: String) -> DatabaseError {
        DatabaseError(
            .notPermitted,
            """
            '\(path)' is read-only for this process. Make the file, its folder and their file system \
            writable.
            """
        )
    }

    static func inUse(_ path: String, by process: String) -> DatabaseError {
        DatabaseError(
            .inUse,
            """
            '\(path)' is in use by another server\(process). Stop that server first, or give this \
            server its own database.
            """
        )
    }

    static func notADatabase(_ path: String) -> DatabaseError {
        DatabaseError(
            .foreign,
            "'\(path)' is not an SQLite database. Use a database of a Tideline server, or a new file."
        )
    }

    static func foreign(_ path: String) -> DatabaseError {
        DatabaseError(
            .foreign,
            """
            '\(path)' was not created by a Tideline server, so it is not changed. Use a database of a \
            Tideline server, or a new file.
            """
        )
    }

    static func unknown(_ path: String) -> DatabaseError {
        DatabaseError(
            .foreign,
            "'\(path)' is neither the database of a server nor the store of a device."
        )
    }

    static func unreadable(_ path: String) -> DatabaseError {
        DatabaseError(
            .foreign,
            "'\(path)' is not an SQLite database, or it is an encrypted store, which only its app can read."
        )
    }

    static func isStore(_ path: String) -> DatabaseError {
        DatabaseError(
            .foreign,
            """
            '\(path)' is the local store of a client, not the database of a server. Use a \
            database of a Tideline server, or a new file.
            """
        )
    }

    static func newer(_ path: String, found: Int64, known: Int64) -> DatabaseError {
        DatabaseError(
            .newerFormat,
            """
            '\(path)' was created by a newer server (format \(found), supported up to \(known)). Install \
            the newer server. The file was not changed.
            """
        )
    }

    static func staleLog(_ path: String) -> DatabaseError {
        DatabaseError(
            .staleLog,
            """
            '\(path)-wal' belongs to another database that had this name, and would damage this \
            database. Move '\(path)-wal' and '\(path)-shm' away, then try again.
            """
        )
    }

    static func blank(_ path: String) -> DatabaseError {
        DatabaseError(
            .damaged,
            """
            '\(path)' has no tables of a server. If it was copied without its log, '\(path)-wal', copy \
            the log as well, because it contains the tables. For a new database, start the server with \
            a new file.
            """
        )
    }

    static func damaged(_ path: String) -> DatabaseError {
        DatabaseError(
            .damaged,
            """
            '\(path)' is damaged. Keep a copy of it, and restore a backup \
            (docs/operations/back-up-and-restore.md).
            """
        )
    }

    static func full(_ path: String) -> DatabaseError {
        DatabaseError(
            .full,
            "The disk of '\(path)' is full. Free space on it, then try again."
        )
    }
}
