// SQLiteStoreErrors: the error messages about a store's file, with instructions on how to fix the
// problem.
//
// SQLite's own text, including its statement, is in the cause and never in the message.

import Foundation
import TidelineSQLite

extension SyncError {
    /// Returns the error for a failure of SQLite in a store's file.
    ///
    /// If `isOpening` is true, the path may also be one where no file can be created.
    static func store(
        _ cause: SQLiteError,
        at path: String,
        isOpening: Bool = false
    ) -> SyncError {
        let passes = cause.isUnavailable && (!isOpening || isUsable(path))
        return SyncError(
            passes ? .storeUnavailable : .storeFailure,
            message(cause, path),
            cause: cause
        )
    }

    /// Returns whether a file exists in a writable folder.
    private static func isUsable(_ path: String) -> Bool {
        guard FileManager.default.fileExists(atPath: path) else { return false }
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
        return faccessat(AT_FDCWD, folder, W_OK, AT_EACCESS) == 0
    }

    /// Whether the disk has too little space for the change; a smaller change may still fit.
    var isFullDisk: Bool { (cause as? SQLiteError)?.isFull ?? false }

    private static func message(_ error: SQLiteError, _ path: String) -> String {
        if error.isClosed {
            return "The store at \(path) is closed. Create a new one, and call initialize with it."
        }
        if error.isNotADatabase {
            return """
                The file at \(path) is not a SQLite database, or it is encrypted. Pass its key or \
                another path. The file was not changed.
                """
        }
        if error.isReadOnly {
            return """
                The store at \(path) cannot be written: the file or its folder is read-only. Allow \
                the app to write both, or use another path.
                """
        }
        if error.isBusy {
            return """
                The store at \(path) is locked by another program. End that program, or try again \
                later.
                """
        }
        if error.isUnavailable {
            return """
                The store at \(path) cannot be \(error.isCannotOpen ? "opened or created" : "read or written") \
                right now. Nothing is lost. On a locked phone, wait until it is unlocked and try again. \
                Otherwise check the disk and the app's permissions for the file and its folder.
                """
        }
        if error.isFull {
            return
                "There is no disk space left for the store at \(path). Free some space, then try again."
        }
        if error.isCorrupt {
            return """
                The store at \(path) is damaged. Restore a copy of it, or use another path and \
                pull again. Pending changes are in the damaged file only.
                """
        }
        return "The store at \(path) failed. See the 'cause' of this error."
    }

    static func wrongKey(_ path: String, _ cause: SQLiteError) -> SyncError {
        SyncError(
            .wrongKey,
            """
            The key does not open the store at \(path), or the file is damaged or not encrypted. \
            Pass the key that it was created with. The file was not changed.
            """,
            cause: cause
        )
    }

    /// The SQLite library lacks a function that the upgrade of an older file requires.
    static let olderStore = SyncError(
        .storeFailure,
        """
        The store file has an older format, which this SQLCipher cannot read. Open it once with a \
        build without the trait 'SQLCipher'. Nothing in it is lost.
        """
    )

    /// A column in the file does not match the model, because another program changed the file
    /// while the store was open.
    static func movedColumn(_ column: String, _ table: String) -> SyncError {
        SyncError(
            .storeFailure,
            """
            Column '\(column)' of '\(table)' has changed: another program that has the file open \
            gave it another type, or removed it. Create a new store, call initialize with it, and \
            declare the column with the same type in all programs that use the file.
            """
        )
    }

    static func emptyStorePath() -> SyncError {
        SyncError(
            .storeFailure,
            "The path of the store is empty. Pass the path of a file, such as 'todo.sqlite'."
        )
    }

    static func storeIsFolder(_ path: String) -> SyncError {
        SyncError(
            .storeFailure,
            "\(path) is a folder, but a store is a file. Pass the path of a file in it."
        )
    }

    static func noStoreFile(_ path: String) -> SyncError {
        SyncError(
            .storeFailure,
            "There is no file at \(path). Pass the path of the store whose key to change."
        )
    }

    static func noStoreFolder(_ folder: String, _ path: String) -> SyncError {
        SyncError(
            .storeFailure,
            "The folder '\(folder)' of the store at \(path) does not exist. Create it first."
        )
    }

    static func notAStore(_ path: String, isServer: Bool) -> SyncError {
        let what =
            isServer ? "the database of a tideline server" : "the database of another program"
        return SyncError(
            .storeFailure,
            """
            The file at \(path) is \(what), not the store of an app. Use another path. The file \
            was not changed.
            """
        )
    }

    static func newerStore(found: Int64, known: Int64) -> SyncError {
        SyncError(
            .newerStore,
            """
            The store file was written by a newer version: it has format \(found), and this version \
            supports up to \(known). Update the app. The file was not changed.
            """
        )
    }
}
