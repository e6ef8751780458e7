// PostgresName: names of tables, logs and indexes.

import TidelineCore

/// The names of the server's own objects in a PostgreSQL database.
enum PostgresName {
    /// The maximum length of a name, in bytes; PostgreSQL truncates longer ones.
    static let bytesMax = 63

    /// The maximum length of a table's name; the objects that the server creates for it have six more letters.
    private static let tableBytesMax = bytesMax - 6

    static func quoted(_ name: String) -> String { Identifier(name).quoted }

    /// Returns the name of a table's change log; names of tables contain no dots.
    static func log(_ table: String) -> String { "tideline.\(quoted("log.\(table)"))" }

    /// Returns the name of an index, which contains its columns, so that a changed index has a different name.
    static func index(_ table: String, _ columns: [String]) -> String {
        let text = ([table] + columns).joined(separator: ".")
        let digits = SHA256.hash(text.utf8).prefix(8).map { byte in
            (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
        return prefix + digits.joined()
    }

    /// The prefix of the server's indexes and triggers, which no declared name has.
    static let prefix = "tideline_"

    /// Returns why a table with this declaration is not possible in PostgreSQL; nil if it is possible.
    static func fault(of table: TableSchema) -> String? {
        // The name of the log is longer.
        if "log.\(table.name)".utf8.count > bytesMax {
            return
                "Table '\(table.name)': PostgreSQL allows at most \(bytesMax - 4) characters in its name."
        }
        let long = table.columns.first { $0.name.utf8.count > bytesMax }
        return long.map { column in
            "Table '\(table.name)', column '\(column.name)': PostgreSQL allows at most "
                + "\(bytesMax) characters in its name."
        }
    }
}
