// PageToken: the keys of a page's last row, as the opaque `$skiptoken` of a next link.

import Foundation
package import TidelineCore

package enum PageToken {
    /// Base64url of a JSON array; bytes are an array of one base64 text.
    package static func encode(_ keys: [SQLValue]) -> String {
        var writer = JSONWriter()
        writer.byte("[")
        for (index, key) in keys.enumerated() {
            if index > 0 { writer.byte(",") }
            switch key {
            case .null, .program: writer.null()
            case .integer(let value): writer.integer(value)
            // Too large a number is read as infinity.
            case .real(let value):
                writer.raw(value.isFinite ? value.description : value > 0 ? "1e999" : "-1e999")
            case .text(let value): writer.string(value)
            case .blob(let value):
                writer.byte("[")
                writer.string(value.base64EncodedString())
                writer.byte("]")
            }
        }
        writer.byte("]")
        return Base64URL.encode(writer.bytes)
    }

    /// What a database yields for a key of an order: versions are numbers there.
    package static func type(of key: SortKey, in schema: TableSchema) -> ExpressionType {
        key.expression.kind == .field(SystemColumn.version)
            ? .integer : key.expression.type(in: schema)
    }

    /// The keys of a token, each of what its key of the order yields; nil when it is none of ours.
    package static func decode(_ token: String, _ types: [ExpressionType]) -> [SQLValue]? {
        guard let bytes = Base64URL.decode(token.utf8) else { return nil }
        let keys = bytes.withUnsafeBufferPointer { try? read($0) }
        guard let keys, keys.count == types.count, case .text = keys.last,
            zip(keys, types).allSatisfy(fits)
        else { return nil }
        return keys
    }

    /// Whether a row of ours can have the key.
    private static func fits(_ key: SQLValue, _ type: ExpressionType) -> Bool {
        switch (key, type) {
        case (.null, _): true
        case (.integer(let value), .boolean): value == 0 || value == 1
        case (.integer, .integer), (.integer, .number), (.real, .number): true
        case (.integer(let value), .dateTime):
            (Timestamp.earliest.microseconds...Timestamp.latest.microseconds).contains(value)
        case (.text(let text), .decimal): DecimalText.parse(text) != nil
        case (.text, .string), (.text, .date), (.text, .time), (.text, .guid),
            (.text, .enumeration):
            true
        case (.blob, .binary): true
        default: false
        }
    }

    private static func read(_ bytes: UnsafeBufferPointer<UInt8>) throws -> [SQLValue] {
        var reader = JSONReader(bytes)
        var keys: [SQLValue] = []
        try reader.beginArray()
        while try reader.nextElement() {
            switch try reader.value() {
            case .null: keys.append(.null)
            case .string(let span): keys.append(.text(reader.text(span)))
            case .number(let range):
                if let value = reader.integer(range) {
                    keys.append(.integer(value))
                } else if let value = Double(reader.text(range)) {
                    keys.append(.real(value))
                } else {
                    throw reader.failure("not a key")
                }
            case .array: keys.append(try blob(&reader))
            case .bool, .object: throw reader.failure("not a key")
            }
        }
        try reader.end()
        return keys
    }

    private static func blob(_ reader: inout JSONReader) throws -> SQLValue {
        try reader.beginArray()
        guard try reader.nextElement(), case .string(let span) = try reader.value(),
            let data = Data(base64Encoded: reader.text(span)), try !reader.nextElement()
        else { throw reader.failure("not a key") }
        return .blob(data)
    }
}
