// JSONReader: reads JSON from bytes.
//
// The reader rejects the following, and reports the position: invalid UTF-8, lone surrogates,
// control characters in strings, duplicate names, depth over the limit, and bytes after the value.
// Numbers are returned as spans of text, so that integers stay exact. The order of calls:
//
//     value() -> { beginObject() { nextMember() value() }* | beginArray() { nextElement() value() }* }
//
// A span points into the bytes and is valid as long as they are.

/// An error in a JSON text, with its position and the expected text.
public struct JSONError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The offset of the first invalid byte.
    public var position: Int
    /// A description of the error.
    public var message: String

    /// The message followed by the position.
    public var description: String { "\(message) at byte \(position)" }
}

/// A strict pull reader for JSON bytes (RFC 8259), which builds no tree.
package struct JSONReader {
    /// The maximum nesting depth of objects and arrays.
    package static let depthMax = 64

    package enum Token {
        case null
        case bool(Bool)
        /// A number, as its range in the bytes.
        case number(Range<Int>)
        /// A string, as the span between its quotes.
        case string(Span)
        /// An object, whose opening brace is the next byte.
        case object
        /// An array, whose opening bracket is the next byte.
        case array
    }

    /// The content of a string, and whether it contains escapes.
    package struct Span {
        package var range: Range<Int>
        package var isEscaped: Bool
    }

    package let bytes: UnsafeBufferPointer<UInt8>
    package internal(set) var position = 0
    private let depthMax: Int
    private var depth = 0
    private var isFirst = false

    /// `outside` is the number of enclosing objects and arrays that do not count toward the depth
    /// limit, such as those of a batch around the body of a request.
    package init(_ bytes: UnsafeBufferPointer<UInt8>, outside: Int = 0) {
        self.bytes = bytes
        depthMax = Self.depthMax + outside
    }

    package func failure(_ message: String, at position: Int? = nil) -> JSONError {
        JSONError(position: position ?? self.position, message: message)
    }

    @inline(__always)
    var current: UInt8? { position < bytes.count ? bytes[position] : nil }

    @inline(__always)
    private mutating func skipSpace() {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x0A, 0x0D, 0x09: position += 1
            default: return
            }
        }
    }

    /// Checks that only white space follows the document.
    package mutating func end() throws {
        skipSpace()
        guard position == bytes.count else { throw failure("text after the end of the JSON value") }
    }

    /// Reads a complete scalar, or stops before the bracket of an object or array.
    package mutating func value() throws -> Token {
        skipSpace()
        guard let byte = current else {
            throw failure("a JSON value is expected, but the text ends")
        }
        switch byte {
        case UInt8(ascii: "\""): return .string(try stringSpan())
        case UInt8(ascii: "{"): return .object
        case UInt8(ascii: "["): return .array
        case UInt8(ascii: "t"):
            try literal("true")
            return .bool(true)
        case UInt8(ascii: "f"):
            try literal("false")
            return .bool(false)
        case UInt8(ascii: "n"):
            try literal("null")
            return .null
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number(try number())
        default: throw failure("a JSON value is expected")
        }
    }

    private mutating func literal(_ word: StaticString) throws {
        for offset in 0..<word.utf8CodeUnitCount {
            guard current == word.utf8Start[offset] else {
                throw failure("a JSON value is expected")
            }
            position += 1
        }
    }

    private mutating func enter() throws {
        position += 1
        depth += 1
        isFirst = true
        guard depth <= depthMax else {
            throw failure("nesting deeper than \(depthMax) levels", at: position - 1)
        }
    }

    package mutating func beginObject() throws {
        skipSpace()
        guard current == UInt8(ascii: "{") else { throw failure("a JSON object is expected") }
        try enter()
    }

    package mutating func beginArray() throws {
        skipSpace()
        guard current == UInt8(ascii: "[") else { throw failure("a JSON array is expected") }
        try enter()
    }

    /// Returns the next member's name after reading its colon, or nil after the closing brace.
    ///
    /// The caller must detect duplicate names, because only the caller knows the columns.
    package mutating func nextMember() throws -> Span? {
        guard try nextPart(closing: UInt8(ascii: "}"), "',' or '}' is expected") else { return nil }
        guard current == UInt8(ascii: "\"") else { throw failure("a member name is expected") }
        let name = try stringSpan()
        skipSpace()
        guard current == UInt8(ascii: ":") else { throw failure("':' is expected") }
        position += 1
        return name
    }

    /// Returns true before the next element; false after the closing bracket.
    package mutating func nextElement() throws -> Bool {
        try nextPart(closing: UInt8(ascii: "]"), "',' or ']' is expected")
    }

    private mutating func nextPart(closing: UInt8, _ expected: StaticString) throws -> Bool {
        skipSpace()
        if current == closing {
            position += 1
            depth -= 1
            isFirst = false
            return false
        }
        if isFirst {
            isFirst = false
        } else {
            guard current == UInt8(ascii: ",") else { throw failure("\(expected)") }
            position += 1
            skipSpace()
        }
        return true
    }
}

// MARK: - Whole values

extension JSONReader {
    /// Checks any value, rejects duplicate names in it, and returns its span.
    package mutating func rawValue() throws -> Range<Int> {
        skipSpace()
        let start = position
        try skip(try value())
        return start..<position
    }

    /// Checks the rest of a value whose first token has been read.
    ///
    /// If `checksNames` is false, duplicate names are accepted, because another reader checks the
    /// value again.
    package mutating func skip(_ token: Token, checksNames: Bool = true) throws {
        switch token {
        case .object:
            try beginObject()
            var names = MemberNames()
            while let name = try nextMember() {
                if checksNames { try names.insert(name, self) }
                try skip(try value(), checksNames: checksNames)
            }
        case .array:
            try beginArray()
            while try nextElement() { try skip(try value(), checksNames: checksNames) }
        case .null, .bool, .number, .string:
            break
        }
    }
}

/// The names of an object's members, for detecting duplicates.
package struct MemberNames {
    /// The names of a small object, which are compared one by one as long as none has escapes.
    private var few: [Range<Int>] = []
    /// The names of any other object.
    private var many: Set<[UInt8]> = []

    private static let fewMax = 16

    package init() {}

    /// Adds a name; all names must come from the same reader.
    package mutating func insert(_ name: JSONReader.Span, _ reader: JSONReader) throws {
        guard insertsNew(name, reader) else {
            throw reader.failure("duplicate member name", at: name.range.lowerBound)
        }
    }

    private mutating func insertsNew(_ name: JSONReader.Span, _ reader: JSONReader) -> Bool {
        func bytes(_ range: Range<Int>) -> UnsafeBufferPointer<UInt8> {
            UnsafeBufferPointer(rebasing: reader.bytes[range])
        }
        if many.isEmpty, few.count < Self.fewMax, !name.isEscaped {
            if few.isEmpty { few.reserveCapacity(Self.fewMax / 2) }
            let sent = bytes(name.range)
            guard !few.contains(where: { bytes($0).elementsEqual(sent) }) else { return false }
            few.append(name.range)
            return true
        }
        for range in few { many.insert(Array(bytes(range))) }
        few = []
        return many.insert(
            name.isEscaped ? Array(reader.text(name).utf8) : Array(bytes(name.range))
        ).inserted
    }
}
