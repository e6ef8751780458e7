// DocumentDecoder: decodes plain documents without the fixed cost of a JSONDecoder for each value.
//
// It decodes only what it decodes exactly as JSONDecoder does. Everything else, including every
// error, makes the result invalid, and the caller decodes the document with JSONDecoder. Most
// nested values of a row have fewer than 200 bytes, and most of a JSONDecoder's time is the same
// for every document.

import Foundation

/// A decoder of one value in a document.
struct DocumentDecoder: Decoder {
    /// A document that is being decoded.
    ///
    /// A type that handles an error of this decoder could get a different result than with
    /// JSONDecoder, so the first error makes the whole result invalid.
    fileprivate final class Source {
        let tape: JSONTape
        var isExact = true

        init(_ tape: JSONTape) { self.tape = tape }

        /// Returns the error for a value that this decoder leaves to JSONDecoder.
        func inexact() -> any Error {
            isExact = false
            return Inexact()
        }
    }

    private struct Inexact: Error {}

    fileprivate let source: Source
    fileprivate let place: Int

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    /// Decodes a document; nil if only JSONDecoder can decode it.
    static func decode<T: Decodable>(_ type: T.Type, from text: String) -> T? {
        guard let tape = try? JSONTape(text) else { return nil }
        let source = Source(tape)
        let value = try? DocumentDecoder(source: source, place: 0).value(type)
        return source.isExact ? value : nil
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard node.kind == .object else { throw source.inexact() }
        return KeyedDecodingContainer(DocumentMembers<Key>(decoder: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard node.kind == .array else { throw source.inexact() }
        return DocumentElements(decoder: self)
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer { self }
}

// MARK: - Values

extension DocumentDecoder: SingleValueDecodingContainer {
    fileprivate var node: JSONTape.Node { source.tape.nodes[place] }

    func decodeNil() -> Bool { node.kind == .null }

    func decode(_ type: Bool.Type) throws -> Bool {
        switch node.kind {
        case .yes: true
        case .no: false
        case .null, .number, .string, .escaped, .object, .array: throw source.inexact()
        }
    }

    func decode(_ type: String.Type) throws -> String {
        guard node.kind == .string else { throw source.inexact() }
        return source.tape.text(node)
    }

    func decode(_ type: Double.Type) throws -> Double {
        guard node.kind == .number, let number = Double(source.tape.text(node)), number.isFinite
        else { throw source.inexact() }
        return number
    }

    func decode(_ type: Float.Type) throws -> Float { throw source.inexact() }
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

    /// Reads an integer that has no fraction and no exponent.
    private func integer<Integer: FixedWidthInteger>(_ type: Integer.Type) throws -> Integer {
        guard node.kind == .number, let number = Integer(source.tape.text(node)) else {
            throw source.inexact()
        }
        return number
    }

    func decode<T: Decodable>(_ type: T.Type) throws -> T { try value(type) }

    /// Decodes the types to which JSONDecoder gives special treatment, and all other types by their
    /// initializer.
    fileprivate func value<T: Decodable>(_ type: T.Type) throws -> T {
        if type == Date.self {
            guard let date = Timestamp(try decode(String.self))?.appDate as? T else {
                throw source.inexact()
            }
            return date
        }
        if type == URL.self {
            guard let url = URL(string: try decode(String.self)) as? T else {
                throw source.inexact()
            }
            return url
        }
        if type == Data.self || type == Decimal.self { throw source.inexact() }
        do {
            return try T(from: self)
        } catch {
            throw source.inexact()
        }
    }
}

// MARK: - Objects

/// The keyed container of a ``DocumentDecoder``: the members of an object.
private struct DocumentMembers<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let decoder: DocumentDecoder

    var codingPath: [any CodingKey] { [] }

    var allKeys: [Key] {
        let tape = decoder.source.tape
        var keys: [Key] = []
        var place = decoder.place + 1
        while place < decoder.node.end {
            guard tape.nodes[place].kind == .string else {
                decoder.source.isExact = false
                return keys
            }
            if let key = Key(stringValue: tape.text(tape.nodes[place])) { keys.append(key) }
            place = tape.nodes[place + 1].end
        }
        return keys
    }

    private func find(_ key: Key) -> DocumentDecoder? {
        decoder.source.tape.member(key.stringValue, of: decoder.place)
            .map { DocumentDecoder(source: decoder.source, place: $0) }
    }

    private func member(_ key: Key) throws -> DocumentDecoder {
        guard let member = find(key) else { throw decoder.source.inexact() }
        return member
    }

    /// Returns the member if it exists and is not null.
    private func present(_ key: Key) -> DocumentDecoder? {
        find(key).flatMap { $0.decodeNil() ? nil : $0 }
    }

    func contains(_ key: Key) -> Bool { find(key) != nil }
    func decodeNil(forKey key: Key) throws -> Bool { try member(key).decodeNil() }

    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try member(key).decode(type) }
    func decode(_ type: String.Type, forKey key: Key) throws -> String {
        try member(key).decode(type)
    }
    func decode(_ type: Double.Type, forKey key: Key) throws -> Double {
        try member(key).decode(type)
    }
    func decode(_ type: Float.Type, forKey key: Key) throws -> Float {
        try member(key).decode(type)
    }
    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try member(key).decode(type) }
    func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { try member(key).decode(type) }
    func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 {
        try member(key).decode(type)
    }
    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 {
        try member(key).decode(type)
    }
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 {
        try member(key).decode(type)
    }
    func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { try member(key).decode(type) }
    func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 {
        try member(key).decode(type)
    }
    func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 {
        try member(key).decode(type)
    }
    func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 {
        try member(key).decode(type)
    }
    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 {
        try member(key).decode(type)
    }
    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
        try member(key).value(type)
    }

    func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? {
        try present(key)?.decode(type)
    }
    func decodeIfPresent<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T? {
        try present(key)?.value(type)
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type,
        forKey key: Key
    ) throws -> KeyedDecodingContainer<NestedKey> { try member(key).container(keyedBy: type) }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try member(key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder { throw decoder.source.inexact() }
    func superDecoder(forKey key: Key) throws -> any Decoder { throw decoder.source.inexact() }
}

// MARK: - Arrays

/// The unkeyed container of a ``DocumentDecoder``: the elements of an array.
private struct DocumentElements: UnkeyedDecodingContainer {
    let decoder: DocumentDecoder
    /// The position of the next element.
    private var place: Int
    private(set) var currentIndex = 0

    init(decoder: DocumentDecoder) {
        self.decoder = decoder
        place = decoder.place + 1
    }

    var codingPath: [any CodingKey] { [] }
    var isAtEnd: Bool { place >= decoder.node.end }

    var count: Int? {
        let nodes = decoder.source.tape.nodes
        var (count, place) = (0, decoder.place + 1)
        while place < decoder.node.end {
            count += 1
            place = nodes[place].end
        }
        return count
    }

    /// Reads the next element and advances past it.
    private mutating func next<T>(_ read: (DocumentDecoder) throws -> T) throws -> T {
        guard !isAtEnd else { throw decoder.source.inexact() }
        let element = DocumentDecoder(source: decoder.source, place: place)
        let value = try read(element)
        place = element.node.end
        currentIndex += 1
        return value
    }

    mutating func decodeNil() throws -> Bool {
        guard !isAtEnd else { throw decoder.source.inexact() }
        let element = DocumentDecoder(source: decoder.source, place: place)
        guard element.decodeNil() else { return false }
        return try next { _ in true }
    }

    mutating func decode(_ type: Bool.Type) throws -> Bool { try next { try $0.decode(type) } }
    mutating func decode(_ type: String.Type) throws -> String { try next { try $0.decode(type) } }
    mutating func decode(_ type: Double.Type) throws -> Double { try next { try $0.decode(type) } }
    mutating func decode(_ type: Float.Type) throws -> Float { try next { try $0.decode(type) } }
    mutating func decode(_ type: Int.Type) throws -> Int { try next { try $0.decode(type) } }
    mutating func decode(_ type: Int8.Type) throws -> Int8 { try next { try $0.decode(type) } }
    mutating func decode(_ type: Int16.Type) throws -> Int16 { try next { try $0.decode(type) } }
    mutating func decode(_ type: Int32.Type) throws -> Int32 { try next { try $0.decode(type) } }
    mutating func decode(_ type: Int64.Type) throws -> Int64 { try next { try $0.decode(type) } }
    mutating func decode(_ type: UInt.Type) throws -> UInt { try next { try $0.decode(type) } }
    mutating func decode(_ type: UInt8.Type) throws -> UInt8 { try next { try $0.decode(type) } }
    mutating func decode(_ type: UInt16.Type) throws -> UInt16 { try next { try $0.decode(type) } }
    mutating func decode(_ type: UInt32.Type) throws -> UInt32 { try next { try $0.decode(type) } }
    mutating func decode(_ type: UInt64.Type) throws -> UInt64 { try next { try $0.decode(type) } }
    mutating func decode<T: Decodable>(_ type: T.Type) throws -> T {
        try next { try $0.value(type) }
    }

    mutating func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type
    ) throws -> KeyedDecodingContainer<NestedKey> { try next { try $0.container(keyedBy: type) } }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try next { try $0.unkeyedContainer() }
    }

    mutating func superDecoder() throws -> any Decoder { throw decoder.source.inexact() }
}
