// RequestParserTests: the parser alone. Its result must not depend on how the bytes are split.

import Testing
import TidelineCore
import TidelineHTTP
import TidelineServerCore

struct RequestParserTests {
    /// The result of parsing: the phase, the number of bytes consumed, and the request.
    private struct Outcome: Equatable {
        var phase: RequestParser.Phase
        var taken: Int
        var request: String
        var keepsAlive: Bool
    }

    private static func parse(_ bytes: [UInt8], pieces: [Int]) -> Outcome {
        var parser = RequestParser(headBytesMax: 4096, headFieldsMax: 100, bodyBytesMax: 1000)
        var taken = 0
        var start = 0
        for end in pieces + [bytes.count] where end > start {
            let count = bytes[start..<end].withUnsafeBytes { parser.take($0) }
            taken += count
            if count < end - start { break }
            start = end
        }
        let request = parser.request
        var text = "\(request.method) \(request.path) \(request.query)"
        for field in request.headers { text += "\n\(field.name)=\(field.value)" }
        text += "\n" + String(decoding: request.body, as: UTF8.self)
        return Outcome(
            phase: parser.phase,
            taken: taken,
            request: text,
            keepsAlive: parser.keepsAlive
        )
    }

    /// Method: each example of the raw table, whole and split once at each position.
    @Test("A request is parsed the same way regardless of how it is split")
    func splitsDoNotMatter() {
        for example in RawRequestTests.cases where example.raw.utf8.count < 2000 {
            let bytes = Array(example.raw.utf8)
            let whole = Self.parse(bytes, pieces: [])
            for cut in 1..<max(2, bytes.count) {
                let cutOnce = Self.parse(bytes, pieces: [cut])
                if case .rejected = whole.phase {
                    // An error may be detected earlier, and then in fewer bytes.
                    guard case .rejected = cutOnce.phase else {
                        Issue.record("\(example.name), cut at \(cut): \(cutOnce.phase)")
                        continue
                    }
                } else {
                    #expect(cutOnce == whole, "\(example.name), cut at \(cut)")
                }
            }
            let single = Self.parse(bytes, pieces: Array(0..<bytes.count))
            if case .rejected = whole.phase {
                guard case .rejected = single.phase else {
                    Issue.record("\(example.name), byte by byte: \(single.phase)")
                    continue
                }
            } else {
                #expect(single == whole, "\(example.name)")
            }
        }
    }

    @Test("A head with more than 100 fields is rejected") func countsTheFieldsOfAHead() {
        func phase(_ fields: Int) -> RequestParser.Phase {
            let lines = "Host: a\r\n" + String(repeating: "X:\r\n", count: fields - 1)
            return Self.parse(Array("GET / HTTP/1.1\r\n\(lines)\r\n".utf8), pieces: []).phase
        }
        #expect(phase(100) == .complete && phase(101) == .rejected(.tooManyFields))
    }

    @Test("The parser stops at the end of a request") func stopsAtTheEndOfTheRequest() {
        let first = "POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nxyz"
        let outcome = Self.parse(Array((first + "GET ").utf8), pieces: [])
        #expect(outcome.phase == .complete)
        #expect(outcome.taken == first.utf8.count)
        #expect(outcome.request == "POST /a b\nHost=h\nContent-Length=3\nxyz")
    }

    @Test(
        "The version and the Connection header determine whether a connection stays open",
        arguments: [
            ("HTTP/1.1", "X: 1", true), ("HTTP/1.1", "Connection: close", false),
            ("HTTP/1.1", "Connection: x, Close ", false),
            ("HTTP/1.1", "Connection: keep-alive", true),
            ("HTTP/1.0", "X: 1", false), ("HTTP/1.0", "Connection: Keep-Alive", true),
            ("HTTP/1.0", "Connection: close", false), ("HTTP/1.1", "Connection: closed", true),
        ]
    )
    func keepAliveOfConnections(_ version: String, _ field: String, _ lasts: Bool) {
        let raw = "GET / \(version)\r\nHost: a\r\n\(field)\r\n\r\n"
        #expect(Self.parse(Array(raw.utf8), pieces: []).keepsAlive == lasts)
    }

    @Test(
        "A caller that expects 100 Continue gets it at most once",
        arguments: [
            (
                "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
                true
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 4\r\n\r\n",
                true
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\na",
                false
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
                false
            ),
            ("GET / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n", false),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n", false),
        ]
    )
    func sendsContinueOnce(_ raw: String, _ asks: Bool) {
        var parser = RequestParser(headBytesMax: 4096, bodyBytesMax: 1000)
        _ = Array(raw.utf8).withUnsafeBytes { parser.take($0) }
        let first = parser.takeExpectation()
        let second = parser.takeExpectation()
        #expect(first == asks && !second)
    }

    @Test("The first error in a head is reported after the field with the request ID")
    func rejectionHasTheIDOfTheRequest() {
        var parser = RequestParser(headBytesMax: 4096, bodyBytesMax: 1000)
        let raw = "GET x HTTP/1.1\r\nHost: a\r\nA B: 1\r\nC\r\nX-Request-ID: mine\r\n\r\n"
        _ = Array(raw.utf8).withUnsafeBytes { parser.take($0) }
        #expect(parser.phase == .rejected(.malformed("The request target is not valid.")))
        #expect(parser.request.headers["X-Request-ID"] == "mine")
        #expect(parser.request.headers["A B"] == nil)
    }
}
