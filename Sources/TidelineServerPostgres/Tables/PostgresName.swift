// PostgresName: names of the server's own things in a PostgreSQL database.

import TidelineCore

enum PostgresName {
    /// The longest name that PostgreSQL does not cut.
    static let bytesMax = 63

    /// The same for a table: the objects that the server creates for it have six letters more.
    private static let tableBytesMax = bytesMax - 6

    static func quoted(_ name: String) -> String { Identifier(name).quoted }

    /// The table that keeps rows as they were; no name of a table has a point.
    static func log(_ table: String) -> String { "tideline.\(quoted("log.\(table)"))" }

    /// The name of an index, made of what it holds, so that a changed one has another name.
    static func index(_ table: String, _ columns: [String]) -> String {
        let text = ([table] + columns).joined(separator: ".")
        let digits = SHA256.hash(text.utf8).prefix(8).map { byte in
            (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
        return prefix + digits.joined()
    }

    /// How the names of the server's indexes and triggers begin; no declared name begins so.
    static let prefix = "tideline_"

    /// Why PostgreSQL cannot have a table as it is declared; nil when it can.
    static func fault(of table: TableSchema) -> String? {
        // The log has more letters.
        if "log.\(table.name)".utf8.count > bytesMax {
            return
                "Table '\(table.name)': PostgreSQL allows \(bytesMax - 4) characters in its name."
        }
        let long = table.columns.first { $0.name.utf8.count > bytesMax }
        return long.map { column in
            "Table '\(table.name)', column '\(column.name)': PostgreSQL allows \(bytesMax) "
                + "characters in its name."
        }
    }
}
