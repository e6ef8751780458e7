// DatabaseKey: the key that a database file is encrypted with, if SQLCipher is used (trait
// `SQLCipher`).

import Foundation
package import TidelineCore

#if SQLCipher
import CSQLCipher
#endif

/// A passphrase, or 32 bytes that are the key itself.
package struct DatabaseKey: Hashable, Sendable {
    /// The key in SQLCipher's format: a passphrase, or bytes as the literal of a blob.
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

    /// The key as a bound value, because a key in the SQL would appear in error messages.
    package var sqlValue: SQLValue { .blob(Data(bytes)) }
}

/// A description that contains no part of the key, not even in `dump` of a value that contains one.
extension DatabaseKey: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "a key" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}

#if SQLCipher
extension DatabaseKey {
    /// Sets the key, before anything else is done with the handle; the first read shows whether the key is
    /// right.
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
