// RequestParser: parses requests.
//
// Pure: its input is bytes, and its output a request or a rejection. Input that another parser could read in a second
// way is rejected, so that no request can be smuggled past a proxy: lines end only in CR LF and are not folded, names
// have no space after them, and a body is framed once.
//
//     take(bytes)* until the phase is complete or refused
//
// This file parses the head; RequestParser+Body.swift parses the body.

import Glibc
import TidelineCore
package import TidelineServerCore

/// A parser of one HTTP/1.1 request, from bytes that arrive in parts of any size (RFC 9112).
package struct RequestParser: Sendable {
    /// The parser's progress within the request.
    package enum Phase: Equatable, Sendable {
        case head
        case body
        /// The request is complete; bytes that follow belong to the next one.
        case complete
        /// The request is invalid, and later bytes cannot be parsed.
        case rejected(RequestFault)
    }

    /// The framing of the body, with the part of it that follows.
    enum Framing: Equatable, Sendable {
        case length(left: Int)
        case chunkSize
        case chunkData(left: Int)
        case chunkEnd
        case trailer
    }

    package internal(set) var phase = Phase.head
    /// The request as far as it was parsed; complete once the phase is `complete`.
    package internal(set) var request = ServerRequest(method: "", path: "", query: "")
    /// Whether a byte of the request has arrived, apart from leading line breaks.
    package private(set) var hasBegun = false
    /// Whether the caller wants to keep the connection alive.
    package private(set) var keepsAlive = true
    /// Whether the caller uses HTTP/1.0, which may change the answer.
    package private(set) var isVersion10 = false

    let headBytesMax: Int
    let headFieldsMax: Int
    let bodyBytesMax: Int
    var framing = Framing.chunkSize
    /// The bytes of an incomplete line.
    var line: [UInt8] = []
    /// The number of bytes of the head, or of trailers, so far.
    var lineBytes = 0
    /// The number of bytes of the complete head.
    private var headBytes = 0

    /// The number of field lines so far, valid or not.
    private var fields = 0
    private var expectsContinue = false
    private var check = FramingCheck()
    /// The first fault after which the rest of the head can still be parsed.
    ///
    /// The answer needs the ID of the request, which is in a field.
    private var fault: RequestFault?

    /// The bytes of the request in memory: head, body, and the part of a line that has arrived.
    package var bufferedBytes: Int { headBytes + lineBytes + request.body.count }

    package init(headBytesMax: Int, headFieldsMax: Int = .max, bodyBytesMax: Int) {
        self.headBytesMax = headBytesMax
        self.headFieldsMax = headFieldsMax
        self.bodyBytesMax = bodyBytesMax
    }

    /// Parses the next bytes.
    ///
    /// - Returns: The number of bytes that belong to this request: all of them, unless it ends.
    package mutating func take(_ bytes: UnsafeRawBufferPointer) -> Int {
        var offset = 0
        while offset < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[offset...])
            switch phase {
            case .head: offset += takeLine(rest) { $0.headLine($1) }
            case .body: offset += takeBody(rest)
            case .complete, .rejected: return offset
            }
        }
        return offset
    }

    /// Whether the caller waits for `100 Continue` before it sends the body; true only once (RFC 9110 section
    /// 10.1.1).
    package mutating func takeExpectation() -> Bool {
        defer { if phase == .body { expectsContinue = false } }
        return expectsContinue && phase == .body && !isVersion10
            && request.body.isEmpty && lineBytes == 0
    }

    /// Returns a complete request; the parser keeps the values that identify it.
    package mutating func takeRequest() -> ServerRequest {
        defer {
            request.headers = [:]
            request.body = []
        }
        return request
    }

    mutating func reject(_ fault: RequestFault) {
        phase = .rejected(fault)
        line = []
    }

    /// Reads up to the end of a line, and passes the line without its line break to `use`.
    mutating func takeLine(
        _ bytes: UnsafeRawBufferPointer,
        _ use: (inout Self, UnsafeRawBufferPointer) -> Void
    ) -> Int {
        guard let start = bytes.baseAddress else { return 0 }
        let end = memchr(start, Int32(UInt8(ascii: "\n")), bytes.count)
        let count = end.map { UnsafeRawPointer($0) - start + 1 } ?? bytes.count
        lineBytes += count
        if lineBytes > headBytesMax {
            reject(tooLong(UnsafeRawBufferPointer(rebasing: bytes[..<count])))
            return count
        }
        let part = UnsafeRawBufferPointer(rebasing: bytes[..<count])
        guard end != nil else {
            line.append(contentsOf: part)
            if phase == .head { begin(with: line[0]) }
            return count
        }
        if line.isEmpty {
            endLine(part, use)
        } else {
            var whole = line
            line = []
            whole.append(contentsOf: part)
            whole.withUnsafeBytes { endLine($0, use) }
        }
        return count
    }

    private mutating func endLine(
        _ bytes: UnsafeRawBufferPointer,
        _ use: (inout Self, UnsafeRawBufferPointer) -> Void
    ) {
        let count = bytes.count - 2
        guard count >= 0, bytes[count] == UInt8(ascii: "\r") else {
            return reject(.malformed("A line does not end with CR LF."))
        }
        use(&self, UnsafeRawBufferPointer(rebasing: bytes[..<count]))
    }

    // MARK: - Lines of the head

    private var hasRequestLine: Bool { !request.method.isEmpty }

    /// Checks the first byte, because input that is not HTTP may contain no line break.
    private mutating func begin(with byte: UInt8) {
        if hasBegun || byte == UInt8(ascii: "\r") { return }
        hasBegun = true
        if !FramingCheck.isToken(byte) { reject(.noRequest) }
    }

    private func tooLong(_ part: UnsafeRawBufferPointer) -> RequestFault {
        if phase == .body {
            return framing == .trailer
                ? .headTooLarge : .malformed("The line with the size of a chunk is too long.")
        }
        if hasRequestLine { return .headTooLarge }
        // After the method, the target is the part that does not end.
        let space = UInt8(ascii: " ")
        return line.contains(space) || part.contains(space) ? .targetTooLong : .noRequest
    }

    private mutating func headLine(_ line: UnsafeRawBufferPointer) {
        if !hasRequestLine {
            // Some clients send an extra line break after a body (RFC 9112 section 2.2).
            if !line.isEmpty { requestLine(line) }
        } else if line.isEmpty {
            finishHead()
        } else {
            field(line)
        }
    }

    private mutating func requestLine(_ line: UnsafeRawBufferPointer) {
        hasBegun = true
        let space = UInt8(ascii: " ")
        guard let first = line.firstIndex(of: space), let last = line.lastIndex(of: space),
            first < last, first > 0, line[..<first].allSatisfy(FramingCheck.isToken),
            takeVersion(UnsafeRawBufferPointer(rebasing: line[(last + 1)...]))
        else { return reject(.noRequest) }
        request.method = String(decoding: line[..<first], as: UTF8.self)
        if let target = RequestTarget(UnsafeRawBufferPointer(rebasing: line[(first + 1)..<last])) {
            request.path = target.path
            request.query = target.query
        } else {
            fault = .malformed("The request target is not valid.")
        }
    }

    /// Parses the HTTP version; returns false if the bytes are not a version.
    private mutating func takeVersion(_ text: UnsafeRawBufferPointer) -> Bool {
        guard text.count == 8, text.starts(with: "HTTP/".utf8), FramingCheck.isDigit(text[5]),
            text[6] == UInt8(ascii: "."),
            FramingCheck.isDigit(text[7])
        else { return false }
        if text[5] != UInt8(ascii: "1") { fault = .otherVersion }
        isVersion10 = text[7] == UInt8(ascii: "0")
        keepsAlive = !isVersion10
        return true
    }

    private mutating func field(_ line: UnsafeRawBufferPointer) {
        fields += 1
        if fields > headFieldsMax { return reject(.tooManyFields) }
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else {
            if fault == nil { fault = .malformed("A header line has no colon.") }
            return
        }
        let name = UnsafeRawBufferPointer(rebasing: line[..<colon])
        let value = UnsafeRawBufferPointer(rebasing: line[(colon + 1)...]).trimmed
        check.field(name: name, value: value)
        guard !name.isEmpty, name.allSatisfy(FramingCheck.isToken),
            !value.contains(where: FramingCheck.isControl)
        else { return }
        let text = value.headerText
        switch name.count {
        case 6 where name.equalsIgnoringCase("expect"):
            expectsContinue = value.equalsIgnoringCase("100-continue")
        case 10 where name.equalsIgnoringCase("connection"):
            connection(text.lowercased())
        default: break
        }
        request.headers.append(String(decoding: name, as: UTF8.self), text)
    }

    private mutating func connection(_ options: String) {
        for option in options.split(separator: ",") {
            switch option.drop(while: { $0 == " " || $0 == "\t" }).prefix(while: { $0 != " " }) {
            case "close": keepsAlive = false
            case "keep-alive" where isVersion10: keepsAlive = true
            default: break
            }
        }
    }

    private mutating func finishHead() {
        check.finish(isVersion11: !isVersion10)
        if let fault = fault ?? check.problem.map(RequestFault.malformed) { return reject(fault) }
        headBytes = lineBytes
        lineBytes = 0
        if check.isChunked {
            framing = .chunkSize
            phase = .body
            return
        }
        let length = check.contentLength ?? 0
        if length > bodyBytesMax { return reject(.bodyTooLarge) }
        framing = .length(left: length)
        phase = length > 0 ? .body : .complete
        // A length is only a claim, so no more memory is reserved for it than a busy server can spare.
        request.body.reserveCapacity(min(length, 64 << 10))
    }
}

/// The reason why a request does not reach the handler.
package enum RequestFault: Error, Equatable, Sendable {
    /// The input is not HTTP, or its request line is malformed.
    case noRequest
    /// The request is ambiguous or invalid; the sentence explains why.
    case malformed(String)
    case targetTooLong
    case headTooLarge
    case tooManyFields
    case bodyTooLarge
    case otherVersion
    /// The rest of the request did not arrive in time.
    case tooSlow
    /// Other requests use up the memory for requests.
    case noMemory
}
