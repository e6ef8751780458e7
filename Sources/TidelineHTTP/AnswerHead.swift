// AnswerHead: status line and header fields. Pure.

import TidelineCore
import TidelineServerCore

/// The head of an answer, which is rendered as bytes (RFC 9112 section 4).
struct AnswerHead {
    /// The next step of the connection after the answer, if the head has to announce it.
    enum Connection {
        case lasts
        case lastsInVersion10
        case ends
    }

    var status: Int
    var fields: HTTPFields
    /// The length to announce, or nil if the answer announces none (RFC 9110 section 8.6).
    var contentLength: Int?
    var connection: Connection
    /// The value of the Date field.
    var date: [UInt8]

    /// Writes the head and the empty line after it.
    ///
    /// Leaves out a field that would add another line or repeat a field of the head itself.
    func write(to bytes: inout [UInt8]) {
        bytes += "HTTP/1.1 ".utf8
        Self.append(status, &bytes)
        bytes.append(UInt8(ascii: " "))
        bytes += Self.reason(status).utf8
        bytes += "\r\nDate: ".utf8
        bytes += date
        for field in fields { Self.append(field, &bytes) }
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

    private static func append(_ field: HTTPFields.Field, _ bytes: inout [UInt8]) {
        var (name, value) = (field.name, field.value)
        name.withUTF8 { name in
            value.withUTF8 { value in
                guard isPlain(name), !value.contains(where: FramingCheck.isControl) else { return }
                bytes.append(UInt8(ascii: "\r"))
                bytes.append(UInt8(ascii: "\n"))
                bytes.append(contentsOf: name)
                bytes.append(UInt8(ascii: ":"))
                bytes.append(UInt8(ascii: " "))
                bytes.append(contentsOf: value)
            }
        }
    }

    private static func isPlain(_ name: UnsafeBufferPointer<UInt8>) -> Bool {
        guard !name.isEmpty, name.allSatisfy(FramingCheck.isToken) else { return false }
        let name = UnsafeRawBufferPointer(name)
        switch name.count {
        case 4: return !name.equalsIgnoringCase("date")
        case 10: return !name.equalsIgnoringCase("connection")
        case 14: return !name.equalsIgnoringCase("content-length")
        case 17: return !name.equalsIgnoringCase("transfer-encoding")
        default: return true
        }
    }

    private static func append(_ number: Int, _ bytes: inout [UInt8]) {
        if number >= 10 { append(number / 10, &bytes) }
        bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number % 10))
    }

    /// Returns the reason phrase, which is for people; programs use the status (RFC 9110 section 15).
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
