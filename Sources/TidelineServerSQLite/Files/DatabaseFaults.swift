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
                "'\(path)' is locked by another program. Let that one finish, then try again."
            )
        case _ where error.isReadOnly: self = .readOnly(path)
        case _ where error.isNotPermitted: self = .notPermitted(path, "may not be opened")
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
                '\(path)' cannot be read or written (I/O error \(error.code)). Check the disk: \
                whether it is full, whether the system reports faults of it.
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
            There is no file '\(path)', but a '\(path).restoring': a restore was cut short. Run \
            'tideline restore FILE' with the same backup again.
            """
        )
    }

    static func missing(_ path: String) -> DatabaseError {
        DatabaseError(.missing, "There is no file '\(path)'.")
    }

    static func noFolder(_ folder: String, of path: String) -> DatabaseError {
        DatabaseError(
            .missing,
            "The folder of '\(path)' does not exist. Make it first: mkdir -p '\(folder)'"
        )
    }

    static func isFolder(_ path: String) -> DatabaseError {
        DatabaseError(.foreign, "'\(path)' is a folder; the name of a file is expected.")
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
            '\(path)' is read-only for this process. The file and its folder have to be writable, \
            and so has their file system.
            """
        )
    }

    static func inUse(_ path: String, by process: String) -> DatabaseError {
        DatabaseError(
            .inUse,
            """
            '\(path)' is in use by another server\(process). Stop that one first, or give this \
            one a database of its own.
            """
        )
    }

    static func notADatabase(_ path: String) -> DatabaseError {
        DatabaseError(
            .foreign,
            "'\(path)' is not an SQLite database. Give a database of this server, or a new file."
        )
    }

    static func foreign(_ path: String) -> DatabaseError {
        DatabaseError(
            .foreign,
            """
            '\(path)' is a database of another program: this server did not make it, and leaves \
            it alone. Give a database of this server, or a new file.
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
            "'\(path)' is not an SQLite database, or it is an encrypted store, which only its app reads."
        )
    }

    static func isStore(_ path: String) -> DatabaseError {
        DatabaseError(
            .foreign,
            """
            '\(path)' is the local store of a client, not the database of a server. Give a \
            database of this server, or a new file.
            """
        )
    }

    static func newer(_ path: String, found: Int64, known: Int64) -> DatabaseError {
        DatabaseError(
            .newerFormat,
            """
            '\(path)' is of format \(found), which a newer server made; this one knows up to \
            \(known). Install the newer server. The file was not changed.
            """
        )
    }

    static func staleLog(_ path: String) -> DatabaseError {
        DatabaseError(
            .staleLog,
            """
            '\(path)-wal' belongs to another database that had this name, and would damage this \
            one. Move '\(path)-wal' and '\(path)-shm' away, then try again.
            """
        )
    }

    static func blank(_ path: String) -> DatabaseError {
        DatabaseError(
            .damaged,
            """
            '\(path)' has no tables of a server. Where it was copied without its log, '\(path)-wal', \
            everything is in that: copy it, too. A server that is started with a new file makes them.
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
            "The disk of '\(path)' is full. Make room, then try again."
        )
    }
}
