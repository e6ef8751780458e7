// StoredDefault: a column's default as a database stores it.
//
// Text: string, decimal (canonical), date, time, guid, json, enum. Integer: integer, boolean (0
// and 1), dateTime (microseconds since 1970). Real: number. Blob: binary.

extension SQLValue {
    /// Converts a checked value of a column of this type to its stored form.
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
    /// The value in a tombstone without values: null, or zero if null is not allowed.
    package var erasedValue: SQLValue {
        isNullable ? .null : SQLValue(type.zero, type: type)
    }

    /// The value that is stored for an absent member.
    package var storedDefault: SQLValue {
        if let defaultValue { return SQLValue(defaultValue, type: type) }
        return isNullable ? .null : SQLValue(type.zero, type: type)
    }
}
