// SQLRowDecoder: a Decoder over a row of a SQL result.

import TidelineCore

/// The columns of a SQL result, by name.
final class SQLColumns {
    let names: [String]
    private let exact: [String: Int]
    private let lowered: [String: Int]

    init(_ names: [String]) {
        self.names = names
        let places = names.enumerated().map { ($1, $0) }
        exact = Dictionary(places, uniquingKeysWith: { first, _ in first })
        lowered = Dictionary(
            places.map { ($0.lowercased(), $1) },
            uniquingKeysWith: { first, _ in first }
        )
    }

    func index(of name: String) -> Int? { exact[name] ?? lowered[name.lowercased()] }
}

/// A decoder of one row.
struct SQLRowDecoder: Decoder {
    let columns: SQLColumns
    let values: [Value]

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    /// Returns the row, decoded as a type.
    func read<Result: Decodable>(_ type: Result.Type) throws -> Result {
        do {
            // `Date(from:)` and similar initializers would read a number.
            return SpecialType(type) == nil
                ? try Result(from: self) : try first().decode(type)
        } catch let error as ColumnTypeMismatch {
            throw Self.doesNotFit("\(type)", "column '\(error.column)' is not \(error.expected)")
        } catch let error as TypeMismatch {
            let name = columns.names.first ?? ""
            throw Self.doesNotFit("\(type)", "column '\(name)' is not \(error.expected)")
        } catch is DecodingError {
            throw Self.doesNotFit("\(type)", "its initializer rejected a row")
        }
    }

    private static func doesNotFit(_ type: String, _ reason: String) -> SyncError {
        SyncError(
            .rowDoesNotFit,
            """
            The result of the SQL does not fit '\(type)': \(reason). Select the column under the name of the \
            property, and make the property optional if it may be null.
            """
        )
    }

    private func first() throws -> SQLValueDecoder {
        guard let value = values.first else { throw TypeMismatch(expected: "in the result") }
        return SQLValueDecoder(value: value)
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(SQLRowContainer(row: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try first().unkeyedContainer()
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer { try first() }
}

/// An error for a value of the wrong type in a column.
struct ColumnTypeMismatch: Error {
    var column: String
    var expected: String
}

/// The keyed container of ``SQLRowDecoder``, with a key for each column of the result.
struct SQLRowContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let row: SQLRowDecoder

    var codingPath: [any CodingKey] { [] }
    var allKeys: [Key] { row.columns.names.compactMap { Key(stringValue: $0) } }

    func contains(_ key: Key) -> Bool { row.columns.index(of: key.stringValue) != nil }

    func decodeNil(forKey key: Key) throws -> Bool { try value(key).isNull }

    private func value(_ key: Key) throws -> Value {
        guard let index = row.columns.index(of: key.stringValue) else {
            throw ColumnTypeMismatch(column: key.stringValue, expected: "in the result")
        }
        return row.values[index]
    }

    private func read<T>(_ key: Key, _ body: (SQLValueDecoder) throws -> T) throws -> T {
        let decoder = SQLValueDecoder(value: try value(key))
        do {
            return try body(decoder)
        } catch let error as TypeMismatch {
            throw ColumnTypeMismatch(column: key.stringValue, expected: error.expected)
        } catch is DecodingError {
            throw ColumnTypeMismatch(column: key.stringValue, expected: "of the type \(T.self)")
        }
    }

    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool {
        try read(key) { try $0.decode(type) }
    }

    func decode(_ type: String.Type, forKey key: Key) throws -> String {
        try read(key) { try $0.decode(type) }
    }

    func decode(_ type: Double.Type, forKey key: Key) throws -> Double {
        try read(key) { try $0.decode(type) }
    }

    func decode(_ type: Float.Type, forKey key: Key) throws -> Float {
        try read(key) { try $0.decode(type) }
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

    private func integer<Integer: FixedWidthInteger>(
        _ type: Integer.Type,
        _ key: Key
    ) throws -> Integer {
        try read(key) { try $0.integer(type) }
    }

    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
        try read(key) { try $0.decode(type) }
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type,
        forKey key: Key
    ) throws -> KeyedDecodingContainer<NestedKey> {
        try read(key) { try $0.container(keyedBy: type) }
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try read(key) { try $0.unkeyedContainer() }
    }

    func superDecoder() throws -> any Decoder { row }

    func superDecoder(forKey key: Key) throws -> any Decoder {
        SQLValueDecoder(value: try value(key))
    }
}

/// A decoder of one value; a nested value is decoded from its JSON text.
struct SQLValueDecoder: Decoder, SingleValueDecodingContainer {
    let value: Value

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        try document().container(keyedBy: type)
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try document().unkeyedContainer()
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer { self }

    private func document() throws -> any Decoder {
        guard case .string(let text) = value, let json = try? JSON(text) else {
            throw TypeMismatch(expected: "a JSON document")
        }
        return try json.makeDecoder()
    }

    func decodeNil() -> Bool { value.isNull }

    func decode(_ type: Bool.Type) throws -> Bool {
        guard case .integer(let integer) = value, integer == 0 || integer == 1 else {
            throw TypeMismatch(expected: "0 or 1")
        }
        return integer == 1
    }

    func decode(_ type: String.Type) throws -> String {
        guard let text = value.asString() else { throw TypeMismatch(expected: "a string") }
        return text
    }

    func decode(_ type: Double.Type) throws -> Double {
        guard let number = value.asDouble() else { throw TypeMismatch(expected: "a number") }
        return number
    }

    func decode(_ type: Float.Type) throws -> Float { Float(try decode(Double.self)) }

    func integer<Integer: FixedWidthInteger>(_ type: Integer.Type) throws -> Integer {
        guard let integer = value.asInteger(type) else {
            throw TypeMismatch(expected: "a whole number in the range of \(type)")
        }
        return integer
    }

    func decode(_ type: Int.Type) throws -> Int { try integer(type) }
    func decode(_ type: Int8.Type) throws -> Int8 { try integer(type) }
    func decode(_ type: Int16.Type) throws -> Int16 { try integer(type) }
    func decode(_ type: Int32.Type) throws -> Int32 { try integer(type) }
    func decode(_ type: Int64.Type) throws -> Int64 { try integer(type) }
    func decode(_ type: UInt.Type) throws -> UInt { try integer(type) }
    func decode(_ type: UInt8.Type) throws -> UInt8 { try integer(type) }
    func decode(_ type: UInt16.Type) throws -> UInt16 { try integer(type) }
    func decode(_ type: UInt32.Type) throws -> UInt32 { try integer(type) }
    func decode(_ type: UInt64.Type) throws -> UInt64 { try integer(type) }

    func decode<T: Decodable>(_ type: T.Type) throws -> T {
        guard let special = SpecialType(type) else { return try T(from: self) }
        guard !value.isNull, let result = special.read(adapted(to: special), as: type) else {
            throw TypeMismatch(expected: "of the type \(type)")
        }
        return result
    }

    /// Returns the value, converted to the kind that the type is read from.
    private func adapted(to special: SpecialType) -> Value {
        switch (special, value) {
        case (.date, .integer(let integer)): .millisecondsSince1970(integer) ?? value
        case (.decimal, .string(let text)): DecimalText.parse(text).map(Value.decimal) ?? value
        case (.date, _), (.uuid, _), (.decimal, _), (.data, _), (.localDate, _), (.localTime, _),
            (.url, _):
            value
        }
    }
}
