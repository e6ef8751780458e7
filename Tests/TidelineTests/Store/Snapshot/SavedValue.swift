// SavedValue: the JSON representation of a value in the example store of an article (WritingAStore.md).

import Foundation
import Tideline

// README begins
/// A value in the file.
enum SavedValue: Codable {
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
        case .null: .null
        case .bool(let value): .bool(value)
        case .integer(let value): .integer(value)
        case .number(let value): .number(value)
        case .decimal(let value): Decimal(string: value).map { .decimal($0) } ?? .null
        case .text(let value): .string(value)
        case .instant(let value): .date(value)
        case .bytes(let value): .data(value)
        case .document(let value): .json(try JSON(value))
        }
    }
}
// README ends
