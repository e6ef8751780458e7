// RemoteService+Batch: single requests that travel inside `POST /$batch`, where headers, long queries
// and unusual ids stand in the body: what is between client and server can drop or rewrite none of
// them.

import Foundation
import TidelineCore

extension RemoteService.Request {
    /// The longest URL that is sent as one, in bytes.
    ///
    /// Proxies and firewalls take 2 KB to 8 KB.
    static let urlBytesMax = 2 << 10

    /// Whether the request is better off in a batch.
    ///
    /// - A condition may not hang on one header field that a proxy can drop.
    /// - A long URL does not pass every proxy.
    /// - An id with characters that gateways decode, fold or refuse does not pass unchanged.
    var needsBatch: Bool {
        if headers["If-Match"] != nil { return true }
        let text = url.absoluteString
        return text.utf8.count > Self.urlBytesMax || Self.hasUnusualPath(text)
    }

    private static func hasUnusualPath(_ url: String) -> Bool {
        // The path of the endpoint itself is the operator's choice, and works.
        guard let tables = url.range(of: "/tables/") else { return false }
        let path = url[tables.upperBound...].prefix { $0 != "?" }.utf8
        guard !path.contains(UInt8(ascii: "%")) else { return true }
        // Gateways fold or refuse `..` and hidden names, cut a dot at the end, and refuse what looks like
        // the name of a file.
        return path.contains(UInt8(ascii: "."))
    }
}

extension RemoteService {
    /// Sends a request in a batch where that protects it.
    ///
    /// - Returns: The answer; nil if the request is to be sent by itself, because it needs no batch or
    ///   the server takes none.
    func inBatch(
        _ call: Request,
        _ dialect: ServerDialect
    ) async throws -> TransportResponse? {
        guard dialect == .datasync, call.needsBatch,
            signs.mayBatch(at: environment.now(), retryTime: limits.batchRetryTime)
        else { return nil }
        let target = endpoint.target(of: call.url)
        let number = busy.number
        let (outer, _) = try await plainly(
            Request(
                method: "POST",
                url: try endpoint.batchURL(),
                body: PushBatch.body(call, target: target),
                isCompressible: true
            ),
            .datasync
        )
        if let answers = PushBatch.answers(outer, count: 1) {
            signs.learn(.batches)
            // A request that is not answered was not done.
            let inner = answers[0] ?? TransportResponse(status: 503)
            signs.learn(ServerSigns(of: inner))
            _ = generation.hear(AnswerSigns(inner), asked: .datasync)
            // The answer to the batch itself has ended a wait that was over.
            if !inner.isBeyondBatch { hear([inner], sentAt: max(number, busy.number)) }
            guard call.method != "GET" || !inner.isBeyondBatch else {
                throw TransportError(
                    .responseTooLarge,
                    "The answer is larger than the server takes into a batch.",
                    outcomeIsUnknown: true
                )
            }
            return inner
        }
        switch outer.status {
        case 401, 408, 429, 300..<400, 500, 502...:
            return outer
        default:
            let isServers = AnswerProof.isServers(outer)
            if signs.known.contains(.batches) {
                // The server takes batches: it refuses this one, or something else did.
                return isServers ? nil : outer
            }
            let seconds = Double(limits.batchRetryTime.components.seconds)
            signs.refuseBatches(until: environment.now().addingTimeInterval(seconds))
            return nil
        }
    }
}
