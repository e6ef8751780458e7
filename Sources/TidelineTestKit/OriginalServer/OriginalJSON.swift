// OriginalJSON: the JSON bodies of the original servers.

import Foundation
import TidelineCore

/// The conversion between rows and the JSON bodies of the original servers.
enum OriginalJSON {
    static func text(_ row: Row) -> String {
        var writer = JSONWriter()
        writer.row(row)
        return writer.text
    }

    static func text(_ rows: [Row]) -> String {
        "[" + rows.map(text).joined(separator: ",") + "]"
    }

    /// The content of a request body.
    enum Body {
        case row(Row)
        case array
        /// A body that is not JSON, with the error message.
        case malformed(String)
    }

    static func body(_ bytes: [UInt8]) -> Body {
        guard !bytes.isEmpty else { return .row([:]) }
        let value: Any
        do {
            value = try JSONSerialization.jsonObject(with: Data(bytes))
        } catch {
            return .malformed("Unexpected token in JSON")
        }
        guard let members = value as? [String: Any] else { return .array }
        var row = Row()
        for name in members.keys.sorted() { row[name] = members[name].map(Self.value) }
        return .row(row)
    }

    private static func value(_ value: Any) -> Value {
        switch value {
        case let text as String: return .string(text)
        case let number as NSNumber:
            if String(cString: number.objCType) == "c" { return .bool(number.boolValue) }
            return Int64(exactly: number.doubleValue).map { .integer($0) }
                ?? .number(number.doubleValue)
        case is NSNull: return .null
        // Neither original server accepts objects or arrays as values.
        default: return .json(JSON(checked: "{}"))
        }
    }
}
