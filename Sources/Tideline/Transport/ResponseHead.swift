// ResponseHead: the status and header fields of a response.
//
// Pure. libcurl delivers one line at a time, and reports a head that was cut off within a line as a
// success without fields. Only the empty line at the end proves that the whole head has arrived.
// Interim (1xx) heads are skipped, and so are trailers, which come after the empty line.

package import TidelineCore

/// A parser for a response's header lines, which also detects whether the head is complete.
package struct ResponseHead: Sendable {
    /// The maximum size of the status line and header fields; responses to sync requests are never
    /// larger.
    package static let bytesMax = 256 << 10

    package private(set) var status = 0
    package private(set) var fields = HTTPFields()
    /// Whether the empty line after a final head has arrived.
    package private(set) var isComplete = false
    /// Whether any bytes of a final head have arrived.
    package private(set) var hasBegun = false
    /// Whether a line that is not part of an HTTP head has arrived.
    package private(set) var isMalformed = false

    private var byteCount = 0
    private var last: (name: String, value: String)?

    package init() {}

    /// The declared length of the encoded body, if it is a valid number.
    package var contentLength: Int? {
        fields["Content-Length"].flatMap { Int($0) }.flatMap { $0 >= 0 ? $0 : nil }
    }

    /// Appends the next line, including its line ending; returns false if the head is too large.
    package mutating func append(_ line: UnsafeBufferPointer<UInt8>) -> Bool {
        guard !isComplete else { return true }
        byteCount += line.count
        guard byteCount <= Self.bytesMax else { return false }
        hasBegun = true
        guard line.last == 0x0A else {
            isMalformed = true
            return true
        }
        let text = Self.trimmed(line[...])
        if status == 0 {
            readStatus(text)
        } else if text.isEmpty {
            end()
        } else if line[0] == 0x20 || line[0] == 0x09 {
            // A folded line (RFC 9112 section 5.2) continues the value.
            last?.value += " " + String(decoding: text, as: UTF8.self)
        } else {
            readField(text)
        }
        return true
    }

    private mutating func readStatus(_ text: Slice<UnsafeBufferPointer<UInt8>>) {
        let parts = text.split(separator: 0x20, maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count >= 2, parts[0].starts(with: "HTTP/".utf8), parts[1].count == 3,
            let code = Int(String(decoding: parts[1], as: UTF8.self)), code >= 100
        else {
            isMalformed = true
            return
        }
        status = code
    }

    private mutating func readField(_ text: Slice<UnsafeBufferPointer<UInt8>>) {
        flush()
        guard let colon = text.firstIndex(of: 0x3A), colon > text.startIndex else {
            isMalformed = true
            return
        }
        let value = Self.trimmed(text[(colon + 1)...])
        last = (
            String(decoding: text[..<colon], as: UTF8.self), String(decoding: value, as: UTF8.self)
        )
    }

    private mutating func end() {
        flush()
        guard status < 200, status != 101 else {
            isComplete = true
            return
        }
        let interimBytes = byteCount
        self = ResponseHead()
        byteCount = interimBytes
    }

    private mutating func flush() {
        if let last { fields.append(last.name, last.value) }
        last = nil
    }

    private static func trimmed(
        _ text: Slice<UnsafeBufferPointer<UInt8>>
    ) -> Slice<UnsafeBufferPointer<UInt8>> {
        var text = text
        while let byte = text.first, isSpace(byte) { text.removeFirst() }
        while let byte = text.last, isSpace(byte) { text.removeLast() }
        return text
    }

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == 0x0D || byte == 0x0A
    }
}
