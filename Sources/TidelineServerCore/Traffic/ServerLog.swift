// ServerLog: log lines and their levels.
//
// A line never contains a body, the value of a query option, a token or a password.

import Synchronization
import TidelineCore

/// A log of single lines, each with a fixed sentence and the variable parts as fields.
package struct ServerLog: Sendable {
    package enum Level: String, Sendable, CaseIterable, Comparable {
        case error
        case warning
        case info
        case debug

        fileprivate var rank: Int { Self.allCases.firstIndex(of: self) ?? 0 }

        fileprivate init(rank: Int) { self = Self.allCases[rank] }

        package static func < (left: Level, right: Level) -> Bool { left.rank < right.rank }
    }

    package enum Format: String, Sendable, CaseIterable {
        case text
        case json
    }

    /// The settings that all copies of a log share and that may change while a server runs.
    private final class Levels: Sendable {
        let most: Atomic<Int>
        let requests: Atomic<Int>

        init(_ most: Level, requests: Level) {
            self.most = Atomic(most.rank)
            self.requests = Atomic(requests.rank)
        }
    }

    private let levels: Levels
    package let format: Format

    /// The most verbose level that is written.
    ///
    /// All copies share it.
    package var level: Level {
        get { Level(rank: levels.most.load(ordering: .relaxed)) }
        nonmutating set { levels.most.store(newValue.rank, ordering: .relaxed) }
    }

    /// The level at which requests are logged.
    ///
    /// All copies share it.
    package var requests: Level {
        get { Level(rank: levels.requests.load(ordering: .relaxed)) }
        nonmutating set { levels.requests.store(newValue.rank, ordering: .relaxed) }
    }

    /// The duration from which requests are logged, whatever the level of requests.
    package let slowMicroseconds: Int64
    private let now: @Sendable () -> Int64
    package var sink: @Sendable ([UInt8]) -> Void

    package static let silent = ServerLog(level: .error, now: { 0 }, sink: { _ in })

    package init(
        level: Level,
        format: Format = .text,
        requests: Level = .debug,
        slowMicroseconds: Int64 = .max,
        now: @escaping @Sendable () -> Int64,
        sink: @escaping @Sendable ([UInt8]) -> Void
    ) {
        levels = Levels(level, requests: requests)
        self.format = format
        self.slowMicroseconds = slowMicroseconds
        self.now = now
        self.sink = sink
    }

    var writesRequests: Bool { requests <= level }

    /// Writes a line if its level is enabled.
    package func write(
        _ level: Level,
        _ message: StaticString,
        _ fields: KeyValuePairs<String, String> = [:]
    ) {
        guard level <= self.level else { return }
        sink(line(level, message, fields))
    }

    /// Returns the contents of a line, whatever its level.
    package func line(
        _ level: Level,
        _ message: StaticString,
        _ fields: KeyValuePairs<String, String>
    ) -> [UInt8] {
        var writer = JSONWriter()
        begin(&writer, level, message)
        for (name, value) in fields {
            field(&writer, name) { $0.visible(PasswordFilter.filtered(value)) }
        }
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
        describe(request, response, id, microseconds, &writer)
        sink(ended(&writer))
    }

    /// Logs a slow request with the names of its table and parameters, without values.
    func slow(
        _ request: ServerRequest,
        _ response: ServerResponse,
        id: String,
        microseconds: Int64
    ) {
        guard level >= .warning else { return }
        var writer = JSONWriter()
        begin(&writer, .warning, "slow request")
        describe(request, response, id, microseconds, &writer)
        let options = Self.optionNames(request.query)
        if !options.isEmpty { field(&writer, "options") { $0.visible(options) } }
        sink(ended(&writer))
    }

    private func describe(
        _ request: ServerRequest,
        _ response: ServerResponse,
        _ id: String,
        _ microseconds: Int64,
        _ writer: inout JSONWriter
    ) {
        field(&writer, "request") { $0.visible(id) }
        if let trace = TraceParent(request.headers) {
            field(&writer, "trace") { $0.visible(trace.trace) }
            field(&writer, "span") { $0.visible(trace.span) }
        }
        if !request.address.isEmpty { field(&writer, "from") { $0.visible(request.address) } }
        field(&writer, "method") { $0.visible(request.method) }
        field(&writer, "path") { $0.visible(request.path) }
        field(&writer, "status") { $0.integer(Int64(response.status)) }
        field(&writer, "us") { $0.integer(microseconds) }
        field(&writer, "bytes") { $0.integer(Int64(response.body.count)) }
    }

    /// Returns the known options of a query, without the text that the caller chose.
    private static func optionNames(_ query: String) -> String {
        let known = [
            "$filter", "$orderby", "$select", "$top", "$skip", "$count", "$inlinecount",
            "$skiptoken", "$deltatoken", "__includeDeleted",
        ]
        let names = query.split(separator: "&").compactMap { part -> String? in
            let name = String(part.prefix { $0 != "=" }).replacing("%24", with: "$")
            return known.first { $0.lowercased() == name.lowercased() }
        }
        return names.joined(separator: ",")
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

    /// Writes a field; text fields are quoted as JSON in both formats.
    ///
    /// Invisible characters are escaped, so that a value can neither add a line nor imitate another value.
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
    /// Writes a string, and escapes every character that is neither visible nor a space.
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

    /// Whether a character is a control, ends a line or paragraph, or is a format such as a change of
    /// direction.
    private static func isHidden(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.value >= 0x20 && scalar.value < 0x7F { return false }
        return switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned: true
        default: false
        }
    }
}
