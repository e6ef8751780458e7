// EventReader: a strict parser for a stream of server-sent events on a socket.

import Foundation

/// A blocking reader with a timeout of ten seconds for each step; use it inside `blocking`.
final class EventReader {
    struct Event: Equatable {
        var id: String?
        var name: String?
        var data: String?
        var comment: String?
        var retry: String?

        /// The table of a change.
        var table: String? {
            guard name == "change", let data, data.hasPrefix("{\"table\":\""), data.hasSuffix("\"}")
            else { return nil }
            return String(data.dropFirst(10).dropLast(2))
        }
    }

    let connection: RawConnection
    private var buffer: [UInt8] = []
    private(set) var status = 0
    private(set) var head = ""
    /// The id that a listener sends when it reconnects.
    private(set) var lastID: String?

    /// Sends the request, and reads the head of the response.
    init(
        _ port: Int,
        _ target: String,
        _ headers: String = "",
        version: String = "1.1",
        receiveBuffer: Int32? = nil
    ) throws {
        connection = try RawConnection(port: port, receiveBuffer: receiveBuffer)
        try connection.send("GET \(target) HTTP/\(version)\r\nHost: a\r\n\(headers)\r\n")
        head = try text(upTo: "\r\n\r\n") ?? ""
        status = head.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
    }

    /// Returns the next block, also a keep-alive; nil at the end of the stream.
    func block() throws -> Event? {
        guard let text = try text(upTo: "\n\n") else { return nil }
        var event = Event()
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let value = parts.count > 1 ? String(parts[1].drop { $0 == " " }) : ""
            switch parts[0] {
            case "id": event.id = value
            case "event": event.name = value
            case "data": event.data = value
            case "retry": event.retry = value
            case "": event.comment = value
            default: throw TestFailure("unknown line in a stream: \(line)")
            }
        }
        if let id = event.id { lastID = id }
        return event
    }

    /// Returns the table of the next change; nil at the end of the stream.
    func change() throws -> String? {
        while let event = try block() {
            if event.name != nil { return event.table }
        }
        return nil
    }

    private func text(upTo end: String) throws -> String? {
        let end = Array(end.utf8)
        while true {
            if let range = buffer.firstRange(of: end) {
                let text = String(decoding: buffer[..<range.lowerBound], as: UTF8.self)
                buffer.removeFirst(range.upperBound)
                return text
            }
            let bytes = try connection.receive()
            if bytes.isEmpty { return nil }
            buffer += bytes
        }
    }
}
