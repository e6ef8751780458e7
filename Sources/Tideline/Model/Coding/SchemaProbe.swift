// SchemaProbe: finds the columns of a model.
//
// The synthesized initializer asks for every property in the order of declaration, so one run
// finds names, order, types and optionality. An initializer that validates its values may reject
// the placeholders; then the model has to declare its columns.

import TidelineCore

/// A decoder that runs a model's `init(from:)` with placeholders and records the keys it requests.
final class SchemaProbe: Decoder {
    struct Column {
        var definition: ColumnDefinition
        /// The name of the property: the name of the coding key's case.
        var property: String
        /// Whether the property may be nil.
        ///
        /// The declared column may differ.
        var mayBeNil: Bool
        /// The value that the property has if the column has no value; nil if unknown.
        var zero: Value?
        /// The type of the property, without optionality; nil if the initializer did not ask for it.
        var content: (any Decodable.Type)?
    }

    /// An error for a property whose type has no placeholder.
    struct Failure: Error {
        var property: String
        var type: String
    }

    private let declared: [String: ColumnDefinition]
    fileprivate(set) var columns: [Column] = []
    /// The key that was just checked for nil, which makes its column nullable.
    fileprivate var askedForNil: String?

    init(declared: [String: ColumnDefinition]) {
        self.declared = declared
    }

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(ProbeContainer<Key>(probe: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        throw TypeMismatch(expected: "a keyed container")
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer {
        throw TypeMismatch(expected: "a keyed container")
    }

    fileprivate func note(
        _ key: some CodingKey,
        _ type: ColumnType,
        nullable: Bool,
        zero: Value? = nil,
        content: any Decodable.Type
    ) {
        let name = key.stringValue
        guard !columns.contains(where: { $0.definition.name == name }) else { return }
        let found = ColumnDefinition(name, type, nullable: nullable || askedForNil == name)
        columns.append(
            Column(
                definition: declared[name] ?? found,
                property: caseName(of: key) ?? name,
                mayBeNil: found.isNullable,
                zero: zero,
                content: content
            )
        )
    }
}

/// The keyed container of ``SchemaProbe``, which records each requested key with its type.
private struct ProbeContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let probe: SchemaProbe

    var codingPath: [any CodingKey] { [] }
    var allKeys: [Key] { [] }

    func contains(_ key: Key) -> Bool { true }

    func decodeNil(forKey key: Key) throws -> Bool {
        probe.askedForNil = key.stringValue
        return false
    }

    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
        guard let placeholder = Placeholder.make(type) else {
            throw SchemaProbe.Failure(
                property: caseName(of: key) ?? key.stringValue,
                type: "\(type)"
            )
        }
        probe.note(
            key,
            placeholder.columnType,
            nullable: placeholder.isNullable,
            zero: placeholder.zero,
            content: type
        )
        return placeholder.value
    }

    func decodeIfPresent<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T? {
        probe.note(
            key,
            Placeholder.make(type)?.columnType ?? .json,
            nullable: true,
            content: type
        )
        return nil
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

/// Returns the name of an enum's case, from the runtime; nil without reflection metadata.
///
/// For `case dueDate = "due"`, no public API returns the property's name: `description` of a coding key contains only
/// the string. If the result is nil, the column can still be declared by hand with its key path.
private func caseName<Key: CodingKey>(of key: Key) -> String? {
    guard Mirror(reflecting: key).displayStyle == .enum else { return nil }
    return enumCaseName(key).map { String(cString: $0) }
}

@_silgen_name("swift_EnumCaseName")
private func enumCaseName<T>(_ value: T) -> UnsafePointer<CChar>?
