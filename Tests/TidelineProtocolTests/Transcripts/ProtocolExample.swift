// ProtocolExample: an exchange in docs/protocol.md, parsed and compared with the server's behavior. `…` matches any
// text.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTestKit

struct ProtocolExample {
    struct Message {
        /// The request line, or the status line.
        var start: String
        var fields: [(name: String, value: String)] = []
        var lines: [String] = []

        var isRequest: Bool { start.hasSuffix(" HTTP/1.1") }
        /// A body that the document breaks into lines, and that is one line on the wire.
        var body: String { lines.joined() }
        var method: String { String(start.prefix { $0 != " " }) }
        var target: String { start.split(separator: " ").dropFirst().first.map(String.init) ?? "" }
        var headers: HTTPFields {
            var headers: HTTPFields = [:]
            for field in fields { headers.append(field.name, field.value) }
            return headers
        }
    }

    private var messages: [Message] = []

    /// The first code blocks below a heading.
    init(_ heading: String, blocks: Int = 1) throws {
        let text = try ProjectFile.text("docs/protocol.md")
        let section = try #require(
            text.components(separatedBy: "\n## \(heading)\n").dropFirst().first
        )
        let parts = section.components(separatedBy: "```")
        try #require(parts.count > 2 * blocks)
        var isHead = false
        for line in (0..<blocks).flatMap({ parts[2 * $0 + 1].components(separatedBy: "\n") }) {
            if line.hasSuffix(" HTTP/1.1") || line.hasPrefix("HTTP/1.1 ") {
                messages.append(Message(start: line))
                isHead = true
            } else if !messages.isEmpty {
                take(line, &isHead)
            }
        }
    }

    private mutating func take(_ line: String, _ isHead: inout Bool) {
        let last = messages.count - 1
        let field = line.components(separatedBy: ": ")
        if isHead, field.count == 2, !line.hasPrefix("{") {
            messages[last].fields.append((field[0], field[1]))
        } else {
            isHead = false
            messages[last].lines.append(line)
        }
    }

    /// The next message, a request or a response.
    mutating func next(isRequest: Bool) throws -> Message {
        try #require(messages.first?.isRequest == isRequest)
        return messages.removeFirst()
    }

    var isEmpty: Bool { messages.isEmpty }

    /// Sends the next request; the test supplies the values that the example cannot know.
    mutating func send(
        _ server: TestServer,
        target: String? = nil,
        replacing fields: HTTPFields = [:]
    ) async throws -> ServerResponse {
        let request = try next(isRequest: true)
        if let target {
            #expect(Self.fits(target, request.target), "\(target) is not \(request.target)")
        }
        var headers = request.headers
        for field in fields {
            #expect(headers[field.name] != nil)
            headers[field.name] = field.value
        }
        return await server.send(
            request.method,
            target ?? request.target,
            request.body.isEmpty ? nil : request.body,
            headers: headers
        )
    }

    /// Compares a response with the next one in the example.
    mutating func check(_ answer: ServerResponse) throws {
        let shown = try next(isRequest: false)
        #expect(shown.start.hasPrefix("HTTP/1.1 \(answer.status) "), "\(shown.start)")
        for field in shown.fields {
            let sent = answer.headers[field.name] ?? ""
            #expect(Self.fits(sent, field.value), "\(field.name): \(sent) is not \(field.value)")
        }
        #expect(Self.fits(answer.text, shown.body), "\(answer.text) is not \(shown.body)")
    }

    /// Whether a text matches the example.
    static func fits(_ text: String, _ example: String) -> Bool {
        let pieces = example.components(separatedBy: "…")
        guard let first = pieces.first, let last = pieces.last, pieces.count > 1 else {
            return text == example
        }
        guard text.hasPrefix(first), text.hasSuffix(last) else { return false }
        var rest = Substring(text)
        for piece in pieces where !piece.isEmpty {
            guard let found = rest.range(of: piece) else { return false }
            rest = rest[found.upperBound...]
        }
        return true
    }
}
