// Portal: a proxy between client and server that answers by itself, or drops header fields.

import Foundation
import Synchronization
import Tideline
import TidelineCore
import TidelineTestSupport

/// Answers some requests itself, and records all requests.
final class Portal: Transport {
    typealias Rule = @Sendable (TransportRequest) -> TransportResponse?

    struct Seen: Sendable {
        var method: String
        var path: String
        var urlBytes: Int
        var headers: HTTPFields
        var body: String
    }

    private let inner: any Transport
    private let state: Mutex<(rule: Rule?, dropped: [String], seen: [Seen])>

    init(_ inner: any Transport, dropping dropped: [String] = []) {
        self.inner = inner
        state = Mutex((nil, dropped, []))
    }

    var seen: [Seen] { state.withLock { $0.seen } }

    /// Answers the requests for which the rule returns an answer; nil passes all requests on.
    func answer(_ rule: Rule?) { state.withLock { $0.rule = rule } }

    /// Answers the next `count` requests, and then passes requests on.
    func answer(next count: Int, _ response: TransportResponse) {
        let countdown = Countdown(count)
        answer { _ in countdown.next() ? response : nil }
    }

    private final class Countdown: Sendable {
        private let left: Mutex<Int>

        init(_ count: Int) { left = Mutex(count) }

        func next() -> Bool {
            left.withLock { left in
                left -= 1
                return left >= 0
            }
        }
    }

    private func take(_ request: TransportRequest) -> (TransportRequest, TransportResponse?) {
        var request = request
        let (rule, dropped) = state.withLock { state in
            state.seen.append(
                Seen(
                    method: request.method,
                    path: request.url.path(),
                    urlBytes: request.url.absoluteString.utf8.count,
                    headers: request.headers,
                    body: String(decoding: request.body ?? [], as: UTF8.self)
                )
            )
            return (state.rule, state.dropped)
        }
        for name in dropped { request.headers[name] = nil }
        return (request, rule?(request))
    }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let (request, answer) = take(request)
        if let answer { return answer }
        return try await inner.send(request)
    }

    func stream(_ request: TransportRequest) async throws -> TransportStream {
        let (request, answer) = take(request)
        guard let answer else { return try await inner.stream(request) }
        let bytes = AsyncThrowingStream<[UInt8], any Error> { pieces in
            pieces.yield(answer.body)
            pieces.finish()
        }
        return TransportStream(status: answer.status, headers: answer.headers, bytes: bytes)
    }

    static func page(_ status: Int) -> TransportResponse {
        TransportResponse(
            status: status,
            headers: ["Content-Type": "text/html"],
            body: Array("<html>Please sign in to the network.</html>".utf8)
        )
    }

    static func json(_ status: Int, _ body: String) -> TransportResponse {
        TransportResponse(
            status: status,
            headers: ["Content-Type": "application/json"],
            body: Array(body.utf8)
        )
    }
}
