// Value: the value of one column of an untyped row, on the client and the server.
//
// Text is compared and hashed by its UTF-8 bytes, never with Swift's `==`, which treats canonically
// equivalent strings as equal. Databases treat such strings as different.

public import Foundation

/// The value of one column.
///
/// Dates have microsecond precision at most; a store may keep less (the client uses milliseconds).
/// `date` and `time` columns contain ISO 8601 strings, and `guid` columns lower-case strings.
public enum Value: Sendable {
    /// No value.
    case null
    /// A boolean.
    case bool(Bool)
    /// An exact 64-bit integer.
    case integer(Int64)
    /// A binary floating-point number, always finite.
    case number(Double)
    /// An exact decimal number.
    case decimal(Decimal)
    /// Text.
    case string(String)
    /// An instant.
    case date(Date)
    /// Bytes; a base64 string on the wire.
    case data(Data)
    /// A JSON document: an object, an array, or the value of a `json` column.
    case json(JSON)
}

extension Value: Hashable {
    /// Whether both values have the same kind and are equal; strings are compared byte by byte.
    public static func == (left: Value, right: Value) -> Bool {
        switch left {
        case .null: if case .null = right { true } else { false }
        case .bool(let one): if case .bool(let two) = right { one == two } else { false }
        case .integer(let one): if case .integer(let two) = right { one == two } else { false }
        case .number(let one): if case .number(let two) = right { one == two } else { false }
        case .decimal(let one): if case .decimal(let two) = right { one == two } else { false }
        case .string(let one):
            if case .string(let two) = right { one.hasSameBytes(as: two) } else { false }
        case .date(let one): if case .date(let two) = right { one == two } else { false }
        case .data(let one): if case .data(let two) = right { one == two } else { false }
        case .json(let one): if case .json(let two) = right { one == two } else { false }
        }
    }

    /// Hashes consistently with `==`.
    public func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0)
        case .bool(let value): hasher.combine(value)
        case .integer(let value): hasher.combine(value)
        case .number(let value): hasher.combine(value)
        case .decimal(let value): hasher.combine(value)
        case .string(let value): hasher.combine(value)
        case .date(let value): hasher.combine(value)
        case .data(let value): hasher.combine(value)
        case .json(let value): hasher.combine(value)
        }
    }
}

extension Value {
    /// Whether this is `.null`.
    public var isNull: Bool {
        if case .null = self { true } else { false }
    }

    /// The string if this is a `.string`; nil for other values.
    public var text: String? {
        if case .string(let text) = self { text } else { nil }
    }

    /// The kind of the value, for messages that must not contain the value itself.
    package var kindName: String {
        switch self {
        case .null: "null"
        case .bool: "a boolean"
        case .integer: "an integer"
        case .number: "a number"
        case .decimal: "a decimal"
        case .string: "a string"
        case .date: "a date"
        case .data: "binary data"
        case .json: "a JSON document"
        }
    }
}

extension Value: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral, ExpressibleByNilLiteral
{
    /// Creates a `.string`.
    public init(stringLiteral value: String) { self = .string(value) }
    /// Creates a `.bool`.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// Creates an `.integer`.
    public init(integerLiteral value: Int64) { self = .integer(value) }
    /// Creates a `.number`.
    public init(floatLiteral value: Double) { self = .number(value) }
    /// Creates `.null`.
    public init(nilLiteral: ()) { self = .null }
}

extension String {
    /// Returns whether two strings have the same UTF-8 bytes; `==` also treats canonically
    /// equivalent strings as equal.
    package func hasSameBytes(as other: String) -> Bool {
        guard utf8.count == other.utf8.count else { return false }
        let isSame = utf8.withContiguousStorageIfAvailable { bytes in
            other.utf8.withContiguousStorageIfAvailable { others in
                guard let one = bytes.baseAddress, let two = others.baseAddress else { return true }
                return memcmp(one, two, bytes.count) == 0
            }
        }
        // Strings without contiguous UTF-8 storage, such as NSString, are compared byte by byte.
        return (isSame ?? nil) ?? utf8.elementsEqual(other.utf8)
    }
}
