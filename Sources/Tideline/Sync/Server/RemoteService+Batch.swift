// RemoteService+Batch: sends single requests inside `POST /$batch`. Their headers, long queries and
// unusual ids are then in the body, where a proxy cannot drop or rewrite them.

import Foundation
import TidelineCore

extension RemoteService.Request {
    /// The maximum length in bytes of a URL that is sent outside a batch.
    ///
    /// The limits of proxies and firewalls are between 2 KB and 8 KB.
    static let urlBytesMax = 2 << 10

    /// Whether the request should be sent in a batch.
    ///
    /// - A condition should not depend on a single header field, because a proxy can drop it.
    /// - Some proxies reject long URLs.
    /// - Some gateways decode, change or reject ids that contain certain characters.
    var needsBatch: Bool {
        if headers["If-Match"] != nil { return true }
        let text = url.absoluteString
        return text.utf8.count > Self.urlBytesMax || Self.hasUnusualPath(text)
    }

    private static func hasUnusualPath(_ url: String) -> Bool {
        // The operator chose the path of the endpoint itself, so this path works.
        guard let tables = url.range(of: "/tables/") else { return false }
        let path = url[tables.upperBound...].prefix { $0 != "?" }.utf8
        guard !path.contains(UInt8(ascii: "%")) else { return true }
        // Gateways fold or reject `..` and hidden names, remove a dot at the end, and reject names
        // that look like file names.
        return path.contains(UInt8(ascii: "."))
    }
}

extension RemoteService {
    /// Sends a request in a batch if this is safer.
    ///
    /// - Returns: The response; nil if the request has to be sent on its own, because it needs no
    ///   batch or the server does not accept batches.
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
            // If the batch response has no response for the request, the request was not executed.
            var inner = answers[0] ?? TransportResponse(status: 503)
            // Only the response to the whole batch has the epoch. It does not prove that no gateway
            // has replaced a part.
            if AnswerProof.isServers(inner), inner.headers["Tideline-Epoch"] == nil {
                inner.headers["Tideline-Epoch"] = outer.headers["Tideline-Epoch"]
            }
            signs.learn(ServerSigns(of: inner))
            _ = generation.note(AnswerSigns(inner), asked: .datasync)
            // The response to the batch itself has already ended a wait that was over.
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
                // The server accepts batches, so either the server or a proxy rejected this batch.
                return isServers ? nil : outer
            }
            let seconds = Double(limits.batchRetryTime.components.seconds)
            signs.rejectBatches(until: environment.now().addingTimeInterval(seconds))
            return nil
        }
    }
}
