// SQLiteError: an SQLite error, without bound values.

#if SQLCipher
import CSQLCipher
#else
import CSQLite
#endif

/// A failed SQLite call.
package struct SQLiteError: Error, Sendable, CustomStringConvertible {
    /// The extended result code.
    package var code: Int32
    /// SQLite's message.
    package var message: String
    /// The statement, with placeholders instead of values.
    package var sql: String?

    package init(code: Int32, message: String, sql: String? = nil) {
        self.code = code
        self.message = message
        self.sql = sql
    }

    /// Returns an error for a failure that SQLite does not report itself.
    package static func unexpected(_ message: String) -> SQLiteError {
        SQLiteError(code: SQLITE_ERROR, message: message)
    }

    /// The error of a call that was made after the database was closed.
    package static let closed = SQLiteError(code: SQLITE_MISUSE, message: "closed")

    /// Whether the error means that the database is closed.
    package var isClosed: Bool { primaryCode == SQLITE_MISUSE }

    /// The primary result code.
    package var primaryCode: Int32 { code & 0xFF }

    /// Whether a uniqueness or other constraint rejected the statement.
    package var isConstraint: Bool { primaryCode == SQLITE_CONSTRAINT }

    /// Whether the file is not a database, or is encrypted.
    package var isNotADatabase: Bool { primaryCode == SQLITE_NOTADB }

    /// Whether the statement must write but is not permitted to.
    ///
    /// This includes a read that would first have to roll back an unfinished change.
    package var isReadOnly: Bool { primaryCode == SQLITE_READONLY }

    /// Whether another connection has locked the file or one of its tables.
    package var isBusy: Bool { primaryCode == SQLITE_BUSY || primaryCode == SQLITE_LOCKED }

    /// Whether the file, or a file next to it, could not be opened or created.
    package var isCannotOpen: Bool { primaryCode == SQLITE_CANTOPEN || isNotPermitted }

    /// Whether the system denies this user access to the file.
    package var isNotPermitted: Bool {
        primaryCode == SQLITE_PERM || primaryCode == SQLITE_AUTH
    }

    /// Whether reading or writing the storage failed.
    package var isInputOutput: Bool { primaryCode == SQLITE_IOERR }

    /// Whether the file currently cannot be read or written, for example a protected file on a
    /// locked phone.
    ///
    /// Missing permissions and failing disks have the same codes.
    package var isUnavailable: Bool {
        isCannotOpen || isInputOutput && code != Self.damagedFileSystem
    }

    /// `SQLITE_IOERR_CORRUPTFS`, which Swift does not import.
    private static let damagedFileSystem = SQLITE_IOERR | (33 << 8)

    /// The error of an interrupted statement.
    package static let interrupted = SQLiteError(code: SQLITE_INTERRUPT, message: "interrupted")

    /// Whether the code is SQLITE_ERROR, which means invalid SQL or a failure that only the message
    /// describes.
    package var isGeneric: Bool { primaryCode == SQLITE_ERROR }

    /// Whether a value is longer than SQLite supports.
    package var isTooBig: Bool { primaryCode == SQLITE_TOOBIG }

    /// Whether a `sum` of integers does not fit in 64 bits.
    package var isIntegerOverflow: Bool { isGeneric && message == "integer overflow" }

    /// Whether the disk is full.
    package var isFull: Bool { primaryCode == SQLITE_FULL }

    /// Whether the file is damaged.
    package var isCorrupt: Bool { primaryCode == SQLITE_CORRUPT }

    /// Whether the statement was interrupted.
    package var isInterrupt: Bool { primaryCode == SQLITE_INTERRUPT }

    /// Whether the statement has more parts or deeper nesting than SQLite supports.
    package var isTooComplex: Bool {
        isGeneric
            && ["parser stack overflow", "Expression tree is too large", "too many SQL variables"]
                .contains { message.hasPrefix($0) }
    }

    package var description: String {
        "SQLite error \(code): \(message)" + (sql.map { " in: \($0)" } ?? "")
    }
}
