// BatchTap: records the batches to a server, and loses or rejects some of them.

import Foundation
import Synchronization
import Tideline
import TidelineCore

/// Passes requests on; the fates of batches are taken from a list.
final class BatchTap: Transport {
    enum Fate: Sendable {
        case deliver
        case dropRequest
        case dropAnswer
        case answer(Int)
        /// A closure that runs before the batch is delivered.
        case first(@Sendable () async throws -> Void)
        /// A closure, and then this answer instead of the server's.
        case say(String, first: @Sendable () async throws -> Void)
    }

    private let inner: any Transport
    /// Hides the server's support for compression, so that batches are plain.
    private let hidesCodings: Bool
    private let state: Mutex<(fates: [Fate], bodies: [String], singles: [String])>

    init(_ inner: any Transport, _ fates: [Fate] = [], hidesCodings: Bool = true) {
        self.inner = inner
        self.hidesCodings = hidesCodings
        state = Mutex((fates, [], []))
    }

    /// The bodies of the batches.
    var bodies: [String] { state.withLock { $0.bodies } }

    /// The single writes, by method and path.
    var singles: [String] { state.withLock { $0.singles } }

    /// The group names of each batch, in the order of its requests; `-` for none.
    var groups: [[String]] {
        bodies.map { body in
            let json = try? JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any]
            let requests = json?["requests"] as? [[String: Any]] ?? []
            return requests.map { $0["atomicityGroup"] as? String ?? "-" }
        }
    }

    func add(_ fates: Fate...) { state.withLock { $0.fates += fates } }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        guard request.url.path().hasSuffix("/$batch") else {
            if request.method != "GET" {
                state.withLock { $0.singles.append("\(request.method) \(request.url.path())") }
            }
            return try await inner.send(request)
        }
        let fate = state.withLock { state in
            state.bodies.append(String(decoding: request.body ?? [], as: UTF8.self))
            return state.fates.isEmpty ? .deliver : state.fates.removeFirst()
        }
        switch fate {
        case .deliver: return try await delivered(request)
        case .dropRequest: throw Self.lost
        case .dropAnswer:
            _ = try await inner.send(request)
            throw Self.lost
        case .answer(let status):
            // Marks the answer as the server's own, except for a proxy's answers while the server is away.
            guard (400..<500).contains(status), ![404, 405, 408, 429].contains(status) else {
                return TransportResponse(status: status)
            }
            let problem = #"{"title":"Rejected","status":\#(status)}"#
            return TransportResponse(status: status, body: Array(problem.utf8))
        case .first(let body):
            try await body()
            return try await delivered(request)
        case .say(let answer, let body):
            try await body()
            return TransportResponse(status: 200, body: Array(answer.utf8))
        }
    }

    private func delivered(_ request: TransportRequest) async throws -> TransportResponse {
        var response = try await inner.send(request)
        if hidesCodings { response.headers["Accept-Encoding"] = nil }
        return response
    }

    private static let lost = TransportError(
        .connectionLost,
        "Lost.",
        outcomeIsUnknown: true
    )
}
