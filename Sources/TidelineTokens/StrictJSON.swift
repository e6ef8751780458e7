// StrictJSON: whole JSON objects by JSONReader, with duplicate members refused and its faults
// turned into errors of tokens.

import TidelineCore

enum StrictJSON {
    /// Hands each member of the object that `bytes` are to `member`, which reads its value.
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

    /// The same for an object within a document, whose first token was read.
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
    /// The text of a value that must be a string.
    func string(_ token: Token, _ name: StaticString) throws -> String {
        guard case .string(let span) = token else {
            throw failure("a string is expected for '\(name)'")
        }
        return text(span)
    }

    /// The texts of a value that must be an array of strings.
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
    /// Whether both are the same bytes; `==` would take canonically equivalent texts for equal.
    func isSameText(as other: String) -> Bool {
        utf8.elementsEqual(other.utf8)
    }
}
