// FileFault: a fault of a running server's file, as messages for its operator and its callers.

import TidelineCore
import TidelineServerCore

/// The reason why a server no longer writes to its file.
enum FileFault: Hashable, Sendable {
    case missing(String)
    case replaced(String)
    case truncated(String)
    case locked(String)
    case damaged(String)

    var code: ErrorCode {
        switch self {
        case .missing: .databaseMissing
        case .replaced: .databaseReplaced
        case .truncated: .databaseTruncated
        case .locked: .databaseLockMissing
        case .damaged: .databaseDamaged
        }
    }

    /// A description of the fault, without file names.
    private var reason: String {
        switch self {
        case .missing: "The database file or its log was moved or deleted."
        case .replaced: "The database file was replaced."
        case .truncated: "The database file or its log was truncated."
        case .locked: "The lock file of the database was removed or replaced."
        case .damaged: "The database file is damaged."
        }
    }

    /// The response to a caller, without the path.
    var rejection: ServerError {
        ServerError(
            503,
            "\(reason) Writes are disabled until the operator repairs this and restarts the server. The "
                + "server's log contains the steps.",
            headers: ["Retry-After": "60"],
            code: code
        )
    }

    /// The steps for the operator.
    var remedy: String {
        switch self {
        case .missing(let file):
            "Stop the server, move '\(file)' back with its -wal and -shm files, and start the server. If it "
                + "was deleted, restore a backup: tideline restore FILE"
        case .replaced(let file):
            "'\(file)' is not the file that the server opened. Stop the server, move it and its -wal and -shm "
                + "files away, then restore the right file: tideline restore FILE"
        case .truncated(let file):
            "'\(file)' is shorter than when the server last wrote it. Stop the server, keep a copy of the files, and "
                + "restore a backup: tideline restore FILE"
        case .locked(let file):
            "'\(file)' is not the file that the server locked. Stop all servers of this database, then start "
                + "one. Do not remove the lock file"
        case .damaged(let file):
            "'\(file)' is damaged. Stop the server, keep a copy of the file with its -wal, and restore a "
                + "backup: tideline restore FILE"
        }
    }
}
