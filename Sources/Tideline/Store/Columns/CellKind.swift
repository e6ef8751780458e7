// CellKind: the values that a typed SQLite column returns exactly as they were stored.
//
// SQLite turns the text '007' into 7 if the column's type is a number, and 5 into '5' if it is
// text. A value that a column cannot return unchanged is stored among the row's unknown members.

import TidelineCore

enum CellKind: Sendable {
    case text
    case integer
    case number
    case decimal
    case boolean
    case instant
    case bytes
    case json
    /// Values are not checked.
    case any

    init(_ type: ColumnType) {
        self =
            switch type {
            case .string, .date, .time, .guid, .enumeration: .text
            case .integer: .integer
            case .number: .number
            case .decimal: .decimal
            case .boolean: .boolean
            case .dateTime: .instant
            case .binary: .bytes
            case .json: .json
            }
    }

    /// Returns whether a value is read back unchanged, except that a number may become the equal number of the
    /// column's type.
    @inline(__always)
    func holds(_ value: Value) -> Bool {
        switch (self, value) {
        case (.any, _), (_, .null), (_, .data): true
        case (.text, .string), (.bytes, .string): true
        case (.decimal, .string(let text)): DecimalText.parse(text) == nil
        case (.integer, .integer), (.decimal, .integer), (.bytes, .integer): true
        case (.number, .integer(let integer)): Double(faithful: integer) != nil
        case (.number, .number), (.integer, .number), (.bytes, .number): true
        case (.decimal, .decimal): true
        case (.number, .decimal(let decimal)): Double(faithful: decimal) != nil
        case (.boolean, .bool), (.instant, .date), (.json, .json): true
        default: false
        }
    }
}
