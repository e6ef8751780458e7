// Literal: Swift values in queries.

import Foundation
import TidelineCore

/// The conversion of a Swift value to a value of a query.
enum Literal {
    /// Returns the column value of a Swift value in a query.
    ///
    /// - Throws: ``SyncError`` with code `unsupportedQuery` for a type without a column type.
    static func value<T>(_ source: T) throws -> Value {
        if let special = SpecialType(T.self) {
            guard let value = special.write(source) else {
                throw SyncError.unsupportedQuery(
                    "a \(T.self) that is not finite, or that no column can hold. Compare with another value."
                )
            }
            return value
        }
        switch source {
        // A date is converted as it is for storage.
        case .date(let date) as Value: return try self.value(date)
        case let value as Value: return value
        case let value as String: return .string(value)
        case let value as Bool: return .bool(value)
        case let value as Int: return .integer(Int64(value))
        case let value as Double: return try number(value)
        case let value as any OptionalValue: return try value.literal()
        case let value as any FixedWidthInteger:
            guard let integer = Int64(exactly: value) else { throw unsupported(source) }
            return .integer(integer)
        case let value as Float: return try number(Double(value))
        case let value as Character: return .string(String(value))
        case let value as Substring: return .string(String(value))
        case let value as any RawRepresentable: return try rawValue(value)
        case let value as any Encodable:
            do { return try ScalarEncoder.value(of: value) } catch { throw unsupported(source) }
        default: throw unsupported(source)
        }
    }

    static func expression<T>(_ source: T) throws -> QueryExpression {
        QueryExpression(.value(try value(source)))
    }

    private static func rawValue(_ source: some RawRepresentable) throws -> Value {
        try value(source.rawValue)
    }

    private static func number(_ value: Double) throws -> Value {
        guard let number = Value.finite(value) else {
            throw SyncError.unsupportedQuery(
                "a number that is not finite. Compare with another value."
            )
        }
        return number
    }

    private static func unsupported<T>(_ source: T) -> SyncError {
        .unsupportedLiteral(type(of: source))
    }
}

/// An `Optional` whose wrapped type the caller does not know.
private protocol OptionalValue {
    func literal() throws -> Value
}

extension Optional: OptionalValue {
    fileprivate func literal() throws -> Value {
        guard let self else { return .null }
        return try Literal.value(self)
    }
}
