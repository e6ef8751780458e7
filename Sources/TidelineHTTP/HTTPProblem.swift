// HTTPProblem: problem documents (RFC 9457).

import TidelineCore
import TidelineServerCore

/// The responses that the HTTP layer itself creates.
enum HTTPProblem {
    /// Returns the answer to a request that did not reach a handler.
    static func answer(to fault: RequestFault, limits: HTTPLimits) -> ServerResponse {
        switch fault {
        case .noRequest:
            answer(400, "Bad Request", "The request line is not METHOD TARGET HTTP/1.1.")
        case .malformed(let reason):
            answer(400, "Bad Request", reason)
        case .tooSlow:
            answer(408, "Request Timeout", "The request did not arrive in time.")
        case .bodyTooLarge:
            answer(
                413,
                "Content Too Large",
                "The body is larger than \(limits.bodyBytesMax) bytes."
            )
        case .noMemory:
            answer(
                503,
                "Service Unavailable",
                "Too many large requests are arriving at once. Retry shortly."
            )
        case .targetTooLong:
            answer(
                414,
                "URI Too Long",
                "The request target makes the request head larger than \(limits.headerBytesMax) bytes."
            )
        case .headTooLarge:
            answer(
                431,
                "Request Header Fields Too Large",
                "The request head is larger than \(limits.headerBytesMax) bytes."
            )
        case .tooManyFields:
            answer(
                431,
                "Request Header Fields Too Large",
                "The request head has more than \(limits.headerFieldsMax) fields."
            )
        case .otherVersion:
            // 505 would fit, too, but a caller must not be able to make the server count a failure.
            answer(400, "Bad Request", "The server supports only HTTP/1.1 and HTTP/1.0.")
        }
    }

    /// The answer if the handler timed out.
    static func timedOut(_ parser: RequestParser) -> ServerResponse {
        gaveUp("The server took too long to respond.", parser.request.method)
    }

    /// The answer if the server stops before the handler has ended.
    static func stopping(_ parser: RequestParser) -> ServerResponse {
        gaveUp("The server is stopping.", parser.request.method)
    }

    /// The status for log and metrics if the caller closed the connection before the answer.
    static let callerLeft = ServerResponse(status: 499)

    /// Returns the answer if a handler was abandoned.
    ///
    /// A write may have been committed, or may still be.
    private static func gaveUp(_ reason: String, _ method: String) -> ServerResponse {
        if ["GET", "HEAD", "OPTIONS"].contains(method) {
            return answer(503, "Service Unavailable", reason + " Retry shortly.")
        }
        return answer(
            503,
            "Service Unavailable",
            reason + " The request may have been executed. Check the result before you retry.",
            code: .outcomeUnknown
        )
    }

    /// Returns the answer to a request on a connection that exceeds a limit.
    static func answer(to excess: HTTPConnection.Excess) -> ServerResponse {
        switch excess {
        case .connections:
            answer(
                503,
                "Service Unavailable",
                "Too many connections are open (limits.connections). Retry later."
            )
        case .callerConnections:
            answer(
                429,
                "Too Many Requests",
                "You have as many connections as limits.callerConnections allows. Close some."
            )
        }
    }

    static let tooManyOwnListeners = answer(
        429,
        "Too Many Requests",
        "You have as many event streams as limits.callerListeners allows. Close some."
    )

    static let tooManyListeners = answer(
        503,
        "Service Unavailable",
        "Too many event streams are open (limits.listeners). Retry later."
    )

    static let notTLS = answer(
        400,
        "Bad Request",
        "This port requires TLS, but the request was plain HTTP. Use https instead of http."
    )

    static let noMemory = answer(
        503,
        "Service Unavailable",
        "Too many large responses wait for their callers. Retry shortly."
    )

    static let invalidAnswer = answer(
        500,
        "Internal Server Error",
        "The server created a response without a valid status."
    )

    private static func answer(
        _ status: Int,
        _ title: String,
        _ error: String,
        code: ErrorCode? = nil
    ) -> ServerResponse {
        var writer = JSONWriter()
        var names = ["title", "status", "detail", "error"]
        var values: [Value] = [
            .string(title), .integer(Int64(status)), .string(error), .string(error),
        ]
        if let code {
            names.append("code")
            values.append(.string(code.rawValue))
        }
        writer.row(Row(layout: RowLayout(names), values: values))
        var headers: HTTPFields = [
            "Content-Type": "application/problem+json", "Cache-Control": "no-store",
        ]
        if status == 503 { headers.append("Retry-After", "1") }
        return ServerResponse(status: status, headers: headers, body: writer.bytes)
    }
}
