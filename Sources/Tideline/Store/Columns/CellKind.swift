// CellKind: the kinds of cells of a store file.
//
// SQLite turns the text '007' into 7 if the column's type is a number, and 5 into '5' if it is
// text. A value that a column cannot return unchanged is stored among the row's unknown members.

import TidelineCore

/// A kind of values that a typed SQLite column returns exactly as they were stored.
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
