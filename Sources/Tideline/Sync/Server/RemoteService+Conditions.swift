// RemoteService+Conditions: keeps the condition of a single write effective if a proxy drops
// `If-Match`.

import Foundation
import TidelineCore

extension RemoteService {
    /// Returns a request for use outside a batch, with its condition also in the URL.
    ///
    /// The original servers do not read the URL parameter, so it is not sent to them.
    func withConditionInURL(_ call: Request) -> Request {
        guard let condition = call.headers["If-Match"], signs.known.contains(.tideline) else {
            return call
        }
        let text = call.url.absoluteString
        let parameter = "__ifMatch=" + TableEndpoint.encoded(condition)
        var call = call
        call.url = URL(string: text + (text.contains("?") ? "&" : "?") + parameter) ?? call.url
        return call
    }

    /// Reads the row before a write, because a proxy may drop the header field with the write's
    /// condition.
    ///
    /// The read has a condition that is always false. If the server rejects the read, `If-Match`
    /// reaches the server, and the client no longer reads rows before writes.
    ///
    /// - Parameters:
    ///   - call: The write.
    ///   - dialect: The dialect of the request.
    /// - Returns: A response that takes the place of the response to the write, if the row has a
    ///   different version or the server did not respond; nil if the client should send the write.
    /// - Throws: The errors of a request.
    func answerBefore(
        _ call: Request,
        _ dialect: ServerDialect
    ) async throws -> (TransportResponse, isToRepeat: Bool)? {
        guard let condition = call.headers["If-Match"], condition != "*", call.method != "GET",
            !signs.known.contains(.tideline), !signs.passesConditions,
            !(call.hasVersionInBody && signs.known.contains(.node)),
            let url = URL(string: String(call.url.absoluteString.prefix { $0 != "?" }))
        else { return nil }
        let probe = Request(method: "GET", url: url, headers: ["If-Match": Self.impossible])
        let (response, isToRepeat) = try await plainly(probe, dialect)
        if isToRepeat { return (response, isToRepeat: true) }
        let isServers = AnswerProof.isServers(response)
        switch response.status {
        case 412 where isServers || response.item(nil)?.version != nil:
            signs.notePassesConditions()
            return nil
        case 200..<300:
            guard let version = response.item(nil)?.version else {
                // The response of a proxy is not JSON. A JSON response without a row comes from a
                // server.
                if response.isJSON { return nil }
                return (response, isToRepeat: false)
            }
            guard OperationRequest.quoted(version) != condition else { return nil }
            var conflict = response
            conflict.status = 412
            return (conflict, isToRepeat: false)
        case 401, 408, 429, 500...: return (response, isToRepeat: false)
        case 404, 410: return nil
        default:
            if isServers { return nil }
            return (response, isToRepeat: false)
        }
    }

    /// The ETag of a version that no server uses.
    private static let impossible = "\"dGlkZWxpbmU=\""
}

extension TransportResponse {
    fileprivate var isJSON: Bool {
        let start = body.first { $0 != 0x20 && !(9...13).contains($0) }
        return [UInt8(ascii: "{"), UInt8(ascii: "[")].contains(start)
    }
}
