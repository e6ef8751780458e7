// HTTPProblem: the answers that the HTTP layer gives by itself (RFC 9457 bodies).

import TidelineCore
import TidelineServerCore

enum HTTPProblem {
    static func badRequest(_ reason: String) -> ServerResponse {
        answer(400, "Bad Request", reason)
    }

    static let badTarget = badRequest("The request target is not valid.")

    static let badLength = badRequest("Content-Length is not a number of bytes.")

    static let headTooLarge = answer(
        431,
        "Request Header Fields Too Large",
        "The header fields need more memory than there is for one connection."
    )

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

    /// The answer as it goes over the wire, for a connection that ends with it.
    static func wholeMessage(_ answer: ServerResponse) -> [UInt8] {
        // The reason may be empty.
        var text = "HTTP/1.1 \(answer.status) \r\nConnection: close\r\n"
        for field in answer.headers { text += "\(field.name): \(field.value)\r\n" }
        text += "Content-Length: \(answer.body.count)\r\n\r\n"
        return Array(text.utf8) + answer.body
    }

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
