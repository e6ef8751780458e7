// RowWriter: encodes models as rows.
//
// If the model encodes its columns in the order of the schema, as the synthesized
// `encode(to:)` does, values are only appended and the schema's layout is shared. Any other order
// takes a slower path, by name.

import TidelineCore

/// An encoder that turns a model into a row.
final class RowWriter: Encoder {
    private let schema: RecordSchema
    private let names: [String]
    private var values: [Value] = []
    private var unordered: Row?
    private var current = ""
    /// A column that the model encodes but the schema does not have.
    private var unknown: String?

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    private init(_ schema: RecordSchema) {
        self.schema = schema
        names = schema.layout.names
        values.reserveCapacity(names.count)
    }

    /// Returns the row of a record, with a value for every column of the schema.
    static func row(of record: some SyncRecord, _ schema: RecordSchema) throws -> Row {
        let writer = RowWriter(schema)
        do {
            try record.encode(to: writer)
        } catch {
            throw SyncError.recordDoesNotFit(
                table: schema.table.name,
                id: record.id,
                column: writer.current,
                reason: (error as? TypeMismatch).map { "is not \($0.expected)" }
                    ?? "cannot be encoded"
            )
        }
        if let unknown = writer.unknown {
            throw SyncError.undeclaredColumn("\(type(of: record))", unknown)
        }
        return writer.finish()
    }

    private func finish() -> Row {
        if unordered == nil, values.count == names.count {
            return Row(layout: schema.layout, values: values)
        }
        var row = unordered ?? partialRow()
        for column in schema.columns where column.isNullable && row[column.name] == nil {
            row[column.name] = .null
        }
        return row
    }

    private func partialRow() -> Row {
        Row(layout: RowLayout(Array(names.prefix(values.count))), values: values)
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(RowWriterContainer<Key>(writer: self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer { RejectingUnkeyedContainer() }
    func singleValueContainer() -> any SingleValueEncodingContainer { RejectingUnkeyedContainer() }

    @inline(__always)
    func put(_ value: Value, _ key: String) {
        if unordered == nil, values.count < names.count, names[values.count] == key {
            values.append(value)
        } else {
            putUnordered(value, key)
        }
    }

    private func putUnordered(_ value: Value, _ key: String) {
        if !names.contains(key) { unknown = key }
        var row = unordered ?? partialRow()
        row[key] = value
        unordered = row
    }

    /// Writes a value after checking that a column can hold it.
    @inline(__always)
    func put(checked value: Value?, _ key: String) throws {
        current = key
        guard let value else { throw TypeMismatch(expected: "in the range of a column") }
        put(value, key)
    }

    /// Writes a value of a type without a column type of its own, as its scalar or a document.
    func put(encoding source: some Encodable, _ key: String) throws {
        current = key
        guard isDocument(key) else { return put(try ScalarEncoder.value(of: source), key) }
        let json = try JSON(encoding: source)
        put(json.text == "null" ? .null : .json(json), key)
    }

    private func isDocument(_ key: String) -> Bool {
        let column =
            values.count < names.count && names[values.count] == key
            ? schema.columns[values.count] : schema.columns.first { $0.name == key }
        return column.map { $0.type == .json } ?? true
    }
}

/// The keyed container of ``RowWriter``.
struct RowWriterContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let writer: RowWriter

    var codingPath: [any CodingKey] { [] }

    @inline(__always)
    private func put(_ value: Value, _ key: Key) { writer.put(value, key.stringValue) }

    @inline(__always)
    private func integer(_ value: (some FixedWidthInteger)?, _ key: Key) throws {
        guard let value else { return put(.null, key) }
        try writer.put(checked: Int64(exactly: value).map(Value.integer), key.stringValue)
    }

    @inline(__always)
    private func number(_ value: Double?, _ key: Key) throws {
        guard let value else { return put(.null, key) }
        try writer.put(checked: .finite(value), key.stringValue)
    }

    func encodeNil(forKey key: Key) throws { put(.null, key) }
    func encode(_ value: Bool, forKey key: Key) throws { put(.bool(value), key) }
    func encode(_ value: String, forKey key: Key) throws { put(.string(value), key) }
    func encode(_ value: Double, forKey key: Key) throws { try number(value, key) }
    func encode(_ value: Float, forKey key: Key) throws { try number(Double(value), key) }
    func encode(_ value: Int, forKey key: Key) throws { put(.integer(Int64(value)), key) }
    func encode(_ value: Int8, forKey key: Key) throws { try integer(value, key) }
    func encode(_ value: Int16, forKey key: Key) throws { try integer(value, key) }
    func encode(_ value: Int32, forKey key: Key) throws { try integer(value, key) }
    func encode(_ value: Int64, forKey key: Key) throws { put(.integer(value), key) }
    func encode(_ value: UInt, forKey key: Key) throws { try integer(value, key) }
    func encode(_ value: UInt8, forKey key: Key) throws { try integer(value, key) }
    func encode(_ value: UInt16, forKey key: Key) throws { try integer(value, key) }
    func encode(_ value: UInt32, forKey key: Key) throws { try integer(value, key) }
    func encode(_ value: UInt64, forKey key: Key) throws { try integer(value, key) }

    func encode<T: Encodable>(_ value: T, forKey key: Key) throws {
        if let special = SpecialType(T.self) {
            try writer.put(checked: special.write(value), key.stringValue)
        } else {
            try writer.put(encoding: value, key.stringValue)
        }
    }

    // The standard library's default implementations omit nil, but a row stores null.

    func encodeIfPresent(_ value: Bool?, forKey key: Key) throws {
        put(value.map(Value.bool) ?? .null, key)
    }

    func encodeIfPresent(_ value: String?, forKey key: Key) throws {
        put(value.map(Value.string) ?? .null, key)
    }

    func encodeIfPresent(_ value: Double?, forKey key: Key) throws { try number(value, key) }

    func encodeIfPresent(_ value: Float?, forKey key: Key) throws {
        try number(value.map { Double($0) }, key)
    }

    func encodeIfPresent(_ value: Int?, forKey key: Key) throws { try integer(value, key) }
    func encodeIfPresent(_ value: Int8?, forKey key: Key) throws { try integer(value, key) }
    func encodeIfPresent(_ value: Int16?, forKey key: Key) throws { try integer(value, key) }
    func encodeIfPresent(_ value: Int32?, forKey key: Key) throws { try integer(value, key) }
    func encodeIfPresent(_ value: Int64?, forKey key: Key) throws { try integer(value, key) }
    func encodeIfPresent(_ value: UInt?, forKey key: Key) throws { try integer(value, key) }
    func encodeIfPresent(_ value: UInt8?, forKey key: Key) throws { try integer(value, key) }
    func encodeIfPresent(_ value: UInt16?, forKey key: Key) throws { try integer(value, key) }
    func encodeIfPresent(_ value: UInt32?, forKey key: Key) throws { try integer(value, key) }
    func encodeIfPresent(_ value: UInt64?, forKey key: Key) throws { try integer(value, key) }

    func encodeIfPresent<T: Encodable>(_ value: T?, forKey key: Key) throws {
        guard let value else { return put(.null, key) }
        try encode(value, forKey: key)
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
