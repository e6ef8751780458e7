// SQLiteStore: encrypted files, where the package is built with the trait `SQLCipher`.

#if SQLCipher
import Foundation
import TidelineSQLite

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

extension SQLiteStore {
    /// What the file of a store is encrypted with.
    ///
    /// Keep it where the system keeps secrets. Nothing of it is in an error, in a log or in what is
    /// printed of it.
    public struct Key: Sendable {
        let key: DatabaseKey

        /// A passphrase, from which the key is made: that takes a tenth of a second for each
        /// connection to the file, of which a store has several.
        ///
        /// - Throws: ``SyncError`` with code `wrongKey` where it is empty.
        public static func passphrase(_ text: String) throws -> Key {
            guard !text.isEmpty else { throw SyncError.unusableKey("The passphrase is empty.") }
            return Key(key: DatabaseKey(passphrase: text))
        }

        /// 32 bytes by chance, which are the key.
        ///
        /// - Throws: ``SyncError`` with code `wrongKey` where there are more or less.
        public static func bytes(_ bytes: [UInt8]) throws -> Key {
            guard bytes.count == DatabaseKey.byteCount else {
                throw SyncError.unusableKey("The key has \(bytes.count) bytes in place of 32.")
            }
            return Key(key: DatabaseKey(bytes: bytes))
        }
    }

    /// Opens an encrypted file, or makes it.
    ///
    /// All that the store writes is encrypted: the file, the log and the journal beside it. It is the
    /// store of ``init(path:)`` in all else, and several processes may have it open with its key.
    /// The article "Encrypted stores" has an example.
    ///
    /// - Throws: ``SyncError`` as ``init(path:)`` does, and with code `wrongKey` when the key does not
    ///   open the file or the file is not encrypted. A file that is refused is left untouched.
    public convenience init(path: String, key: Key) throws {
        try self.init(path: path, inline: false, key: key.key)
    }

    /// Encrypts a file with another key, encrypts a plain one, or makes a plain one of it.
    ///
    /// A copy is written beside the file and then takes its place: whatever happens, one of the two is
    /// there whole. Rows, queue and all else stay as they are. What a plain file left on the disk is
    /// not wiped.
    ///
    /// - Parameters:
    ///   - path: A store that nobody has open, in this process or in another.
    ///   - old: What it is encrypted with; nil: it is not.
    ///   - new: What it is encrypted with from now on; nil: it is not.
    /// - Throws: ``SyncError`` with code `wrongKey`, or `storeFailure` when somebody has it open or the
    ///   disk has no room for a copy. The file is as it was then.
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

    /// Makes an empty file, in place of one that an app left that was ended here, with the rights of
    /// the store.
    private static func make(_ copy: String, like path: String) throws {
        try? FileManager.default.removeItem(atPath: copy)
        let rights = try? FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
        let attributes = rights.map { [FileAttributeKey.posixPermissions: $0] }
        guard FileManager.default.createFile(atPath: copy, contents: nil, attributes: attributes)
        else { throw SQLiteError(code: 14, message: "no file can be made beside it") }
    }

    /// Puts the copy in the file's place, so that it is there after a loss of power.
    private static func replace(_ path: String, by copy: String) throws {
        guard rename(copy, path) == 0 else {
            throw SQLiteError(code: 10, message: "cannot rename the copy: errno \(errno)")
        }
        flushFolder(of: path)
    }
}

/// Waits until the names in a file's folder are on the disk.
private func flushFolder(of path: String) {
    let name = (path as NSString).deletingLastPathComponent
    let folder = open(name.isEmpty ? "." : name, O_RDONLY)
    guard folder >= 0 else { return }
    fsync(folder)
    close(folder)
}

extension Database {
    /// Takes the file for this connection alone, all of its log in it.
    fileprivate func holdAlone() throws {
        try execute("PRAGMA locking_mode = EXCLUSIVE")
        guard try text("PRAGMA journal_mode = DELETE") == "delete" else {
            throw SQLiteError(code: 5, message: "somebody has it open")
        }
        try execute("BEGIN EXCLUSIVE")
        try execute("COMMIT")
    }

    /// Writes all that is in the file to another one, and looks whether that is whole.
    fileprivate func copy(to path: String, _ key: DatabaseKey?) throws {
        let marks = ["application_id", "user_version"]
        let values = try marks.map { try integer("PRAGMA \($0)") ?? 0 }
        // An empty key is none; null would be the key of this connection.
        let attach = try prepareOnce("ATTACH DATABASE ?1 AS other KEY ?2")
        try attach.run([.text(path), key?.sqlValue ?? .text("")])
        try execute("PRAGMA other.synchronous = FULL")
        try execute("SELECT sqlcipher_export('other')")
        for (mark, value) in zip(marks, values) {
            try execute("PRAGMA other.\(mark) = \(value)")
        }
        try execute("DETACH DATABASE other")
        let copy = try Database(path: path, key: key, mode: .readOnly)
        let count = "SELECT count(*) FROM sqlite_master"
        guard try copy.text("PRAGMA quick_check(1)") == "ok",
            try copy.integer(count) == integer(count)
        else { throw SQLiteError(code: 11, message: "the copy is not whole") }
    }
}

extension SyncError {
    fileprivate static func unusableKey(_ what: String) -> SyncError {
        SyncError(.wrongKey, "\(what) Give a passphrase, or 32 bytes by chance.")
    }
}
#endif
