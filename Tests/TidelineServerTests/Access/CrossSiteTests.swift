// Writes that a page of another site makes its browser send are rejected on every route.

import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct CrossSiteTests {
    static let cases: [(HTTPFields, Bool)] = [
        ([:], true),
        (["Origin": "http://example.test:8080"], true),
        (["Origin": "https://app.example"], true),
        (["Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"], true),
        (["Origin": "https://todo.example", "Sec-Fetch-Site": "same-origin"], true),
        (["Sec-Fetch-Site": "none"], true),
        (["Origin": "https://evil.example"], false),
        (["Origin": "https://evil.example/.app.example"], false),
        (["Origin": "http://example.test:8081"], false),
        (["Origin": "null"], false),
        (["Sec-Fetch-Site": "cross-site"], false),
        (["Sec-Fetch-Site": "same-site"], false),
        (["Origin": "http://example.test:8080", "Sec-Fetch-Site": "same-site"], false),
    ]

    @Test("A write is accepted or rejected by its origin", arguments: cases)
    func write(_ headers: HTTPFields, _ isAllowed: Bool) async throws {
        let origin = try #require(OriginPattern("https://app.example"))
        let server = try await TestServer(crossOrigin: CrossOrigin([origin]))
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        let batch = #"{"requests":[{"id":"1","method":"DELETE","url":"tables/TodoItem/a"}]}"#
        let requests: [(String, String, String?)] = [
            ("POST", "/tables/TodoItem", "{}"), ("PATCH", "/tables/TodoItem/a", "{}"),
            ("PUT", "/tables/TodoItem/a", "{}"), ("DELETE", "/tables/TodoItem/a", nil),
            ("POST", "/$batch", batch), ("POST", "/tables/$batch", batch),
            ("POST", "/nowhere", "{}"),
        ]
        for (method, path, body) in requests {
            let answer = await server.send(method, path, body, headers: headers)
            let isRejected = answer.status == 403 && answer.row["code"] as? String == "crossSite"
            #expect(isRejected == !isAllowed)
        }
        #expect(await server.send("GET", "/tables/TodoItem", headers: headers).status == 200)
    }

    @Test(
        "A wildcard stands for subdomains of a host",
        arguments: [
            ("https://a.app.example", true), ("https://a.b.app.example", true),
            ("https://app.example", false), ("https://evil.example/.app.example", false),
            ("https://evil.example#.app.example", false),
            ("https://evil.example?.app.example", false),
            ("https://evil.example\\.app.example", false), ("https://u@.app.example", false),
        ]
    )
    func wildcard(_ origin: String, _ isMatched: Bool) throws {
        let pattern = try #require(OriginPattern("https://*.app.example"))
        #expect(pattern.matches(origin) == isMatched)
    }

    @Test(
        "A user name must not contain Unicode control characters",
        arguments: [
            ("anna", true), ("Zo\u{EB}", true), ("\u{6A9}\u{200C}\u{645}", true), ("a\u{0}", false),
            ("a\u{85}b", false), ("a\u{9B}b", false), ("a\u{202E}b", false), ("a\u{2066}b", false),
            ("a\u{200B}b", false), ("a\u{2028}b", false), ("\u{FEFF}a", false), ("a\u{7F}", false),
        ]
    )
    func subject(_ name: String, _ isUsable: Bool) {
        #expect(Authenticator.isUsable(name) == isUsable)
    }

    @Test(
        "A request that came through a proxy is not from this machine",
        arguments: ["Forwarded", "Via", "X-Real-IP", "X-Forwarded-For", "x-forwarded-proto"]
    )
    func proxied(_ header: String) async throws {
        let server = try await TestServer()
        #expect(await server.send("GET", "/metrics").status == 200)
        #expect(await server.send("GET", "/metrics", headers: [header: "127.0.0.1"]).status == 403)
    }
}
