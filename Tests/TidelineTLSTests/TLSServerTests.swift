// TLSServerTests: how the server handles connections that use TLS, or should.

import CCrypto
import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineHTTP
import TidelineServerCore
import TidelineTLS

@Suite(.timeLimit(.minutes(10))) struct TLSServerTests {
    /// A connected socket, which the receiver closes.
    static func connect(_ port: Int) throws -> Int32 {
        let socket = Foundation.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        inet_pton(AF_INET, "127.0.0.1", &address.sin_addr)
        let result = withUnsafeBytes(of: &address) { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) {
                Foundation.connect(socket, $0.baseAddress, socklen_t(bytes.count))
            }
        }
        guard result == 0 else { throw RawClientError(description: "connect", systemError: errno) }
        return socket
    }

    /// Records are split, and sockets are full in the middle of them: every byte has to arrive once.
    @Test(
        "Large bodies and responses are transferred completely over TLS",
        arguments: [nil, 8 << 10] as [Int32?]
    )
    func largeBodiesAndResponsesArriveWhole(receiveBuffer: Int32?) async throws {
        let answer = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 9) }
        try await withServer(
            tls: RawTLS.identity(),
            handler: { request in
                var response = await echo(request)
                if request.method == "GET" { response.body = answer }
                return response
            },
            body: { port in
                let client = try RawClient(
                    port: port,
                    receiveBuffer: receiveBuffer,
                    overTLS: true
                )
                for count in [1, 16_383, 16_384, 16_385, 100_000, 3_000_000] {
                    let body = Array(answer.prefix(count))
                    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \(count)\r\n\r\n"
                    try client.send(head)
                    try client.send(body)
                    let text = try client.answer()?.text
                    #expect(text?.hasSuffix("body=\(count):\(checksum(body))\n") == true)
                    #expect(try client.ask(get("/")).body == answer)
                }
            }
        )
    }

    @Test("Responses to pipelined requests over TLS are sent in order")
    func pipelinedRequestsAreAnsweredInOrder() async throws {
        try await withServer(tls: RawTLS.identity()) { port in
            let client = try RawClient(port: port, overTLS: true)
            try client.send((0..<200).map { get("/\($0)") }.joined())
            for number in 0..<200 {
                #expect(try client.answer()?.text.hasPrefix("GET|/\(number)|\n") == true)
            }
        }
    }

    @Test("A hundred TLS connections are served") func manyConnectionsAreServed() async throws {
        try await withServer(tls: RawTLS.identity()) { port in
            let clients = try (0..<100).map { _ in try RawClient(port: port, overTLS: true) }
            for client in clients { try client.send(get("/")) }
            for client in clients { #expect(try client.answer()?.status == 200) }
        }
    }

    @Test("A caller that expects 100 Continue gets it over TLS")
    func expectContinueIsAnswered() async throws {
        try await withServer(tls: RawTLS.identity()) { port in
            let client = try RawClient(port: port, overTLS: true)
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n")
            try client.send("Content-Length: 4\r\n\r\n")
            #expect(try client.answer()?.status == 100)
            try client.send("abcd")
            #expect(try client.answer()?.status == 200)
        }
    }

    @Test("Old TLS versions and other application protocols are rejected")
    func oldVersionsAndOtherProtocolsAreRejected() async throws {
        try await withServer(tls: RawTLS.identity()) { port in
            func session(_ version: Int32?, _ protocols: String) throws -> String {
                let socket = try Self.connect(port)
                defer { close(socket) }
                var names: [UInt8] = []
                for name in protocols.split(separator: ",") {
                    names.append(UInt8(name.utf8.count))
                    names += name.utf8
                }
                let tls = try RawTLS(on: socket, version: version, protocols: names)
                return tls.version + " " + tls.protocolName
            }
            let agreed = [
                try session(TLS1_2_VERSION, ""), try session(TLS1_3_VERSION, "h2,http/1.1"),
                try session(nil, "http/1.1"),
            ]
            #expect(agreed == ["TLSv1.2 ", "TLSv1.3 http/1.1", "TLSv1.3 http/1.1"])
            for version in [TLS1_VERSION, TLS1_1_VERSION] {
                #expect(throws: RawClientError.self) { try session(version, "") }
            }
            #expect(throws: RawClientError.self) { try session(nil, "h2") }
        }
    }

    @Test("A request without TLS is rejected with 400, and other bytes end the connection")
    func bytesThatAreNotTLSAreRejected() async throws {
        let traffic = ServerTraffic()
        try await withServer(tls: RawTLS.identity(), traffic: traffic) { port in
            let plain = try RawClient(port: port)
            let answer = try plain.ask(get("/"))
            #expect(answer.status == 400)
            #expect(answer.text.contains("https"))
            #expect(try plain.answer() == nil)
            for bytes in ["\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}", "\0\0\0\0\0\0\0\0", "SSH-2.0-x\r\n"] {
                let client = try RawClient(port: port)
                try client.send(bytes + String(repeating: "\u{7}", count: 1000))
                _ = try client.rest()
            }
            // Garbage within a session, too.
            let socket = try Self.connect(port)
            let tls = try RawTLS(on: socket)
            #expect(tls.version == "TLSv1.3")
            _ = Foundation.send(socket, "garbage, and more of it", 23, Int32(MSG_NOSIGNAL))
            var byte: UInt8 = 0
            while recv(socket, &byte, 1, 0) > 0 {}
            close(socket)
            #expect(try RawClient(port: port, overTLS: true).ask(get("/")).status == 200)
            #expect(traffic.failedHandshakes.current == 4)
        }
    }

    @Test(
        "A connection without a finished handshake is closed at its deadline",
        arguments: ["", "\u{16}\u{3}\u{1}"]
    )
    func aHandshakeHasADeadline(bytes: String) async throws {
        var limits = HTTPLimits()
        limits.handshakeTimeMax = .milliseconds(300)
        limits.connectionsMax = 2
        try await withServer(limits: limits, loops: 1, tls: RawTLS.identity()) { port in
            let silent = try (0..<2).map { _ in try RawClient(port: port) }
            for client in silent { try client.send(bytes) }
            // It waits for the connections to be closed.
            let next = try RawClient(port: port, overTLS: true)
            #expect(try next.ask(get("/")).status == 200)
            for client in silent { #expect(try client.rest() == "") }
        }
    }

    @Test("A drain does not wait for unfinished handshakes")
    func aDrainDoesNotWaitForHandshakes() async throws {
        // Only the drain ends the connections.
        var limits = HTTPLimits()
        limits.handshakeTimeMax = .seconds(3600)
        limits.idleTimeMax = .seconds(3600)
        limits.drainTimeMax = .seconds(3600)
        let server = HTTPServer(
            host: "127.0.0.1",
            port: 0,
            limits: limits,
            ids: RequestIDs(prefix: "request"),
            traffic: ServerTraffic(),
            tls: try RawTLS.identity(),
            rejected: { _, _ in },
            handler: echo
        )
        let port = try server.start()
        let ends = try await blocking {
            let silent = try RawClient(port: port)
            let idle = try RawClient(port: port, overTLS: true)
            #expect(try idle.ask(get("/")).status == 200)
            let drained = DispatchSemaphore(value: 0)
            Task {
                await server.drain()
                drained.signal()
            }
            let isDrained = drained.wait(timeout: .now() + 60) == .success
            return (isDrained, try silent.rest(), try idle.rest())
        }
        #expect(ends.0 && ends.1.isEmpty && ends.2.isEmpty)
    }

    @Test("New connections get the new certificate, and old ones continue")
    func newConnectionsGetTheNewCertificate() async throws {
        let folder = FileManager.default.temporaryDirectory.path + "/tideline-tls-\(UUID())"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let created = try LocalCertificate.make(hosts: ["127.0.0.1"], directory: folder)
        let identity = try TLSIdentity(
            certificateFile: created.certificateFile,
            keyFile: created.keyFile
        )
        try await withServer(tls: identity) { port in
            func number() throws -> [UInt8] {
                let socket = try Self.connect(port)
                defer { close(socket) }
                return try RawTLS(on: socket).serialNumber
            }
            let old = try RawClient(port: port, overTLS: true)
            #expect(try old.ask(get("/")).status == 200)
            let first = try number()
            #expect(try number() == first)
            let again = try LocalCertificate.make(hosts: ["127.0.0.1", "a.b"], directory: folder)
            #expect(again.isAuthorityKept)
            identity.become(
                try TLSIdentity(certificateFile: again.certificateFile, keyFile: again.keyFile)
            )
            let second = try number()
            #expect(second != first && second != [])
            #expect(try old.ask(get("/")).status == 200)
        }
    }

    // MARK: - Files

    @Test("An error about an unusable certificate or key names the file")
    func unusableFilesAreNamed() throws {
        let folder = FileManager.default.temporaryDirectory.path + "/tideline-tls-\(UUID())"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let created = try LocalCertificate.make(hosts: ["a.local"], directory: folder + "/one")
        let other = try LocalCertificate.make(hosts: ["a.local"], directory: folder + "/two")
        let empty = folder + "/empty"
        try Data().write(to: URL(filePath: empty))
        let cases: [(certificate: String, key: String, code: TLSError.Code, name: String)] = [
            (folder + "/none", created.keyFile, .fileUnusable, "none"),
            (created.certificateFile, folder + "/none", .fileUnusable, "none"),
            (empty, created.keyFile, .certificateUnusable, "empty"),
            (created.certificateFile, empty, .keyUnusable, "empty"),
            (created.keyFile, created.keyFile, .certificateUnusable, "certificate.key"),
            (created.certificateFile, created.certificateFile, .keyUnusable, "certificate.pem"),
            (created.certificateFile, other.keyFile, .keysDiffer, "two/certificate.key"),
        ]
        for (certificate, key, code, name) in cases {
            let error = #expect(throws: TLSError.self) {
                try TLSContext(certificateFile: certificate, keyFile: key)
            }
            #expect(error?.code == code, "\(certificate) \(key)")
            #expect(error?.message.contains(name) == true)
        }
        let attributes = try FileManager.default.attributesOfItem(atPath: created.keyFile)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        let context = try TLSContext(
            certificateFile: created.certificateFile,
            keyFile: created.keyFile
        )
        #expect(context.validUntil > 0)
    }

    @Test(
        "A host is converted to a subject name of a certificate or rejected",
        arguments: [
            ("todo.local", "DNS:todo.local"), ("*.a.b", "DNS:*.a.b"), ("::1", "IP:::1"),
            ("[::1]", "IP:::1"), ("192.168.1.20", "IP:192.168.1.20"), ("", nil), ("a b", nil),
            ("a,DNS:b", nil), ("a/b", nil), ("-a", nil), ("a..b", nil), ("é", nil),
            ("192.168.1.300", nil), ("1.2.3", nil), ("*.1", nil), ("[todo.local]", nil),
            ("[127.0.0.1]", nil), ("0.0.0.0", nil), ("::", nil), ("*.local", nil), ("*.", nil),
            ("todo.local:8080", nil), ("https://todo.local", nil), ("1.example", "DNS:1.example"),
        ]
    )
    func hostsAreConvertedToServerNames(host: String, name: String?) {
        #expect((try? LocalCertificate.subjectName(host)) == name)
    }
}
