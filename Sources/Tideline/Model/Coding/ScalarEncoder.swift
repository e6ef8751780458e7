// ScalarEncoder: encodes a type as one value.
//
// It is used only for types that the schema found to be scalar; any other type throws.

import TidelineCore

/// An encoder for types that write a single value, such as enums with raw values.
final class ScalarEncoder: Encoder, SingleValueEncodingContainer {
    private(set) var value: Value?

    static func value(of source: some Encodable) throws -> Value {
        let encoder = ScalarEncoder()
        try source.encode(to: encoder)
        guard let value = encoder.value else { throw TypeMismatch(expected: "a single value") }
        return value
    }

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(RejectingKeyedContainer<Key>())
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer { RejectingUnkeyedContainer() }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }

    private func set(_ new: Value?) throws {
        guard let new else { throw TypeMismatch(expected: "in the range of a column") }
        value = new
    }

    func encodeNil() throws { try set(.null) }
    func encode(_ value: Bool) throws { try set(.bool(value)) }
    func encode(_ value: String) throws { try set(.string(value)) }
    func encode(_ value: Double) throws { try set(.finite(value)) }
    func encode(_ value: Float) throws { try set(.finite(Double(value))) }
    func encode(_ value: Int) throws { try set(.integer(Int64(value))) }
    func encode(_ value: Int8) throws { try set(.integer(Int64(value))) }
    func encode(_ value: Int16) throws { try set(.integer(Int64(value))) }
    func encode(_ value: Int32) throws { try set(.integer(Int64(value))) }
    func encode(_ value: Int64) throws { try set(.integer(value)) }
    func encode(_ value: UInt) throws { try set(Int64(exactly: value).map(Value.integer)) }
    func encode(_ value: UInt8) throws { try set(.integer(Int64(value))) }
    func encode(_ value: UInt16) throws { try set(.integer(Int64(value))) }
    func encode(_ value: UInt32) throws { try set(.integer(Int64(value))) }
    func encode(_ value: UInt64) throws { try set(Int64(exactly: value).map(Value.integer)) }

    func encode<T: Encodable>(_ value: T) throws {
        if let special = SpecialType(T.self) {
            try set(special.write(value))
        } else {
            try value.encode(to: self)
        }
    }
}

/// The container that a scalar type gets if it asks for an object.
///
/// Every write throws.
struct RejectingKeyedContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    var codingPath: [any CodingKey] { [] }

    func encodeNil(forKey key: Key) throws { throw TypeMismatch(expected: "a single value") }

    func encode<T: Encodable>(_ value: T, forKey key: Key) throws {
        throw TypeMismatch(expected: "a single value")
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type,
        forKey key: Key
    ) -> KeyedEncodingContainer<NestedKey> {
        KeyedEncodingContainer(RejectingKeyedContainer<NestedKey>())
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        RejectingUnkeyedContainer()
    }

    func superEncoder() -> any Encoder { RejectingEncoder() }
    func superEncoder(forKey key: Key) -> any Encoder { RejectingEncoder() }
}

/// The container that a scalar type gets if it asks for an array.
///
/// Every write throws.
struct RejectingUnkeyedContainer: UnkeyedEncodingContainer, SingleValueEncodingContainer {
    var codingPath: [any CodingKey] { [] }
    var count: Int { 0 }

    func encodeNil() throws { throw TypeMismatch(expected: "a single value") }
    func encode<T: Encodable>(_ value: T) throws { throw TypeMismatch(expected: "a single value") }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy keyType: NestedKey.Type
    ) -> KeyedEncodingContainer<NestedKey> {
        KeyedEncodingContainer(RejectingKeyedContainer<NestedKey>())
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { RejectingUnkeyedContainer() }
    func superEncoder() -> any Encoder { RejectingEncoder() }
}

/// The encoder that `superEncoder()` returns; it throws, because a row has no column for a superclass.
struct RejectingEncoder: Encoder {
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(RejectingKeyedContainer<Key>())
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer { RejectingUnkeyedContainer() }
    func singleValueContainer() -> any SingleValueEncodingContainer { RejectingUnkeyedContainer() }
}
