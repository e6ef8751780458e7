// PageToken: next links.
//
// It is base64url of JSON: an array of the row's keys, or, if these are too long for a link, an
// object with the row's id and version. Bytes are an array of one base64 text.

import Foundation
package import TidelineCore

/// The position of a page's last row in an order, as the opaque `$skiptoken` of a next link.
package enum PageToken: Hashable, Sendable {
    case keys([SQLValue])
    case anchor(PageAnchor)

    /// The maximum number of bytes of keys in a token, which is 1 KB in base64.
    private static let keysBytesMax = 768
    /// The size above which a page anchor contains only a prefix of a key, and the size of that prefix, in bytes.
    private static let shortMax = 64
    private static let prefixMax = 128
    private static let anchorKeysMax = 8

    /// Creates the token of a page that begins after a row.
    ///
    /// Without a version, it contains the keys, whatever their length.
    package init(_ keys: [SQLValue], version: Int64?) {
        self = .keys(keys)
        guard let version, case .text(let id)? = keys.last, json.count > Self.keysBytesMax else {
            return
        }
        var anchor = PageAnchor(id: id, version: version, keys: [], prefix: nil)
        for key in keys.dropLast().prefix(Self.anchorKeysMax) {
            if let prefix = Self.prefix(of: key) {
                anchor.prefix = prefix
                break
            }
            anchor.keys.append(key)
        }
        self = .anchor(anchor)
    }

    /// Returns the prefix of a long key; nil for a short key.
    private static func prefix(of key: SQLValue) -> SQLValue? {
        switch key {
        case .text(let text) where text.utf8.count > shortMax:
            var end = text.utf8.index(
                text.utf8.startIndex,
                offsetBy: prefixMax,
                limitedBy: text.utf8.endIndex
            )
            // The prefix ends at the boundary of a scalar.
            while let place = end, place.samePosition(in: text.unicodeScalars) == nil {
                end = text.utf8.index(before: place)
            }
            return .text(String(text.unicodeScalars[..<(end ?? text.endIndex)]))
        case .blob(let bytes) where bytes.count > shortMax: return .blob(bytes.prefix(prefixMax))
        case .null, .integer, .real, .text, .blob, .program: return nil
        }
    }

    // MARK: - Writing

    /// The token as a string.
    package var text: String { Base64URL.encode(json) }

    private var json: [UInt8] {
        var writer = JSONWriter()
        switch self {
        case .keys(let keys): Self.write(keys, &writer)
        case .anchor(let anchor):
            writer.raw("{\"id\":")
            writer.string(anchor.id)
            writer.raw(",\"version\":")
            writer.integer(anchor.version)
            writer.raw(",\"keys\":")
            Self.write(anchor.keys, &writer)
            if let prefix = anchor.prefix {
                writer.raw(",\"prefix\":")
                Self.write(prefix, &writer)
            }
            writer.byte("}")
        }
        return writer.bytes
    }

    private static func write(_ keys: [SQLValue], _ writer: inout JSONWriter) {
        writer.byte("[")
        for (index, key) in keys.enumerated() {
            if index > 0 { writer.byte(",") }
            write(key, &writer)
        }
        writer.byte("]")
    }

    private static func write(_ key: SQLValue, _ writer: inout JSONWriter) {
        switch key {
        case .null, .program: writer.null()
        case .integer(let value): writer.integer(value)
        // A number that is too large is read as infinity.
        case .real(let value):
            writer.raw(value.isFinite ? value.description : value > 0 ? "1e999" : "-1e999")
        case .text(let value): writer.string(value)
        case .blob(let value):
            writer.byte("[")
            writer.string(value.base64EncodedString())
            writer.byte("]")
        }
    }

    // MARK: - Reading

    /// Returns the type of a sort key in the database, where versions are numbers.
    package static func type(of key: SortKey, in schema: TableSchema) -> ExpressionType {
        key.expression.kind == .field(SystemColumn.version)
            ? .integer : key.expression.type(in: schema)
    }

    /// Returns whether a key of this type may be too long for a link.
    package static func mayBeLong(_ type: ExpressionType) -> Bool {
        switch type {
        case .string, .enumeration, .binary: true
        case .null, .boolean, .integer, .number, .decimal, .dateTime, .date, .time, .guid, .json,
            .any:
            false
        }
    }

    /// Parses a token for an order whose keys are of these types, the id last.
    ///
    /// Returns nil if no row of the server can have such keys.
    package init?(_ text: String, _ types: [ExpressionType]) {
        guard let bytes = Base64URL.decode(text.utf8) else { return nil }
        guard let token = bytes.withUnsafeBufferPointer({ try? Self.read($0) }) else { return nil }
        switch token {
        case .keys(let keys):
            guard keys.count == types.count, case .text = keys.last,
                zip(keys, types).allSatisfy(Self.fits)
            else { return nil }
        case .anchor(let anchor):
            let count = anchor.keys.count
            guard !anchor.id.isEmpty, count < types.count,
                zip(anchor.keys, types).allSatisfy(Self.fits)
            else {
                return nil
            }
            if let prefix = anchor.prefix {
                guard count < types.count - 1, prefix != .null, Self.mayBeLong(types[count]),
                    Self.fits(prefix, types[count])
                else { return nil }
            }
        }
        self = token
    }

    /// Returns whether a row of this server can have the key.
    private static func fits(_ key: SQLValue, _ type: ExpressionType) -> Bool {
        switch key {
        case .null: return true
        case .integer(let value):
            return switch type {
            case .boolean: value == 0 || value == 1
            case .integer, .number: true
            case .dateTime:
                (Timestamp.earliest.microseconds...Timestamp.latest.microseconds).contains(value)
            case .null, .decimal, .string, .date, .time, .guid, .binary, .json, .enumeration, .any:
                false
            }
        case .real: return type == .number
        case .text(let text):
            return switch type {
            case .decimal: DecimalText.parse(text) != nil
            case .string, .date, .time, .guid, .enumeration: true
            case .null, .boolean, .integer, .number, .dateTime, .binary, .json, .any: false
            }
        case .blob: return type == .binary
        case .program: return false
        }
    }

    private static func read(_ bytes: UnsafeBufferPointer<UInt8>) throws -> PageToken {
        var reader = JSONReader(bytes)
        let token: PageToken
        if case .object = try reader.value() {
            token = .anchor(try anchor(&reader))
        } else {
            token = .keys(try keys(&reader))
        }
        try reader.end()
        return token
    }

    private static func anchor(_ reader: inout JSONReader) throws -> PageAnchor {
        var anchor = PageAnchor(id: "", version: 0, keys: [], prefix: nil)
        var names = MemberNames()
        try reader.beginObject()
        while let name = try reader.nextMember() {
            try names.insert(name, reader)
            switch reader.text(name) {
            case "id": anchor.id = try text(&reader)
            case "version":
                guard case .integer(let version) = try key(&reader) else {
                    throw reader.failure("not a version")
                }
                anchor.version = version
            case "keys": anchor.keys = try keys(&reader)
            case "prefix": anchor.prefix = try key(&reader)
            default: throw reader.failure("not a member of a page token")
            }
        }
        return anchor
    }

    private static func keys(_ reader: inout JSONReader) throws -> [SQLValue] {
        var keys: [SQLValue] = []
        try reader.beginArray()
        while try reader.nextElement() { keys.append(try key(&reader)) }
        return keys
    }

    private static func key(_ reader: inout JSONReader) throws -> SQLValue {
        switch try reader.value() {
        case .null: return .null
        case .string(let span): return .text(reader.text(span))
        case .number(let range):
            if let value = reader.integer(range) { return .integer(value) }
            guard let value = Double(reader.text(range)) else {
                throw reader.failure("not a key")
            }
            return .real(value)
        case .array:
            try reader.beginArray()
            guard try reader.nextElement() else { throw reader.failure("not a key") }
            let base64 = try text(&reader)
            guard let data = Data(base64Encoded: base64), try !reader.nextElement() else {
                throw reader.failure("not a key")
            }
            return .blob(data)
        case .bool, .object: throw reader.failure("not a key")
        }
    }

    private static func text(_ reader: inout JSONReader) throws -> String {
        guard case .string(let span) = try reader.value() else {
            throw reader.failure("a text is expected")
        }
        return reader.text(span)
    }
}
