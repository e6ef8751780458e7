// RawRequestTests: the response to a raw request, through a socket. The table is a promise to operators of proxies: no
// request in it can be interpreted in two ways.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineHTTP

struct RawRequestTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var raw: String
        var statuses: [Int]
        var testDescription: String { name }

        init(_ name: String, _ raw: String, _ statuses: Int...) {
            self.name = name
            self.raw = raw
            self.statuses = statuses
        }

        static func post(
            _ name: String,
            _ headers: String,
            _ body: String,
            _ statuses: Int...
        )
            -> Case
        {
            var example = Case(name, "POST / HTTP/1.1\r\nHost: a\r\n\(headers)\r\n\r\n\(body)")
            example.statuses = statuses
            return example
        }
    }

    static let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

    static let cases: [Case] = [
        Case("plain", get("/"), 200),
        Case("empty line first", "\r\n" + get("/"), 200),
        Case("two in one write", get("/1") + get("/2"), 200, 200),
        Case("no Host", "GET / HTTP/1.1\r\n\r\n", 400),
        Case("no Host in 1.0", "GET / HTTP/1.0\r\n\r\n", 200),
        Case("two Host", get("/", "Host: b\r\n"), 400),
        Case("unknown method", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        Case("version 2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 400),
        Case("version 0.9", "GET / HTTP/0.9\r\nHost: a\r\n\r\n", 400),
        Case("no version", "GET /\r\nHost: a\r\n\r\n", 400),
        Case("no request line", "Host: a\r\n\r\n", 400),
        Case("no request at all", "GARBAGE\r\n\r\n", 400),
        Case("no text at all", "\u{16}\u{3}\u{1}", 400),
        Case("no end of a line", String(repeating: "x", count: 40_000), 400),
        Case("no end of empty lines", String(repeating: "\r\n", count: 20_000), 400),
        Case("preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        Case("version in lower case", "GET / http/1.1\r\nHost: a\r\n\r\n", 400),
        Case("version in mixed case", "GET / HTtp/1.1\r\nHost: a\r\n\r\n", 400),
        Case("version 1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", 200),
        Case("two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Case("method that is no token", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Case("lone CR at the end", "GET / HTTP/1.1\r\nHost: a\r\n\rX\n", 400),
        Case("bare LF", "GET / HTTP/1.1\nHost: a\n\n", 400),
        Case("bare LF at the end", "GET / HTTP/1.1\r\nHost: a\r\n\n", 400),
        Case("bare LF within", get("/", "X: a\nY: b\r\n"), 400),
        Case("bare CR within", get("/", "X: a\rContent-Length: 4\r\n") + "abcd", 400),
        Case("absolute target", get("http://a/x?y"), 200),
        Case("target without slash", get("x"), 400),
        Case("space in target", get("/a b"), 400),
        Case("control byte in target", get("/a\u{1}b"), 400),
        Case("space before colon", get("/", "X : 1\r\n"), 400),
        Case("space before colon of length", get("/", "Content-Length : 4\r\n") + "abcd", 400),
        Case("no colon", get("/", "X\r\n"), 400),
        Case("empty name", get("/", ": 1\r\n"), 400),
        Case("empty name before length", get("/", ":\r\nContent-Length: 70\r\n") + smuggled, 400),
        Case("bad name", get("/", "X(Y): 1\r\n"), 400),
        Case("control byte in value", get("/", "X: a\u{1}b\r\n"), 400),
        Case("delete in value", get("/", "X: a\u{7F}b\r\n"), 400),
        Case("NUL in value", get("/", "X: a\0b\r\n"), 400),
        Case("NUL in target", get("/a\0b"), 400),
        Case("NUL in query", get("/a?b\0c"), 400),
        Case("NUL behind query", get("/a?\0"), 400),
        Case("a thousand parameters", get("/?" + String(repeating: "a=b&", count: 1000)), 200),
        Case("query of one character", get("/?a"), 200),
        Case("empty query", get("/?"), 200),
        Case("question marks", get("/??a?b"), 200),
        Case(
            "a thousand cookies",
            get("/", "Cookie: \(String(repeating: "a=b;", count: 1000))\r\n"),
            200
        ),
        Case("NUL in name", get("/", "X\0: b\r\n"), 400),
        Case("NUL before colon", get("/", "Content-Length\0: 4\r\n") + "abcd", 400),
        Case("folded value", get("/", "X: a\r\n b\r\n"), 400),
        Case("folded first line", "GET / HTTP/1.1\r\n X: a\r\nHost: a\r\n\r\n", 400),
        Case("no white space", "GET / HTTP/1.1\r\nHost:a\r\nX:\r\nY:\t\r\n\r\n", 200),
        Case("no field in 1.0", "GET /a?b=c&d HTTP/1.0\r\n\r\n", 200),
        Case("40 KB header", get("/", "X: \(String(repeating: "x", count: 40_000))\r\n"), 431),
        Case("100 fields with Host", get("/", String(repeating: "X:1\r\n", count: 99)), 200),
        Case("101 fields with Host", get("/", String(repeating: "X:1\r\n", count: 100)), 431),
        Case("101 broken fields", get("/", String(repeating: ":\r\n", count: 101)), 431),
        Case("40 KB target", get("/" + String(repeating: "x", count: 40_000)), 414),
        .post("length", "Content-Length: 4", "abcd", 200),
        .post("length and a second request", "Content-Length: 4", "abcd" + get("/2"), 200, 200),
        .post("spaces before length", "Content-Length: \t 4", "abcd", 200),
        .post("space after length", "Content-Length: 4 \t", "abcd", 200),
        .post("no length", "X: 1", "", 200),
        .post(
            "zeros before length",
            "Content-Length: \(String(repeating: "0", count: 30))4",
            "abcd",
            200
        ),
        .post("negative length", "Content-Length: -4", "abcd", 400),
        .post("length with plus", "Content-Length: +4", "abcd", 400),
        .post("list of lengths", "Content-Length: 4, 4", "abcd", 400),
        .post("hexadecimal length", "Content-Length: 0x4", "abcd", 400),
        .post("empty length", "Content-Length:", "", 400),
        .post(
            "length of 30 digits",
            "Content-Length: 1\(String(repeating: "0", count: 29))",
            "",
            413
        ),
        .post("two lengths", "Content-Length: 4\r\nContent-Length: 5", "abcde", 400),
        .post("same length twice", "Content-Length: 4\r\nContent-Length: 4", "abcd", 400),
        .post("chunked", "Transfer-Encoding: chunked", "4\r\nabcd\r\n0\r\n\r\n", 200),
        .post(
            "chunked and a second request",
            "Transfer-Encoding: chunked",
            "4;x=y\r\nabcd\r\n0\r\nTrailer: 1\r\n\r\n" + get("/2"),
            200,
            200
        ),
        .post("chunk lines with bare LF", "Transfer-Encoding: chunked", "4\nabcd\n0\n\n", 400),
        .post("chunk end with bare LF", "Transfer-Encoding: chunked", "4\r\nabcd\n0\r\n\r\n", 400),
        .post(
            "space after chunk size",
            "Transfer-Encoding: chunked",
            "4 \r\nabcd\r\n0\r\n\r\n",
            400
        ),
        .post("chunk size of 0x4", "Transfer-Encoding: chunked", "0x4\r\nabcd\r\n0\r\n\r\n", 400),
        .post("negative chunk size", "Transfer-Encoding: chunked", "-4\r\nabcd\r\n0\r\n\r\n", 400),
        .post("empty chunk size", "Transfer-Encoding: chunked", "\r\nabcd\r\n0\r\n\r\n", 400),
        .post(
            "chunk size that no integer holds",
            "Transfer-Encoding: chunked",
            "10000000000000004\r\nabcd\r\n0\r\n\r\n",
            413
        ),
        .post(
            "zeros before chunk size",
            "Transfer-Encoding: chunked",
            "0000000000000000004\r\nabcd\r\n00\r\n\r\n",
            200
        ),
        .post("bad trailer", "Transfer-Encoding: chunked", "0\r\nX Y: 1\r\n\r\n", 400),
        .post("trailer without colon", "Transfer-Encoding: chunked", "0\r\nX\r\n\r\n", 400),
        .post(
            "trailers of 40 KB",
            "Transfer-Encoding: chunked",
            "0\r\n\(String(repeating: "X: 1\r\n", count: 7000))\r\n",
            431
        ),
        .post(
            "length then chunked",
            "Content-Length: 4\r\nTransfer-Encoding: chunked",
            "0\r\n\r\n" + smuggled,
            400
        ),
        .post(
            "chunked then length",
            "Transfer-Encoding: chunked\r\nContent-Length: 4",
            "0\r\n\r\n" + smuggled,
            400
        ),
        .post("chunked twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "", 400),
        .post("not quite chunked", "Transfer-Encoding: xchunked", smuggled, 400),
        .post("chunked within a list", "Transfer-Encoding: gzip, chunked", smuggled, 400),
        .post("space after encoding", "Transfer-Encoding: chunked ", smuggled, 400),
        .post("folded length", "Content-Length: 4\r\n 5", smuggled, 400),
        .post("folded encoding", "Transfer-Encoding:\r\n chunked", smuggled, 400),
        .post("identity", "Transfer-Encoding: identity", smuggled, 400),
        .post("control byte in encoding", "Transfer-Encoding: \u{B}chunked", smuggled, 400),
        .post("bad chunk size", "Transfer-Encoding: chunked", "xyz\r\nabcd\r\n0\r\n\r\n", 400),
        .post(
            "chunk longer than said",
            "Transfer-Encoding: chunked",
            "2\r\nabcd\r\n0\r\n\r\n",
            400
        ),
        Case(
            "chunked in 1.0",
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400
        ),
    ]

    /// Reads until the connection ends; no bytes may follow a response that closes it.
    ///
    /// All rejections have the same format.
    private static func statuses(of raw: String, port: Int, overTLS: Bool) throws -> [Int] {
        let client = try RawClient(port: port, overTLS: overTLS)
        // The server may close before it has read everything.
        try? client.send(raw)
        client.finishSending()
        var statuses: [Int] = []
        while let answer = try client.answer() {
            statuses.append(answer.status)
            if answer.status >= 400 {
                #expect(answer.headers["Content-Type"] == "application/problem+json")
                #expect(answer.headers["X-Request-ID"] != nil)
                #expect(answer.text.hasPrefix(#"{"title":"#))
            }
            if answer.headers["Connection"]?.lowercased() == "close" { break }
        }
        #expect(try client.rest() == "")
        return statuses
    }

    @Test(
        "Raw requests get their expected statuses with and without TLS",
        arguments: [false, true]
    )
    func rawRequestsGetTheirStatus(overTLS: Bool) async throws {
        let results = try await withServer(tls: overTLS ? RawTLS.identity() : nil) { port in
            try Self.cases.map { example in
                (example, try Self.statuses(of: example.raw, port: port, overTLS: overTLS))
            }
        }
        for (example, statuses) in results {
            #expect(statuses == example.statuses, "\(example.name)")
        }
    }

    @Test("A rejection is a problem document and closes the connection")
    func rejectionsAreProblemDocumentsAndCloseTheConnection() async throws {
        let answer = try await withServer { port in
            let client = try RawClient(port: port)
            let answer = try client.ask("GET / HTTP/1.1\r\n\r\n")
            #expect(try client.answer() == nil)
            return answer
        }
        #expect(answer.headers["Content-Type"] == "application/problem+json")
        #expect(answer.headers["Connection"]?.lowercased() == "close")
        #expect(
            answer.text
                == #"{"title":"Bad Request","status":400,"detail":"The Host header is missing.","#
                + #""error":"The Host header is missing."}"#
        )
    }

    @Test("A rejection has the well-formed ID of its request or a distinct generated one")
    func rejectionsHaveTheIDOfTheirRequest() async throws {
        let own = "X-Request-ID: mine-1\r\n"
        let requests = [
            ("GET / HTTP/1.1\r\n\(own)\r\n", 400),
            ("GET x HTTP/1.1\r\nHost: a\r\n\(own)\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\n\(own)Content-Length: 99999999\r\n\r\n", 413),
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nX-Request-ID: not mine\r\n\r\n", 400),
        ]
        let names = try await withServer { port in
            try requests.map { raw, status in
                let answer = try RawClient(port: port).ask(raw)
                #expect(answer.status == status && answer.headers["Cache-Control"] == "no-store")
                return answer.headers["X-Request-ID"] ?? ""
            }
        }
        #expect(names.prefix(3) == ["mine-1", "mine-1", "mine-1"])
        #expect(Set(names.suffix(2)).count == 2 && names.suffix(2).allSatisfy { !$0.isEmpty })
        #expect(!names.contains("not mine"))
    }

    @Test(
        "An invalid Content-Length is rejected and does not affect other connections",
        arguments: [
            ("-4", 400), ("abc", 400), ("4, 4", 400), ("0x4", 400), ("99999999999999999999", 413),
            ("123456789012345678", 413),
        ]
    )
    func invalidLengthsAreProblemDocuments(_ length: String, _ status: Int) async throws {
        let answers = try await withServer { port in
            // Other connections are open, and have sent nothing, a part of a head, and a whole request.
            let idle = [try RawClient(port: port), try RawClient(port: port)]
            try idle[0].send("GET / HT")
            let waiting = try RawClient(port: port)
            try waiting.send("GET / HTTP/1.1\r\nHost: a\r\n")
            let used = try RawClient(port: port)
            #expect(try used.ask(get("/")).status == 200)
            let client = try RawClient(port: port)
            let raw = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \(length)\r\n\r\nabcd"
            let answer = try client.ask(raw)
            #expect(try client.rest() == "")
            // The other connections are unaffected.
            try waiting.send("\r\n")
            #expect(try waiting.answer()?.status == 200)
            try used.send(raw)
            let again = try used.answer()
            return [answer, again]
        }
        for answer in answers {
            #expect(answer?.status == status)
            #expect(answer?.headers["Content-Type"] == "application/problem+json")
            #expect(answer?.text.hasPrefix(#"{"title":"#) == true)
        }
    }

    @Test("The request target arrives at the handler unchanged")
    func targetArrivesAsSent() async throws {
        let target = "/tables/a%2Fb%20c/%C3%A9+x"
        let query = "$filter=a%20eq%20%27+%27&flag&empty=&a=1&a=2&%3D=%26"
        let answer = try await withServer { try RawClient(port: $0).ask(get("\(target)?\(query)")) }
        #expect(answer.text.hasPrefix("GET|\(target)|\(query)\n"))
    }

    @Test("Header fields arrive at the handler with their names, values and order")
    func headersArriveAsSent() async throws {
        let text = try await withServer { port in
            let client = try RawClient(port: port)
            try client.send(
                "GET / HTTP/1.1\r\nHost: a\r\nX-MiXed: \t two words \t\r\nX-Utf: \u{E9}\r\n"
            )
            try client.send(
                Array("X-Latin: ".utf8) + [0xE9, 0xFF] + Array("\r\nX-Two: 1\r\n".utf8)
            )
            try client.send("x-two: 2\r\n\r\n")
            return try client.answer()?.text
        }
        #expect(
            text == """
                GET|/|
                Host=a
                X-MiXed=two words
                X-Utf=\u{E9}
                X-Latin=\u{E9}\u{FF}
                X-Two=1
                x-two=2
                body=0:14695981039346656037

                """
        )
    }
}
