// StoredDefault: a column's default as a database stores it.
//
// Text: string, decimal (canonical), date, time, guid, json, enum. Integer: integer, boolean (0
// and 1), dateTime (microseconds since 1970). Real: number. Blob: binary.

extension SQLValue {
    /// Converts a checked value of a column of this type to the form in which a database stores it.
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
        case .data(let value): self = .blob(value)
        case .json(let value): self = .text(value.text)
        }
    }
}

extension ColumnDefinition {
    /// The value in a tombstone, which has no values: null, or zero if the column is not nullable.
    package var erasedValue: SQLValue {
        isNullable ? .null : SQLValue(type.zero, type: type)
    }

    /// The value that is stored if a write omits the column.
    package var storedDefault: SQLValue {
        if let defaultValue { return SQLValue(defaultValue, type: type) }
        return isNullable ? .null : SQLValue(type.zero, type: type)
    }
}
