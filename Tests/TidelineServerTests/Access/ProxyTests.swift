// ProxyTests: the address a request comes from, as reported by trusted and untrusted peers.

import ServerTestSupport
import Testing
import TidelineCore
import TidelineServer
import TidelineServerCore

@Suite struct ProxyTests {
    private static func proxies(
        _ networks: [String] = ["127.0.0.1", "10.0.0.0/8", "2001:db8::/32"],
        _ header: TrustedProxies.Header = .xForwardedFor
    ) throws -> TrustedProxies {
        TrustedProxies(try networks.map { try #require(IPNetwork($0)) }, header: header)
    }

    /// The peer, the header it sends (`|` separates fields), and the caller.
    private static let forwardedFor: [(String, String?, String)] = [
        // No trusted peer reported an address.
        ("192.0.2.1", nil, "192.0.2.1"), ("127.0.0.1", nil, "127.0.0.1"),
        ("127.0.0.1", "", "127.0.0.1"), ("127.0.0.1", " , ", "127.0.0.1"),
        // The header of an untrusted peer is ignored.
        ("192.0.2.1", "127.0.0.1", "192.0.2.1"), ("192.0.2.1", "nonsense", "192.0.2.1"),
        ("11.0.0.1", "127.0.0.1", "11.0.0.1"), ("::1", "192.0.2.9", "::1"),
        // One proxy, and chained proxies.
        ("127.0.0.1", "192.0.2.1", "192.0.2.1"), ("10.200.0.1", "192.0.2.1", "192.0.2.1"),
        ("127.0.0.1", "192.0.2.1, 10.0.0.5", "192.0.2.1"),
        ("127.0.0.1", "192.0.2.1|10.0.0.5", "192.0.2.1"),
        ("127.0.0.1", "10.0.0.7, 10.0.0.5", "10.0.0.7"),
        ("2001:db8:1::1", "2001:DB9:0:0:0:0:0:1", "2001:db9::1"),
        ("::ffff:127.0.0.1", "::ffff:192.0.2.1", "192.0.2.1"),
        // Entries that the caller wrote precede the ones that the proxy added.
        ("127.0.0.1", "127.0.0.1, 192.0.2.1", "192.0.2.1"),
        ("127.0.0.1", "10.0.0.1, 127.0.0.1, 192.0.2.1, 10.0.0.2", "192.0.2.1"),
        ("127.0.0.1", "nonsense, 192.0.2.1", "192.0.2.1"),
        ("127.0.0.1", "127.0.0.1|192.0.2.1", "192.0.2.1"),
        // Ports and brackets.
        ("127.0.0.1", "192.0.2.1:4711", "192.0.2.1"), ("127.0.0.1", "[2001:db9::1]", "2001:db9::1"),
        ("127.0.0.1", "[2001:db9::1]:443", "2001:db9::1"),
        ("127.0.0.1", "2001:db9::1", "2001:db9::1"),
        ("127.0.0.1", "\t192.0.2.1 ", "192.0.2.1"),
        // A malformed address does not make a caller local.
        ("127.0.0.1", "unknown", "unknown"), ("127.0.0.1", "unix:", "unknown"),
        ("127.0.0.1", "192.0.2.1, _hidden", "unknown"), ("127.0.0.1", "localhost", "unknown"),
        ("127.0.0.1", "127.1", "unknown"), ("127.0.0.1", "0x7f.0.0.1", "unknown"),
        ("127.0.0.1", "127.0.0.01", "unknown"), ("127.0.0.1", "2130706433", "unknown"),
        ("127.0.0.1", "127.0.0.1:", "unknown"), ("127.0.0.1", "127.0.0.1:+1", "unknown"),
        ("127.0.0.1", "127.0.0.1:70000", "unknown"), ("127.0.0.1", "[127.0.0.1]", "unknown"),
        ("127.0.0.1", "[::1", "unknown"), ("127.0.0.1", "[::1]x", "unknown"),
        ("127.0.0.1", "::1%eth0", "unknown"), ("127.0.0.1", "127.0.0.1 192.0.2.1", "unknown"),
        ("127.0.0.1", "127.0.0.1;192.0.2.1", "unknown"), ("127.0.0.1", "\u{0}127.0.0.1", "unknown"),
        ("127.0.0.1", "127.0.0.1\u{0}", "unknown"), ("127.0.0.1", "１27.0.0.1", "unknown"),
        // An unknown peer is not trusted.
        ("", "127.0.0.1", "unknown"),
    ]

    @Test(
        "The last forwarded address that is not a trusted proxy is the caller",
        arguments: forwardedFor
    )
    func theLastAddressThatIsNotAProxyIsTheCaller(
        _ peer: String,
        _ sent: String?,
        _ caller: String
    ) throws {
        var fields: HTTPFields = ["Forwarded": "for=127.0.0.1", "X-Real-IP": "127.0.0.1"]
        for line in sent?.split(separator: "|", omittingEmptySubsequences: false) ?? [] {
            fields.append("x-forwarded-FOR", String(line))
        }
        #expect(try Self.proxies().caller(peer: peer, headers: fields) == caller)
        // No peer is trusted unless it is configured.
        #expect(TrustedProxies.none.caller(peer: peer, headers: fields) == peer)
    }

    @Test(
        "The Forwarded field of a trusted proxy names the caller",
        arguments: [
            ("for=192.0.2.1", "192.0.2.1"), ("For=192.0.2.1;proto=https;by=10.0.0.1", "192.0.2.1"),
            ("proto=https;for=\"192.0.2.1:80\"", "192.0.2.1"),
            ("for=\"[2001:db9::1]:4711\"", "2001:db9::1"), ("for=\"192.0.2.\\1\"", "192.0.2.1"),
            ("for=192.0.2.1, for=10.0.0.2", "192.0.2.1"),
            ("for=127.0.0.1,for=192.0.2.1", "192.0.2.1"),
            ("for=127.0.0.1|for=192.0.2.1", "192.0.2.1"), (",, for=192.0.2.1 ,", "192.0.2.1"),
            ("for=\"a, for=127.0.0.1\"|for=192.0.2.1", "192.0.2.1"),
            // A field with an unterminated quote is a separate field.
            ("for=\"127.0.0.1|for=192.0.2.1", "192.0.2.1"),
            ("for=unknown", "unknown"), ("for=_secret", "unknown"), ("proto=https", "unknown"),
            ("for=\"127.0.0.1", "unknown"), ("for=127.0.0.1;for=127.0.0.1", "unknown"),
            ("for =127.0.0.1", "unknown"), ("for= 127.0.0.1", "unknown"), ("127.0.0.1", "unknown"),
            ("for=127.0.0.1 for=192.0.2.1", "unknown"), ("for=\"127.0.0.1\\", "unknown"),
            ("for=\"x, for=192.0.2.1", "unknown"), ("", "127.0.0.1"),
        ]
    )
    func theForwardedFieldIsRead(_ sent: String, _ caller: String) throws {
        var fields: HTTPFields = ["X-Forwarded-For": "198.51.100.1"]
        for line in sent.split(separator: "|", omittingEmptySubsequences: false) {
            fields.append("Forwarded", String(line))
        }
        let proxies = try Self.proxies(["127.0.0.1", "10.0.0.0/8"], .forwarded)
        #expect(proxies.caller(peer: "127.0.0.1", headers: fields) == caller)
        #expect(proxies.caller(peer: "192.0.2.8", headers: fields) == "192.0.2.8")
    }

    @Test(
        "A network contains the addresses with its prefix",
        arguments: [
            ("0.0.0.0/0", "203.0.113.9", true), ("0.0.0.0/0", "::1", false), ("::/0", "::1", true),
            ("::/0", "10.0.0.1", false), ("10.0.0.0/9", "10.127.0.1", true),
            ("10.0.0.0/9", "10.128.0.1", false), ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1/32", "192.0.2.2", false), ("2001:db8::/33", "2001:db8:8000::1", false),
            ("::ffff:10.0.0.1", "10.0.0.1", true),
        ]
    )
    func networks(_ network: String, _ address: String, _ holds: Bool) throws {
        let read = try #require(IPNetwork(network))
        #expect(read.contains(try #require(IPAddress(address))) == holds)
    }

    @Test(
        "A malformed network is rejected",
        arguments: [
            "", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/08", "/8",
            "10.0.0/8", "localhost", "::/129", "::ffff:10.0.0.0/104", "10.0.0.0/8/8", "*",
        ]
    )
    func malformedNetworksAreRejected(_ text: String) { #expect(IPNetwork(text) == nil) }

    @Test("An error in the proxy configuration names the key")
    func configurationErrorsAreNamed() throws {
        let json = #"{"proxies":{"trusted":["10.0.0.1/8"],"header":"X-Real-IP"}}"#
        let error = #expect(throws: ConfigurationError.self) {
            try ServerConfiguration(json: Array(json.utf8))
        }
        #expect(error?.description.contains("proxies.trusted[0]: an IP address such as") == true)
        #expect(error?.description.contains("proxies.header: one of 'X-Forwarded-For'") == true)
    }

    /// Local-only targets are decided by the caller's address, not by that of a proxy on this machine.
    @Test(
        "The metrics are available only to callers with a local address",
        arguments: [
            ("127.0.0.1", 200), ("::1", 200), ("", 200), ("192.0.2.1", 403), ("unknown", 403),
        ]
    )
    func metricsAreForLocalCallersOnly(_ address: String, _ status: Int) async throws {
        let server = try await TestServer()
        var request = ServerRequest(method: "GET", path: "/metrics")
        request.address = address
        #expect(await server.handler.handle(request).status == status)
    }

    /// A proxy that is not configured forwards the host name that it was called by, and so does a page on another site
    /// whose name resolves to this machine.
    @Test(
        "The metrics are available only under a local host name",
        arguments: [
            ("127.0.0.1:8080", 200), ("localhost", 200), ("[::1]:8080", 200), ("todo.example", 403),
            ("127.0.0.1.example", 403), ("localhost.example:8080", 403), ("", 403),
        ]
    )
    func metricsNeedALocalHostName(_ host: String, _ status: Int) async throws {
        let server = try await TestServer()
        var request = ServerRequest(method: "GET", path: "/metrics")
        request.address = "127.0.0.1"
        request.headers["Host"] = host
        #expect(await server.handler.handle(request).status == status)
    }
}
