// ScalarDecoder: decodes enums with raw values, and types that encode themselves as one string or number.

import TidelineCore

/// An error for a value of the wrong type.
///
/// The row decoder adds the row and the column.
struct TypeMismatch: Error {
    var expected: String
}

/// A decoder over a single value.
struct ScalarDecoder: Decoder, SingleValueDecodingContainer {
    let value: Value

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        throw TypeMismatch(expected: "an object")
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        throw TypeMismatch(expected: "an array")
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer { self }

    func decodeNil() -> Bool { value.isNull }

    func decode(_ type: Bool.Type) throws -> Bool { try value.boolOrZero() }
    func decode(_ type: String.Type) throws -> String { try value.stringOrZero() }
    func decode(_ type: Double.Type) throws -> Double { try value.doubleOrZero() }
    func decode(_ type: Float.Type) throws -> Float { Float(try value.doubleOrZero()) }
    func decode(_ type: Int.Type) throws -> Int { try value.integerOrZero(type) }
    func decode(_ type: Int8.Type) throws -> Int8 { try value.integerOrZero(type) }
    func decode(_ type: Int16.Type) throws -> Int16 { try value.integerOrZero(type) }
    func decode(_ type: Int32.Type) throws -> Int32 { try value.integerOrZero(type) }
    func decode(_ type: Int64.Type) throws -> Int64 { try value.integerOrZero(type) }
    func decode(_ type: UInt.Type) throws -> UInt { try value.integerOrZero(type) }
    func decode(_ type: UInt8.Type) throws -> UInt8 { try value.integerOrZero(type) }
    func decode(_ type: UInt16.Type) throws -> UInt16 { try value.integerOrZero(type) }
    func decode(_ type: UInt32.Type) throws -> UInt32 { try value.integerOrZero(type) }
    func decode(_ type: UInt64.Type) throws -> UInt64 { try value.integerOrZero(type) }

    func decode<T: Decodable>(_ type: T.Type) throws -> T {
        try value.specialOrZero(type) ?? T(from: self)
    }
}

extension Value {
    @inline(__always)
    func boolOrZero() throws -> Bool {
        if let value = asBool() { return value }
        guard isNull else { throw TypeMismatch(expected: "a boolean") }
        return false
    }

    @inline(__always)
    func stringOrZero() throws -> String {
        if let value = asString() { return value }
        guard isNull else { throw TypeMismatch(expected: "a string") }
        return ""
    }

    @inline(__always)
    func doubleOrZero() throws -> Double {
        if let value = asDouble() { return value }
        guard isNull else { throw TypeMismatch(expected: "a number") }
        return 0
    }

    @inline(__always)
    func integerOrZero<Integer: FixedWidthInteger>(_ type: Integer.Type) throws -> Integer {
        if let value = asInteger(type) { return value }
        guard isNull else { throw TypeMismatch(expected: "a whole number in the range of \(type)") }
        return 0
    }

    /// Returns the value as one of the types that have a column type of their own; nil for all other types.
    @inline(__always)
    func specialOrZero<T>(_ type: T.Type) throws -> T? {
        guard let special = SpecialType(type) else { return nil }
        let result = isNull ? special.zero(as: type) : special.read(self, as: type)
        guard let result else {
            throw isNull
                ? TypeMismatch.missing(type) : TypeMismatch(expected: "of the type \(type)")
        }
        return result
    }
}
