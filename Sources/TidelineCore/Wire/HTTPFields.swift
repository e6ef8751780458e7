// HTTPFields: header fields in order, with case-insensitive names (RFC 9110 section 5.1).

/// The header fields of a request or response.
public struct HTTPFields: Sendable, Hashable, ExpressibleByDictionaryLiteral, Sequence {
    /// One header field.
    public struct Field: Sendable, Hashable {
        /// The field name as sent.
        public var name: String
        /// The value without surrounding white space.
        public var value: String

        /// Returns whether the field has this name, in any letter case.
        package func isNamed(_ name: String) -> Bool { HTTPFields.same(self.name, name) }
    }

    private var fields: [Field] = []

    /// Creates an empty collection of fields.
    public init() {}

    /// Creates fields in the order of the literal.
    public init(dictionaryLiteral elements: (String, String)...) {
        fields = elements.map { Field(name: $0, value: $1) }
    }

    /// The values of all fields with this name, joined by `, `, or nil; setting a value replaces
    /// all fields with this name.
    public subscript(name: String) -> String? {
        get {
            var result: String?
            for field in fields where Self.same(field.name, name) {
                result = result.map { $0 + ", " + field.value } ?? field.value
            }
            return result
        }
        set {
            fields.removeAll { Self.same($0.name, name) }
            if let newValue { fields.append(Field(name: name, value: newValue)) }
        }
    }

    /// Appends a field.
    public mutating func append(_ name: String, _ value: String) {
        fields.append(Field(name: name, value: value))
    }

    /// Iterates over the fields in order.
    public func makeIterator() -> IndexingIterator<[Field]> { fields.makeIterator() }

    /// Returns whether a byte is a letter, a digit, `-`, `_` or `.`, as in the names of common
    /// fields.
    package static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"),
            UInt8(ascii: "."):
            true
        default: false
        }
    }

    /// The fields as an array.
    package var all: [Field] { fields }

    /// Reserves capacity for this many fields.
    package mutating func reserveCapacity(_ count: Int) { fields.reserveCapacity(count) }

    fileprivate static func same(_ one: String, _ two: String) -> Bool {
        guard one.utf8.count == two.utf8.count else { return false }
        var (one, two) = (one, two)
        return one.withUTF8 { one in
            two.withUTF8 { two in one.indices.allSatisfy { lower(one[$0]) == lower(two[$0]) } }
        }
    }

    private static func lower(_ byte: UInt8) -> UInt8 {
        byte >= 0x41 && byte <= 0x5A ? byte | 0x20 : byte
    }
}
