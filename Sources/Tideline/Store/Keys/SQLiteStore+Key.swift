// SQLiteStore: encrypted files, if the package is built with the `SQLCipher` trait.

#if SQLCipher
import Foundation
import TidelineSQLite

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

extension SQLiteStore {
    /// The encryption key of a store's file.
    ///
    /// Keep the key in the system's storage for secrets. Errors, logs, and the printed description
    /// of a key contain no part of the key.
    public struct Key: Sendable {
        let key: DatabaseKey

        /// Returns a key that is derived from a passphrase.
        ///
        /// The derivation takes a tenth of a second per connection to the file, and a store has
        /// several connections.
        ///
        /// - Throws: ``SyncError`` with code `wrongKey` if the passphrase is empty.
        public static func passphrase(_ text: String) throws -> Key {
            guard !text.isEmpty else { throw SyncError.unusableKey("The passphrase is empty.") }
            return Key(key: DatabaseKey(passphrase: text))
        }

        /// Returns a key of 32 random bytes.
        ///
        /// - Throws: ``SyncError`` with code `wrongKey` if there are more or fewer bytes.
        public static func bytes(_ bytes: [UInt8]) throws -> Key {
            guard bytes.count == DatabaseKey.byteCount else {
                throw SyncError.unusableKey("The key has \(bytes.count) bytes; expected 32.")
            }
            return Key(key: DatabaseKey(bytes: bytes))
        }
    }

    /// Opens an encrypted file, or creates one.
    ///
    /// Everything that the store writes is encrypted: the file, its write-ahead log, and its
    /// journal. In all other respects, the store behaves like a store from ``init(path:)``. Several
    /// processes can open the file with the same key. The article "Encrypted stores" has an
    /// example.
    ///
    /// - Throws: The errors of ``init(path:)``, or ``SyncError`` with code `wrongKey` if the key
    ///   does not open the file or the file is not encrypted. A rejected file is not modified.
    public convenience init(path: String, key: Key) throws {
        try self.init(path: path, inline: false, key: key.key)
    }

    /// Encrypts a file with a different key, encrypts an unencrypted file, or decrypts an encrypted
    /// file.
    ///
    /// A copy is written next to the file and then replaces it, so that a complete file exists at
    /// all times. The contents do not change. The old plaintext is not erased from the disk.
    ///
    /// - Parameters:
    ///   - path: The path of a store that is not open, in this process or in another.
    ///   - old: The current key; nil if the file is not encrypted.
    ///   - new: The new key; nil to decrypt the file.
    /// - Throws: ``SyncError`` with code `wrongKey`, or `storeFailure` if the store is open or the
    ///   disk has too little space for a copy. On an error, the file is unchanged.
    public static func changeKey(path: String, from old: Key?, to new: Key?) throws {
        do {
            guard FileManager.default.fileExists(atPath: path) else {
                throw SyncError.noStoreFile(path)
            }
            try SQLiteStoreSchema.check(path, old?.key)
            let database = try Database(
                path: path,
                key: old?.key,
                mode: .existing,
                busyMilliseconds: 100
            )
            try withExtendedLifetime(database) {
                try database.holdAlone()
                let copy = path + "-rekeyed"
                do {
                    try make(copy, like: path)
                    try database.copy(to: copy, new?.key)
                    try replace(path, by: copy)
                } catch {
                    try? FileManager.default.removeItem(atPath: copy)
                    throw error
                }
            }
        } catch let error as SQLiteError where error.isNotADatabase {
            throw SyncError.wrongKey(path, error)
        } catch let error as SQLiteError {
            throw SyncError.store(error, at: path)
        }
    }

    /// Creates an empty file with the permissions of the store; replaces a file that an interrupted
    /// call left behind.
    private static func make(_ copy: String, like path: String) throws {
        try? FileManager.default.removeItem(atPath: copy)
        let rights = try? FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
        let attributes = rights.map { [FileAttributeKey.posixPermissions: $0] }
        guard FileManager.default.createFile(atPath: copy, contents: nil, attributes: attributes)
        else { throw SQLiteError(code: 14, message: "cannot create a file next to it") }
    }

    /// Replaces the file with the copy, durably.
    private static func replace(_ path: String, by copy: String) throws {
        guard rename(copy, path) == 0 else {
            throw SQLiteError(code: 10, message: "cannot rename the copy: errno \(errno)")
        }
        flushFolder(of: path)
    }
}

/// Waits until the file's directory entry is on the disk.
private func flushFolder(of path: String) {
    let name = (path as NSString).deletingLastPathComponent
    let folder = open(name.isEmpty ? "." : name, O_RDONLY)
    guard folder >= 0 else { return }
    fsync(folder)
    close(folder)
}

extension Database {
    /// Locks the file exclusively, after moving the contents of its log into the file.
    fileprivate func holdAlone() throws {
        try execute("PRAGMA locking_mode = EXCLUSIVE")
        guard try text("PRAGMA journal_mode = DELETE") == "delete" else {
            throw SQLiteError(code: 5, message: "another connection has it open")
        }
        try execute("BEGIN EXCLUSIVE")
        try execute("COMMIT")
    }

    /// Copies all contents of the file to another file, and checks that the copy is complete.
    fileprivate func copy(to path: String, _ key: DatabaseKey?) throws {
        let pragmas = ["application_id", "user_version"]
        let values = try pragmas.map { try integer("PRAGMA \($0)") ?? 0 }
        // An empty key means no encryption; null would mean the key of this connection.
        let attach = try prepareOnce("ATTACH DATABASE ?1 AS other KEY ?2")
        try attach.run([.text(path), key?.sqlValue ?? .text("")])
        try execute("PRAGMA other.synchronous = FULL")
        try execute("SELECT sqlcipher_export('other')")
        for (pragma, value) in zip(pragmas, values) {
            try execute("PRAGMA other.\(pragma) = \(value)")
        }
        try execute("DETACH DATABASE other")
        let copy = try Database(path: path, key: key, mode: .readOnly)
        let count = "SELECT count(*) FROM sqlite_master"
        guard try copy.text("PRAGMA quick_check(1)") == "ok",
            try copy.integer(count) == integer(count)
        else { throw SQLiteError(code: 11, message: "the copy is incomplete") }
    }
}

extension SyncError {
    fileprivate static func unusableKey(_ what: String) -> SyncError {
        SyncError(.wrongKey, "\(what) Pass a passphrase, or 32 random bytes.")
    }
}
#endif
