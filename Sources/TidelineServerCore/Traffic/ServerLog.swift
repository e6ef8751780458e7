// ServerLog: one line each: a fixed sentence with the variable parts beside it.
//
// Never a body, never the value of a query option, never a token.

import TidelineCore

package struct ServerLog: Sendable {
    package enum Level: String, Sendable, CaseIterable, Comparable {
        case error
        case warning
        case info
        case debug

        private var rank: Int { Self.allCases.firstIndex(of: self) ?? 0 }

        package static func < (left: Level, right: Level) -> Bool { left.rank < right.rank }
    }

    package enum Format: String, Sendable, CaseIterable {
        case text
        case json
    }

    /// Lines above this level are not written.
    package var level: Level
    package var format: Format
    /// At which level requests are logged.
    package var requests: Level
    private let now: @Sendable () -> Int64
    package var sink: @Sendable ([UInt8]) -> Void

    package static let silent = ServerLog(level: .error, now: { 0 }, sink: { _ in })

    package init(
        level: Level,
        format: Format = .text,
        requests: Level = .debug,
        now: @escaping @Sendable () -> Int64,
        sink: @escaping @Sendable ([UInt8]) -> Void
    ) {
        self.level = level
        self.format = format
        self.requests = requests
        self.now = now
        self.sink = sink
    }

    var writesRequests: Bool { requests <= level }

    /// Writes a line when its level is wanted.
    package func write(
        _ level: Level,
        _ message: StaticString,
        _ fields: KeyValuePairs<String, String> = [:]
    ) {
        guard level <= self.level else { return }
        sink(line(level, message, fields))
    }

    /// The text of a line, whatever its level.
    package func line(
        _ level: Level,
        _ message: StaticString,
        _ fields: KeyValuePairs<String, String>
    ) -> [UInt8] {
        var writer = JSONWriter()
        begin(&writer, level, message)
        for (name, value) in fields { field(&writer, name) { $0.visible(value) } }
        return ended(&writer)
    }

    func request(
        _ request: ServerRequest,
        _ response: ServerResponse,
        id: String,
        microseconds: Int64
    ) {
        var writer = JSONWriter()
        begin(&writer, requests, "request")
        field(&writer, "request") { $0.visible(id) }
        field(&writer, "method") { $0.visible(request.method) }
        field(&writer, "path") { $0.visible(request.path) }
        field(&writer, "status") { $0.integer(Int64(response.status)) }
        field(&writer, "us") { $0.integer(microseconds) }
        field(&writer, "bytes") { $0.integer(Int64(response.body.count)) }
        sink(ended(&writer))
    }

    private func begin(_ writer: inout JSONWriter, _ level: Level, _ message: StaticString) {
        let time = Timestamp(microseconds: now())
        if format == .json {
            writer.raw("{\"time\":")
            writer.date(time)
            writer.raw(",\"level\":")
            writer.string(level.rawValue)
            writer.raw(",\"message\":")
            writer.string("\(message)")
        } else {
            writer.raw(time.text)
            writer.raw(" ")
            writer.raw(level.rawValue)
            writer.raw(" ")
            writer.raw(message)
        }
    }

    /// Text fields are quoted as JSON in both formats, and what does not show itself is escaped, so
    /// that no value makes a second line or looks like another one.
    private func field(
        _ writer: inout JSONWriter,
        _ name: String,
        _ value: (inout JSONWriter) -> Void
    ) {
        if format == .json {
            writer.raw(",\"")
            writer.raw(name)
            writer.raw("\":")
        } else {
            writer.raw(" ")
            writer.raw(name)
            writer.raw("=")
        }
        value(&writer)
    }

    private func ended(_ writer: inout JSONWriter) -> [UInt8] {
        if format == .json { writer.raw("}") }
        writer.raw("\n")
        return writer.bytes
    }
}

extension JSONWriter {
    /// A string in which everything is escaped that is no visible character and no space.
    fileprivate mutating func visible(_ text: String) {
        guard text.unicodeScalars.contains(where: Self.isHidden) else { return string(text) }
        byte("\"")
        for scalar in text.unicodeScalars {
            guard Self.isHidden(scalar) else {
                if scalar == "\"" || scalar == "\\" { byte("\\") }
                raw(String(scalar))
                continue
            }
            for unit in String(scalar).utf16 {
                let digits = String(unit, radix: 16)
                raw("\\u")
                raw(String(repeating: "0", count: 4 - digits.count) + digits)
            }
        }
        byte("\"")
    }

    /// Controls, ends of lines and paragraphs, and formats such as those that turn the direction.
    private static func isHidden(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.value >= 0x20 && scalar.value < 0x7F { return false }
        return switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned: true
        default: false
        }
    }
}
