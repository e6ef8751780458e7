// DatabaseHeader: the first bytes of a database file, which show how to open the file.
//
// The header is read through SQLite's own file handle. Closing a separate descriptor would release
// the locks that other connections of this process hold on the file.

#if SQLCipher
import CSQLCipher
#else
import CSQLite
#endif

/// The contents of an SQLite file's header; in WAL mode, the log may contain newer values.
package struct DatabaseHeader: Hashable, Sendable {
    /// Whether the file begins with SQLite's signature.
    package var isDatabase: Bool
    /// Whether the file is in WAL mode.
    package var isWAL: Bool
    /// The size of the database in bytes; 0 for an empty file.
    package var bytes: Int64

    /// Reads the header without changing the file or its folder.
    package init(path: String) throws {
        var pointer: OpaquePointer?
        let flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX
        let code = sqlite3_open_v2(path, &pointer, flags, nil)
        defer { sqlite3_close_v2(pointer) }
        guard code == SQLITE_OK, let pointer else {
            throw SQLiteError(code: code, message: "cannot open")
        }
        var file: UnsafeMutablePointer<sqlite3_file>?
        sqlite3_file_control(pointer, "main", SQLITE_FCNTL_FILE_POINTER, &file)
        var bytes = [UInt8](repeating: 0, count: Self.size)
        guard let file, let read = file.pointee.pMethods?.pointee.xRead else {
            throw SQLiteError(code: SQLITE_CANTOPEN, message: "cannot read")
        }
        let result = read(file, &bytes, Int32(Self.size), 0)
        guard result == SQLITE_OK || result == Self.shortRead else {
            throw SQLiteError(code: result, message: "cannot read")
        }
        isDatabase = bytes.starts(with: Self.magic)
        isWAL = bytes[18] == 2
        let pageBytes = Int64(bytes[16]) << 8 | Int64(bytes[17])
        // The value 1 stands for 65,536, which does not fit in two bytes.
        self.bytes = (pageBytes == 1 ? 65_536 : pageBytes) * Self.integer(bytes[28..<32])
    }

    private static func integer(_ bytes: ArraySlice<UInt8>) -> Int64 {
        bytes.reduce(0) { $0 << 8 | Int64($1) }
    }

    private static let size = 100
    private static let magic = Array("SQLite format 3\0".utf8)
    /// SQLITE_IOERR_SHORT_READ: the file is shorter than the requested range, and the remaining
    /// bytes are zero.
    private static let shortRead = SQLITE_IOERR | 2 << 8
}

extension Database.Mode {
    var flags: Int32 {
        switch self {
        case .readWrite: SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
        case .existing, .writer: SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX
        case .readOnly: SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX
        case .frozen: SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI
        }
    }

    func name(of path: String) -> String {
        guard self == .frozen else { return path }
        var name = path.hasPrefix("/") ? "file://" : "file:"
        for byte in path.utf8 {
            if byte < 0x80, !"?#%".utf8.contains(byte) {
                name.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                name += (byte < 16 ? "%0" : "%") + String(byte, radix: 16)
            }
        }
        return name + "?immutable=1"
    }
}
