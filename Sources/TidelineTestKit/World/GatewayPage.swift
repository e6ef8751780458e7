// GatewayPage: a response from a captive portal, a proxy, or a load balancer in place of the
// server's response.

import Tideline

/// A response from a gateway between a device and its server, with any status and a body that is
/// not the server's.
struct GatewayPage: Sendable {
    private enum Body: CaseIterable {
        case html
        case text
        case message
        case otherStatus
        case empty
    }

    var response: TransportResponse

    /// Draws a random page.
    ///
    /// - Parameters:
    ///   - generator: The source of randomness.
    ///   - allowsEmptySuccess: Whether a success may have no body. The original servers send such
    ///     responses too, so a device cannot tell the difference.
    init(using generator: inout SeededGenerator, allowsEmptySuccess: Bool) {
        let status = Self.statuses.randomElement(using: &generator) ?? 502
        var body = Body.allCases.randomElement(using: &generator) ?? .html
        let isSuccess = (200..<300).contains(status)
        if isSuccess, body == .empty || body == .otherStatus, !allowsEmptySuccess { body = .html }
        response = Self.response(status, body)
    }

    private static let statuses = [
        200, 202, 204, 302, 304, 307, 400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412,
        413, 414, 415, 418, 421, 422, 423, 425, 426, 428, 429, 431, 451, 495, 499, 500, 501, 502,
        503, 504, 511, 520, 530,
    ]

    private static func response(_ status: Int, _ body: Body) -> TransportResponse {
        var headers = HTTPFields()
        var text = ""
        switch body {
        case .html:
            headers["Content-Type"] = "text/html; charset=utf-8"
            text = "<html><head><title>Gateway</title></head><body>Blocked.</body></html>"
        case .text:
            headers["Content-Type"] = "text/plain"
            text = "upstream connect error"
        case .message:
            headers["Content-Type"] = "application/json"
            text = #"{"message":"Forbidden"}"#
        case .otherStatus:
            headers["Content-Type"] = "application/problem+json"
            text = #"{"type":"about:blank","title":"Blocked","status":\#(status + 1)}"#
        case .empty:
            break
        }
        if (300..<400).contains(status) { headers["Location"] = "http://portal.example/login" }
        // A response with status 204 or 304 has no body (RFC 9110, 6.4.1).
        let hasBody = ![204, 304].contains(status)
        return TransportResponse(
            status: status,
            headers: hasBody ? headers : HTTPFields(),
            body: hasBody ? Array(text.utf8) : []
        )
    }

    /// The response to a request for an event stream.
    var stream: TransportStream {
        let body = response.body
        let bytes = AsyncThrowingStream<[UInt8], any Error> { pieces in
            if !body.isEmpty { pieces.yield(body) }
            pieces.finish()
        }
        return TransportStream(status: response.status, headers: response.headers, bytes: bytes)
    }
}
