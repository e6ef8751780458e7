// DatabaseKey: the encryption key of a database file, used with SQLCipher (trait `SQLCipher`).

import Foundation
package import TidelineCore

#if SQLCipher
import CSQLCipher
#endif

/// A database key: a passphrase, or 32 bytes that are the key itself.
package struct DatabaseKey: Hashable, Sendable {
    /// The key in SQLCipher's format: a passphrase, or bytes as a blob literal.
    fileprivate let bytes: [UInt8]

    package init(passphrase: String) { bytes = Array(passphrase.utf8) }

    /// - Precondition: There are 32 bytes.
    package init(bytes: [UInt8]) {
        precondition(bytes.count == Self.byteCount, "a key has 32 bytes")
        self.bytes =
            Array("x'".utf8) + bytes.flatMap { [Self.digit($0 >> 4), Self.digit($0 & 15)] }
            + Array("'".utf8)
    }

    package static let byteCount = 32

    private static func digit(_ value: UInt8) -> UInt8 { (value < 10 ? 48 : 87) + value }

    /// The key as a bound value, because error messages would show a key in the SQL.
    package var sqlValue: SQLValue { .blob(Data(bytes)) }
}

/// A description that contains no part of the key, even if a value that contains the key is passed
/// to `dump`.
extension DatabaseKey: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "a key" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}

#if SQLCipher
extension DatabaseKey {
    /// Sets the key, which must be the first operation on the handle; the first read shows whether
    /// the key is correct.
    func apply(to handle: OpaquePointer) throws {
        let code = sqlite3_key(handle, bytes, Int32(bytes.count))
        guard code == SQLITE_OK else {
            throw SQLiteError(code: code, message: "cannot set the encryption key")
        }
    }
}
#else
extension DatabaseKey {
    func apply(to handle: OpaquePointer) throws {
        throw SQLiteError.unexpected("encrypted files need the package trait 'SQLCipher'")
    }
}
#endif
