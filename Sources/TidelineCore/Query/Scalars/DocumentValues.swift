// DocumentValues: nested values in the documents of rows.
//
// Only objects have members, and only arrays have elements. Reading stops where the text is not
// valid JSON, which servers and devices never store. If an object has several members with the same
// name, the last one counts, as in PostgreSQL's `jsonb`.

/// A reader of the members and elements of JSON documents, for conditions on nested values.
package enum DocumentValues {
    /// Returns a member of a document, given by the names along its path; null if there is none.
    ///
    /// A member that is an object or array is returned as a document.
    package static func member(of document: Value, _ names: [String]) -> Value {
        read(document) { reader in try reader.member(names[...]) } ?? .null
    }

    /// Returns the number of elements of an array; 0 for any other value.
    package static func count(_ list: Value) -> Int64 {
        let count = read(list) { reader in
            var count: Int64 = 0
            guard try reader.beginsArray() else { return count }
            while try reader.nextElement() {
                try reader.skip(try reader.value(), checksNames: false)
                count += 1
            }
            return count
        }
        return count ?? 0
    }

    /// Returns whether any element of an array satisfies a predicate; false for any other value.
    package static func contains(in list: Value, where isWanted: (Value) -> Bool) -> Bool {
        let isFound = read(list) { reader in
            guard try reader.beginsArray() else { return false }
            while try reader.nextElement() {
                if isWanted(try reader.documentValue()) { return true }
            }
            return false
        }
        return isFound ?? false
    }

    private static func read<Result>(
        _ value: Value,
        _ body: (inout JSONReader) throws -> Result
    ) -> Result? {
        guard case .json(let document) = value else { return nil }
        var text = document.text
        return text.withUTF8 { bytes in
            var reader = JSONReader(bytes)
            return try? body(&reader)
        }
    }
}

extension JSONReader {
    /// Reads the opening bracket of an array; returns false for any other value.
    fileprivate mutating func beginsArray() throws -> Bool {
        guard case .array = try value() else { return false }
        try beginArray()
        return true
    }

    /// Reads the next value and returns its member at a path of names; null if there is none.
    fileprivate mutating func member(_ names: ArraySlice<String>) throws -> Value {
        guard let name = names.first else { return try documentValue() }
        let token = try value()
        guard case .object = token else {
            try skip(token, checksNames: false)
            return .null
        }
        try beginObject()
        var found = Value.null
        while let span = try nextMember() {
            if isName(span, name) {
                found = try member(names.dropFirst())
            } else {
                try skip(try value(), checksNames: false)
            }
        }
        return found
    }

    private func isName(_ span: Span, _ name: String) -> Bool {
        span.isEscaped ? text(span).hasSameBytes(as: name) : reads(span, name)
    }

    /// Reads the next value; an object or array is returned as a document.
    fileprivate mutating func documentValue() throws -> Value {
        let token = try value()
        switch token {
        case .null: return .null
        case .bool(let value): return .bool(value)
        case .number(let range): return number(range)
        case .string(let span): return .string(text(span))
        case .object, .array:
            let start = position
            try skip(token, checksNames: false)
            return .json(JSON(checked: text(start..<position)))
        }
    }

    /// Returns a number: an integer if it has no fraction, regardless of its spelling, and
    /// otherwise as exact as possible.
    ///
    /// Returns null if the number is outside the range of a double.
    private func number(_ range: Range<Int>) -> Value {
        if let whole = integer(range) { return .integer(whole) }
        let text = text(range)
        if let decimal = DecimalText.parse(text) {
            return Int64(DecimalText.canonical(decimal)).map { .integer($0) } ?? .decimal(decimal)
        }
        guard let number = Double(text), number.isFinite else { return .null }
        return .number(number)
    }
}
