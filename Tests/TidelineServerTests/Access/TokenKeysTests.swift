// TokenKeysTests: fetched token keys: rotation, an issuer that is unavailable, discovery by the issuer.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineFetch
import TidelineServer
import TidelineServerCore
import TidelineTokens

@Suite struct TokenKeysTests {
    /// An issuer: its documents by address, and the addresses that were requested.
    private final class Issuer: Sendable {
        private struct State {
            var documents: [String: String] = [:]
            var asked: [String] = []
            var time: Int64 = 0
        }

        private let state = Mutex(State())

        var asked: [String] { state.withLock { $0.asked } }

        func put(_ address: String, _ document: String?) {
            state.withLock { $0.documents[address] = document }
        }

        func wait(seconds: Int64) { state.withLock { $0.time += seconds * 1_000_000 } }

        func keys(
            _ authentication: ServerConfiguration.Authentication
        ) throws -> TokenKeys {
            try TokenKeys(
                authentication,
                fetch: { (address) throws(FetchError) in
                    let document = self.state.withLock { state in
                        state.asked.append(address)
                        return state.documents[address]
                    }
                    guard let document else { throw FetchError("it is away") }
                    return Array(document.utf8)
                },
                steady: { self.state.withLock { $0.time } },
                log: .silent
            )
        }
    }

    private static let address = "https://id.example/keys"
    private static let now = Tokens.start * 1_000_000

    private static func secret(_ name: String) -> [UInt8] {
        Array(String(repeating: name, count: 32).prefix(32).utf8)
    }

    private static func set(_ names: String...) -> String {
        let keys = names.map {
            #"{"kty":"oct","kid":"\#($0)","k":"\#(Base64URL.encode(secret($0)))"}"#
        }
        return #"{"keys":[\#(keys.joined(separator: ","))]}"#
    }

    private static func fields(_ key: String, user: String = "anna") throws -> HTTPFields {
        let claims = TokenClaims(subject: user)
        return ["X-ZUMO-AUTH": try TokenSigner(secret: secret(key), keyID: key).sign(claims)]
    }

    private static func user(_ key: String, _ authenticator: Authenticator) async throws -> String?
    {
        try await authenticator.currentToken(of: fields(key), now: now)?.user.id
    }

    @Test("An unknown kid makes the server fetch the keys, at most once a minute")
    func rotation() async throws {
        let issuer = Issuer()
        issuer.put(Self.address, Self.set("a"))
        let authenticator = try issuer.keys(.init(jwksURL: Self.address)).makeAuthenticator()
        #expect(await authenticator.renew())
        #expect(try await Self.user("a", authenticator) == "anna")
        issuer.put(Self.address, Self.set("b"))
        for _ in 0..<3 {
            await #expect(throws: ServerError.self) { try await Self.user("b", authenticator) }
        }
        #expect(issuer.asked.count == 1)
        issuer.wait(seconds: 60)
        #expect(try await Self.user("b", authenticator) == "anna")
        #expect(issuer.asked.count == 2)
        // Tokens that were verified with former keys are rejected.
        await #expect(throws: ServerError.self) { try await Self.user("a", authenticator) }
    }

    @Test("The old keys stay valid while the new ones cannot be fetched")
    func anUnavailableIssuer() async throws {
        let issuer = Issuer()
        issuer.put(Self.address, Self.set("a"))
        let authenticator = try issuer.keys(.init(jwksURL: Self.address)).makeAuthenticator()
        await authenticator.renew()
        for document in [nil, "<html>", #"{"keys":[]}"#] {
            issuer.put(Self.address, document)
            issuer.wait(seconds: 61)
            await #expect(throws: ServerError.self) { try await Self.user("b", authenticator) }
            #expect(try await Self.user("a", authenticator) == "anna")
        }
        #expect(issuer.asked.count == 4)
    }

    @Test("A token is rejected with 503 until the keys are fetched")
    func noKeysYet() async throws {
        let issuer = Issuer()
        let authenticator = try issuer.keys(.init(jwksURL: Self.address)).makeAuthenticator()
        await authenticator.renew()
        let error = await #expect(throws: ServerError.self) {
            try await Self.user("a", authenticator)
        }
        #expect(error?.status == 503)
        issuer.put(Self.address, Self.set("a"))
        issuer.wait(seconds: 5)
        #expect(try await Self.user("a", authenticator) == "anna")
    }

    @Test("The server finds the keys through the issuer's configuration")
    func discovery() async throws {
        let issuer = Issuer()
        let found = "https://id.example/t/.well-known/openid-configuration"
        issuer.put(found, #"{"issuer":"https://id.example/t","jwks_uri":"https://keys.example/k"}"#)
        issuer.put("https://keys.example/k", Self.set("a"))
        for authentication: ServerConfiguration.Authentication in [
            .init(issuer: "https://id.example/t"), .init(jwksURL: found),
        ] {
            let authenticator = try issuer.keys(authentication).makeAuthenticator()
            #expect(await authenticator.renew())
        }
        #expect(issuer.asked == [found, "https://keys.example/k", found, "https://keys.example/k"])
        for wrong in [
            #"{"issuer":"https://other.example","jwks_uri":"https://keys.example/k"}"#,
            #"{"issuer":"https://id.example/t","jwks_uri":"http://keys.example/k"}"#,
            #"{"issuer":"https://id.example/t"}"#, "[]",
        ] {
            issuer.put(found, wrong)
            let keys = try issuer.keys(.init(issuer: "https://id.example/t"))
            #expect(await keys.makeAuthenticator().renew() == false, "\(wrong)")
        }
    }

    @Test("The server reads a key file again if a kid is unknown")
    func aFileThatChanges() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/keys.json"
            try Data(Self.set("a").utf8).write(to: URL(filePath: path))
            let issuer = Issuer()
            let authenticator = try issuer.keys(.init(jwksFile: path)).makeAuthenticator()
            #expect(try await Self.user("a", authenticator) == "anna")
            try Data(Self.set("a", "b").utf8).write(to: URL(filePath: path))
            #expect(try await Self.user("b", authenticator) == "anna")
            #expect(issuer.asked.isEmpty)
        }
    }

    // MARK: - Fetching over a socket

    @Test("A document is fetched within limits, and redirects to other servers are not followed")
    func bounds() async throws {
        let (small, large) = (Array("{}".utf8), [UInt8](repeating: 0x20, count: 5000))
        func redirect(_ name: String, to location: String) -> Endpoint {
            Endpoint("GET", "/api/\(name)") { _ in
                ServerResponse(status: 302, headers: ["Location": location])
            }
        }
        var configuration = ServerConfiguration()
        configuration.database = .memory
        configuration.port = 0
        configuration.log.level = .error
        configuration.endpoints = [
            Endpoint("GET", "/api/small") { _ in ServerResponse(status: 200, body: small) },
            Endpoint("GET", "/api/large") { _ in ServerResponse(status: 200, body: large) },
            redirect("here", to: "/api/small"), redirect("loop", to: "/api/loop"),
            redirect("away", to: "http://127.0.0.1:9/keys"),
            redirect("file", to: "file:///etc/passwd"),
        ]
        let server = TidelineServer(configuration: configuration)
        let url = try await server.start().absoluteString
        var fetch = BoundedFetch()
        fetch.bytesMax = 4096
        #expect(try await fetch.get(url + "/api/small") == small)
        #expect(try await fetch.get(url + "/api/here") == small)
        for (name, reason) in [
            ("large", "larger than 4096"), ("loop", "more than 3 redirects"),
            ("none", "status 404"),
            ("away", "another server"), ("file", "another server"),
        ] {
            let error = await #expect(throws: FetchError.self) {
                try await fetch.get(url + "/api/" + name)
            }
            #expect(
                error?.description.contains(reason) == true,
                "\(name): \(String(describing: error))"
            )
        }
        await server.stop()
    }

    @Test(
        "An address for keys must use HTTPS, or HTTP on this machine",
        arguments: [
            ("https://id.example/keys", true), ("http://127.0.0.1:9/k", true),
            ("http://[::1]/k", true),
            ("http://localhost/k", true), ("http://id.example/k", false),
            ("file:///etc/passwd", false),
            ("http://127.0.0.1.example/k", false), ("https://", false), ("keys.json", false),
            ("https://u:p@id.example/", false), ("ftp://id.example/", false),
        ]
    )
    func addresses(_ text: String, isTaken: Bool) {
        #expect((BoundedFetch.mistake(in: text) == nil) == isTaken)
    }
}
