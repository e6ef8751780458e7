// ServerFaults: faults of the simulated server itself: a row that it cannot process, a deployment
// that rejects every write for some time, and expired tokens.

import Foundation
import Synchronization
import Tideline
import TidelineCore

/// A transport that simulates server faults; a device can recognize the responses as the server's.
final class ServerFaults: Transport {
    /// The server's response to a rejected write.
    enum Rejection: Sendable, Hashable {
        /// The server cannot process the row: 500.
        case failure
        /// The deployed version does not have the table: 404.
        case missingTable
        /// The deployed version does not allow the caller to write: 403.
        case missingRight

        fileprivate var problem: (status: Int, body: [UInt8]) {
            switch self {
            case .failure:
                (500, Self.body("Internal Server Error", 500, nil))
            case .missingTable:
                (404, Self.body("Not Found", 404, "noSuchTable"))
            case .missingRight:
                (403, Self.body("Forbidden", 403, nil))
            }
        }

        private static func body(_ title: String, _ status: Int, _ code: String?) -> [UInt8] {
            let member = code.map { #","code":"\#($0)""# } ?? ""
            return Array(#"{"title":"\#(title)","status":\#(status)\#(member)}"#.utf8)
        }
    }

    private struct State {
        /// The row that the server cannot process.
        var poisonedID: String?
        /// The response to every write.
        var rejection: Rejection?
    }

    private let inner: any Transport
    private let state = Mutex(State())

    private let now: @Sendable () -> Int64

    /// `now` returns the server's time in microseconds since 1970.
    init(_ inner: any Transport, now: @escaping @Sendable () -> Int64) {
        self.inner = inner
        self.now = now
    }

    /// Makes every write of one row fail; nil ends the fault.
    func poison(_ id: String?) { state.withLock { $0.poisonedID = id } }

    /// Rejects every write; nil ends the fault.
    func reject(_ rejection: Rejection?) { state.withLock { $0.rejection = rejection } }

    func stream(_ request: TransportRequest) async throws -> TransportStream {
        guard !WorldSignIn.isExpired(request, at: now()) else {
            let response = WorldSignIn.rejection
            return TransportStream(
                status: response.status,
                headers: response.headers,
                bytes: AsyncThrowingStream { $0.finish() }
            )
        }
        return try await inner.stream(request)
    }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        guard !WorldSignIn.isExpired(request, at: now()) else { return WorldSignIn.rejection }
        let (poisonedID, rejection) = state.withLock { ($0.poisonedID, $0.rejection) }
        guard poisonedID != nil || rejection != nil else { return try await inner.send(request) }
        let answer = { (method: String, target: String, body: [UInt8]?) -> Rejection? in
            guard method != "GET" else { return nil }
            if let rejection { return rejection }
            return Self.id(of: target, body) == poisonedID ? .failure : nil
        }
        guard request.url.path().hasSuffix("/$batch") else {
            guard let rejection = answer(request.method, request.url.path(), request.body) else {
                return try await inner.send(request)
            }
            let (status, body) = rejection.problem
            return TransportResponse(status: status, headers: Self.headers, body: body)
        }
        let (rest, responses) = BatchChanges.without(request) { method, target, body in
            answer(method, target, body)?.problem
        }
        let response = try await inner.send(rest)
        return BatchChanges.adding(responses, to: response)
    }

    private static let headers: HTTPFields = ["Content-Type": "application/problem+json"]

    /// Returns the id of the row that a write changes.
    private static func id(of target: String, _ body: [UInt8]?) -> String? {
        let path = target.prefix { $0 != "?" }.split(separator: "/")
        if path.count >= 3 { return path.last.map(String.init) }
        return body.flatMap(JSONPieces.members)?["id"].flatMap(JSONPieces.text)
    }
}
