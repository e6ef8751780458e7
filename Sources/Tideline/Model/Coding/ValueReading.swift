// ValueReading: converts the value of a column to a Swift type; nil if it does not fit.
//
// Numbers convert between their three kinds if nothing but binary precision is lost (FaithfulNumber). Strings convert
// to the types that have a text form. Null is not handled here.

import Foundation
import TidelineCore

extension Value {
    @inline(__always)
    func asBool() -> Bool? {
        if case .bool(let value) = self { value } else { nil }
    }

    @inline(__always)
    func asString() -> String? {
        if case .string(let value) = self { value } else { nil }
    }

    @inline(__always)
    func asInteger<Integer: FixedWidthInteger>(_ type: Integer.Type) -> Integer? {
        switch self {
        case .integer(let value): Integer(exactly: value)
        case .number(let value): Integer(exactly: value)
        case .decimal(let value): Integer("\(value)")
        case .null, .bool, .string, .date, .data, .json: nil
        }
    }

    @inline(__always)
    func asDouble() -> Double? {
        switch self {
        case .number(let value): value
        case .integer(let value): Double(faithful: value)
        // The number is converted as a numeric column stores it.
        case .decimal(let value): Double("\(value)")
        case .null, .bool, .string, .date, .data, .json: nil
        }
    }

    func asDecimal() -> Decimal? {
        switch self {
        case .decimal(let value): value
        case .integer(let value): Decimal(value)
        // The conversion uses the shortest text, because Decimal(0.1) created from the bits is not 0.1.
        case .number(let value): Decimal(string: "\(value)", locale: nil)
        case .null, .bool, .string, .date, .data, .json: nil
        }
    }

    func asDate() -> Date? {
        switch self {
        case .date(let value): value == Timestamp.earliest.date ? .distantPast : value
        case .string(let text): Timestamp(text)?.appDate
        case .null, .bool, .integer, .number, .decimal, .data, .json: nil
        }
    }

    func asUUID() -> UUID? {
        asString().flatMap { UUID(uuidString: $0) }
    }

    func asData() -> Data? {
        switch self {
        case .data(let value): value
        case .string(let text): Data(base64Encoded: text)
        case .null, .bool, .integer, .number, .decimal, .date, .json: nil
        }
    }

    func asURL() -> URL? {
        asString().flatMap { URL(string: $0) }
    }

    /// Returns the value as a document, whatever the type of its column.
    func asJSON() -> JSON {
        if case .json(let document) = self { return document }
        var writer = JSONWriter()
        writer.value(self)
        return JSON(checked: writer.text)
    }
}

/// The types that have a column type of their own.
///
/// Each type is recognized by comparing metatypes.
///
/// Generic `Codable` code requests these types by a type parameter. After the parameter has compared equal to a type,
/// `unsafeBitCast` between the two is the identity and much faster than `as`.
enum SpecialType {
    case date
    case uuid
    case decimal
    case data
    case localDate
    case localTime
    case url

    @inline(__always)
    init?<T>(_ type: T.Type) {
        if type == Date.self {
            self = .date
        } else if type == UUID.self {
            self = .uuid
        } else if type == Decimal.self {
            self = .decimal
        } else if type == Data.self {
            self = .data
        } else if type == LocalDate.self {
            self = .localDate
        } else if type == LocalTime.self {
            self = .localTime
        } else if type == URL.self {
            self = .url
        } else {
            return nil
        }
    }

    var columnType: ColumnType {
        switch self {
        case .date: .dateTime
        case .uuid: .guid
        case .decimal: .decimal
        case .data: .binary
        case .localDate: .date
        case .localTime: .time
        case .url: .string
        }
    }

    /// Reads a value that is not null as `T`, the type of this case.
    @inline(__always)
    func read<T>(_ value: Value, as type: T.Type) -> T? {
        switch self {
        case .date: value.asDate().map { unsafeBitCast($0, to: T.self) }
        case .uuid: value.asUUID().map { unsafeBitCast($0, to: T.self) }
        case .decimal: value.asDecimal().map { unsafeBitCast($0, to: T.self) }
        case .data: value.asData().map { unsafeBitCast($0, to: T.self) }
        case .localDate:
            value.asString().flatMap { LocalDate($0) }.map { unsafeBitCast($0, to: T.self) }
        case .localTime:
            value.asString().flatMap { LocalTime($0) }.map { unsafeBitCast($0, to: T.self) }
        case .url: value.asURL().map { unsafeBitCast($0, to: T.self) }
        }
    }

    /// Returns the value of a non-optional property whose column has no value; nil for a URL.
    func zero<T>(as type: T.Type) -> T? {
        switch self {
        case .date: unsafeBitCast(Date(timeIntervalSince1970: 0), to: T.self)
        case .uuid:
            unsafeBitCast(UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)), to: T.self)
        case .decimal: unsafeBitCast(Decimal(0), to: T.self)
        case .data: unsafeBitCast(Data(), to: T.self)
        case .localDate: unsafeBitCast(LocalDate.zero, to: T.self)
        case .localTime: unsafeBitCast(LocalTime.zero, to: T.self)
        case .url: nil
        }
    }

    /// Returns the column value for a Swift value; nil if it is out of range.
    @inline(__always)
    func write<T>(_ value: T) -> Value? {
        switch self {
        case .date: Value.milliseconds(unsafeBitCast(value, to: Date.self))
        case .uuid: .string(unsafeBitCast(value, to: UUID.self).uuidString.lowercased())
        case .decimal: Value.finite(unsafeBitCast(value, to: Decimal.self))
        case .data: .data(unsafeBitCast(value, to: Data.self))
        case .localDate: .string(unsafeBitCast(value, to: LocalDate.self).description)
        case .localTime: .string(unsafeBitCast(value, to: LocalTime.self).description)
        case .url: .string(unsafeBitCast(value, to: URL.self).absoluteString)
        }
    }
}

extension Value {
    /// Returns a date rounded to milliseconds; nil outside the years 1 to 9999.
    ///
    /// `Date.distantPast` becomes the first instant of that range.
    static func milliseconds(_ date: Date) -> Value? {
        Timestamp(millisecondOf: date).map { .date($0.date) }
    }

    static func finite(_ number: Decimal) -> Value? {
        number.isFinite ? .some(.decimal(number)) : .none
    }

    @inline(__always)
    static func finite(_ number: Double) -> Value? {
        number.isFinite ? .some(.number(number)) : .none
    }
}
