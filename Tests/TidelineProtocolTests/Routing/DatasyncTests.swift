// The rules of the datasync generation, point by point (datasync-protocol.md 3 to 9 and 17).

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct DatasyncTests {
    private static let movies = TableDefinition(
        "movies",
        columns: [
            ColumnDefinition("title", .string, nullable: false),
            ColumnDefinition("year", .integer, nullable: false, rules: ColumnRules(min: 1920)),
            ColumnDefinition("duration", .integer),
            ColumnDefinition(
                "rating",
                .enumeration(["Unrated", "G", "PG", "PG13", "NC17", "R"])
            ),
        ]
    )

    /// 250 rows whose ids, years, ratings and durations are in different orders.
    private func server() async throws -> TestServer {
        let server = try await TestServer([Self.movies])
        let ratings = ["\"R\"", "\"G\"", "null", "\"PG13\"", "\"Unrated\""]
        for index in 0..<250 {
            let body = #"""
                {"id":"id-\#(String(1000 + index).dropFirst())","title":"T\#(index % 7)er",
                 "year":\#(2020 - index % 10),"duration":\#(60 + index % 90),
                 "rating":\#(ratings[index % 5])}
                """#
            let created = await server.send("POST", "/tables/movies", body)
            #expect(created.status == 201, "\(created.text)")
        }
        return server
    }

    private func walk(_ server: TestServer, _ query: String) async -> (ids: [String], pages: Int) {
        var target: String? = "/tables/movies?" + query
        var ids: [String] = []
        var pages = 0
        while let current = target {
            let answer = await server.send("GET", current)
            #expect(answer.status == 200, "\(answer.text)")
            ids += answer.ids
            pages += 1
            target = (answer.row["nextLink"] as? String).map { "/tables/movies?" + $0 }
        }
        return (ids, pages)
    }

    @Test("Enumerations, nulls, decimals, counts and letter case follow the datasync protocol")
    func queriesThatANaiveServerGetsWrong() async throws {
        let server = try await server()
        // Enumerations by position, and ties by id in both directions.
        let byRating = await server.send("GET", "/tables/movies?$orderby=rating desc&$top=60")
        #expect(byRating.rows.allSatisfy { ["R", "PG13"].contains($0["rating"] as? String) })
        let first = byRating.rows.prefix(50).compactMap { $0["id"] as? String }
        #expect(first == first.sorted())
        // Null is a value.
        let unequal = await server.send("GET", "/tables/movies?$count=true&$filter=rating ne 'R'")
        #expect(unequal.row["count"] as? Int == 200)
        // A decimal operand makes the division real.
        let real = await server.send(
            "GET",
            "/tables/movies?$count=true&$filter=ceiling(duration div 60.0) eq 2"
        )
        let whole = await server.send(
            "GET",
            "/tables/movies?$count=true&$filter=duration div 60 eq 1"
        )
        #expect(real.row["count"] as? Int == 180)
        #expect(whole.row["count"] as? Int == 180)
        // A $top above the page size is paged, and counts down.
        let top = await walk(server, "$top=125")
        #expect(top.ids.count == 125 && top.pages == 2)
        // The count is that of the filter, on every page, whatever $count requests.
        for value in ["true", "false"] {
            let page = await server.send(
                "GET",
                "/tables/movies?$count=\(value)&$filter=year eq 2020&$top=5&$skip=3"
            )
            #expect(page.row["count"] as? Int == 25)
        }
        // Letter case matters in strings, but not in names.
        let upper = await server.send(
            "GET",
            "/tables/movies?$count=true&$filter=endswith(Title,'ER')"
        )
        #expect(upper.row["count"] as? Int == 0)
        let put = await server.send(
            "PUT",
            "/tables/movies/id-000",
            #"{"Id":"id-000","TITLE":"x","Year":1999}"#
        )
        #expect(put.status == 200 && put.row["duration"] is NSNull)
        // A missing member means zero, and zero may violate a rule.
        let missing = await server.send("POST", "/tables/movies", #"{"title":"x"}"#)
        #expect(missing.status == 400 && missing.error.contains("year"))
    }

    @Test("A list has exactly the selected columns and ends with a null next link")
    func selectsExactKeysAndEndsWithNull() async throws {
        let server = try await server()
        let some = await server.send("GET", "/tables/movies?$select=Title,year&$top=1")
        #expect(
            some.text == #"{"items":[{"title":"T0er","year":2020}],"count":null,"nextLink":null}"#
        )
        let none = await server.send("GET", "/tables/movies?$filter=year eq 1&$count=true")
        #expect(none.text == #"{"items":[],"count":0,"nextLink":null}"#)
        let counted = await server.send("GET", "/tables/movies?$top=0&$count=true")
        #expect(counted.text == #"{"items":[],"count":250,"nextLink":null}"#)
        let walked = await walk(server, "$orderby=year desc,title&foo=a%26b")
        #expect(walked.ids.count == 250 && Set(walked.ids).count == 250 && walked.pages == 3)
    }

    @Test("A next link contains the path of the table if the caller requests it")
    func linksMatchTheirCallers() async throws {
        let server = try await server()
        for (headers, prefix) in [
            ([:], "%24"), (["x-zumo-options": "NextLink=Path"], "/tables/movies?%24"),
            (["X-ZUMO-Options": "include:deleted, nextLink=path"], "/tables/movies?%24"),
        ] as [(HTTPFields, String)] {
            let answer = await server.send(
                "GET",
                "/tables/Movies/?$orderby=year",
                headers: headers
            )
            let link = answer.row["nextLink"] as? String ?? ""
            #expect(link.hasPrefix(prefix), "\(link)")
        }
    }

    /// The cases are decision tables 6.1 and 6.2.
    @Test(
        "The first check of a request that fails decides the status",
        arguments: [
            ("POST", "", #"{"title":1}"#, "text/plain", 415),
            ("POST", "", "{", "application/json", 400),
            ("POST", "", "null", "application/json", 400),
            ("POST", "", #"{"id":"live","title":"x","year":1900}"#, "application/json", 400),
            ("POST", "", #"{"id":"live","title":"x","year":2000}"#, "application/json", 409),
            ("POST", "", #"{"id":"dead","title":"x","year":2000}"#, "application/json", 409),
            (
                "POST", "",
                #"{"id":null,"version":null,"updatedAt":null,"deleted":null,"year":2000}"#,
                "application/json", 201
            ),
            ("PUT", "/none", "{", "application/json", 400),
            ("PUT", "/none", #"{"year":1900}"#, "application/json", 400),
            ("PUT", "/none", #"{"id":"x","year":2000}"#, "application/json", 400),
            ("PUT", "/none", #"{"year":2000}"#, "application/json", 404),
            ("PUT", "/dead", #"{"year":2000}"#, "application/json", 410),
            ("PUT", "/dead?__includedeleted=true", #"{"year":2000}"#, "application/json", 412),
            ("PUT", "/live", #"{"year":2000}"#, "application/json", 412),
            ("PATCH", "/none", "{", "application/json", 400),
            ("PATCH", "/none", #"{"version":"x"}"#, "application/json", 404),
            ("PATCH", "/live", #"{"version":"x"}"#, "application/json", 400),
            ("PATCH", "/dead", #"{"version":"x"}"#, "application/json", 400),
            ("PATCH", "/dead", #"{"title":"x"}"#, "application/json", 410),
            ("PATCH", "/dead", #"{"deleted":false}"#, "application/json", 412),
            ("PATCH", "/live", #"{"TITLE":"x"}"#, "application/json", 412),
            ("DELETE", "/none", "", "", 404),
            ("DELETE", "/dead", "", "", 410),
            ("DELETE", "/dead?__includedeleted=true", "", "", 410),
            ("DELETE", "/live", "", "", 412),
            ("GET", "/none", "", "", 404),
            ("GET", "/dead", "", "", 410),
            ("GET", "/dead?__includedeleted=true", "", "", 412),
            ("GET", "/live", "", "", 412),
        ]
    )
    func decidesInOrder(
        _ method: String,
        _ path: String,
        _ body: String,
        _ type: String,
        _ status: Int
    ) async throws {
        let server = try await TestServer([Self.movies])
        for id in ["live", "dead"] {
            _ = await server.send("POST", "/tables/movies", #"{"id":"\#(id)","year":2000}"#)
        }
        _ = await server.send("DELETE", "/tables/movies/dead")
        // A condition that fails; POST ignores it.
        var headers: HTTPFields = ["If-Match": "\"x\""]
        if !type.isEmpty { headers.append("Content-Type", type) }
        let answer = await server.send(
            method,
            "/tables/movies" + path,
            type.isEmpty ? nil : body,
            headers: headers
        )
        #expect(answer.status == status, "\(answer.text)")
        let carriesRow = [201, 409, 412].contains(status)
        #expect((answer.headers["ETag"] != nil) == carriesRow)
        #expect((answer.headers["Last-Modified"] != nil) == carriesRow)
    }

    @Test("A deleted row is undeleted with POST, PATCH or PUT")
    func undeletesInThreeWays() async throws {
        let server = try await TestServer([Self.movies])
        _ = await server.send("POST", "/tables/movies", #"{"id":"a","title":"x","year":2000}"#)
        let forms: [(String, String, String?, Bool, Int)] = [
            ("POST", "", nil, true, 201),
            ("PATCH", "", #"{"deleted":false}"#, false, 200),
            ("PUT", "?__includedeleted=TRUE", #"{"year":2001,"deleted":false}"#, false, 200),
            ("PUT", "?__includeDeleted=true", #"{"year":2001}"#, false, 200),
        ]
        for (method, query, body, isClassic, status) in forms {
            #expect(await server.send("DELETE", "/tables/movies/a").status == 204)
            let stale = await server.send(
                method,
                "/tables/movies/a" + query,
                body,
                classic: isClassic,
                headers: ["If-Match": "\"x\""]
            )
            #expect(stale.status == 412 && stale.row["deleted"] as? Bool == true)
            let back = await server.send(
                method,
                "/tables/movies/a" + query,
                body,
                classic: isClassic
            )
            #expect(back.status == status && back.row["deleted"] as? Bool == false)
            #expect(await server.send("GET", "/tables/movies/a").body == back.body)
        }
        _ = await server.send("DELETE", "/tables/movies/a")
        let kept = await server.send(
            "PUT",
            "/tables/movies/a?__includedeleted=true",
            #"{"title":"y","year":2002,"deleted":true}"#
        )
        #expect(kept.status == 200 && kept.row["deleted"] as? Bool == true)
        let filtered = await server.send(
            "GET",
            "/tables/movies?$filter=deleted eq true&__includedeleted=true"
        )
        #expect(filtered.ids == ["a"])
        #expect(await server.send("GET", "/tables/movies?$filter=deleted eq true").ids.isEmpty)
    }

    @Test("A table without soft delete stores no tombstones")
    func withoutSoftDeleteNoTombstoneIsKept() async throws {
        var table = Self.movies
        table.softDelete = false
        let server = try await TestServer([table])
        _ = await server.send("POST", "/tables/movies", #"{"id":"a","year":2000}"#)
        #expect(await server.send("DELETE", "/tables/movies/a").status == 204)
        #expect(await server.send("GET", "/tables/movies/a?__includedeleted=true").status == 404)
        #expect(
            await server.send("POST", "/tables/movies", #"{"id":"a","year":2000}"#).status == 201
        )
    }
}
