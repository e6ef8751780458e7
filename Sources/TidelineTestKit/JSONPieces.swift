// JSONPieces: splits JSON texts into parts and joins the parts again.

import TidelineCore

/// A splitter that divides a JSON object or array into the texts of its members or elements.
enum JSONPieces {
    /// A member of an object, with the unchanged text of its value.
    struct Member: Sendable {
        var name: String
        var value: [UInt8]
    }

    /// The additional nesting depth of values in a batch, relative to values in columns.
    private static let outside = 8

    /// Returns the members of an object; nil if the text is not an object.
    static func members(_ text: [UInt8]) -> [Member]? {
        text.withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes, outside: outside)
            var result: [Member] = []
            do {
                guard case .object = try reader.value() else { return nil }
                try reader.beginObject()
                while let name = try reader.nextMember() {
                    let value = Array(bytes[try reader.rawValue()])
                    result.append(Member(name: reader.text(name), value: value))
                }
                try reader.end()
            } catch {
                return nil
            }
            return result
        }
    }

    /// Returns the elements of an array; nil if the text is not an array.
    static func elements(_ text: [UInt8]) -> [[UInt8]]? {
        text.withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes, outside: outside)
            var result: [[UInt8]] = []
            do {
                guard case .array = try reader.value() else { return nil }
                try reader.beginArray()
                while try reader.nextElement() {
                    result.append(Array(bytes[try reader.rawValue()]))
                }
                try reader.end()
            } catch {
                return nil
            }
            return result
        }
    }

    /// Returns the content of a string; nil if the value is not a string.
    static func text(_ value: [UInt8]) -> String? {
        value.withUnsafeBufferPointer { bytes in
            var reader = JSONReader(bytes)
            guard case .string(let span) = try? reader.value() else { return nil }
            return reader.text(span)
        }
    }

    static func object(_ members: [Member]) -> [UInt8] {
        var writer = JSONWriter()
        writer.byte("{")
        for (index, member) in members.enumerated() {
            if index > 0 { writer.byte(",") }
            writer.string(member.name)
            writer.byte(":")
            writer.raw(member.value)
        }
        writer.byte("}")
        return writer.bytes
    }

    static func array(_ elements: [[UInt8]]) -> [UInt8] {
        Array("[".utf8) + elements.joined(separator: [UInt8(ascii: ",")]) + Array("]".utf8)
    }
}

extension [JSONPieces.Member] {
    /// The value of the member with this name.
    subscript(name: String) -> [UInt8]? {
        get { first { $0.name == name }?.value }
        set {
            guard let index = firstIndex(where: { $0.name == name }) else { return }
            if let newValue { self[index].value = newValue } else { remove(at: index) }
        }
    }
}
