// RemoteService+Batch: single requests that are sent inside `POST /$batch`. Headers, long queries and unusual
// ids are in the body, where a proxy cannot drop or rewrite them.

import Foundation
import TidelineCore

extension RemoteService.Request {
    /// The maximum length of a URL that is sent outside of a batch, in bytes.
    ///
    /// Proxies and firewalls accept 2 KB to 8 KB.
    static let urlBytesMax = 2 << 10

    /// Whether the request should be sent in a batch.
    ///
    /// - A condition should not depend on a single header field, which a proxy can drop.
    /// - Some proxies reject a long URL.
    /// - Some gateways decode, change or reject an id with certain characters.
    var needsBatch: Bool {
        if headers["If-Match"] != nil { return true }
        let text = url.absoluteString
        return text.utf8.count > Self.urlBytesMax || Self.hasUnusualPath(text)
    }

    private static func hasUnusualPath(_ url: String) -> Bool {
        // The path of the endpoint itself was chosen by the operator, and works.
        guard let tables = url.range(of: "/tables/") else { return false }
        let path = url[tables.upperBound...].prefix { $0 != "?" }.utf8
        guard !path.contains(UInt8(ascii: "%")) else { return true }
        // Gateways fold or reject `..` and hidden names, cut a dot at the end, and reject a name that looks
        // like a file name.
        return path.contains(UInt8(ascii: "."))
    }
}

extension RemoteService {
    /// Sends a request in a batch if the request is safer that way.
    ///
    /// - Returns: The response; nil if the request has to be sent by itself, because it needs no batch or the
    ///   server does not accept batches.
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
            // A request without a response was not executed.
            var inner = answers[0] ?? TransportResponse(status: 503)
            // Only the batch as a whole has the epoch. It does not prove that a gateway has not replaced a part.
            if AnswerProof.isServers(inner), inner.headers["Tideline-Epoch"] == nil {
                inner.headers["Tideline-Epoch"] = outer.headers["Tideline-Epoch"]
            }
            signs.learn(ServerSigns(of: inner))
            _ = generation.note(AnswerSigns(inner), asked: .datasync)
            // The response to the batch itself has ended a wait that was over.
            if !inner.isBeyondBatch { note([inner], sentAt: max(number, busy.number)) }
            guard call.method != "GET" || !inner.isBeyondBatch else {
                throw TransportError(
                    .responseTooLarge,
                    "The response is larger than the server allows in a batch.",
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
                // The server accepts batches, so it rejected this one, or a proxy did.
                return isServers ? nil : outer
            }
            let seconds = Double(limits.batchRetryTime.components.seconds)
            signs.rejectBatches(until: environment.now().addingTimeInterval(seconds))
            return nil
        }
    }
}
