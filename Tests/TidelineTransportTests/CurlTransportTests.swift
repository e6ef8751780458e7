// CurlTransportTests: requests and responses on a working network.

import Foundation
import Testing
import Tideline
import TidelineCore

#if canImport(CCurl)
extension TransportTests {
    @Suite struct CurlTransportTests {
        private let server = FaultyServer.shared
        private let transport = CurlTransport()

        static let methods: [(String, [UInt8]?, length: String?)] = [
            ("GET", nil, nil),
            ("HEAD", nil, nil),
            ("DELETE", nil, nil),
            ("DELETE", [0x7B, 0x7D], "2"),
            ("POST", nil, "0"),
            ("POST", [], "0"),
            ("PUT", nil, "0"),
            ("PATCH", [0x7B, 0x7D], "2"),
            ("POST", [UInt8](repeating: 0x20, count: 2_000_000), "2000000"),
        ]

        @Test("A request is sent with its method, path, header fields and body", arguments: methods)
        func sendsMethodAndBody(_ method: String, _ body: [UInt8]?, length: String?) async throws {
            let request = TransportRequest(
                method: method,
                url: server.url("/echo/a/../b?x=%20"),
                headers: ["X-One": "1", "X-Empty": ""],
                body: body
            )
            let response = try await transport.send(request)
            #expect(response.status == 200)
            #expect(response.body == (method == "HEAD" ? [] : body ?? []))
            #expect(response.headers["x-method"] == method)
            #expect(response.headers["X-Path"] == "/echo/a/../b?x=%20")
            #expect(response.headers["X-Got-Content-Length"] == length)
            #expect(response.headers["X-Got-X-One"] == "1")
            #expect(response.headers["X-Got-X-Empty"] == "")
            #expect(response.headers["X-Got-Expect"] == nil)
            #expect(response.headers["X-Got-Content-Type"] == nil)
            // Compression is not requested on loopback, because it only costs time.
            #expect(response.headers["X-Got-Accept-Encoding"]?.contains("gzip") != true)
            #expect(response.headers["X-Got-Upgrade"] == nil)
        }

        /// "127.1" reaches this machine, but is not recognized as loopback.
        @Test(
            "Compression is requested for addresses that are not loopback",
            .enabled(if: !usesProxy, "requests that are not to loopback go to a proxy")
        )
        func asksForCompressionElsewhere() async throws {
            let url = try #require(URL(string: "http://127.1:\(server.port)/echo"))
            let response = try await transport.send(TransportRequest(url: url))
            let asked = try #require(response.headers["X-Got-Accept-Encoding"])
            #expect(asked.contains("gzip") && !asked.contains("identity"))
            let own = TransportRequest(url: url, headers: ["Accept-Encoding": "identity"])
            #expect(try await transport.send(own).headers["X-Got-Accept-Encoding"] == "identity")
        }

        static let usesProxy = ["http_proxy", "all_proxy", "ALL_PROXY"].contains {
            ProcessInfo.processInfo.environment[$0] != nil
        }

        static let gzip: [UInt8] = [
            0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xab, 0x56, 0x2a, 0x49,
            0xad,
            0x28, 0x51, 0xb2, 0x52, 0xca, 0xcd, 0xcc, 0xc9, 0x56, 0x18, 0x06, 0x84, 0x52, 0x2d,
            0x00,
            0x77, 0x2a, 0xe9, 0x94, 0xd3, 0x00, 0x00, 0x00,
        ]
        static let milk = #"{"text":""# + String(repeating: "milk ", count: 40) + #""}"#

        struct Raw: Sendable, CustomTestStringConvertible {
            var head: String
            var body: [UInt8] = []
            var status: Int
            var text = ""
            var closes = false

            var testDescription: String { head }
        }

        static let responses: [Raw] = [
            Raw(head: "HTTP/1.1 204 No Content\r\n\r\n", status: 204),
            Raw(head: "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n", status: 304),
            Raw(
                head:
                    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: \(gzip.count)\r\n\r\n",
                body: gzip,
                status: 200,
                text: milk
            ),
            Raw(
                head: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n",
                body: Array("3\r\nabc\r\n2\r\nde\r\n0\r\nX-End: 1\r\n\r\n".utf8),
                status: 200,
                text: "abcde"
            ),
            Raw(
                head: "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
                    + "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n",
                body: Array("{}".utf8),
                status: 201,
                text: "{}"
            ),
            Raw(
                head: "HTTP/1.1 302 Found\r\nLocation: /ok\r\nContent-Length: 0\r\n\r\n",
                status: 302
            ),
            Raw(
                head: "HTTP/1.1 500 \r\nContent-Length: 4\r\n\r\n",
                body: Array("oops".utf8),
                status: 500,
                text: "oops"
            ),
            Raw(
                head: "HTTP/1.0 200 OK\r\n\r\n",
                body: Array("until the end".utf8),
                status: 200,
                text: "until the end",
                closes: true
            ),
        ]

        @Test(
            "A response has its status and body, without trailers and early hints",
            arguments: responses
        )
        func returnsResponses(_ raw: Raw) async throws {
            let response = try await transport.send(TransportRequest(url: url(of: raw)))
            #expect(response.status == raw.status)
            #expect(String(decoding: response.body, as: UTF8.self) == raw.text)
            #expect(response.headers["Link"] == nil)
            #expect(response.headers["X-End"] == nil)
        }

        static let broken: [(Raw, TransportError.Code)] = [
            (Raw(head: "SSH-2.0-OpenSSH_9.2\r\n\r\n", status: 0, closes: true), .invalidResponse),
            (Raw(head: "<html>hello</html>", status: 0, closes: true), .invalidResponse),
            (
                Raw(head: "HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 0\r\n\r\n", status: 0),
                .invalidResponse
            ),
            (
                Raw(head: "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello", status: 0),
                .invalidResponse
            ),
            (
                Raw(head: "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", status: 0),
                .responseTooLarge
            ),
            (
                Raw(
                    head:
                        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
                    status: 0
                ),
                .invalidResponse
            ),
            (
                Raw(
                    head: "HTTP/1.1 200 OK\r\n"
                        + (0..<3_000).map { "X-\($0): \(String(repeating: "y", count: 99))\r\n" }
                        .joined() + "\r\n",
                    status: 0
                ),
                .responseTooLarge
            ),
            (Raw(head: "", status: 0, closes: true), .connectionLost),
        ]

        @Test("A broken response is an error with an unknown outcome", arguments: broken)
        func rejectsBrokenResponses(_ raw: Raw, _ code: TransportError.Code) async throws {
            let thrown = await error(of: TransportRequest(url: url(of: raw)))
            #expect(thrown?.code == code, "\(String(describing: thrown)) \(thrown?.cause as Any)")
            #expect(thrown?.outcomeIsUnknown == true)
        }

        @Test("A response body over the limit is rejected")
        func rejectsABodyOverTheLimit() async throws {
            var limits = TransportLimits()
            limits.responseBytesMax = 150
            let small = CurlTransport(limits: limits)
            for raw in [Self.responses[2], Raw(head: "", status: 0)] {
                let path = raw.body.isEmpty ? server.url("/ok") : url(of: raw)
                await #expect { try await small.send(TransportRequest(url: path)) } throws: {
                    error in
                    (error as? TransportError)?.code == .responseTooLarge
                }
            }
            let exact = try await small.send(TransportRequest(url: server.url("/big/150")))
            #expect(exact.body.count == 150)
        }

        @Test("A body of five megabytes is sent and received unchanged")
        func carriesFiveMegabytesBothWays() async throws {
            let body = (0..<5_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            let request = TransportRequest(method: "PUT", url: server.url("/echo"), body: body)
            let response = try await transport.send(request)
            #expect(response.body == body)
        }

        @Test("An invalid request is rejected and not sent")
        func rejectsInvalidRequests() async throws {
            let requests = [
                TransportRequest(method: "GET /x HTTP/1.1\r\nA:", url: server.url("/ok")),
                TransportRequest(url: server.url("/ok"), headers: ["X-One": "1\r\nX-Two: 2"]),
                TransportRequest(url: server.url("/ok"), headers: ["X One": "1"]),
                TransportRequest(url: server.url("/ok"), headers: ["Content-Length": "1"]),
                TransportRequest(url: server.url("/ok", scheme: "ftp")),
                TransportRequest(url: URL(fileURLWithPath: "/etc/passwd")),
            ]
            for request in requests {
                let thrown = await error(of: request)
                #expect(thrown?.code == .invalidRequest)
                #expect(thrown?.outcomeIsUnknown == false)
            }
        }

        @Test("TLS to a server without TLS is a TLS error")
        func tlsToAPlainServerIsATLSError() async throws {
            let thrown = await error(of: TransportRequest(url: server.url("/ok", scheme: "https")))
            #expect(thrown?.code == .tls)
            #expect(thrown?.outcomeIsUnknown == false)
        }

        @Test("If no server listens, the outcome of a call is known")
        func nobodyListeningIsCertain() async throws {
            let closed = FaultyServer()
            closed.stopListening()
            let thrown = await error(of: TransportRequest(url: closed.url("/ok")))
            #expect(thrown?.code == .cannotConnect)
            #expect(thrown?.outcomeIsUnknown == false)
            #expect(thrown?.cause != nil)
        }

        private func url(of raw: Raw) -> URL {
            let bytes = Data(Array(raw.head.utf8) + raw.body).base64EncodedString()
                .replacingOccurrences(of: "/", with: "%2F")
            return server.url("/\(raw.closes ? "rawclose" : "raw")/\(bytes)")
        }

        private func error(of request: TransportRequest) async -> TransportError? {
            do {
                let response = try await transport.send(request)
                Issue.record("got \(response.status)")
                return nil
            } catch {
                return error as? TransportError
            }
        }
    }
}
#endif
