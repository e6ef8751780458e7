// CORS: preflights, headers on responses, and no headers at all for origins that are not allowed.

import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct CrossOriginTests {
    private static let names = [
        "Access-Control-Allow-Origin", "Access-Control-Expose-Headers",
        "Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Max-Age",
    ]

    private func server(_ origins: [String], users: Bool = false) async throws -> TestServer {
        try await TestServer(
            authenticator: users ? try Tokens.authenticator() : nil,
            crossOrigin: CrossOrigin(origins.compactMap { OriginPattern($0) })
        )
    }

    @Test(
        "An origin pattern matches only the origins that it describes",
        arguments: [
            ("https://app.example", "https://app.example", true),
            ("https://app.example", "http://app.example", false),
            ("https://app.example", "https://app.example:8443", false),
            ("https://app.example", "https://app.example.evil", false),
            ("https://app.example", "https://evil-app.example", false),
            ("https://App.Example:443", "https://app.example", true),
            ("http://localhost:8080", "http://localhost:8080", true),
            ("http://localhost:8080", "http://localhost:808", false),
            ("http://localhost:*", "http://localhost:3000", true),
            ("http://localhost:*", "http://localhost", true),
            ("http://localhost", "http://localhost:3000", false),
            ("https://*.example", "https://a.b.example", true),
            ("https://*.example", "https://example", false),
            ("https://*.example", "https://.example", false),
            ("https://*.example", "https://badexample", false),
            ("http://[::1]:5000", "http://[::1]:5000", true),
            ("capacitor://localhost", "capacitor://localhost", true),
            ("*", "https://any.where", true), ("*", "null", true),
            ("https://app.example", "null", false), ("https://app.example", "", false),
        ]
    )
    func originsMatch(_ pattern: String, _ origin: String, _ expected: Bool) throws {
        #expect(try #require(OriginPattern(pattern)).matches(origin) == expected)
    }

    @Test(
        "A malformed origin pattern is rejected",
        arguments: [
            "", "app.example", "https://", "https://app.example/", "https://a b", "https://*",
            "https://a.*.example", "https://app.example:", "https://app.example:x", "https://*.",
            "null", "https://user@app.example", "https://app.example?x", "ht*tp://a",
        ]
    )
    func malformedPatternsAreRejected(_ text: String) {
        #expect(OriginPattern(text) == nil)
    }

    @Test("A preflight from an allowed origin gets the CORS headers")
    func preflightsAreAnswered() async throws {
        let server = try await server(["http://localhost:8080"], users: true)
        let answer = await server.send(
            "OPTIONS",
            "/tables/TodoItem",
            headers: [
                "Origin": "http://localhost:8080", "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "content-type, x-zumo-auth, zumo-api-version",
            ]
        )
        #expect(answer.status == 200 && answer.body.isEmpty)
        #expect(answer.headers["Access-Control-Allow-Origin"] == "http://localhost:8080")
        #expect(
            answer.headers["Access-Control-Allow-Headers"]
                == "content-type, x-zumo-auth, zumo-api-version"
        )
        for method in ["GET", "POST", "PATCH", "PUT", "DELETE"] {
            #expect(answer.headers["Access-Control-Allow-Methods"]?.contains(method) == true)
        }
        #expect(answer.headers["Access-Control-Max-Age"] == "300")
        #expect(answer.headers["Vary"] == "Origin")
        #expect(answer.headers["Allow"] == "GET, HEAD, POST, PATCH")
        #expect(answer.headers["Access-Control-Allow-Credentials"] == nil)
        // Without requested headers, or if they are not a list of names, the response lists the server's own.
        for wish in ["", "x\"y", String(repeating: "a", count: 501)] {
            let other = await server.send(
                "OPTIONS",
                "/nowhere/at/all",
                headers: [
                    "Origin": "http://localhost:8080", "Access-Control-Request-Method": "PUT",
                    "Access-Control-Request-Headers": wish,
                ]
            )
            #expect(other.status == 200)
            let names = other.headers["Access-Control-Allow-Headers"] ?? ""
            for name in ["X-ZUMO-AUTH", "ZUMO-API-VERSION", "If-Match", "Content-Type"] {
                #expect(names.contains(name))
            }
        }
    }

    @Test("Every response to an allowed origin, including a rejection, names the origin")
    func responsesNameTheAllowedOrigin() async throws {
        let server = try await server(["https://app.example"], users: true)
        let headers: HTTPFields = ["Origin": "https://app.example"]
        // Rejections too: a page has to see that its token is invalid.
        for (target, status) in [
            ("/tables/TodoItem", 401), ("/health", 200), ("/nosuch", 404),
        ] {
            let answer = await server.send("GET", target, headers: headers)
            #expect(answer.status == status)
            #expect(answer.headers["Access-Control-Allow-Origin"] == "https://app.example")
            #expect(answer.headers["Vary"] == "Origin")
            let exposed = answer.headers["Access-Control-Expose-Headers"] ?? ""
            for name in ["ETag", "Link", "Location", "Tideline-Epoch", "WWW-Authenticate"] {
                #expect(exposed.contains(name))
            }
            #expect(answer.headers["Access-Control-Allow-Methods"] == nil)
        }
    }

    @Test("An origin that is not allowed gets no CORS headers")
    func otherOriginsGetNoHeaders() async throws {
        let open = try await TestServer()
        let closed = try await server(["https://app.example"])
        for server in [open, closed] {
            for (method, status) in [("GET", 200), ("OPTIONS", 200)] {
                for origin in ["http://evil.example", "https://app.example.evil", ""] {
                    let answer = await server.send(
                        method,
                        "/tables/TodoItem",
                        headers: ["Origin": origin, "Access-Control-Request-Method": "GET"]
                    )
                    #expect(answer.status == status)
                    for name in Self.names { #expect(answer.headers[name] == nil) }
                }
            }
        }
        let same = await closed.send("GET", "/tables/TodoItem")
        #expect(same.status == 200 && same.headers["Vary"] == "Origin")
    }

    @Test("OPTIONS returns the methods that a target allows")
    func optionsNamesTheMethods() async throws {
        var table = TestServer.todo
        table.permissions.update = .disabled
        let server = try await TestServer([table])
        for (target, allowed) in [
            ("/tables/TodoItem", "GET, HEAD, POST"),
            ("/tables/TodoItem/a", "GET, HEAD, DELETE"), ("/health", "GET, HEAD"),
            ("/health/ready", "GET, HEAD"), ("/metrics", "GET, HEAD"),
        ] {
            let answer = await server.send("OPTIONS", target)
            #expect(answer.status == 200 && answer.headers["Allow"] == allowed)
        }
        #expect(await server.send("OPTIONS", "/nosuch").status == 404)
    }
}
