// Permissions in batches: the caller is authorized for each request separately.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct BatchAccessTests {
    private static let notes = TableDefinition(
        "Note",
        columns: [ColumnDefinition("text", .string), ColumnDefinition("owner", .string)],
        permissions: TablePermissions(delete: .disabled),
        owner: "owner"
    )

    /// The text of a token is its user.
    private static let authenticator = Authenticator { token, _ throws(TokenRejection) in
        guard token != "bad" else { throw TokenRejection("It is bad.") }
        return CheckedToken(user: User(id: token))
    }

    private static func server(
        hooks: [String: TableHooks] = [:],
        endpoints: [Endpoint] = []
    ) async throws -> TestServer {
        try await TestServer(
            [notes, TestServer.todo],
            authenticator: authenticator,
            hooks: hooks,
            endpoints: endpoints
        )
    }

    @Test("The token of the batch applies to each of its requests")
    func theTokenOfTheBatchApplies() async throws {
        let server = try await Self.server()
        let parts = [
            BatchPart("1", "post", "tables/Note", #"{"id":"a","text":"x"}"#),
            BatchPart("2", "get", "tables/Note"),
        ]
        let none = await server.batch(parts, continuing: true)
        #expect(none.partStatuses == [401, 401])
        #expect(none.partHeaders(0)["www-authenticate"] != nil)
        let bad = await server.batch(parts, headers: ["X-ZUMO-AUTH": "bad"])
        #expect(bad.status == 401)
        let own = await server.batch(parts, headers: ["Authorization": "Bearer ann"])
        #expect(own.partStatuses == [201, 200])
        let inner = BatchPart("1", "get", "tables/Note", headers: ["X-ZUMO-AUTH": "ann"])
        #expect(await server.batch([inner], headers: ["X-ZUMO-AUTH": "bob"]).status == 400)
    }

    @Test("Each request of a batch is authorized separately")
    func eachRequestIsAuthorized() async throws {
        let server = try await Self.server()
        let ann: HTTPFields = ["X-ZUMO-AUTH": "ann"]
        let bob: HTTPFields = ["X-ZUMO-AUTH": "bob"]
        _ = await server.batch(
            [BatchPart("1", "post", "tables/Note", #"{"id":"a"}"#)],
            headers: ann
        )
        let answer = await server.batch(
            [
                BatchPart("get", "get", "tables/Note/a"),
                BatchPart("patch", "patch", "tables/Note/a", #"{"text":"mine"}"#),
                BatchPart("take", "post", "tables/Note", #"{"id":"a"}"#),
                BatchPart("delete", "delete", "tables/Note/a"),
                BatchPart("list", "get", "tables/Note?$count=true"),
                BatchPart("own", "post", "tables/Note", #"{"id":"b"}"#),
                BatchPart("where", "get", "tables/Nowhere"),
            ],
            continuing: true,
            headers: bob
        )
        #expect(answer.partStatuses == [404, 404, 409, 405, 200, 201, 404])
        #expect(answer.parts[2]["body"] == nil)
        #expect(answer.partHeaders(3)["allow"] == "GET, HEAD, PATCH, PUT")
        #expect(answer.partBody(4)["count"] as? Int == 0)
        let row = await server.send("GET", "/tables/Note/a", headers: ann).row
        #expect(row["text"] is NSNull)
    }

    // MARK: - Hooks and endpoints

    @Test("The hooks of a table run for each write of a batch")
    func hooksRunForEachRequest() async throws {
        let seen = Mutex<[String]>([])
        var hooks = TableHooks()
        hooks.beforeWrite = { change in
            seen.withLock { $0.append("before \(change.id) \(change.requestID)") }
            if change.id == "no" { throw Rejection(422, "No.") }
            change.values["text"] = .string("hooked")
        }
        hooks.afterWrite = { event in seen.withLock { $0.append("after \(event.id)") } }
        let server = try await Self.server(hooks: ["Note": hooks])
        let answer = await server.batch(
            [
                BatchPart("1", "post", "tables/Note", #"{"id":"a"}"#),
                BatchPart("2", "post", "tables/TodoItem", #"{"id":"b"}"#),
                BatchPart("3", "post", "tables/Note", #"{"id":"no"}"#),
                BatchPart("4", "post", "tables/Note", #"{"id":"c"}"#, group: "g"),
                BatchPart("5", "post", "tables/Note", #"{"id":"no"}"#, group: "g"),
                BatchPart(
                    "6",
                    "patch",
                    "$1",
                    #"{"text":"mine"}"#,
                    headers: ["x-request-id": "six"]
                ),
            ],
            continuing: true,
            headers: ["X-ZUMO-AUTH": "ann", "X-Request-ID": "all"]
        )
        #expect(answer.partStatuses == [201, 201, 422, 424, 422, 200])
        #expect(answer.partBody(0)["text"] as? String == "hooked")
        #expect(
            seen.withLock { $0 } == [
                "before a all", "after a", "before no all", "before c all", "before no all",
                "before a six", "after a",
            ]
        )
    }

    @Test("A batch calls endpoints with the token of its caller")
    func endpointsAreCalledAsTheCaller() async throws {
        let endpoints = [
            Endpoint("POST", "/api/text") { call in
                let token = call.request.headers["X-ZUMO-AUTH"] ?? ""
                return ServerResponse(
                    status: 200,
                    headers: ["Content-Type": "text/plain; charset=utf-8", "X-Own": "a"],
                    body: Array("\(call.user?.id ?? "") \(token) ".utf8) + call.request.body
                )
            },
            Endpoint("GET", "/api/bytes") { _ in
                ServerResponse(
                    status: 200,
                    headers: ["Content-Type": "image/png"],
                    body: [0x61, 0x62, 0x3F]
                )
            },
            Endpoint("GET", "/api/broken") { _ in
                ServerResponse(
                    status: 200,
                    headers: ["Content-Type": "application/json"],
                    body: Array("}],".utf8)
                )
            },
            Endpoint("GET", "/api/batch") { call in
                await call.send(
                    ServerRequest(
                        method: "POST",
                        path: "/$batch",
                        body: Array(
                            #"{"requests":[{"id":"1","method":"get","url":"tables/Note"}]}"#.utf8
                        )
                    )
                )
            },
        ]
        let server = try await Self.server(endpoints: endpoints)
        let answer = await server.batch(
            [
                BatchPart(
                    "1",
                    "post",
                    "api/text",
                    #""a\nb""#,
                    headers: ["content-type": "text/plain"]
                ),
                BatchPart("2", "get", "/API/bytes"), BatchPart("3", "get", "api/broken"),
                BatchPart("4", "get", "api/batch"), BatchPart("5", "get", "api/none"),
                BatchPart("6", "delete", "api/text"), BatchPart("7", "get", "health"),
            ],
            continuing: true,
            headers: ["X-ZUMO-AUTH": "ann"]
        )
        #expect(answer.partStatuses == [200, 200, 200, 200, 404, 405, 404])
        #expect(answer.parts[0]["body"] as? String == "ann ann a\nb")
        #expect(answer.partHeaders(0)["x-own"] == "a")
        #expect(answer.parts[1]["body"] as? String == "YWI_")
        #expect(answer.parts[2]["body"] as? String == "fV0s")
        let nested = answer.partBody(3)["responses"] as? [[String: Any]]
        #expect(nested?.first?["status"] as? Int == 200)
    }

    // MARK: - Limits, counts

    @Test("A read is rejected with 503 when the responses of the batch are too large")
    func readsAreRejectedWhenTheResponsesAreLarge() async throws {
        var limits = ServerLimits()
        limits.batchAnswerBytes = 2000
        let server = try await TestServer(limits: limits)
        let text = String(repeating: "x", count: 1500)
        let answer = await server.batch(
            [
                BatchPart("1", "post", "tables/TodoItem", #"{"id":"1","text":"\#(text)"}"#),
                BatchPart("2", "get", "tables/TodoItem/1"),
                BatchPart("3", "get", "tables/TodoItem/1"),
            ],
            continuing: true
        )
        #expect(answer.partStatuses == [201, 200, 503])
        #expect((answer.partBody(2)["error"] as? String ?? "").contains("batchAnswerBytes"))
    }

    @Test("The metrics count each request of a batch") func eachRequestIsCounted() async throws {
        let server = try await TestServer()
        _ = await server.batch(
            [
                BatchPart("1", "post", "tables/TodoItem", "{}"),
                BatchPart("2", "patch", "$1", #"{"rank":1}"#),
                BatchPart("3", "get", "tables/TodoItem/none"),
                BatchPart("4", "get", "tables/TodoItem", dependsOn: ["3"]),
            ],
            continuing: true
        )
        let text = await server.send("GET", "/metrics").text
        for line in [
            "{route=\"insert\",status=\"201\"} 1", "{route=\"update\",status=\"200\"} 1",
            "{route=\"read\",status=\"404\"} 1", "{route=\"list\",status=\"424\"} 1",
            "{route=\"batch\",status=\"200\"} 1", "seconds_count{route=\"batch\"} 1",
        ] {
            #expect(text.contains(line), "\(line)")
        }
        #expect(!text.contains("seconds_count{route=\"insert\"}"))
    }

    @Test("A batch adds tables and columns to a dynamic schema")
    func aDynamicSchemaGrowsDuringABatch() async throws {
        let server = try await TestServer([], dynamic: true)
        let answer = await server.batch([
            BatchPart("1", "post", "tables/New", #"{"id":"1","a":1}"#),
            BatchPart("2", "patch", "$1", #"{"b":"x"}"#),
            BatchPart("3", "post", "tables/new", #"{"id":"2","c":true}"#),
            BatchPart("4", "get", "tables/New?$filter=c eq true&$select=id,a,b"),
        ])
        #expect(answer.partStatuses == [201, 200, 201, 200])
        let items = answer.partBody(3)["items"] as? [[String: Any]]
        #expect(items?.count == 1)
    }
}
