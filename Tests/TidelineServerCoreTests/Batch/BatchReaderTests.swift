// Valid batches: each malformed one in a table is rejected before anything is executed.

import Testing
import TidelineCore
import TidelineServerCore

@Suite struct BatchReaderTests {
    private static let origin = BatchOrigin(
        host: "Example.test:8080",
        publicURL: "https://sync.example/app"
    )

    private static func read(
        _ text: String,
        limits: ServerLimits = ServerLimits()
    ) throws -> BatchEnvelope {
        try BatchReader.read(Array(text.utf8), origin: origin, limits: limits)
    }

    private static func requests(_ objects: String...) -> String {
        #"{"requests":["# + objects.joined(separator: ",") + "]}"
    }

    private static func get(_ id: String, _ url: String = "tables/T", _ more: String = "") -> String
    {
        #"{"id":"\#(id)","method":"get","url":"\#(url)"\#(more)}"#
    }

    private static func post(_ id: String, _ more: String = "", url: String = "tables/T") -> String
    {
        #"{"id":"\#(id)","method":"post","url":"\#(url)","body":{}\#(more)}"#
    }

    @Test("A body in a batch may be as deeply nested as in a single request")
    func bodiesMayBeAsDeepAsInASingleRequest() throws {
        func body(_ levels: Int) -> String {
            let list = String(repeating: "[", count: levels) + String(repeating: "]", count: levels)
            return #"{"id":"1","method":"post","url":"tables/T","body":{"a":\#(list)}}"#
        }
        // The value of a JSON Patch has two enclosing levels, a row has one; the content type decides.
        #expect(try Self.read(Self.requests(body(64))).requests.count == 1)
        #expect(throws: ServerError.self) { try Self.read(Self.requests(body(65))) }
    }

    // MARK: - Rejected

    @Test(
        "A malformed batch is rejected with status 400 and the reason",
        arguments: [
            ("", "a JSON value is expected"),
            ("[]", "the body: a JSON object is expected"),
            ("{}", "the body: 'requests' is missing"),
            (#"{"requests":{}}"#, "requests: an array is expected"),
            (#"{"requests":[1]}"#, "requests[0]: an object is expected"),
            (#"{"requests":[],"more":1}"#, "a member other than 'requests'"),
            (#"{"requests":[],"requests":[]}"#, "duplicate member name"),
            (#"{"requests":[]} x"#, "text after the end"),
            (requests(#"{"method":"get","url":"a"}"#), "requests[0].id: it is missing"),
            (requests(#"{"id":1,"method":"get","url":"a"}"#), "requests[0].id: a string"),
            (requests(get("")), "requests[0].id: 1 to 128"),
            (requests(get("a b")), "requests[0].id: 1 to 128"),
            (requests(get("1"), get("1")), "requests[1].id: it occurs twice"),
            (requests(#"{"id":"1","id":"2","method":"get","url":"a"}"#), "duplicate member name"),
            (requests(#"{"id":"1","url":"a"}"#), "requests[0].method: it is missing"),
            (requests(#"{"id":"1","method":"head","url":"a"}"#), "requests[0].method: one of"),
            (requests(#"{"id":"1","method":"options","url":"a"}"#), "requests[0].method: one of"),
            (requests(#"{"id":"1","method":"get"}"#), "requests[0].url: it is missing"),
            (requests(get("1", "")), "requests[0].url: it is empty"),
            (requests(get("1", #"a\nb"#)), "requests[0].url: it has control"),
            (requests(get("1", "tables/T#x")), "requests[0].url: it has control"),
            (requests(get("1", "$batch")), "a batch cannot be part of a batch"),
            (requests(post("1", url: "/$BATCH")), "a batch cannot be part of a batch"),
            (requests(post("1", url: "/%24batch/")), "a batch cannot be part of a batch"),
            (requests(get("1", "$2"), post("2")), "its '$' does not name an earlier request"),
            (requests(get("1", "$1")), "its '$' does not name an earlier request"),
            (requests(post("a/b"), get("2", "$a/b")), "an id with '/', '?' or '#'"),
            (requests(post("a?b"), get("2", "$a?b")), "an id with '/', '?' or '#'"),
            (requests(post("a:b"), get("2", "$c:b")), "its '$' does not name an earlier request"),
            (requests(get("1"), get("2", "$1")), "names a request that has no single row"),
            (requests(get("1", "tables/T/a/b"), get("2", "$1")), "that has no single row"),
            (
                requests(get("1", "tables/T", #","dependsOn":["1"]"#)),
                "does not name an earlier request"
            ),
            (
                requests(get("1", "tables/T", #","dependsOn":["2"]"#), get("2")),
                "does not name an earlier"
            ),
            (requests(get("1", "tables/T", #","dependsOn":"1""#)), "an array of strings"),
            (
                requests(get("1", "tables/T", #","dependsOn":[1]"#)),
                "dependsOn: a string is expected"
            ),
            (
                requests(post("1", #","atomicityGroup":"g","dependsOn":["g"]"#)),
                "request's own group"
            ),
            (
                requests(
                    post("1", #","atomicityGroup":"g""#),
                    post("2", #","atomicityGroup":"g","dependsOn":["g"]"#)
                ), "the request's own group"
            ),
            (requests(get("1", "tables/T", #","atomicityGroup":"g""#)), "only writes to tables"),
            (requests(post("1", #","atomicityGroup":"g""#, url: "api/x")), "only writes to tables"),
            (requests(post("1", #","atomicityGroup":"1""#)), "it is also the id of a request"),
            (
                requests(post("g"), post("1", #","atomicityGroup":"g""#)),
                "it is also the id of a request"
            ),
            (
                requests(post("1", #","atomicityGroup":"g""#), post("g")),
                "the name of an atomicityGroup"
            ),
            (requests(post("1", #","atomicityGroup":"""#)), "atomicityGroup: 1 to 128"),
            (
                requests(
                    post("1", #","atomicityGroup":"g""#),
                    post("2"),
                    post("3", #","atomicityGroup":"g""#)
                ), "its requests are not adjacent"
            ),
            (requests(post("1", #","more":1"#)), "a member other than"),
            (requests(post("1", #","headers":[]"#)), "an object of strings"),
            (requests(post("1", #","headers":{"a":1}"#)), "headers: a string is expected"),
            (requests(post("1", #","headers":{"a":null}"#)), "an object of strings"),
            (requests(post("1", #","headers":{"a b":"c"}"#)), "not a valid header name"),
            (requests(post("1", #","headers":{"a":"c\r\nd: e"}"#)), "control characters"),
            (requests(post("1", #","headers":{"a":"1","A":"2"}"#)), "a name occurs twice"),
            (requests(post("1", #","headers":{"authorization":"x"}"#)), "the token of the batch"),
            (requests(post("1", #","headers":{"X-ZUMO-AUTH":"x"}"#)), "the token of the batch"),
            (
                requests(post("1", #","headers":{"host":"other"}"#)),
                "differs from that of the batch"
            ),
            (requests(get("1", "tables/T", #","body":{}"#)), "GET and DELETE have no body"),
            (
                requests(post("1", #","headers":{"content-type":"text/plain"}"#)),
                "a string is expected"
            ),
            (
                requests(
                    #"{"id":"1","method":"post","url":"api/x","body":"+","#
                        + #""headers":{"content-type":"image/png"}}"#
                ), "base64url is expected"
            ),
        ]
    )
    func rejectsMalformedBatches(_ text: String, _ reason: String) throws {
        let error = try #require(throws: ServerError.self) { try Self.read(text) }
        #expect(error.status == 400)
        #expect(error.message.contains(reason), "\(error.message)")
    }

    @Test(
        "A batch with the URL of another origin is rejected",
        arguments: [
            "http://other.test/tables/T", "https://example.test:8081/tables/T", "//other/tables/T",
            "http://example.test:8080.other/tables/T", "http://example.test:8080@other/tables/T",
            "http://user@example.test:8080/tables/T", "file:///etc/passwd",
            "ftp://example.test:8080/",
            "https://sync.example/apple", "https://sync.example/tables/T", "javascript:1",
        ]
    )
    func rejectsOtherOrigins(_ url: String) throws {
        let error = try #require(throws: ServerError.self) {
            try Self.read(Self.requests(Self.get("1", url)))
        }
        #expect(error.status == 400)
        #expect(error.message.contains("not an address of this server"))
    }

    @Test("A batch that exceeds the limits of requests or bytes is rejected with 413")
    func rejectsBatchesOverTheLimits() throws {
        var limits = ServerLimits()
        limits.batchRequests = 2
        let two = Self.requests(Self.get("1"), Self.get("2"))
        #expect(try Self.read(two, limits: limits).requests.count == 2)
        let three = Self.requests(Self.get("1"), Self.get("2"), Self.get("3"))
        let many = try #require(throws: ServerError.self) { try Self.read(three, limits: limits) }
        #expect(many.status == 413)
        #expect(many.message.contains("limits.batchRequests"))
        limits.batchBytes = two.utf8.count
        #expect(try Self.read(two, limits: limits).requests.count == 2)
        let large = try #require(throws: ServerError.self) {
            try Self.read(two + " ", limits: limits)
        }
        #expect(large.status == 413)
        #expect(large.message.contains("limits.batchBytes"))
    }

    @Test("A request of a batch with more than 100 headers is rejected")
    func rejectsTooManyHeaders() throws {
        let headers = (0...100).map { "\"h\($0)\":\"\"" }.joined(separator: ",")
        let error = try #require(throws: ServerError.self) {
            try Self.read(Self.requests(Self.post("1", #","headers":{\#(headers)}"#)))
        }
        #expect(error.message.contains("more than 100"))
    }

    // MARK: - Read

    @Test(
        "A URL in a batch is split into path and query",
        arguments: [
            ("tables/T", "/tables/T", ""), ("/tables/T", "/tables/T", ""),
            ("tables/T?$top=1&x=a?b", "/tables/T", "$top=1&x=a?b"),
            ("tables/T?$filter=text eq 'ä/b:c'", "/tables/T", "$filter=text eq 'ä/b:c'"),
            ("http://example.test:8080/tables/T?$top=1", "/tables/T", "$top=1"),
            ("HTTPS://EXAMPLE.TEST:8080/tables/T", "/tables/T", ""),
            ("https://sync.example/app/tables/T", "/tables/T", ""),
            ("https://sync.example/app?x", "/", "x"), ("$events", "/$events", ""),
            ("$metadata", "/$metadata", ""), ("tables/a:b", "/tables/a:b", ""),
        ]
    )
    func readsURLs(_ url: String, _ path: String, _ query: String) throws {
        let envelope = try Self.read(Self.requests(Self.get("1", url)))
        #expect(envelope.requests[0].target == .path(path, query: query))
    }

    @Test(
        "A URL with or without the default port leads to the same origin",
        arguments: [("example.test", "http"), ("example.test:80", "http"), ("a:443", "https")]
    )
    func knowsDefaultPorts(_ host: String, _ scheme: String) throws {
        let origin = BatchOrigin(host: host, publicURL: nil)
        let name = host.prefix { $0 != ":" }
        let port = scheme == "http" ? 80 : 443
        for url in ["\(scheme)://\(name)/a", "\(scheme)://\(name):\(port)/a"] {
            #expect(try BatchURL(url, origin: origin) == .path("/a", query: ""))
        }
    }

    @Test("A request of a batch may reference the row of an earlier request")
    func readsReferences() throws {
        let envelope = try Self.read(
            Self.requests(
                Self.post("a"),
                Self.get("b", "$a?__includeDeleted=true"),
                #"{"id":"c","method":"PATCH","url":"$b","body":{}}"#,
                Self.get("d", "$a/more")
            )
        )
        #expect(
            envelope.requests.dropFirst().map(\.target) == [
                .row(of: 0, rest: "", query: "__includeDeleted=true"),
                .row(of: 1, rest: "", query: ""), .row(of: 0, rest: "/more", query: ""),
            ]
        )
        #expect(envelope.units.map(\.dependsOn) == [[], [0], [1], [0]])
        #expect(envelope.units.map(\.kind) == [.write, .single, .write, .single])
    }

    @Test("The requests of an atomic group become one unit with its dependencies")
    func readsGroups() throws {
        let group = #","atomicityGroup":"g""#
        let envelope = try Self.read(
            Self.requests(
                Self.get("0"),
                Self.post("1", group),
                Self.post("2", group + #","dependsOn":["0","1"]"#),
                Self.post("3", #","dependsOn":["g","2"]"#)
            )
        )
        #expect(
            envelope.units == [
                BatchUnit(kind: .single, requests: 0..<1),
                BatchUnit(kind: .write, requests: 1..<3, group: "g", dependsOn: [0]),
                BatchUnit(kind: .write, requests: 3..<4, dependsOn: [1]),
            ]
        )
    }

    @Test("JSON bodies in a batch are read byte for byte") func readsBodiesByteForByte() throws {
        let bodies = [
            #" { "a" : 1.0e2,  "a":"\u0041" } "#, "[1, 2]", #""text""#, "12", "true", "false",
            "null",
        ]
        let objects = bodies.enumerated().map { index, body in
            #"{"body":\#(body),"id":"\#(index)","method":"Put","url":"tables/T/1"}"#
        }
        let text = #"{"@x":{},"requests":["# + objects.joined(separator: ", ") + "]}"
        let envelope = try Self.read(text)
        #expect(
            envelope.requests.map { String(decoding: $0.body, as: UTF8.self) }
                == [
                    #"{ "a" : 1.0e2,  "a":"\u0041" }"#, "[1, 2]", #""text""#, "12", "true", "false",
                    "",
                ]
        )
        #expect(envelope.requests.allSatisfy { $0.method == "PUT" })
        #expect(
            envelope.requests.map { $0.headers["Content-Type"] }
                == Array(repeating: "application/json", count: 6) + [nil]
        )
    }

    @Test("A body of another content type is decoded from its string")
    func readsBodiesOfOtherTypes() throws {
        func body(_ type: String, _ body: String) throws -> String {
            let envelope = try Self.read(
                Self.requests(
                    #"{"id":"1","method":"post","url":"api/x","body":\#(body),"#
                        + #""headers":{"CONTENT-TYPE":"\#(type)"}}"#
                )
            )
            return String(decoding: envelope.requests[0].body, as: UTF8.self)
        }
        #expect(try body("text/plain; charset=utf-8", #""a\nb""#) == "a\nb")
        #expect(try body("image/png", #""YWI_""#) == "ab?")
        #expect(try body("application/json-patch+json", "[]") == "[]")
        #expect(try body("Application/JSON; charset=utf-8", "{}") == "{}")
    }

    @Test("Annotations and nulls in a request of a batch are ignored")
    func acceptsAnnotationsAndNulls() throws {
        let envelope = try Self.read(
            Self.requests(
                #"{"@odata.x":1,"id":"1","method":"get","url":"a","headers":null,"#
                    + #""atomicityGroup":null,"dependsOn":null,"body":null,"if":"$1"}"#
            )
        )
        #expect(envelope.requests[0].hasCondition)
        #expect(envelope.units == [BatchUnit(kind: .single, requests: 0..<1)])
    }
}
