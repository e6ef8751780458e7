// EndpointRulesTests: a table of the URLs that may be used.

import Foundation
import Testing
import Tideline

@Suite struct EndpointRulesTests {
    static let addresses: [(String, TransportError.Code?)] = [
        ("https://example.com", nil),
        ("HTTPS://example.com/api", nil),
        ("http://localhost:8080", nil),
        ("http://LocalHost/", nil),
        ("http://127.0.0.1:8080", nil),
        ("http://127.255.0.9", nil),
        ("http://[::1]:8080/", nil),
        ("http://example.com", .insecure),
        ("http://10.0.0.1", .insecure),
        ("http://128.0.0.1", .insecure),
        ("http://127.0.0.1.example.com", .insecure),
        ("http://localhost.example.com", .insecure),
        ("http://notlocalhost", .insecure),
        ("http://127.0.0.256", .insecure),
        ("http://127.0.0.01", .insecure),
        ("http://127.1", .insecure),
        ("http://127.0.0.+1", .insecure),
        ("http://0.0.0.0", .insecure),
        ("http://[::2]", .insecure),
        ("http://[::ffff:127.0.0.1]", .insecure),
        ("ftp://example.com", .invalidRequest),
        ("file:///etc/passwd", .invalidRequest),
        ("example.com", .invalidRequest),
        ("/tables", .invalidRequest),
        ("https://name:secret@example.com", .invalidRequest),
        ("https://name@example.com", .invalidRequest),
    ]

    @Test("Each address is accepted or rejected by the endpoint rules", arguments: addresses)
    func checks(_ text: String, _ code: TransportError.Code?) throws {
        let url = try #require(URL(string: text))
        #expect(Self.code(url, allowsInsecure: false) == code)
        #expect(Self.code(url, allowsInsecure: true) == (code == .insecure ? nil : code))
    }

    /// The URL of a request may have a query; an endpoint may not.
    @Test(
        "An endpoint with a query or a fragment is rejected",
        arguments: [
            "https://h.example/x?a=b", "https://h.example?", "https://h.example/#top",
            "http://127.0.0.1:8080/?key=secret#x",
        ]
    )
    func anEndpointHasNoQuery(_ text: String) throws {
        let url = try #require(URL(string: text))
        #expect(Self.code(url, allowsInsecure: false) == nil)
        let error = #expect(throws: TransportError.self) {
            try EndpointRules.check(endpoint: url, allowsInsecure: false)
        }
        #expect(error?.code == .invalidRequest)
        #expect(error?.message.contains("query or a fragment") == true)
        #expect(error?.message.contains("secret") == false)
    }

    @Test("The rules for the addresses of requests apply to endpoints, too", arguments: addresses)
    func checksEndpoints(_ text: String, _ code: TransportError.Code?) throws {
        let url = try #require(URL(string: text))
        do {
            try EndpointRules.check(endpoint: url, allowsInsecure: false)
            #expect(code == nil)
        } catch {
            #expect(error.code == code)
        }
    }

    /// Spellings of the same endpoint are recognized as the same.
    static let spellings: [(String, String, Bool)] = [
        ("https://a.example", "HTTPS://A.Example:443/", true),
        ("http://a.example/api", "http://a.example:80/api//", true),
        ("http://[::1]:8080", "http://[::1]:8080/", true),
        ("http://a.example/api", "http://a.example/API", false),
        ("http://a.example/api", "http://a.example", false),
        ("http://a.example", "https://a.example", false),
        ("http://a.example:8080", "http://a.example:8081", false),
    ]

    @Test("Equivalent spellings of a URL are normalized to the same text", arguments: spellings)
    func normalizes(
        _ one: String,
        _ other: String,
        _ same: Bool
    ) throws {
        let urls = try (#require(URL(string: one)), #require(URL(string: other)))
        #expect((EndpointRules.normalized(urls.0) == EndpointRules.normalized(urls.1)) == same)
    }

    static let pairs: [(String, String, Bool)] = [
        ("https://a.example/x", "https://a.example/y?z", true),
        ("https://a.example", "HTTPS://A.Example:443/", true),
        ("http://a.example", "http://a.example:80", true),
        ("https://a.example", "http://a.example", false),
        ("https://a.example:80", "http://a.example:80", false),
        ("https://a.example", "https://a.example:444", false),
        ("https://a.example", "https://b.example", false),
        ("https://a.example", "https://a.example.b.example", false),
        ("https://a.example", "https://a.example@b.example", false),
        ("http://[::1]:1", "http://[::1]:1/x", true),
        ("http://localhost", "http://127.0.0.1", false),
        ("https://a.example", "/relative", false),
        ("file:///a", "file:///a", false),
    ]

    @Test("The origins of two URLs are compared in either order", arguments: pairs)
    func comparesOrigins(
        _ one: String,
        _ other: String,
        _ same: Bool
    ) throws {
        let first = try #require(URL(string: one))
        let second = try #require(URL(string: other))
        #expect(EndpointRules.sameOrigin(first, second) == same)
        #expect(EndpointRules.sameOrigin(second, first) == same)
    }

    @Test(
        "Compression is requested for addresses that are not loopback",
        arguments: [
            ("https://a.example", true), ("http://10.0.0.1:8080/x", true), ("http://127.1", true),
            ("https://localhost.a.example", true), ("https://[2001:db8::1]", true),
            ("http://localhost:8080", false), ("https://LOCALHOST/x", false),
            ("http://127.0.0.1:8080", false), ("http://127.3.2.1", false),
            ("http://[::1]:8080/", false),
        ]
    )
    func compressionIsForNetworks(_ text: String, _ asks: Bool) throws {
        #expect(EndpointRules.asksForCompression(try #require(URL(string: text))) == asks)
    }

    @Test("The name of a URL contains only its scheme, host and port")
    func namesNothingPrivate() throws {
        let url = try #require(URL(string: "https://me:secret@[::1]:8443/tables/t?q=x#f"))
        #expect(EndpointRules.name(of: url) == "https://[::1]:8443")
    }

    private static func code(_ url: URL, allowsInsecure: Bool) -> TransportError.Code? {
        do {
            try EndpointRules.check(url, allowsInsecure: allowsInsecure)
            return nil
        } catch {
            return error.code
        }
    }
}
