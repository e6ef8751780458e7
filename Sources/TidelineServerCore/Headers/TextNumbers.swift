// TextNumbers: 64-bit integers and decimals as strings, for callers whose JSON numbers are doubles: the
// parameter IEEE754Compatible of OData's media type. Pure.
//
// Only the numbers in a body change. A body that cannot be parsed is not changed, and is rejected later.

import TidelineCore

/// The columns of a table whose numbers a double may not represent.
package struct TextNumbers: Sendable {
    /// The names in lower case.
    private let names: Set<String>

    package init(of table: Table) {
        let columns = table.columns.filter { [.integer, .decimal].contains($0.type) }.map(\.name)
        let former = table.definition.aliases.filter { columns.contains($0.value) }.keys
        names = Set((columns + former).map { $0.lowercased() })
    }

    /// Whether a field such as `Accept` or `Content-Type` has the parameter with the value true.
    package static func isAsked(by field: String?) -> Bool { choice(of: field) ?? false }

    /// Returns the value of the parameter in any media range that includes JSON; nil if it is absent.
    package static func choice(of field: String?) -> Bool? {
        guard let field, field.utf8.contains(UInt8(ascii: "=")) else { return nil }
        var choice: Bool?
        for range in field.split(separator: ",") {
            let parts = range.split(separator: ";").map { part in
                part.filter { $0 != " " && $0 != "\t" && $0 != "\"" }.lowercased()
            }
            guard let type = parts.first, fitsJSON(type) else { continue }
            let isRejected = parts.contains { part in
                part.hasPrefix("q=") && Double(part.dropFirst(2)) == 0
            }
            guard !isRejected else { continue }
            if parts.contains("ieee754compatible=true") { return true }
            if parts.contains("ieee754compatible=false") { choice = false }
        }
        return choice
    }

    /// The parameter in the media type of an answer.
    static let parameter = "; IEEE754Compatible=true"

    private static func fitsJSON(_ type: String) -> Bool {
        type == "*/*" || type == "application/*" || type == "application/json"
            || type.hasPrefix("application/") && type.hasSuffix("+json")
    }

    // MARK: - Answers

    /// The location of the rows in a body.
    package enum Shape: Sendable {
        /// The body is a row.
        case row
        /// An array of rows, or an object whose `items` or `results` contains one.
        case list

        /// Reads a body, and calls `row` with the first token of each row.
        func eachRow(
            _ reader: inout JSONReader,
            _ row: (JSONReader.Token, inout JSONReader) throws -> Void
        ) throws {
            let token = try reader.value()
            guard self == .list else { return try row(token, &reader) }
            if case .array = token { return try Self.elements(&reader, row) }
            guard case .object = token else { return try reader.skip(token) }
            try reader.beginObject()
            while let name = try reader.nextMember() {
                let isItems = ["items", "results"].contains(reader.text(name))
                let token = try reader.value()
                if isItems, case .array = token {
                    try Self.elements(&reader, row)
                } else {
                    try reader.skip(token)
                }
            }
        }

        private static func elements(
            _ reader: inout JSONReader,
            _ row: (JSONReader.Token, inout JSONReader) throws -> Void
        ) throws {
            try reader.beginArray()
            while try reader.nextElement() { try row(try reader.value(), &reader) }
        }
    }

    /// Returns the body with the numbers of these columns as strings.
    package func quoted(_ body: [UInt8], _ shape: Shape) -> [UInt8] {
        changed(body) { reader, editor in
            try shape.eachRow(&reader) { try row($0, &$1, &editor) }
        }
    }

    private func row(
        _ token: JSONReader.Token,
        _ reader: inout JSONReader,
        _ editor: inout TextEditor
    ) throws {
        guard case .object = token else { return try reader.skip(token) }
        try reader.beginObject()
        while let name = try reader.nextMember() {
            let token = try reader.value()
            if case .number(let range) = token, names.contains(reader.text(name).lowercased()) {
                editor.replace(range, with: [Self.quote] + editor.bytes[range] + [Self.quote])
            }
            try reader.skip(token)
        }
    }

    // MARK: - Bodies

    /// Returns a body (a row or a JSON Patch) in which strings of these columns that contain numbers are numbers.
    package func unquoted(_ body: [UInt8]) -> [UInt8] {
        changed(body) { reader, editor in
            switch try reader.value() {
            case .object: try members(&reader, &editor)
            case .array:
                try reader.beginArray()
                while try reader.nextElement() {
                    let token = try reader.value()
                    if case .object = token {
                        try step(&reader, &editor)
                    } else {
                        try reader.skip(token)
                    }
                }
            case let token: try reader.skip(token)
            }
        }
    }

    private func members(_ reader: inout JSONReader, _ editor: inout TextEditor) throws {
        try reader.beginObject()
        while let name = try reader.nextMember() {
            let token = try reader.value()
            if case .string(let span) = token, names.contains(reader.text(name).lowercased()) {
                unquote(span.range, &editor)
            }
            try reader.skip(token)
        }
    }

    /// Converts the value in a step of a JSON Patch, whose path may follow the value.
    private func step(_ reader: inout JSONReader, _ editor: inout TextEditor) throws {
        var column = ""
        var value: Range<Int>?
        try reader.beginObject()
        while let name = try reader.nextMember() {
            let member = reader.text(name)
            let token = try reader.value()
            if case .string(let span) = token {
                if member == "path" {
                    column = String(reader.text(span).drop { $0 == "/" })
                } else if member == "value" {
                    value = span.range
                }
            }
            try reader.skip(token)
        }
        if let value, names.contains(column.lowercased()) { unquote(value, &editor) }
    }

    /// Removes the quotes of a string if it contains a number; `range` is the inside of the string.
    private func unquote(_ range: Range<Int>, _ editor: inout TextEditor) {
        let text = Array(editor.bytes[range])
        let isNumber = text.withUnsafeBufferPointer { buffer in
            var reader = JSONReader(buffer)
            guard case .number(let number)? = try? reader.value() else { return false }
            return number == 0..<buffer.count
        }
        guard isNumber else { return }
        editor.replace((range.lowerBound - 1)..<(range.upperBound + 1), with: text)
    }

    private static let quote = UInt8(ascii: "\"")

    private func changed(
        _ body: [UInt8],
        _ change: (inout JSONReader, inout TextEditor) throws -> Void
    ) -> [UInt8] {
        guard !names.isEmpty, !body.isEmpty else { return body }
        var editor = TextEditor(body)
        let isRead = body.withUnsafeBufferPointer { buffer in
            var reader = JSONReader(buffer)
            return (try? change(&reader, &editor)) != nil
        }
        return isRead ? editor.result : body
    }
}

/// An editor that replaces parts of a string, from the beginning to the end.
struct TextEditor {
    let bytes: [UInt8]
    private var output: [UInt8] = []
    private var done = 0

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    mutating func replace(_ range: Range<Int>, with text: [UInt8]) {
        guard range.lowerBound >= done else { return }
        output += bytes[done..<range.lowerBound]
        output += text
        done = range.upperBound
    }

    var result: [UInt8] { output + bytes[done...] }
}

// MARK: - Requests

extension TableCatalog {
    /// Returns the request with numbers in its body, if `Content-Type` declares that they are strings.
    func plainNumbers(_ request: ServerRequest, table name: String) -> ServerRequest {
        guard TextNumbers.isAsked(by: request.headers["Content-Type"]),
            let table = table(named: name)
        else { return request }
        var plain = request
        plain.body = TextNumbers(of: table).unquoted(request.body)
        return plain
    }

    /// Writes numbers as strings in the answer, if the caller asked for that.
    func textNumbers(
        _ answer: ServerResponse,
        to accept: String?,
        table name: String,
        _ shape: TextNumbers.Shape
    ) -> ServerResponse {
        guard TextNumbers.isAsked(by: accept), !answer.body.isEmpty,
            let type = answer.headers["Content-Type"], type.hasPrefix("application/json"),
            let table = table(named: name)
        else { return answer }
        var changed = answer
        changed.body = TextNumbers(of: table).quoted(answer.body, shape)
        if !TextNumbers.isAsked(by: type) {
            changed.headers["Content-Type"] = type + TextNumbers.parameter
        }
        return changed
    }
}
