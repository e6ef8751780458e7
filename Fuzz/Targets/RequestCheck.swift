// RequestCheck: complete requests that arrive in two parts, as from a socket.

import TidelineCore
import TidelineHTTP
import TidelineServerCore

struct RequestCheck {
    /// Parses a request; the first byte of the input is the position at which the other bytes are split.
    func run(_ input: UnsafeBufferPointer<UInt8>) throws {
        guard let first = input.first else { return }
        let bytes = Array(input.dropFirst())
        let (whole, taken) = parse(bytes, cut: 0)
        let (pieces, takenInPieces) = parse(bytes, cut: min(Int(first), bytes.count))
        switch (whole.phase, pieces.phase) {
        case (.rejected, .rejected): return
        case (.complete, .complete):
            try demand(taken == takenInPieces, "the end of a request does not move")
        default: try demand(whole.phase == pieces.phase, "pieces do not matter")
        }
        try demand(text(whole.request) == text(pieces.request), "pieces do not change a request")
        guard whole.phase == .complete else { return }
        try demand(
            !bytes[..<taken].starts(with: Array("\n".utf8)),
            "a request does not begin with a bare LF"
        )
        try again(whole.request)
    }

    private func parse(_ bytes: [UInt8], cut: Int) -> (RequestParser, taken: Int) {
        var parser = RequestParser(headBytesMax: 1024, bodyBytesMax: 512)
        let first = bytes[..<cut].withUnsafeBytes { parser.take($0) }
        let second = first < cut ? 0 : bytes[cut...].withUnsafeBytes { parser.take($0) }
        return (parser, first + second)
    }

    private func text(_ request: ServerRequest) -> String {
        request.headers.map { "\($0.name)=\($0.value)\n" }
            .reduce("\(request.method) \(request.path)?\(request.query)\n", +) + "\(request.body)"
    }

    /// Checks that the parsed request, written in its simplest form, is parsed again.
    private func again(_ request: ServerRequest) throws {
        var raw = Array("\(request.method) \(request.path)?\(request.query) HTTP/1.1\r\n".utf8)
        var hasHost = false
        for field in request.headers {
            let name = field.name.lowercased()
            if name == "content-length" || name == "transfer-encoding" { continue }
            hasHost = hasHost || name == "host"
            raw += Array("\(field.name):\(field.value)\r\n".utf8)
        }
        if !hasHost { raw += Array("Host:a\r\n".utf8) }
        raw += Array("Content-Length:\(request.body.count)\r\n\r\n".utf8) + request.body
        var parser = RequestParser(headBytesMax: 1 << 20, bodyBytesMax: 512)
        let taken = raw.withUnsafeBytes { parser.take($0) }
        try demand(parser.phase == .complete && taken == raw.count, "a request can be sent again")
        let parsed = parser.request
        try demand(
            parsed.method == request.method && parsed.path == request.path
                && parsed.query == request.query && parsed.body == request.body,
            "a request comes back"
        )
    }
}
