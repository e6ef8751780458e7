// AppendFileRecord: the lines of an AppendFileStore as Codable values.

import Foundation
import Tideline

/// A line of an ``AppendFileStore``: the changes of a transaction, in order.
struct AppendFileRecord: Codable, Sendable {
    /// A change to a table.
    struct Change: Codable, Sendable {
        var table: String
        var put: [StoredRow] = []
        var deleted: [StoredValue] = []

        static func put(_ rows: [Row], in table: String) -> Change {
            Change(table: table, put: rows.map(StoredRow.init))
        }

        static func delete(_ ids: [Value], in table: String) -> Change {
            Change(table: table, deleted: ids.map(StoredValue.init))
        }

        var count: Int { put.count + deleted.count }

        func rows() throws -> [Row] { try put.map { try $0.row() } }

        func ids() throws -> [Value] { try deleted.map { try $0.value() } }
    }

    /// A row as two lists, because two column names can be equal as Swift strings and still have
    /// different bytes.
    struct StoredRow: Codable, Sendable {
        var names: [String]
        var values: [StoredValue]

        init(_ row: Row) {
            names = row.names
            values = row.names.map { StoredValue(row[$0] ?? .null) }
        }

        func row() throws -> Row {
            var row = Row()
            for (name, value) in zip(names, values) { row[name] = try value.value() }
            return row
        }
    }

    /// A value in a format that JSON represents exactly.
    enum StoredValue: Codable, Sendable {
        case null
        case bool(Bool)
        case integer(Int64)
        case number(Double)
        case decimal(String)
        case text(String)
        case instant(Date)
        case bytes(Data)
        case document(String)

        init(_ value: Value) {
            self =
                switch value {
                case .null: .null
                case .bool(let value): .bool(value)
                case .integer(let value): .integer(value)
                case .number(let value): .number(value)
                case .decimal(let value): .decimal(value.description)
                case .string(let value): .text(value)
                case .date(let value): .instant(value)
                case .data(let value): .bytes(value)
                case .json(let value): .document(value.text)
                }
        }

        func value() throws -> Value {
            switch self {
            case .null: return .null
            case .bool(let value): return .bool(value)
            case .integer(let value): return .integer(value)
            case .number(let value): return .number(value)
            case .decimal(let text):
                guard let value = Decimal(string: text) else {
                    throw CocoaError(.coderInvalidValue)
                }
                return .decimal(value)
            case .text(let value): return .string(value)
            case .instant(let value): return .date(value)
            case .bytes(let value): return .data(value)
            case .document(let text): return .json(try JSON(text))
            }
        }
    }

    var changes: [Change]

    init(_ changes: [Change]) { self.changes = changes }
}
