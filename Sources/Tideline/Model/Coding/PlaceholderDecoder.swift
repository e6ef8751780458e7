// PlaceholderDecoder: creates a value of a type, and finds out how the type encodes itself.
//
// The schema probe needs a value for every property to decode the next one. Strings are empty, numbers 0,
// optionals nil, arrays empty; objects consist of placeholders.

import Foundation
import TidelineCore

/// A placeholder value of a `Codable` type, with the column type that stores it.
struct Placeholder<T> {
    var value: T
    /// The column type of a scalar; nil for an object or an array, which is stored as a JSON document.
    var scalar: ColumnType?
    var isNullable: Bool

    var columnType: ColumnType { scalar ?? .json }
}

extension Placeholder where T: Decodable {
    /// The value that a property of the type has if its column has no value.
    ///
    /// Nil for documents, for enumerations, and for types whose `init(from:)` rejects an empty value.
    var zero: Value? {
        if let special = SpecialType(T.self) {
            return special.zero(as: T.self).flatMap { special.write($0) }
        }
        guard scalar != nil, let zero = try? T(from: ScalarDecoder(value: .null)),
            let source = zero as? any Encodable
        else { return nil }
        return try? ScalarEncoder.value(of: source)
    }

    /// Creates a placeholder; returns nil if no value of the type can be found.
    static func make(_ type: T.Type) -> Placeholder? {
        if let special = SpecialType(type) {
            let value = special.zero(as: type) ?? special.read(.string("x:"), as: type)
            return value.map {
                Placeholder(value: $0, scalar: special.columnType, isNullable: false)
            }
        }
        let decoder = PlaceholderDecoder()
        let decoded = try? T(from: decoder)
        guard let value = decoded ?? firstCase(type) ?? zeroBits(type) else { return nil }
        return Placeholder(value: value, scalar: decoder.scalar, isNullable: decoder.isNullable)
    }

    private static func firstCase(_ type: T.Type) -> T? {
        func first<C: CaseIterable>(_ type: C.Type) -> T? { C.allCases.first as? T }
        return (type as? any CaseIterable.Type).flatMap { first($0) }
    }

    /// Creates the value of a trivial type whose bits are all zero: the first case of an enum.
    ///
    /// A trivial type holds no references, and every enum has a case whose bits are zero.
    private static func zeroBits(_ type: T.Type) -> T? {
        guard _isPOD(type), MemoryLayout<T>.size <= 64 else { return nil }
        return withUnsafeTemporaryAllocation(
            byteCount: max(1, MemoryLayout<T>.stride),
            alignment: MemoryLayout<T>.alignment
        ) { memory in
            memory.initializeMemory(as: UInt8.self, repeating: 0)
            return memory.load(as: T.self)
        }
    }
}

/// A decoder that supplies placeholders for the values of a type, and records the column type that it decodes.
final class PlaceholderDecoder: Decoder, SingleValueDecodingContainer {
    private(set) var scalar: ColumnType?
    private(set) var isNullable = false

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(PlaceholderKeyedContainer<Key>())
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        PlaceholderUnkeyedContainer()
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer { self }

    func decodeNil() -> Bool {
        isNullable = true
        return false
    }

    private func note<T>(_ type: ColumnType, _ value: T) -> T {
        scalar = type
        return value
    }

    func decode(_ type: Bool.Type) throws -> Bool { note(.boolean, false) }
    func decode(_ type: String.Type) throws -> String { note(.string, "") }
    func decode(_ type: Double.Type) throws -> Double { note(.number, 0) }
    func decode(_ type: Float.Type) throws -> Float { note(.number, 0) }
    func decode(_ type: Int.Type) throws -> Int { note(.integer, 0) }
    func decode(_ type: Int8.Type) throws -> Int8 { note(.integer, 0) }
    func decode(_ type: Int16.Type) throws -> Int16 { note(.integer, 0) }
    func decode(_ type: Int32.Type) throws -> Int32 { note(.integer, 0) }
    func decode(_ type: Int64.Type) throws -> Int64 { note(.integer, 0) }
    func decode(_ type: UInt.Type) throws -> UInt { note(.integer, 0) }
    func decode(_ type: UInt8.Type) throws -> UInt8 { note(.integer, 0) }
    func decode(_ type: UInt16.Type) throws -> UInt16 { note(.integer, 0) }
    func decode(_ type: UInt32.Type) throws -> UInt32 { note(.integer, 0) }
    func decode(_ type: UInt64.Type) throws -> UInt64 { note(.integer, 0) }

    func decode<T: Decodable>(_ type: T.Type) throws -> T {
        guard let inner = Placeholder.make(type) else { throw TypeMismatch(expected: "\(type)") }
        scalar = inner.scalar
        isNullable = isNullable || inner.isNullable
        return inner.value
    }
}

/// The keyed container of ``PlaceholderDecoder``, which has a placeholder for every key.
struct PlaceholderKeyedContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    var codingPath: [any CodingKey] { [] }
    var allKeys: [Key] { [] }

    func contains(_ key: Key) -> Bool { true }
    func decodeNil(forKey key: Key) throws -> Bool { true }

    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
        guard let placeholder = Placeholder.make(type) else {
            throw TypeMismatch(expected: "\(type)")
        }
        return placeholder.value
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type,
        forKey key: Key
    ) throws -> KeyedDecodingContainer<NestedKey> {
        KeyedDecodingContainer(PlaceholderKeyedContainer<NestedKey>())
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        PlaceholderUnkeyedContainer()
    }

    func superDecoder() throws -> any Decoder { PlaceholderDecoder() }
    func superDecoder(forKey key: Key) throws -> any Decoder { PlaceholderDecoder() }
}

/// An unkeyed container without elements.
struct PlaceholderUnkeyedContainer: UnkeyedDecodingContainer {
    var codingPath: [any CodingKey] { [] }
    var count: Int? { 0 }
    var isAtEnd: Bool { true }
    var currentIndex: Int { 0 }

    func decodeNil() throws -> Bool { true }

    func decode<T: Decodable>(_ type: T.Type) throws -> T {
        throw TypeMismatch(expected: "no element")
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type
    ) throws -> KeyedDecodingContainer<NestedKey> { throw TypeMismatch(expected: "no element") }

    func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        throw TypeMismatch(expected: "no element")
    }

    func superDecoder() throws -> any Decoder { throw TypeMismatch(expected: "no element") }
}
