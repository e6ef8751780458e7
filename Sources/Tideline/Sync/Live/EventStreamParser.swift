// EventStreamParser: parses server-sent events (HTML standard, section 9.2).

/// An event of a server-sent event stream.
package struct ServerSentEvent: Sendable, Hashable {
    package var name: String
    package var data: String
    /// The value of `Last-Event-ID` for a reconnection; nil before the first event with an id.
    package var lastID: String?

    package init(name: String, data: String, lastID: String?) {
        self.name = name
        self.data = data
        self.lastID = lastID
    }
}

/// A parser of `text/event-stream` that accepts bytes in parts of any size.
package struct EventStreamParser: Sendable {
    private var line: [UInt8] = []
    private var name = ""
    private var data: [String] = []
    private var lastID: String?
    private var endedWithReturn = false
    private var isFirstLine = true
    /// Whether a line exceeded the length limit, in which case the stream is abandoned.
    package private(set) var isTooLong = false

    /// The maximum length of a line, in bytes.
    private static let lineMax = 64 << 10

    package init() {}

    /// Parses bytes, and returns the events that these bytes complete.
    package mutating func receive(_ bytes: some Sequence<UInt8>) -> [ServerSentEvent] {
        var events: [ServerSentEvent] = []
        for byte in bytes where !isTooLong {
            let isSecondHalf = endedWithReturn && byte == 0x0A
            endedWithReturn = byte == 0x0D
            if isSecondHalf { continue }
            guard byte == 0x0A || byte == 0x0D else {
                line.append(byte)
                isTooLong = line.count > Self.lineMax
                continue
            }
            if let event = endLine() { events.append(event) }
        }
        return events
    }

    private mutating func endLine() -> ServerSentEvent? {
        var text = String(decoding: line, as: UTF8.self)
        line.removeAll(keepingCapacity: true)
        if isFirstLine, text.unicodeScalars.first == "\u{FEFF}" {
            text.unicodeScalars.removeFirst()
        }
        isFirstLine = false
        guard !text.isEmpty else { return endEvent() }
        // A line that begins with a colon is a comment, which keeps the connection alive.
        guard !text.hasPrefix(":") else { return nil }
        let colon = text.firstIndex(of: ":") ?? text.endIndex
        var value = text[colon...].dropFirst()
        if value.first == " " { value = value.dropFirst() }
        switch text[..<colon] {
        case "event": name = String(value)
        case "data" where data.reduce(0, { $0 + $1.utf8.count }) < Self.lineMax:
            data.append(String(value))
        case "id" where !value.contains("\0"): lastID = String(value)
        default: break
        }
        return nil
    }

    private mutating func endEvent() -> ServerSentEvent? {
        defer {
            name = ""
            data = []
        }
        guard !data.isEmpty else { return nil }
        return ServerSentEvent(
            name: name.isEmpty ? "message" : name,
            data: data.joined(separator: "\n"),
            lastID: lastID
        )
    }
}
