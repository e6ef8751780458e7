// CellKind: the kinds of cells in a store file.
//
// SQLite converts the text '007' to 7 in a numeric column, and the number 5 to '5' in a text
// column. A value that a column cannot return unchanged is stored with the row's unknown members.

import TidelineCore

/// A kind of value that a typed SQLite column returns exactly as it was stored.
enum CellKind: Sendable {
    case text
    case integer
    case number
    case decimal
    case boolean
    case instant
    case bytes
    case json
    /// Any value; nothing is checked.
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

    /// Returns whether the column returns a value unchanged, apart from converting a number to the
    /// equal number of the column's type.
    @inline(__always)
    func holds(_ value: Value) -> Bool {
        switch value {
        case .null, .data: true
        case .bool: self == .boolean || self == .any
        case .date: self == .instant || self == .any
        case .json: self == .json || self == .any
        case .string(let text):
            switch self {
            case .text, .bytes, .any: true
            case .decimal: DecimalText.parse(text) == nil
            case .integer, .number, .boolean, .instant, .json: false
            }
        case .integer(let integer):
            switch self {
            case .integer, .decimal, .bytes, .any: true
            case .number: Double(faithful: integer) != nil
            case .text, .boolean, .instant, .json: false
            }
        case .number: self == .number || self == .integer || self == .bytes || self == .any
        case .decimal(let decimal):
            switch self {
            case .decimal, .any: true
            case .number: Double(faithful: decimal) != nil
            case .text, .integer, .boolean, .instant, .bytes, .json: false
            }
        }
    }
}
