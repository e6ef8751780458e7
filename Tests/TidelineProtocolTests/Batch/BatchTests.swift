// Batches through the whole server: what is executed, what is skipped, and how it is answered.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct BatchTests {
    @Test(
        "A write to a digest is rejected with 405, in a batch and alone",
        arguments: ["POST", "PATCH", "PUT", "DELETE"]
    )
    func writesToADigest(_ method: String) async throws {
        let server = try await TestServer()
        let path = "tables/TodoItem/$digest"
        let body = method == "DELETE" ? nil : "{}"
        let alone = await server.send(method, "/" + path, body)
        let answer = await server.batch([BatchPart("1", method.lowercased(), path, body)])
        #expect(alone.status == 405 && answer.partStatuses == [405])
        #expect(answer.partBody(0)["detail"] as? String == alone.row["detail"] as? String)
        #expect(answer.partHeaders(0)["allow"] == alone.headers["Allow"])
    }

    private static let table = "/tables/TodoItem"

    private static func insert(
        _ id: String,
        group: String? = nil,
        dependsOn: [String] = []
    ) -> BatchPart {
        BatchPart(
            "insert-" + id,
            "post",
            "tables/TodoItem",
            #"{"id":"\#(id)"}"#,
            group: group,
            dependsOn: dependsOn
        )
    }

    private static func ids(_ server: TestServer) async -> [String] {
        await server.send("GET", table).ids
    }

    // MARK: - Answers

    @Test("A batch returns a response for each request, in order")
    func answersEachRequestInOrder() async throws {
        let server = try await TestServer()
        let answer = await server.batch([
            BatchPart("a", "POST", "tables/TodoItem", #"{"id":"1","text":"milk"}"#),
            BatchPart("b", "get", "/tables/TodoItem/1"),
            BatchPart(
                "c",
                "Patch",
                "http://example.test:8080/tables/TodoItem/1?x=y",
                #"{"rank":5}"#
            ),
            BatchPart("d", "get", "tables/TodoItem?$filter=rank eq 5&$select=id,rank&$count=true"),
            BatchPart("e", "delete", "tables/TodoItem/1"),
        ])
        #expect(answer.status == 200)
        #expect(answer.headers["Content-Type"] == "application/json; charset=utf-8")
        #expect(answer.headers["Cache-Control"] == "no-store")
        #expect(answer.headers["Preference-Applied"] == nil)
        #expect(answer.parts.compactMap { $0["id"] as? String } == ["a", "b", "c", "d", "e"])
        #expect(answer.partStatuses == [201, 200, 200, 200, 204])
        #expect(
            answer.partHeaders(0)["location"] == "http://example.test:8080/tables/TodoItem/1"
        )
        #expect(answer.partHeaders(0)["etag"] != answer.partHeaders(2)["etag"])
        #expect(answer.partHeaders(1)["content-type"] == "application/json; charset=utf-8")
        #expect(answer.partHeaders(1)["cache-control"] == nil)
        #expect(answer.partBody(0)["text"] as? String == "milk")
        #expect(answer.partBody(3)["count"] as? Int == 1)
        #expect(answer.parts[4]["body"] == nil)
    }

    @Test("A batch without requests is accepted") func anEmptyBatchIsAccepted() async throws {
        let answer = try await TestServer().batch([])
        #expect(answer.status == 200)
        #expect(answer.text == #"{"responses":[]}"#)
    }

    @Test("The API version of the batch applies to requests without their own version")
    func theVersionOfTheBatchAppliesToAllRequests() async throws {
        let server = try await TestServer()
        let parts = [
            BatchPart("1", "get", "tables/TodoItem"),
            BatchPart("2", "get", "tables/TodoItem", headers: ["zumo-api-version": "3.0.0"]),
            BatchPart("3", "get", "tables/TodoItem?ZUMO-API-VERSION=3.0.0"),
        ]
        for answer in [
            await server.batch(parts, headers: ["ZUMO-API-VERSION": "2.0.0"]),
            await server.send(
                "POST",
                "/$batch?zumo-api-version=2.0.0",
                "{\"requests\":[" + parts.map(\.json).joined(separator: ",") + "]}"
            ),
        ] {
            #expect(answer.partStatuses == [200, 200, 200])
            #expect(answer.parts[0]["body"] is [Any])
            #expect(answer.parts[1]["body"] is [String: Any])
            #expect(answer.parts[2]["body"] is [String: Any])
        }
    }

    @Test("The IDs of a batch and of its requests are returned with their responses")
    func requestIDsAreReturned() async throws {
        let answer = try await TestServer().batch(
            [
                BatchPart("1", "get", "tables/TodoItem", headers: ["x-request-id": "mine"]),
                BatchPart("2", "get", "tables/TodoItem"),
            ],
            headers: ["X-Request-ID": "all"]
        )
        #expect(answer.headers["X-Request-ID"] == "all")
        #expect(answer.partHeaders(0)["x-request-id"] == "mine")
        #expect(answer.partHeaders(1)["x-request-id"] == nil)
    }

    // MARK: - Failures

    @Test("No request of a batch is executed after a failed read")
    func nothingIsExecutedAfterAFailure() async throws {
        let server = try await TestServer()
        let answer = await server.batch([
            Self.insert("1"), Self.insert("1x"), BatchPart("no", "get", "tables/TodoItem/none"),
            Self.insert("2"), BatchPart("list", "get", "tables/TodoItem"),
        ])
        #expect(answer.status == 200)
        #expect(answer.partStatuses == [201, 201, 404, 424, 424])
        #expect(answer.partCodes[3] == "notProcessed")
        #expect(answer.partCodes[4] == "notProcessed")
        #expect(await Self.ids(server) == ["1", "1x"])
    }

    @Test("A failed write stops the writes after it in the batch")
    func aFailedWriteStopsTheWritesAfterIt() async throws {
        let server = try await TestServer()
        let answer = await server.batch([
            Self.insert("1"), BatchPart("again", "post", "tables/TodoItem", #"{"id":"1"}"#),
            BatchPart("bad", "post", "tables/TodoItem", #"{"nothing":1}"#), Self.insert("2"),
        ])
        #expect(answer.partStatuses == [201, 409, 424, 424])
        #expect(answer.partBody(1)["id"] as? String == "1")
        #expect(await Self.ids(server) == ["1"])
    }

    @Test("A malformed write stops the requests after it in the batch")
    func aMalformedWriteStopsTheBatchToo() async throws {
        let server = try await TestServer()
        let answer = await server.batch([
            Self.insert("1"), BatchPart("bad", "post", "tables/TodoItem", #"{"nothing":1}"#),
            Self.insert("2"),
        ])
        #expect(answer.partStatuses == [201, 400, 424])
        #expect(await Self.ids(server) == ["1"])
    }

    @Test(
        "A batch continues after an error if the caller prefers it",
        arguments: [
            ("continue-on-error", "continue-on-error", true),
            ("odata.continue-on-error=true", "odata.continue-on-error=true", true),
            ("return=minimal, Continue-On-Error = \"TRUE\"", "continue-on-error=true", true),
            ("continue-on-error=false", "continue-on-error=false", false),
            ("continue-on-error=false, continue-on-error", "continue-on-error=false", false),
            ("continue-on-error=perhaps", nil, false),
        ]
    )
    func continuesIfPreferred(_ prefer: String, _ applied: String?, _ goesOn: Bool) async throws {
        let server = try await TestServer()
        let answer = await server.batch(
            [
                Self.insert("1"), BatchPart("again", "post", "tables/TodoItem", #"{"id":"1"}"#),
                BatchPart("bad", "post", "tables/TodoItem", #"{"nothing":1}"#), Self.insert("2"),
                BatchPart("no", "get", "tables/TodoItem/none"),
                BatchPart("list", "get", "tables/TodoItem"),
            ],
            headers: ["Prefer": prefer]
        )
        #expect(answer.headers["Preference-Applied"] == applied)
        #expect(
            answer.partStatuses
                == (goesOn ? [201, 409, 400, 201, 404, 200] : [201, 409, 424, 424, 424, 424])
        )
        #expect(await Self.ids(server) == (goesOn ? ["1", "2"] : ["1"]))
    }

    @Test("A request that depends on a failed request is skipped")
    func requestsThatDependOnAFailureAreSkipped() async throws {
        let server = try await TestServer()
        let answer = await server.batch(
            [
                BatchPart("no", "get", "tables/TodoItem/none"),
                Self.insert("1", dependsOn: ["no"]), Self.insert("2"),
                BatchPart("again", "post", "tables/TodoItem", #"{"id":"2"}"#),
                Self.insert("3", dependsOn: ["again"]),
                Self.insert("4", dependsOn: ["insert-3"]),
                BatchPart("bad", "post", "tables/TodoItem", #"{"nothing":1}"#),
                Self.insert("5", dependsOn: ["bad"]), Self.insert("6", dependsOn: ["insert-5"]),
                Self.insert("7", dependsOn: ["insert-2"]),
                BatchPart("get", "get", "tables/TodoItem/2", dependsOn: ["insert-4"]),
            ],
            continuing: true
        )
        #expect(
            answer.partStatuses == [404, 424, 201, 409, 424, 424, 400, 424, 424, 201, 424]
        )
        #expect(answer.partCodes[1] == "dependencyFailed")
        #expect(await Self.ids(server) == ["2", "7"])
    }

    // MARK: - Groups

    @Test("An atomic group is executed completely or not at all")
    func aGroupIsAtomic() async throws {
        let server = try await TestServer()
        let answer = await server.batch(
            [
                Self.insert("1", group: "g"),
                BatchPart("text", "patch", "$insert-1", #"{"text":"a"}"#, group: "g"),
                Self.insert("2", group: "h"),
                BatchPart("again", "post", "tables/TodoItem", #"{"id":"1"}"#, group: "h"),
                Self.insert("3", group: "h"),
                Self.insert("4", dependsOn: ["h"]),
                Self.insert("5", dependsOn: ["insert-2"]),
                Self.insert("6", dependsOn: ["g"]),
                Self.insert("7", group: "i"),
                BatchPart("bad", "post", "tables/TodoItem", #"{"nothing":1}"#, group: "i"),
            ],
            continuing: true
        )
        #expect(answer.partStatuses == [201, 200, 424, 409, 424, 424, 424, 201, 424, 400])
        #expect(
            answer.partCodes == [
                nil, nil, "groupFailed", nil, "groupFailed", "dependencyFailed",
                "dependencyFailed", nil, "groupFailed", nil,
            ]
        )
        #expect(answer.parts[1]["atomicityGroup"] as? String == "g")
        #expect(answer.parts[7]["atomicityGroup"] == nil)
        #expect(await Self.ids(server) == ["1", "6"])
        let row = await server.send("GET", Self.table + "/1").row
        #expect(row["text"] as? String == "a")
    }

    @Test("An atomic group is skipped if one of its requests depends on a failure")
    func aGroupThatDependsOnAFailureIsSkippedAsAWhole() async throws {
        let server = try await TestServer()
        let answer = await server.batch(
            [
                BatchPart("no", "get", "tables/TodoItem/none"), Self.insert("1", group: "g"),
                Self.insert("2", group: "g", dependsOn: ["no"]), Self.insert("3"),
            ],
            continuing: true
        )
        #expect(answer.partStatuses == [404, 424, 424, 201])
        #expect(await Self.ids(server) == ["3"])
    }

    @Test("An atomic group may write the same row several times")
    func aGroupMayChangeARowManyTimes() async throws {
        let server = try await TestServer()
        let answer = await server.batch([
            Self.insert("1", group: "g"),
            BatchPart("a", "put", "tables/TodoItem/1", #"{"rank":1}"#, group: "g"),
            BatchPart("b", "delete", "$insert-1", group: "g"),
            BatchPart("c", "patch", "$a?__includeDeleted=true", #"{"deleted":false}"#, group: "g"),
            BatchPart("d", "get", "$c"),
        ])
        #expect(answer.partStatuses == [201, 200, 204, 200, 200])
        #expect(answer.partBody(4)["rank"] as? Int == 1)
    }

    // MARK: - References

    @Test("A reference in a batch stands for the row of an earlier request")
    func aReferenceIsTheRowOfAnEarlierRequest() async throws {
        let server = try await TestServer()
        let answer = await server.batch(
            [
                BatchPart("new", "post", "tables/TodoItem", #"{"text":"a"}"#),
                BatchPart("1", "patch", "$new", #"{"rank":1}"#),
                BatchPart("2", "get", "$1"),
                BatchPart("3", "patch", "$2", #"{"rank":3}"#),
                BatchPart("4", "get", "$new/more"),
                BatchPart("again", "post", "tables/TodoItem", #"{"id":"id-1"}"#),
                BatchPart("5", "get", "$again"),
                BatchPart("6", "delete", "$3"),
            ],
            continuing: true
        )
        #expect(answer.partStatuses == [201, 200, 200, 200, 404, 409, 424, 204])
        #expect(answer.partBody(0)["id"] as? String == "id-1")
        #expect(answer.partBody(3)["rank"] as? Int == 3)
    }

    @Test("A classic PATCH in a batch names its row in the body")
    func aClassicPatchNamesItsRowInTheBody() async throws {
        let server = try await TestServer()
        let answer = await server.batch(
            [
                BatchPart("0", "post", "tables/TodoItem", #"{"id":"a b"}"#),
                BatchPart("1", "patch", "tables/todoitem", #"{"id":"a b","rank":1}"#),
                BatchPart("2", "get", "$1"),
            ],
            headers: ["ZUMO-API-VERSION": "2.0.0"]
        )
        #expect(answer.partStatuses == [201, 200, 200])
        #expect(answer.partBody(2)["rank"] as? Int == 1)
    }

    // MARK: - The request itself

    @Test(
        "The batch endpoint allows POST only",
        arguments: [
            ("GET", 405), ("HEAD", 405), ("PUT", 405), ("DELETE", 405), ("PATCH", 405),
            ("OPTIONS", 200),
        ]
    )
    func onlyPOSTIsAllowed(_ method: String, _ status: Int) async throws {
        let answer = try await TestServer().send(method, "/$batch")
        #expect(answer.status == status)
        #expect(answer.headers["Allow"] == "POST")
    }

    @Test(
        "A batch whose content type is not JSON is rejected with 415",
        arguments: [
            ("application/json", 200), ("application/json; charset=utf-8", 200),
            ("text/plain", 415),
            ("multipart/mixed; boundary=batch_1", 415), ("application/json-patch+json", 415),
            ("", 415),
        ]
    )
    func onlyJSONIsAccepted(_ type: String, _ status: Int) async throws {
        let answer = try await TestServer().send(
            "POST",
            "/%24batch/",
            #"{"requests":[]}"#,
            headers: ["Content-Type": type]
        )
        #expect(answer.status == status)
        if type.hasPrefix("multipart") { #expect(answer.error.contains("must be JSON")) }
    }

    @Test("A malformed batch is rejected and executes none of its requests")
    func aMalformedBatchDoesNothing() async throws {
        let server = try await TestServer()
        for bad in [
            BatchPart("insert-1", "get", "tables/TodoItem"),
            BatchPart("x", "get", "http://elsewhere.test/tables/TodoItem"),
            BatchPart("x", "get", "$later"), BatchPart("x", "post", "$batch", "{}"),
        ] {
            let answer = await server.batch([Self.insert("1"), bad], continuing: true)
            #expect(answer.status == 400)
            #expect(answer.error.contains("requests[1]"))
        }
        let coded = await server.send(
            "POST",
            "/$batch",
            #"{"requests":[]}"#,
            headers: ["Content-Encoding": "br"]
        )
        #expect(coded.status == 415)
        #expect(await Self.ids(server) == [])
    }

    @Test("A batch request that has a condition is not executed")
    func aRequestWithAConditionIsNotExecuted() async throws {
        let server = try await TestServer()
        var part = Self.insert("1")
        part.members.append(("if", "\"true\""))
        let answer = await server.batch([part, Self.insert("2")], continuing: true)
        #expect(answer.partStatuses == [424, 201])
    }
}
