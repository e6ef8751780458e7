// MemoryTable: converts rows between the columns of a table and the stored ones.

import Foundation
import TidelineCore
import TidelineServerCore

/// The values that are derived from a table for the in-memory backend.
struct MemoryTable: Sendable {
    let table: Table
    /// The name in lower case, which is the key of the table in the state.
    let key: String
    let log: LogRules
    /// Whether replaced rows are stored for merges.
    let keepsBases: Bool
    /// The names of the columns in lower case.
    let names: [String]

    init(_ table: Table) {
        self.table = table
        key = table.name.lowercased()
        log = LogRules(table)
        keepsBases = table.definition.conflict == .merge
        names = table.columns.map { $0.name.lowercased() }
    }

    /// Returns a stored row with the columns of this table.
    func image(_ row: MemoryRow) -> RowImage {
        RowImage(
            id: row.id,
            values: names.map { row.values[$0] ?? .null },
            createdAt: row.createdAt,
            updatedAt: row.timestamp,
            version: row.timestamp,
            isDeleted: row.isDeleted
        )
    }

    /// Returns the row to store, in which `values` are those of other columns.
    func row(_ image: RowImage, over values: [String: SQLValue] = [:]) -> MemoryRow {
        MemoryRow(
            id: image.id,
            values: values.merging(zip(names, image.values)) { $1 },
            createdAt: image.createdAt,
            timestamp: image.version,
            isDeleted: image.isDeleted
        )
    }

    /// Returns the values that a row had by column; nil for a column that it lacked.
    func base(_ row: MemoryRow) -> [SQLValue?] { names.map { row.values[$0] } }
}

/// A stored row.
struct MemoryRow: Sendable {
    var id: String
    /// The values by column name in lower case, so that each schema version of the table finds its columns.
    var values: [String: SQLValue]
    var createdAt: Int64
    /// The commit timestamp of the last write, which is the version, too.
    var timestamp: Int64
    var isDeleted: Bool

    /// The key of a row with this id.
    ///
    /// Ids are compared by their bytes, as in a database; Swift treats some different strings as equal.
    static func key(_ id: String) -> [UInt8] { Array(id.utf8) }
}

extension SQLValue {
    /// The value with a string as its bytes, for comparisons as in a database.
    var exact: SQLValue { if case .text(let text) = self { .blob(Data(text.utf8)) } else { self } }
}
