// RowReaderContainer: reads properties with and without a value.
//
// An optional property is read with `decodeIfPresent`, which returns nil for a missing or null
// column. Any other property is read with `decode`, which then returns the declared default, or
// else an empty string, 0 or false.

import TidelineCore

/// The keyed container of ``RowReader``.
struct RowReaderContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let reader: RowReader

    var codingPath: [any CodingKey] { [] }
    var allKeys: [Key] { [] }

    func contains(_ key: Key) -> Bool { reader.hasMember(key.stringValue) }
    func decodeNil(forKey key: Key) throws -> Bool { reader.isNull(key.stringValue) }

    @inline(__always)
    private func value(_ key: Key) -> Value {
        reader.valueOrDefault(at: reader.advance(to: key.stringValue))
    }

    @inline(__always)
    private func optional(_ key: Key) -> Value? {
        let value = reader.value(at: reader.advance(to: key.stringValue))
        // `Optional.none` is written out, because a bare nil would be the literal for Value.null.
        return value.isNull ? Optional.none : .some(value)
    }

    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool {
        try value(key).boolOrZero()
    }

    func decode(_ type: String.Type, forKey key: Key) throws -> String {
        try value(key).stringOrZero()
    }

    func decode(_ type: Double.Type, forKey key: Key) throws -> Double {
        try value(key).doubleOrZero()
    }

    func decode(_ type: Float.Type, forKey key: Key) throws -> Float {
        Float(try value(key).doubleOrZero())
    }

    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try integer(type, key) }
    func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { try integer(type, key) }
    func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 { try integer(type, key) }
    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { try integer(type, key) }
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try integer(type, key) }
    func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { try integer(type, key) }
    func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 { try integer(type, key) }
    func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 { try integer(type, key) }
    func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 { try integer(type, key) }
    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { try integer(type, key) }

    @inline(__always)
    private func integer<Integer: FixedWidthInteger>(
        _ type: Integer.Type,
        _ key: Key
    ) throws -> Integer {
        try value(key).integerOrZero(type)
    }

    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
        let index = reader.advance(to: key.stringValue)
        let value = reader.valueOrDefault(at: index)
        return try value.specialOrZero(type) ?? reader.decode(type, value, at: index)
    }

    func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? {
        try optional(key)?.boolOrZero()
    }

    func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? {
        try optional(key)?.stringOrZero()
    }

    func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? {
        try optional(key)?.doubleOrZero()
    }

    func decodeIfPresent(_ type: Float.Type, forKey key: Key) throws -> Float? {
        try optional(key).map { Float(try $0.doubleOrZero()) }
    }

    func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? {
        try optional(key)?.integerOrZero(type)
    }

    func decodeIfPresent(_ type: Int64.Type, forKey key: Key) throws -> Int64? {
        try optional(key)?.integerOrZero(type)
    }

    // The standard library reads the other integers with `decodeNil` and `decode`.

    func decodeIfPresent<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T? {
        let index = reader.advance(to: key.stringValue)
        let value = reader.value(at: index)
        if value.isNull { return nil }
        if case .json(let document) = value, document.text == "null" { return nil }
        return try value.specialOrZero(type) ?? reader.decode(type, value, at: index)
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type,
        forKey key: Key
    ) throws -> KeyedDecodingContainer<NestedKey> { throw TypeMismatch(expected: "a single value") }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        throw TypeMismatch(expected: "a single value")
    }

    func superDecoder() throws -> any Decoder { throw TypeMismatch(expected: "a single value") }
    func superDecoder(forKey key: Key) throws -> any Decoder {
        throw TypeMismatch(expected: "a single value")
    }
}
