// RowReader: decodes models from rows.
//
// The synthesized initializer asks for the same keys in the same order every time, so a cursor
// over the schema's columns replaces a lookup by name. A reader is used on one thread, and loads
// one row after another.

import Synchronization
import TidelineCore

/// The positions of a schema's columns in rows of one layout; -1 for a missing column.
struct RowSlots: Sendable {
    let layout: RowLayout
    let slots: [Int]

    init(_ layout: RowLayout, _ schema: RecordSchema) {
        self.layout = layout
        slots = schema.layout.names.map { layout.index(of: $0) ?? -1 }
    }
}

/// A decoder over a row, for the `init(from:)` of one model.
final class RowReader: Decoder {
    private let schema: RecordSchema
    private let names: [String]
    private let defaults: [Value]
    private var layout: RowLayout
    private var slots: [Int]
    private var values: [Value] = []
    private var next = 0
    /// The index of the key that was requested last; -1 for a key that the schema does not have.
    private var askedIndex = -1
    private var unknownKey = ""
    /// The members of the row that its table does not have; nil until one of them is requested.
    private var unknownMembers: Row?

    private var asked: String { askedIndex < 0 ? unknownKey : names[askedIndex] }

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    /// `defaults` has one value for each column of the schema: null if the column has no default.
    init(_ schema: RecordSchema, defaults: [Value]) {
        self.schema = schema
        self.defaults = defaults
        names = schema.layout.names
        layout = .empty
        slots = []
    }

    /// Decodes one row.
    func read<Record: SyncRecord>(_ row: Row, as type: Record.Type) throws -> Record {
        load(row)
        do {
            return try Record(from: self)
        } catch {
            let mismatch = error as? TypeMismatch
            throw SyncError.rowDoesNotFit(
                table: schema.table.name,
                id: row.id,
                column: asked,
                expected: mismatch?.expected ?? "accepted by the initializer of \(type)"
            )
        }
    }

    private func load(_ row: Row) {
        if slots.isEmpty || row.rowLayout !== layout {
            layout = row.rowLayout
            slots = schema.slots(of: layout).slots
        }
        values = row.allValues
        unknownMembers = nil
        next = 0
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        next = 0
        return KeyedDecodingContainer(RowReaderContainer<Key>(reader: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        throw TypeMismatch(expected: "an array")
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer {
        throw TypeMismatch(expected: "a single value")
    }

    /// Returns the index of a column in the schema; -1 if the schema does not have the key.
    @inline(__always)
    func advance(to key: String) -> Int {
        let index = next < names.count && names[next] == key ? next : seek(key)
        askedIndex = index
        if index >= 0 { next = index + 1 }
        return index
    }

    private func seek(_ key: String) -> Int {
        if let index = names.firstIndex(of: key) { return index }
        unknownKey = key
        return -1
    }

    /// Returns the value at a schema index; null if the row lacks the column.
    @inline(__always)
    func value(at index: Int) -> Value {
        if index < 0 { return member(asked) ?? .null }
        let slot = slots[index]
        return slot < 0 ? member(names[index]) ?? .null : values[slot]
    }

    /// Returns the value of a member; nil if the row lacks it.
    private func member(_ key: String) -> Value? {
        if let slot = layout.index(of: key) { return values[slot] }
        guard let slot = layout.index(of: UnknownMembers.name) else { return nil }
        let members = unknownMembers ?? UnknownMembers.members(of: values[slot])
        unknownMembers = members
        return members[key]
    }

    /// Returns the value at a schema index, or the declared default if it is missing or null.
    @inline(__always)
    func valueOrDefault(at index: Int) -> Value {
        let value = value(at: index)
        return value.isNull && index >= 0 ? defaults[index] : value
    }

    func hasMember(_ key: String) -> Bool { member(key) != nil }

    func isNull(_ key: String) -> Bool { member(key)?.isNull ?? true }

    /// Decodes a type that has no column type of its own, from its scalar or from a document.
    func decode<T: Decodable>(_ type: T.Type, _ value: Value, at index: Int) throws -> T {
        do {
            if isDocument(value, at: index) { return try document(type, value, at: index) }
            return try T(from: ScalarDecoder(value: value))
        } catch  where value.isNull {
            throw TypeMismatch.missing(type)
        } catch {
            throw TypeMismatch(expected: "of the type \(type)")
        }
    }

    private func isDocument(_ value: Value, at index: Int) -> Bool {
        if case .json = value { return true }
        return index >= 0 && schema.columns[index].type == .json
    }

    private func document<T: Decodable>(_ type: T.Type, _ value: Value, at index: Int) throws -> T {
        let json = value.asJSON()
        guard json.text == "null" else {
            guard index >= 0, case .json(let known) = defaults[index] else {
                return try json.decode(type)
            }
            return try decodeDocument(type, json, known)
        }
        for empty in ["null", "[]", "{}"] {
            if let value = try? JSON(checked: empty).decode(type) { return value }
        }
        throw TypeMismatch(expected: "of the type \(type)")
    }
}

/// Decodes a document.
///
/// If a member that its type requires is missing or null, the default's member is used.
private func decodeDocument<T: Decodable>(_ type: T.Type, _ json: JSON, _ known: JSON) throws -> T {
    var json = json
    for _ in 0..<JSONDocument.missingMembersMax {
        do {
            return try json.decode(type)
        } catch DecodingError.keyNotFound(let key, let context) {
            json = try json.filled(at: context.codingPath + [key], from: known)
        } catch DecodingError.valueNotFound(_, let context) {
            json = try json.filled(at: context.codingPath, from: known)
        }
    }
    return try json.decode(type)
}

extension JSON {
    /// Returns this document with missing and null members replaced by those of the default.
    fileprivate func filled(at codingPath: [any CodingKey], from known: JSON) throws -> JSON {
        let path = codingPath.map { Array($0.stringValue.utf8) }
        guard !path.isEmpty, codingPath.allSatisfy({ $0.intValue == nil }),
            let document = JSONDocument(self),
            let member = JSONDocument(known)?.value(at: path)
        else { throw TypeMismatch(expected: "decodable") }
        let isNull = document.value(at: path)?.json.text == "null"
        guard
            let filled = isNull
                ? document.setting(member, at: path) : document.adding(member, at: path)
        else { throw TypeMismatch(expected: "decodable") }
        return filled.json
    }
}

extension RecordSchema {
    /// Returns the positions of this schema's columns in a layout; remembers the layout used last.
    fileprivate func slots(of layout: RowLayout) -> RowSlots {
        if let recent = recentSlots.withLock({ $0 }), recent.layout === layout { return recent }
        let slots = RowSlots(layout, self)
        recentSlots.withLock { $0 = slots }
        return slots
    }
}

extension TypeMismatch {
    /// Returns the error for a missing value of a type that has no zero value, unlike strings ('') and numbers
    /// (0).
    static func missing(_ type: Any.Type) -> TypeMismatch {
        TypeMismatch(
            expected: """
                present, and \(type) has no empty value: make the property optional, or declare a \
                default in 'columns'
                """
        )
    }
}
