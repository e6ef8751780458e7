// JSONTape: the values of a document in text order, each with the index after its last part.

/// The values of a checked document, which can be found without parsing the document again.
struct JSONTape {
    enum Kind {
        case null, yes, no, number, string, escaped, object, array
    }

    struct Node {
        var kind: Kind
        /// The bytes of a scalar; a string without its quotes.
        var range: Range<Int>
        /// The index after the value's last part.
        ///
        /// The parts of an object are alternating names and values.
        var end: Int
    }

    let bytes: [UInt8]
    private(set) var nodes: [Node] = []

    /// Reads a whole document.
    init(_ text: String) throws {
        bytes = Array(text.utf8)
        var nodes: [Node] = []
        try bytes.withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes)
            try Self.read(&reader, into: &nodes)
            try reader.end()
        }
        self.nodes = nodes
    }

    private static func read(_ reader: inout JSONReader, into nodes: inout [Node]) throws {
        switch try reader.value() {
        case .null: add(.null, to: &nodes)
        case .bool(let isTrue): add(isTrue ? .yes : .no, to: &nodes)
        case .number(let range): add(.number, range, to: &nodes)
        case .string(let span): add(span.isEscaped ? .escaped : .string, span.range, to: &nodes)
        case .object:
            let place = nodes.count
            add(.object, to: &nodes)
            try reader.beginObject()
            while let name = try reader.nextMember() {
                add(name.isEscaped ? .escaped : .string, name.range, to: &nodes)
                try read(&reader, into: &nodes)
            }
            nodes[place].end = nodes.count
        case .array:
            let place = nodes.count
            add(.array, to: &nodes)
            try reader.beginArray()
            while try reader.nextElement() { try read(&reader, into: &nodes) }
            nodes[place].end = nodes.count
        }
    }

    private static func add(
        _ kind: Kind,
        _ range: Range<Int> = 0..<0,
        to nodes: inout [Node]
    ) {
        nodes.append(Node(kind: kind, range: range, end: nodes.count + 1))
    }

    /// Returns the bytes of a scalar as a string.
    func text(_ node: Node) -> String { String(decoding: bytes[node.range], as: UTF8.self) }

    /// Returns the index of a member's value; nil if the object has no such member.
    func member(_ name: String, of object: Int) -> Int? {
        var place = object + 1
        while place < nodes[object].end {
            let range = nodes[place].range
            if range.count == name.utf8.count, bytes[range].elementsEqual(name.utf8) {
                return place + 1
            }
            place = nodes[place + 1].end
        }
        return nil
    }
}
