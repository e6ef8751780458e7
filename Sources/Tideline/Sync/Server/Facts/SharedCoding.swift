// SharedCoding: decides whether batches are compressed. A batch is compressed only if it becomes
// smaller.
//
// A server announces in the response to a batch that it accepts gzip: `Accept-Encoding: gzip` (RFC
// 9110 section 12.5.3). Other servers get no compressed batches. A proxy may not accept gzip
// although the server does. If a compressed batch is rejected for its coding, or cannot be read, it
// is resent uncompressed. No further batch is then compressed in this run of the app.

import Synchronization
import TidelineCore

/// A record of whether the server accepts compressed batches, shared by all requests of a client.
final class SharedCoding: Sendable {
    private struct State {
        var takesGzip = false
        var isRejected = false
        /// The value in the store.
        var stored = false
    }

    private let state = Mutex(State())

    /// Sets the value that was read from the store.
    func recall(_ takesGzip: Bool) {
        state.withLock { state in
            state.stored = takesGzip
            state.takesGzip = !state.isRejected && (takesGzip || state.takesGzip)
        }
    }

    /// The value that has not been stored yet; nil if there is none.
    var unstored: Bool? {
        state.withLock { $0.takesGzip == $0.stored ? nil : $0.takesGzip }
    }

    func noteStored(_ takesGzip: Bool) { state.withLock { $0.stored = takesGzip } }

    /// Sends a request, compressed if the server accepts gzip and compression saves enough.
    ///
    /// `bytesMin` is the minimum size of a body that is compressed; it is nil for requests that no
    /// server accepts in compressed form. The response shows whether the server accepts gzip.
    func send(
        _ request: TransportRequest,
        fromBytes bytesMin: Int?,
        _ send: (TransportRequest) async throws -> TransportResponse
    ) async throws -> TransportResponse {
        guard let bytesMin, let body = request.body else { return try await send(request) }
        if body.count >= bytesMin, state.withLock({ $0.takesGzip }),
            let small = await Self.compressed(body)
        {
            var coded = request
            coded.body = small
            coded.headers["Content-Encoding"] = "gzip"
            let response = try await send(coded)
            guard response.status == 415 || response.status == 400 else { return response }
            // The server rejected the request, so it did not execute it.
            state.withLock { ($0.takesGzip, $0.isRejected) = (false, true) }
        }
        let response = try await send(request)
        if Self.takesGzip(response.headers["Accept-Encoding"]) {
            state.withLock { $0.takesGzip = !$0.isRejected }
        }
        return response
    }

    /// Returns whether a list of codings contains gzip with a weight greater than 0.
    static func takesGzip(_ field: String?) -> Bool {
        (field ?? "").split(separator: ",").contains { part in
            let words = part.split(separator: ";").map { $0.filter { $0 != " " && $0 != "\t" } }
            guard words.first?.lowercased() == "gzip" else { return false }
            let weight = words.dropFirst().first { $0.lowercased().hasPrefix("q=") }
            return weight.map { (Double($0.dropFirst(2)) ?? 0) > 0 } ?? true
        }
    }

    /// Compresses a body, never on the caller's actor, because a large batch takes about 20 ms.
    @concurrent
    private static func compressed(_ body: [UInt8]) async -> [UInt8]? { Gzip.member(of: body) }
}
