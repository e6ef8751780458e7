// AnswerOutline: a summary of a response that came from a gateway, a portal or another server.
//
// It keeps the status, the media type and the origin of a redirect. From a problem body it keeps
// only the human-readable text.

import Foundation
import TidelineCore

/// The outline of a response that does not come from a sync server, for error messages.
package struct AnswerOutline: Sendable, Hashable {
    package var status: Int
    /// The media type of the response, without parameters.
    package var mediaType: String?
    /// The origin that a redirect leads to; nil if there is none, or if it is the server's own
    /// origin.
    package var redirect: String?
    /// The text of a problem body.
    package var problem: String?

    /// Creates the outline of a response when only its status is known.
    package init(status: Int) { self.status = status }

    package init(_ response: TransportResponse) {
        status = response.status
        mediaType = response.headers["Content-Type"].flatMap(Self.mediaType)
        redirect = response.headers["Location"].flatMap { URL(string: $0) }
            .flatMap { $0.host() == nil ? nil : EndpointRules.name(of: $0) }
        problem = response.problem
    }

    /// Returns `text/html` for `text/html; charset=utf-8`, or nil if the field has no media type.
    private static func mediaType(_ field: String) -> String? {
        let type = field.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces).lowercased()
        let isPlain = type.utf8.allSatisfy { (0x21...0x7E).contains($0) }
        return isPlain && (3...60).contains(type.utf8.count) ? type : nil
    }

    /// Returns sentences that describe the response and say what to check.
    ///
    /// - Parameters:
    ///   - server: The origin that the request was sent to.
    ///   - what: The request, such as "the push".
    /// - Returns: The cause and the remedy.
    package func message(from server: String, to what: String) -> String {
        let type = mediaType.map { " (\($0))" } ?? ""
        let reason = problem.map { ": \($0)" } ?? ""
        let start = "\(server) answered \(what) with status \(status)\(type)"
        switch status {
        case 300..<400:
            let place = redirect.map { "to \($0)" } ?? "to another path"
            return """
                \(start), a redirect \(place), which is not followed. If the server is there, use \
                that address as the endpoint; if it is a login page, sign in to the network first.
                """
        case 408, 429:
            return "\(Self.ended(start + reason)) The server is busy. Try again later."
        case 404, 410:
            return """
                \(Self.ended(start + reason)) This is not the response of a table. Check the endpoint \
                and its path, that the server has the table, and that it is running behind its proxy.
                """
        case 409, 412:
            return """
                \(Self.ended(start + reason)) The row on the server is unchanged. Check the clock of \
                this device, and that a proxy in front of the server forwards headers unchanged.
                """
        case 500...:
            return """
                \(Self.ended(start + reason)) The server failed. Try again later, and check its log \
                if the problem persists.
                """
        default:
            return """
                \(start), but the response is not one of a sync server. Check that the endpoint is the \
                sync server and not another service or a login page.
                """
        }
    }

    private static func ended(_ text: String) -> String { text.hasSuffix(".") ? text : text + "." }
}

extension SyncError {
    /// The error for a response that does not follow the protocol.
    package static func unexpectedAnswer(
        _ answer: AnswerOutline,
        from server: String,
        to what: String,
        isProven: Bool = true
    ) -> SyncError {
        let code: Code =
            switch answer.status {
            case 200..<300: .badResponse
            // A redirect is not a rejection.
            case ..<400: .serverError
            // Only the server asks the user to sign in, or decides what an account may do.
            case 401 where !isProven, 403 where !isProven: .serverError
            default: Code(answer: answer.status)
            }
        return SyncError(
            code,
            answer.message(from: server, to: what),
            statusCode: answer.status
        )
    }
}
