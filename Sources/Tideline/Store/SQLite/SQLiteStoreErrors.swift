// SQLiteStoreErrors: the error messages about the file of a store, with how to fix them.
//
// The text of SQLite, with its statement, is in the cause and never in the message.

import Foundation
import TidelineSQLite

extension SyncError {
    /// Returns the error for a failure of SQLite in the file of a store.
    ///
    /// If `isOpening` is true, the path may also be one at which no file can be created.
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

    /// Whether the store has too little space for the change; a smaller one may fit.
    var isFullDisk: Bool { (cause as? SQLiteError)?.isFull ?? false }

    private static func message(_ error: SQLiteError, _ path: String) -> String {
        if error.isClosed {
            return "The store at \(path) is closed. Make another one, and initialize with it."
        }
        if error.isNotADatabase {
            return """
                The file at \(path) is not a SQLite database, or it is encrypted. Give its key or \
                another path; the file was left untouched.
                """
        }
        if error.isReadOnly {
            return """
                The store at \(path) cannot be written: the file or its folder is read-only. Give \
                the app the right to write both, or another path.
                """
        }
        if error.isBusy {
            return """
                The store at \(path) is locked by another program. End that program, or try again \
                when it is done.
                """
        }
        if error.isUnavailable {
            return """
                The store at \(path) cannot be \(error.isCannotOpen ? "opened or made" : "read or written") \
                at this moment. On a locked phone, wait until it is unlocked and try again: nothing is \
                lost. Elsewhere check the app's right to read and write the file and its folder, and the disk.
                """
        }
        if error.isFull {
            return "There is no space left for the store at \(path). Free some, then try again."
        }
        if error.isCorrupt {
            return """
                The store at \(path) is damaged. Put a copy of it back, or give another path and \
                pull anew; changes that were not pushed are in the damaged file only.
                """
        }
        return "The store at \(path) failed. The 'cause' of this error says how."
    }

    static func wrongKey(_ path: String, _ cause: SQLiteError) -> SyncError {
        SyncError(
            .wrongKey,
            """
            The key does not open the store at \(path), or the file is damaged or not encrypted. \
            Give the key that it was made with; the file was left untouched.
            """,
            cause: cause
        )
    }

    /// The SQLite library lacks a function that is needed to upgrade an older file.
    static let olderStore = SyncError(
        .storeFailure,
        """
        The store file has an older format, which this SQLCipher cannot read. Open it once in a \
        build without the trait 'SQLCipher'; all that it holds is still there.
        """
    )

    /// A column of the file does not match the model, because another program changed the file after the store
    /// was opened.
    static func movedColumn(_ column: String, _ table: String) -> SyncError {
        SyncError(
            .storeFailure,
            """
            Column '\(column)' of '\(table)' is not as this store made it: another program that has \
            the file open gave it another type, or removed it. Make another store and initialize \
            with it; give the column the same type wherever the file is used.
            """
        )
    }

    static func emptyStorePath() -> SyncError {
        SyncError(
            .storeFailure,
            "The path of the store is empty. Give the path of a file, such as 'todo.sqlite'."
        )
    }

    static func storeIsFolder(_ path: String) -> SyncError {
        SyncError(
            .storeFailure,
            "A folder is at \(path), and a store is a file. Give the path of a file in it."
        )
    }

    static func noStoreFile(_ path: String) -> SyncError {
        SyncError(
            .storeFailure,
            "There is no file at \(path). Give the path of the store whose key is to change."
        )
    }

    static func noStoreFolder(_ folder: String, _ path: String) -> SyncError {
        SyncError(
            .storeFailure,
            "There is no folder '\(folder)' for the store at \(path). Make it first."
        )
    }

    static func foreignFile(_ path: String, isServer: Bool) -> SyncError {
        let what =
            isServer ? "the database of a tideline server" : "the database of another program"
        return SyncError(
            .storeFailure,
            """
            The file at \(path) is \(what), not the store of an app. Give another path; the file \
            was left untouched.
            """
        )
    }

    static func newerStore(found: Int64, known: Int64) -> SyncError {
        SyncError(
            .newerStore,
            """
            The store file has format \(found), this version of the library knows \(known). \
            Update the app; the file was left untouched.
            """
        )
    }
}
