// QueryParameters: parses query strings.

/// The decoded parameters of a query string, in order.
package struct QueryParameters: Sendable {
    package struct Parameter: Hashable, Sendable {
        package var name: String
        package var value: String
    }

    package private(set) var all: [Parameter] = []

    /// Decodes `query`.
    ///
    /// A `+` is a space, and a parameter without `=` has an empty value.
    package init(_ query: String) throws {
        guard !query.isEmpty else { return }
        var text = query
        try text.withUTF8 { bytes in
            for part in bytes.split(separator: UInt8(ascii: "&")) {
                let split = part.firstIndex(of: UInt8(ascii: "=")) ?? part.endIndex
                guard let name = Self.decode(part[..<split]),
                    let value = Self.decode(part[split...].dropFirst())
                else {
                    throw ServerError.badRequest(
                        "The query string is not correctly percent-encoded."
                    )
                }
                all.append(Parameter(name: name, value: value))
            }
        }
    }

    private static func decode(_ part: Slice<UnsafeBufferPointer<UInt8>>) -> String? {
        PercentCoding.decode(UnsafeBufferPointer(rebasing: part), plusIsSpace: true)
    }

    /// Returns the values of a parameter, ignoring the case of ASCII letters in its name.
    package func values(_ name: StaticString) -> [String] {
        all.compactMap { ASCII.equal($0.name, name) ? $0.value : nil }
    }

    /// Whether the query has `__includeDeleted=true`, in any letter case.
    package var includesDeleted: Bool {
        !all.isEmpty
            && values("__includedeleted").contains { ASCII.equal($0, "true") }
    }

    /// The names in `__changed`, in lower case: the members of the body that the caller has set.
    ///
    /// Nil if the query does not have the parameter.
    package var changedMembers: Set<String>? {
        guard !all.isEmpty else { return nil }
        let lists = values("__changed")
        guard !lists.isEmpty else { return nil }
        return Set(lists.flatMap { $0.split(separator: ",") }.map { $0.lowercased() })
    }
}

/// Comparisons that ignore the case of ASCII letters.
package enum ASCII {
    /// Returns whether `text` equals `lower`, which must be in lower case.
    package static func equal(_ text: String, _ lower: StaticString) -> Bool {
        var text = text
        return text.withUTF8 { bytes in
            guard bytes.count == lower.utf8CodeUnitCount else { return false }
            for index in bytes.indices where Self.lower(bytes[index]) != lower.utf8Start[index] {
                return false
            }
            return true
        }
    }

    /// Returns whether a substring equals `lower`, which must be in lower case.
    package static func equal(_ text: Substring, _ lower: StaticString) -> Bool {
        let utf8 = text.utf8
        guard utf8.count == lower.utf8CodeUnitCount else { return false }
        var pointer = lower.utf8Start
        for byte in utf8 {
            if Self.lower(byte) != pointer.pointee { return false }
            pointer += 1
        }
        return true
    }

    @inline(__always)
    package static func lower(_ byte: UInt8) -> UInt8 {
        byte >= 0x41 && byte <= 0x5A ? byte | 0x20 : byte
    }
}
