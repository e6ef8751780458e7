// LiveEvents: reads the notifications about changed tables that the server sends in `GET /$events`.

import Foundation
import Synchronization
import TidelineCore

/// A reader of the server's event stream.
struct LiveEvents: Sendable {
    enum Failure: Error {
        /// The transport does not support streams, or the server has never sent one.
        ///
        /// Changes are pulled on schedule, and the event stream is requested again later.
        case unsupported
        /// The server lacks one of the tables, or does not support events.
        case notFound
        /// Nothing arrived for too long, or the response was not an event stream.
        case broken
    }

    /// The maximum number of tables for which a server reports changes in one stream; further
    /// tables are pulled on schedule.
    static let tablesMax = 64

    let remote: RemoteService
    let tables: [String]
    /// The id of the last event, which tells the server from where to continue.
    let place: LastEventID

    /// Calls `opened` when the stream is open, and `changed` for each table that an event reports.
    ///
    /// - Throws: An error when the stream ends, whatever the reason.
    func listen(
        opened: @escaping @Sendable () -> Void,
        changed: @escaping @Sendable (String) -> Void
    ) async throws {
        let stream = try await open()
        opened()
        let silence = Silence()
        try await withThrowingTaskGroup { group in
            group.addTask {
                var parser = EventStreamParser()
                for try await bytes in stream.bytes {
                    silence.end()
                    for event in parser.receive(bytes) {
                        if let id = event.lastID { place.id = id }
                        if event.name == "change", let table = Self.table(event) { changed(table) }
                    }
                    if parser.isTooLong { throw Failure.broken }
                }
                throw Failure.broken
            }
            group.addTask {
                // A connection that broke without notice is detected because no data arrives.
                while silence.wasBroken() {
                    try await remote.environment.sleep(remote.limits.liveSilenceMax)
                }
                throw Failure.broken
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    private func open() async throws -> TransportStream {
        let stream: TransportStream
        do {
            stream = try await remote.events(of: tables, after: place.id)
        } catch let error as TransportError where error.code == .unsupported {
            throw Failure.unsupported
        }
        let type = stream.headers["Content-Type"]?.lowercased() ?? ""
        switch stream.status {
        case 200 where type.hasPrefix("text/event-stream"):
            remote.signs.learn(.events)
            return stream
        // A server that has sent events before still supports them, so this response does not come
        // from it.
        case _ where remote.signs.known.contains(.events): throw Failure.broken
        // A server never responds to a request for events with a redirect.
        case 300..<400, 401, 403, 407, 408, 429, 500, 502...: throw Failure.broken
        case 404: throw Failure.notFound
        // A server that does not support events responds with a page, a list, or its usual response
        // to unknown paths.
        default: throw Failure.unsupported
        }
    }

    private static func table(_ event: ServerSentEvent) -> String? {
        RowText.row(Data(event.data.utf8), nil)?["table"]?.text
    }
}

/// A flag that shows whether data has arrived since the last check.
private final class Silence: Sendable {
    private let isBroken = Mutex(true)

    func end() { isBroken.withLock { $0 = true } }

    func wasBroken() -> Bool {
        isBroken.withLock { isBroken in
            defer { isBroken = false }
            return isBroken
        }
    }
}

/// The id of the last event.
final class LastEventID: Sendable {
    private let state = Mutex<String?>(nil)

    var id: String? {
        get { state.withLock { $0 } }
        set { state.withLock { $0 = newValue } }
    }
}

extension RemoteService {
    /// Opens the event stream for tables, starting after the last event that was received.
    func events(of tables: [String], after id: String?) async throws -> TransportStream {
        var headers: HTTPFields = ["Accept": "text/event-stream", "Cache-Control": "no-store"]
        headers["ZUMO-API-VERSION"] = dialect.protocolVersion
        headers["User-Agent"] = userAgent
        headers["Last-Event-ID"] = id
        let request = TransportRequest(
            method: "GET",
            url: try endpoint.events(of: tables),
            headers: headers,
            timeout: limits.requestTimeMax
        )
        let number = busy.number
        let stream = try await authorized(
            request,
            dialect,
            send: { request in
                try await calls.run { [transport] in try await transport.stream(request) }
            },
            verdict: {
                ($0.status, AnswerProof.wantsSignIn(status: $0.status, headers: $0.headers))
            }
        )
        let type = stream.headers["Content-Type"]?.lowercased() ?? ""
        note(
            status: stream.status,
            headers: stream.headers,
            sentAt: number,
            isSuccess: stream.status == 200 && type.hasPrefix("text/event-stream")
        )
        return stream
    }
}
