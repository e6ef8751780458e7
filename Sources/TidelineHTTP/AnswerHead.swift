// AnswerHead: the head of an answer as bytes (RFC 9112 section 4). Pure.

import TidelineCore
import TidelineServerCore

struct AnswerHead {
    /// What the connection does behind the answer, as far as it has to be said.
    enum Connection {
        case lasts
        case lastsInVersion10
        case ends
    }

    var status: Int
    var fields: HTTPFields
    /// The length to announce; nil where there is none (RFC 9110 section 8.6).
    var contentLength: Int?
    var connection: Connection
    /// The value of the Date field.
    var date: [UInt8]

    /// Writes the head, with the empty line behind it.
    ///
    /// A field that would add another, or say again what is said here, is left out.
    func write(to bytes: inout [UInt8]) {
        bytes += "HTTP/1.1 ".utf8
        Self.append(status, &bytes)
        bytes.append(UInt8(ascii: " "))
        bytes += Self.reason(status).utf8
        bytes += "\r\nDate: ".utf8
        bytes += date
        for field in fields where Self.isPlain(field) {
            bytes += "\r\n".utf8
            bytes += field.name.utf8
            bytes += ": ".utf8
            bytes += field.value.utf8
        }
        if let contentLength {
            bytes += "\r\nContent-Length: ".utf8
            Self.append(contentLength, &bytes)
        }
        switch connection {
        case .lasts: break
        case .lastsInVersion10: bytes += "\r\nConnection: keep-alive".utf8
        case .ends: bytes += "\r\nConnection: close".utf8
        }
        bytes += "\r\n\r\n".utf8
    }

    private static func isPlain(_ field: HTTPFields.Field) -> Bool {
        guard !field.name.isEmpty, field.name.utf8.allSatisfy(FramingCheck.isToken),
            field.value.utf8.allSatisfy({ !FramingCheck.isControl($0) })
        else { return false }
        switch field.name.utf8.count {
        case 4: return !ASCII.equal(field.name, "date")
        case 10: return !ASCII.equal(field.name, "connection")
        case 14: return !ASCII.equal(field.name, "content-length")
        case 17: return !ASCII.equal(field.name, "transfer-encoding")
        default: return true
        }
    }

    private static func append(_ number: Int, _ bytes: inout [UInt8]) {
        if number >= 10 { append(number / 10, &bytes) }
        bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number % 10))
    }

    /// For people; programs go by the status (RFC 9110 section 15).
    private static func reason(_ status: Int) -> String {
        switch status {
        case 200: "OK"
        case 201: "Created"
        case 204: "No Content"
        case 304: "Not Modified"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 406: "Not Acceptable"
        case 408: "Request Timeout"
        case 409: "Conflict"
        case 410: "Gone"
        case 411: "Length Required"
        case 412: "Precondition Failed"
        case 413: "Content Too Large"
        case 414: "URI Too Long"
        case 415: "Unsupported Media Type"
        case 422: "Unprocessable Content"
        case 428: "Precondition Required"
        case 429: "Too Many Requests"
        case 431: "Request Header Fields Too Large"
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 503: "Service Unavailable"
        default: "Status"
        }
    }
}
