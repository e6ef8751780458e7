// SharedCoding: whether a server takes batches as gzip, and the sending of those that shrink.
//
// A server says so in the answer to a batch: `Accept-Encoding: gzip` (RFC 9110 section 12.5.3). One
// that does not gets none. What stands between may know less than the server: where a compressed
// batch is refused for its coding, or cannot be read, it goes again as it was, and nothing is
// compressed any more in this run of the app.

import Synchronization
import TidelineCore

final class SharedCoding: Sendable {
    private struct State {
        var takesGzip = false
        var isRefused = false
        /// What the store holds.
        var stored = false
    }

    private let state = Mutex(State())

    /// Takes in what the store holds.
    func recall(_ takesGzip: Bool) {
        state.withLock { state in
            state.stored = takesGzip
            state.takesGzip = !state.isRefused && (takesGzip || state.takesGzip)
        }
    }

    /// What was learned and is not in the store.
    var unstored: Bool? {
        state.withLock { $0.takesGzip == $0.stored ? nil : $0.takesGzip }
    }

    func markStored(_ takesGzip: Bool) { state.withLock { $0.stored = takesGzip } }

    /// Sends a request, compressed where the server takes that and it pays, and learns from the
    /// answer.
    ///
    /// `bytesMin` is the size from which on it pays; nil for requests that no server takes compressed.
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
            // Of a request that is refused nothing was done.
            state.withLock { ($0.takesGzip, $0.isRefused) = (false, true) }
        }
        let response = try await send(request)
        if Self.takesGzip(response.headers["Accept-Encoding"]) {
            state.withLock { $0.takesGzip = !$0.isRefused }
        }
        return response
    }

    /// Whether a list of codings has gzip with a weight over 0.
    static func takesGzip(_ field: String?) -> Bool {
        (field ?? "").split(separator: ",").contains { part in
            let words = part.split(separator: ";").map { $0.filter { $0 != " " && $0 != "\t" } }
            guard words.first?.lowercased() == "gzip" else { return false }
            let weight = words.dropFirst().first { $0.lowercased().hasPrefix("q=") }
            return weight.map { (Double($0.dropFirst(2)) ?? 0) > 0 } ?? true
        }
    }

    /// Never on the caller's actor: a large batch takes some 20 ms.
    @concurrent
    private static func compressed(_ body: [UInt8]) async -> [UInt8]? { Gzip.member(of: body) }
}
