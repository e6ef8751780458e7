// StorageClass: the declared types of SQLite columns in the file.

import TidelineCore

/// The declared type of a column in the file, which determines which values SQLite stores
/// unchanged.
enum StorageClass: String {
    case text = "TEXT"
    case integer = "INTEGER"
    case real = "REAL"
    case blob = "BLOB"

    init(_ type: ColumnType) {
        self =
            switch type {
            case .string, .decimal, .date, .time, .guid, .json, .enumeration: .text
            case .integer, .boolean, .dateTime: .integer
            case .number: .real
            case .binary: .blob
            }
    }
}
