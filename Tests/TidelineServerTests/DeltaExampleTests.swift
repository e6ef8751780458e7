// The example exchanges of docs/PROTOCOL.md about delta links and digests, held to the server.

import Foundation
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct DeltaExampleTests {
    /// The lines of the first block of code below a heading.
    private static func example(_ heading: String) throws -> [String] {
        let root = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let url = root.appending(path: "docs/PROTOCOL.md")
        let text = try String(contentsOf: url, encoding: .utf8)
        let section = try #require(
            text.components(separatedBy: "\n## \(heading)\n").dropFirst().first
        )
        let block = try #require(section.components(separatedBy: "```").dropFirst().first)
        return block.split(separator: "\n").map(String.init)
    }

    /// Whether a text is the example, in which `…` stands for anything.
    private static func fits(_ text: String, _ example: String) -> Bool {
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

    /// The paths of the requests, and the first lines and fields of the answers with their bodies.
    private static func check(
        _ answer: ServerResponse,
        _ lines: inout [String]
    ) throws {
        let status = lines.removeFirst()
        #expect(status == "HTTP/1.1 \(answer.status) OK")
        while let line = lines.first, !line.hasPrefix("{") {
            lines.removeFirst()
            let parts = line.components(separatedBy: ": ")
            try #require(parts.count == 2, "\(line)")
            let sent = answer.headers[parts[0]]
            // Another one for each database.
            #expect(parts[0] == "Tideline-Epoch" ? sent != nil : sent == parts[1], "\(line)")
        }
        let body = lines.removeFirst()
        #expect(fits(answer.text, body), "\(answer.text) is not \(body)")
    }

    private static func request(
        _ lines: inout [String],
        link: String? = nil
    ) throws -> (
        String, HTTPFields
    ) {
        let parts = lines.removeFirst().split(separator: " ").map(String.init)
        try #require(parts.count == 3 && parts[0] == "GET")
        var fields: HTTPFields = [:]
        while let line = lines.first, !line.hasPrefix("HTTP/") {
            lines.removeFirst()
            let field = line.components(separatedBy: ": ")
            try #require(field.count == 2)
            fields.append(field[0], field[1])
        }
        guard let link else { return (parts[1], fields) }
        let target = "/tables/TodoItem?" + link
        #expect(fits(target, parts[1]), "\(target) is not \(parts[1])")
        return (target, fields)
    }

    @Test func delta() async throws {
        var lines = try Self.example("Delta")
        let door = try await Door()
        _ = await door.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        let (target, fields) = try Self.request(&lines)
        let list = await door.send("GET", target, headers: fields)
        try Self.check(list, &lines)
        _ = await door.send("POST", "/tables/TodoItem", #"{"id":"c"}"#)
        _ = await door.send("DELETE", "/tables/TodoItem/a")
        let (link, more) = try Self.request(&lines, link: list.deltaLink)
        try Self.check(await door.send("GET", link, headers: more), &lines)
        #expect(lines.isEmpty)
    }

    @Test func verify() async throws {
        var lines = try Self.example("Verify")
        let door = try await Door()
        for id in ["a", "b", "c"] {
            _ = await door.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
        }
        let (target, fields) = try Self.request(&lines)
        try Self.check(await door.send("GET", target, headers: fields), &lines)
        #expect(lines.isEmpty)
    }
}
