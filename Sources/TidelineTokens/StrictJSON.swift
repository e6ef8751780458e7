// StrictJSON: reads objects with JSONReader, and turns its errors into token errors.

import TidelineCore

/// A reader of complete JSON objects that rejects duplicate members.
enum StrictJSON {
    /// Passes each member of the object in `bytes` to `member`, which reads its value.
    static func object(
        _ bytes: [UInt8],
        _ what: String,
        _ member: (inout JSONReader, String, JSONReader.Token) throws -> Void
    ) throws(TokenError) {
        do {
            try bytes.withUnsafeBufferPointer { buffer in
                var reader = JSONReader(buffer)
                try members(&reader, try reader.value(), member)
                try reader.end()
            }
        } catch let error as TokenError {
            throw error
        } catch let fault as JSONError {
            throw .malformed(what, fault)
        } catch {
            throw TokenError(.malformed, "The \(what) cannot be read.")
        }
    }

    /// Does the same for an object within a document, after its first token was read.
    static func members(
        _ reader: inout JSONReader,
        _ token: JSONReader.Token,
        _ member: (inout JSONReader, String, JSONReader.Token) throws -> Void
    ) throws {
        guard case .object = token else { throw reader.failure("a JSON object is expected") }
        try reader.beginObject()
        var names = MemberNames()
        while let name = try reader.nextMember() {
            try names.insert(name, reader)
            let token = try reader.value()
            try member(&reader, reader.text(name), token)
        }
    }
}

extension JSONReader {
    /// Returns a value that must be a string.
    func string(_ token: Token, _ name: StaticString) throws -> String {
        guard case .string(let span) = token else {
            throw failure("a string is expected for '\(name)'")
        }
        return text(span)
    }

    /// Returns a value that must be an array of strings.
    mutating func strings(_ token: Token, _ name: StaticString) throws -> [String] {
        guard case .array = token else {
            throw failure("an array of strings is expected for '\(name)'")
        }
        try beginArray()
        var texts: [String] = []
        while try nextElement() { texts.append(try string(try value(), name)) }
        return texts
    }
}

extension String {
    /// Returns whether both have the same bytes; `==` also treats canonically equivalent strings as equal.
    func isSameText(as other: String) -> Bool {
        utf8.elementsEqual(other.utf8)
    }
}
