// The status of each request to a table, in both generations.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

private struct Case: Sendable, CustomTestStringConvertible {
    var method: String
    var target: String
    var body: String?
    var headers: HTTPFields = [:]
    var classic: Int
    var datasync: Int

    init(
        _ method: String,
        _ target: String,
        _ body: String? = nil,
        headers: HTTPFields = [:],
        classic: Int,
        datasync: Int
    ) {
        self.method = method
        self.target = target
        self.body = body
        self.headers = headers
        self.classic = classic
        self.datasync = datasync
    }

    var testDescription: String { "\(method) \(target) \(body ?? "")" }
}

/// Each case has a live row `live` and a tombstone `dead`.
@Suite struct StatusTests {
    private static let paths: [Case] = [
        Case("GET", "/health", classic: 200, datasync: 200),
        Case("POST", "/health", classic: 405, datasync: 405),
        Case("GET", "/health/ready", classic: 200, datasync: 200),
        Case("DELETE", "/health/ready", classic: 405, datasync: 405),
        Case("GET", "/health/other", classic: 404, datasync: 404),
        Case("GET", "/", classic: 404, datasync: 404),
        Case("GET", "/tables", classic: 404, datasync: 404),
        Case("GET", "/tables/TodoItem", classic: 200, datasync: 200),
        Case("GET", "/tables/TODOITEM/", classic: 200, datasync: 200),
        Case("GET", "/tables/%54odoItem", classic: 200, datasync: 200),
        Case("GET", "/tables/%zz", classic: 400, datasync: 400),
        Case("GET", "/tables/%FF", classic: 400, datasync: 400),
        Case("GET", "/tables/Other", classic: 404, datasync: 404),
        Case("GET", "/tables/TodoItem/live", classic: 200, datasync: 200),
        Case("GET", "/tables/TodoItem/live/", classic: 200, datasync: 200),
        Case("GET", "/tables/TodoItem/live/more", classic: 404, datasync: 404),
        Case("GET", "/tables/TodoItem/LIVE", classic: 404, datasync: 404),
        Case("GET", "/tables/TodoItem/a%2Fb", classic: 400, datasync: 400),
        Case("HEAD", "/tables/TodoItem", classic: 200, datasync: 200),
        Case("PUT", "/tables/TodoItem", "{}", classic: 405, datasync: 405),
        Case("DELETE", "/tables/TodoItem", classic: 405, datasync: 405),
        Case("PATCH", "/tables/TodoItem", #"{"id":"live"}"#, classic: 200, datasync: 405),
        Case("PATCH", "/tables/TodoItem", "{}", classic: 400, datasync: 405),
    ]

    private static let inserts: [Case] = [
        Case("POST", "/tables/TodoItem", "{}", classic: 201, datasync: 201),
        Case("POST", "/tables/TodoItem", classic: 201, datasync: 415),
        Case("POST", "/tables/TodoItem", "", classic: 201, datasync: 400),
        Case("POST", "/tables/TodoItem", "null", classic: 400, datasync: 400),
        Case("POST", "/tables/TodoItem", "[]", classic: 400, datasync: 400),
        Case("POST", "/tables/TodoItem", "{} x", classic: 400, datasync: 400),
        Case("POST", "/tables/TodoItem", #"{"id":""}"#, classic: 201, datasync: 201),
        Case("POST", "/tables/TodoItem", #"{"id":null}"#, classic: 201, datasync: 201),
        Case("POST", "/tables/TodoItem", #"{"id":5}"#, classic: 400, datasync: 400),
        Case("POST", "/tables/TodoItem", #"{"id":"a/b"}"#, classic: 400, datasync: 400),
        Case("POST", "/tables/TodoItem", #"{"id":"live"}"#, classic: 409, datasync: 409),
        Case("POST", "/tables/TodoItem", #"{"id":"dead"}"#, classic: 409, datasync: 409),
        Case("POST", "/tables/TodoItem", #"{"Text":"a"}"#, classic: 201, datasync: 201),
        Case("POST", "/tables/TodoItem", #"{"text":"a","TEXT":"b"}"#, classic: 400, datasync: 400),
        Case("POST", "/tables/TodoItem", #"{"text":"a","text":"b"}"#, classic: 400, datasync: 400),
        Case("POST", "/tables/TodoItem", #"{"text":5}"#, classic: 400, datasync: 400),
        Case("POST", "/tables/TodoItem", #"{"complete":null}"#, classic: 400, datasync: 400),
        Case("POST", "/tables/TodoItem", #"{"rank":1.5}"#, classic: 400, datasync: 400),
        Case("POST", "/tables/TodoItem", #"{"rank":1e2}"#, classic: 201, datasync: 201),
        Case(
            "POST",
            "/tables/TodoItem",
            #"{"rank":9223372036854775808}"#,
            classic: 400,
            datasync: 400
        ),
        Case("POST", "/tables/TodoItem", #"{"other":1}"#, classic: 400, datasync: 400),
        Case("POST", "/tables/TodoItem", #"{"updatedAt":null}"#, classic: 400, datasync: 201),
        Case("POST", "/tables/TodoItem", #"{"deleted":true}"#, classic: 400, datasync: 201),
        Case("POST", "/tables/TodoItem", #"{"version":"x"}"#, classic: 201, datasync: 201),
        Case(
            "POST",
            "/tables/TodoItem",
            "{}",
            headers: ["Content-Type": "text/plain"],
            classic: 415,
            datasync: 415
        ),
        Case(
            "POST",
            "/tables/TodoItem",
            "{}",
            headers: ["Content-Type": "Application/JSON; charset=UTF-8"],
            classic: 201,
            datasync: 201
        ),
    ]

    private static let changes: [Case] = [
        Case("PATCH", "/tables/TodoItem/live", "{}", classic: 200, datasync: 200),
        Case("PATCH", "/tables/TodoItem/live", #"{"text":null}"#, classic: 200, datasync: 200),
        Case("PATCH", "/tables/TodoItem/live", "", classic: 400, datasync: 400),
        Case("PATCH", "/tables/TodoItem/none", "{}", classic: 404, datasync: 404),
        Case("PATCH", "/tables/TodoItem/live", #"{"id":"x"}"#, classic: 400, datasync: 400),
        Case("PATCH", "/tables/TodoItem/live", #"{"version":"x"}"#, classic: 409, datasync: 400),
        Case("PATCH", "/tables/TodoItem/dead", "{}", classic: 404, datasync: 410),
        Case("PATCH", "/tables/TodoItem/live", #"{"updatedAt":"x"}"#, classic: 400, datasync: 400),
        Case("PATCH", "/tables/TodoItem/live", #"{"updatedAt":null}"#, classic: 400, datasync: 400),
        Case("PUT", "/tables/TodoItem/live", #"{"updatedAt":"x"}"#, classic: 200, datasync: 200),
        Case("PUT", "/tables/TodoItem/live", #"{"updatedAt":null}"#, classic: 200, datasync: 200),
        Case("PATCH", "/tables/TodoItem/dead", #"{"deleted":false}"#, classic: 400, datasync: 200),
        Case(
            "PATCH",
            "/tables/TodoItem/dead?__includeDeleted=TRUE",
            "{}",
            classic: 200,
            datasync: 200
        ),
        Case("PUT", "/tables/TodoItem/live", "{}", classic: 200, datasync: 200),
        Case("PUT", "/tables/TodoItem/none", "{}", classic: 404, datasync: 404),
        Case("PUT", "/tables/TodoItem/dead", "{}", classic: 404, datasync: 410),
        Case(
            "PUT",
            "/tables/TodoItem/dead?__includedeleted=true",
            "{}",
            classic: 200,
            datasync: 200
        ),
        Case("DELETE", "/tables/TodoItem/live", classic: 204, datasync: 204),
        Case("DELETE", "/tables/TodoItem/dead", classic: 404, datasync: 410),
        Case("DELETE", "/tables/TodoItem/none", classic: 404, datasync: 404),
        Case("POST", "/tables/TodoItem/dead", classic: 201, datasync: 405),
        Case("POST", "/tables/TodoItem/live", classic: 201, datasync: 405),
        Case("POST", "/tables/TodoItem/none", classic: 404, datasync: 405),
        Case("GET", "/tables/TodoItem/dead", classic: 404, datasync: 410),
        Case("GET", "/tables/TodoItem/dead?__IncludeDeleted=true", classic: 200, datasync: 200),
        Case("GET", "/tables/TodoItem/dead?__includeDeleted=1", classic: 404, datasync: 410),
        Case(
            "GET",
            "/tables/TodoItem/dead",
            headers: ["X-ZUMO-Options": "include:deleted"],
            classic: 200,
            datasync: 200
        ),
        Case(
            "PATCH",
            "/tables/TodoItem/live",
            "{}",
            headers: ["If-Match": #""x", "y""#],
            classic: 412,
            datasync: 412
        ),
        Case(
            "PATCH",
            "/tables/TodoItem/live",
            "{}",
            headers: ["If-Match": "*"],
            classic: 200,
            datasync: 200
        ),
        Case(
            "DELETE",
            "/tables/TodoItem/live",
            headers: ["If-Match": #""x"#],
            classic: 400,
            datasync: 400
        ),
        // The condition in the query applies if the header field is missing.
        Case(
            "DELETE",
            "/tables/TodoItem/live?__ifMatch=%22eA%3D%3D%22",
            classic: 412,
            datasync: 412
        ),
        Case(
            "PATCH",
            "/tables/TodoItem/live?a=b&__IFMATCH=%22x%22",
            "{}",
            classic: 412,
            datasync: 412
        ),
        Case(
            "PUT",
            "/tables/TodoItem/live?__ifMatch=%22x%22",
            #"{"id":"live"}"#,
            classic: 412,
            datasync: 412
        ),
        Case("PATCH", "/tables/TodoItem/live?__ifMatch=*", "{}", classic: 200, datasync: 200),
        Case("DELETE", "/tables/TodoItem/live?__ifMatch=%22x", classic: 400, datasync: 400),
        Case("DELETE", "/tables/TodoItem/live?__ifMatch=%zz", classic: 400, datasync: 400),
        Case("GET", "/tables/TodoItem/live?__ifMatch=%22x%22", classic: 200, datasync: 200),
        Case(
            "PATCH",
            "/tables/TodoItem/live?__ifMatch=%22x%22",
            "{}",
            headers: ["If-Match": "*"],
            classic: 200,
            datasync: 200
        ),
        Case(
            "GET",
            "/tables/TodoItem/live",
            headers: ["If-None-Match": "*"],
            classic: 304,
            datasync: 304
        ),
    ]

    private static let lists: [Case] =
        [
            "$top=5", "$top=0", "$skip=1", "$count=true", "$inlinecount=allpages",
            "$inlinecount=none", "$select=text", "$select=*", "$filter=complete eq false", "foo=",
            "x",
            "$orderby=rank desc,text", "%24top=5", "$filter=TEXT eq 'a'",
        ].map { Case("GET", "/tables/TodoItem?" + $0, classic: 200, datasync: 200) }
        + [
            "$top=-1", "$top=x", "$top=", "$skip=-1", "$filter=", "$filter=(", "$filter=other eq 1",
            "$orderby=text foo", "$select=other", "$select=text complete", "$expand=x", "$search=x",
            "$format=json", "$apply=x", "$compute=x", "$top=1&$top=2", "$skiptoken=abc",
            "$skiptoken=WyJhIl0=",
            "$inlinecount=x", "$filter=%zz", "$top=1000000", "$orderby=",
        ].map { Case("GET", "/tables/TodoItem?" + $0, classic: 400, datasync: 400) } + [
            Case("GET", "/tables/TodoItem?$top=1001", classic: 400, datasync: 200)
        ]

    private func answer(
        _ item: Case,
        isClassic: Bool,
        clock: TestClock
    ) async throws
        -> ServerResponse
    {
        let server = try await TestServer(clock: clock)
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"live"}"#)
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"dead"}"#)
        _ = await server.send("DELETE", "/tables/TodoItem/dead")
        return await server.send(
            item.method,
            item.target,
            item.body,
            classic: isClassic,
            headers: item.headers
        )
    }

    @Test(
        "A request gets the same response in a batch as alone",
        arguments: paths + inserts + changes + lists
    )
    private func answersTheSameInABatch(_ item: Case) async throws {
        for isClassic in [true, false] {
            // The clock does not advance, so that versions and times are the same.
            let alone = try await answer(item, isClassic: isClassic, clock: TestClock(step: 0))
            let batched = try await TestServer.$usesBatches.withValue(true) {
                try await answer(item, isClassic: isClassic, clock: TestClock(step: 0))
            }
            #expect(batched.status == alone.status, "\(batched.text)")
            #expect(batched.text == alone.text)
            #expect(batched.comparableHeaders == alone.comparableHeaders)
        }
    }

    @Test(
        "A request gets the documented status in both generations",
        arguments: paths + inserts + changes + lists
    )
    private func answersAsDocumented(_ item: Case) async throws {
        for isClassic in [true, false] {
            let answer = try await answer(item, isClassic: isClassic, clock: TestClock())
            let expected = isClassic ? item.classic : item.datasync
            #expect(
                answer.status == expected,
                "\(isClassic ? "classic" : "datasync") \(answer.text)"
            )
            if answer.status == 405 { #expect(answer.headers["Allow"] != nil) }
            #expect(answer.headers["Cache-Control"] == "no-store")
            if answer.status >= 400, answer.status != 409, answer.status != 412 {
                #expect(answer.headers["Content-Type"] == "application/problem+json")
                #expect(!answer.error.isEmpty)
            }
        }
    }

    /// A proxy may drop the header field of one attempt only: the other attempt is the same request.
    @Test("A repeated request may have its condition in the query or in the header field")
    func aRepeatedRequestMayHaveItsConditionInTheQuery() async throws {
        let clock = TestClock()
        let server = try await TestServer(clock: clock)
        let created = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"first"}"#)
        let tag = try #require(created.headers["ETag"])
        let names: HTTPFields = [
            "Repeatability-Request-ID": "one",
            "Repeatability-First-Sent": HTTPDate.text(microseconds: clock.current),
        ]
        let target = "/tables/TodoItem/a"
        let encoded = tag.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
        let body = #"{"text":"second"}"#
        var both = names
        both["If-Match"] = tag
        let first = await server.send("PATCH", target, body, headers: both)
        #expect(first.status == 200)
        let query = "?__ifMatch=" + encoded
        for (target, headers) in [(target + query, names), (target + query, both), (target, both)] {
            let repeated = await server.send("PATCH", target, body, headers: headers)
            #expect(repeated.status == 200, "\(repeated.text)")
            #expect(repeated.headers["Repeatability-Result"] == "accepted")
            #expect(repeated.headers["ETag"] == first.headers["ETag"])
        }
        let other = await server.send("PATCH", target, body, headers: names)
        #expect(other.status == 400)
    }

    @Test(
        "The API version selects the classic or the datasync response format",
        arguments: [
            ("2.0", true), ("2.0.0", true), ("2.1.17", true), ("3.0", false), ("3.0.0", false),
        ]
    )
    func readsTheGeneration(_ version: String, _ isClassic: Bool) async throws {
        let server = try await TestServer()
        let byHeader = await server.send(
            "GET",
            "/tables/TodoItem",
            headers: ["zumo-api-version": version]
        )
        let byParameter = await server.send("GET", "/tables/TodoItem?zumo-API-version=\(version)")
        for answer in [byHeader, byParameter] {
            #expect(answer.status == 200)
            #expect((answer.json is [Any]) == isClassic)
        }
    }

    @Test("The API version in the query takes precedence over the header field")
    func theParameterTakesPrecedenceOverTheHeader() async throws {
        let server = try await TestServer()
        for (parameter, isClassic) in [("2.0.0", true), ("3.0.0", false)] {
            let answer = await server.send(
                "GET",
                "/tables/TodoItem?zumo-api-version=\(parameter)",
                headers: ["zumo-api-version": isClassic ? "3.0.0" : "2.0.0"]
            )
            #expect((answer.json is [Any]) == isClassic)
        }
        let answer = await server.send(
            "GET",
            "/tables/TodoItem?zumo-api-version=9.0",
            headers: ["zumo-api-version": "3.0.0"]
        )
        #expect(answer.status == 400)
        let problem = answer.json as? [String: Any]
        #expect(problem?["detail"] as? String == answer.error && !answer.error.isEmpty)
    }

    @Test(
        "A datasync list has a count if the count option is present, with any value",
        arguments: ["true", "TRUE", "false", "1", "garbage"]
    )
    func datasyncCountsIfTheOptionIsPresent(_ value: String) async throws {
        let answer = try await TestServer().send("GET", "/tables/TodoItem?$count=\(value)")
        #expect((answer.json as? [String: Any])?["count"] as? Int == 0)
    }

    @Test(
        "The id and the version in a PATCH are checked after the row is found",
        arguments: [
            (#"{"id":"other"}"#, 400), (#"{"id":null}"#, 400), (#"{"version":null}"#, 400),
            (#"{"version":"AAAA"}"#, 400), (#"{"id":"a","text":"x"}"#, 200),
        ]
    )
    func claimsOfAPatch(_ body: String, _ status: Int) async throws {
        let server = try await TestServer()
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"a","text":"b"}"#)
        let before = await server.send("GET", "/tables/TodoItem/a").body
        #expect(await server.send("PATCH", "/tables/TodoItem/a", body).status == status)
        let after = await server.send("GET", "/tables/TodoItem/a").body
        #expect((before == after) == (status == 400))
        if !body.contains(#""a""#) {
            #expect(await server.send("PATCH", "/tables/TodoItem/none", body).status == 404)
        }
    }

    /// An error page of a proxy has the same status, but not the code.
    @Test(
        "The response for a missing or deleted row has an error code",
        arguments: [true, false],
        [true, false]
    )
    func responsesForMissingRowsHaveACode(isClassic: Bool, isInBatch: Bool) async throws {
        let server = try await TestServer()
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"dead"}"#)
        _ = await server.send("DELETE", "/tables/TodoItem/dead")
        for (id, gone) in [("none", "noSuchRow"), ("dead", isClassic ? "noSuchRow" : "rowDeleted")]
        {
            for method in ["GET", "PATCH", "PUT", "DELETE"] {
                let answer = await TestServer.$usesBatches.withValue(isInBatch) {
                    await server.send(
                        method,
                        "/tables/TodoItem/" + id,
                        ["PATCH", "PUT"].contains(method) ? "{}" : nil,
                        classic: isClassic
                    )
                }
                #expect(answer.status == (gone == "noSuchRow" ? 404 : 410), "\(method) \(id)")
                #expect(answer.code == gone, "\(method) \(id)")
            }
        }
    }

    @Test(
        "An unknown API version is rejected with 400",
        arguments: ["1.0", "2", "4.0.0", "x", "2.0.0.0", "2.x", "-2.0", "2..0", ""]
    )
    func rejectsOtherVersions(_ version: String) async throws {
        let answer = try await TestServer().send(
            "GET",
            "/tables/TodoItem",
            headers: ["ZUMO-API-VERSION": version]
        )
        #expect(answer.status == 400)
    }
}
