// StoredValue: a column's value as a database keeps it.
//
// Text: string, decimal (canonical), date, time, guid, json, enum. Integer: integer, boolean (0
// and 1), dateTime (microseconds since 1970). Real: number. Bytes: binary.

import Foundation
import TidelineCore

package enum StoredValue: Hashable, Sendable {
    case null
    case integer(Int64)
    case real(Double)
    case text(String)
    case bytes([UInt8])

    /// The stored form of a checked value of a column of this type.
    package init(_ value: Value, type: ColumnType) {
        switch value {
        case .null: self = .null
        case .bool(let value): self = .integer(value ? 1 : 0)
        case .integer(let value):
            self = type == .number ? .real(Double(value)) : .integer(value)
        case .number(let value): self = .real(value)
        case .decimal(let value): self = .text(DecimalText.canonical(value))
        case .string(let value): self = .text(value)
        case .date(let value): self = .integer(Timestamp(value).microseconds)
        case .data(let value): self = .bytes(Array(value))
        case .json(let value): self = .text(value.text)
        }
    }
}

extension ColumnDefinition {
    /// What an absent member becomes.
    package var storedDefault: StoredValue {
        if let defaultValue { return StoredValue(defaultValue, type: type) }
        return isNullable ? .null : StoredValue(type.zero, type: type)
    }
}
