// HTTPProblem: the answers that the HTTP layer gives by itself (RFC 9457 bodies).

import TidelineCore
import TidelineServerCore

enum HTTPProblem {
    static func badRequest(_ reason: String) -> ServerResponse {
        answer(400, "Bad Request", reason)
    }

    static func contentTooLarge(bytesMax: Int) -> ServerResponse {
        answer(413, "Content Too Large", "The body is larger than \(bytesMax) bytes.")
    }

    static let handlerTimedOut = answer(
        503,
        "Service Unavailable",
        "The server took too long to answer. Try again."
    )

    static let stopping = answer(
        503,
        "Service Unavailable",
        "The server is stopping. Try again."
    )

    static let invalidAnswer = answer(
        500,
        "Internal Server Error",
        "The server made an answer without a valid status."
    )

    private static func answer(_ status: Int, _ title: String, _ error: String) -> ServerResponse {
        var writer = JSONWriter()
        writer.row(
            Row(
                layout: RowLayout(["title", "status", "error"]),
                values: [.string(title), .integer(Int64(status)), .string(error)]
            )
        )
        var headers: HTTPFields = [
            "Content-Type": "application/problem+json", "Cache-Control": "no-store",
        ]
        if status == 503 { headers.append("Retry-After", "1") }
        return ServerResponse(status: status, headers: headers, body: writer.bytes)
    }
}
