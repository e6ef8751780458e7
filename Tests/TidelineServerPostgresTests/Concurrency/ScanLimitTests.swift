// Goal: no query keeps a server or PostgreSQL working for longer than limits.queryTime, whichever of them evaluates the
// filter or the order; a query that takes longer is rejected, and never answered in part. Method: a table of many rows,
// and a time limit that is too short for one scan.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.serialized, .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is missing"))
struct ScanLimitTests {
    private static let rows = 150_000
    private static let tracking: HTTPFields = ["Prefer": "odata.track-changes"]

    /// Servers on one table: one whose time limit is too short for all its rows, and one with enough time.
    private struct Servers {
        let url: String
        let hurried: TestServer
        let patient: TestServer

        init() async throws {
            url = try PostgresCluster.shared().database()
            var limits = ServerLimits()
            limits.queryTime = .seconds(120)
            patient = try await TestServer(onPostgres: true, database: url, limits: limits)
            limits.queryTime = .milliseconds(60)
            // Its first read of the tables has no more time than that, either.
            var server: TestServer?
            for _ in 0..<50 where server == nil {
                server = try? await TestServer(onPostgres: true, database: url, limits: limits)
            }
            hurried = try #require(server)
            let body = #"{"id":"0","text":"first"}"#
            let first = await patient.send("POST", "/tables/TodoItem", body)
            try #require(first.status == 201)
        }

        /// Rows as a server writes them: with timestamps.
        func fill() async throws {
            try await onThread { [url] in
                try PostgresConnection(PostgresAddress(url)).execute(
                    """
                    BEGIN; SET LOCAL tideline.own = 'on';
                    INSERT INTO "TodoItem" ("id", "text", "complete", "version", "updatedAt")
                    SELECT 'r' || n, 'Text ' || n, n % 2 = 0, c."stamp" + 25 * n,
                        tideline.instant(c."stamp" + 25 * n)
                    FROM generate_series(1, \(ScanLimitTests.rows)) AS n, tideline.clocks AS c
                    WHERE c."table" = 'todoitem';
                    UPDATE tideline.clocks SET "stamp" = "stamp" + 25 * \(ScanLimitTests.rows);
                    COMMIT; ANALYZE "TodoItem"
                    """
                )
            }
        }
    }

    /// Each case scans the table: in the server, in PostgreSQL, and in both.
    private static let questions = [
        "?$filter=matchesPattern(text,'^none$')",
        "?$filter=complete and matchesPattern(text,'^none$')",
        "?$filter=tolower(text) eq 'text 1'&$orderby=text",
        "?$orderby=tolower(text)&$top=2",
        "?$orderby=tolower(text)&$top=2&$filter=complete",
        "?$filter=length(text) gt 3&$orderby=rank mul 2,text desc&$top=1",
        "?$top=0&$count=true&$filter=tolower(text) ne 'none'",
        "?$top=1&$count=true&$filter=matchesPattern(text,'5$')",
        "/$digest?$filter=matchesPattern(text,'5$')",
        "/$digest",
    ]

    @Test("A scan of all rows ends at the query time limit")
    func aScanOfAllRowsEndsAtTheTimeLimit() async throws {
        let servers = try await Servers()
        let filter = "$filter=matchesPattern(text,'^first$')"
        let first = await servers.patient.send(
            "GET",
            "/tables/TodoItem?" + filter,
            headers: Self.tracking
        )
        #expect(first.ids == ["0"])
        let link = "/tables/TodoItem?" + (try #require(first.deltaLink))
        try await servers.fill()
        for question in Self.questions {
            let answer = await servers.hurried.getWhileBusy("/tables/TodoItem" + question)
            expectRejection(answer, question)
        }
        // The changes since before all rows are paged, so that each page ends in time.
        let changes = await servers.hurried.getWhileBusy(link)
        if changes.status == 200 {
            #expect(changes.row["nextLink"] != nil && changes.deltaLink == nil)
            #expect(changes.rows.count <= 1000)
        } else {
            expectRejection(changes, "changes")
        }
        expectRejection(
            await servers.hurried.getWhileBusy(link + "&$count=true"),
            "changes, counted"
        )
        // None of this delays later callers, or the server with enough time.
        var row = ServerResponse(status: 0)
        for _ in 0..<50 where row.status != 200 {
            row = await servers.hurried.send("GET", "/tables/TodoItem/r5")
        }
        #expect(row.row["text"] as? String == "Text 5")
        let counted = await servers.patient.send(
            "GET",
            "/tables/TodoItem?$top=1&$count=true&$filter=tolower(text) ne 'none'"
        )
        #expect(counted.row["count"] as? Int == Self.rows + 1, "\(counted.text.prefix(300))")
    }

    private func expectRejection(_ answer: ServerResponse, _ question: String) {
        #expect(answer.status == 400, "\(question): \(answer.text.prefix(300))")
        #expect(answer.error == ServerError.queryTooExpensive.message, "\(question)")
        #expect(answer.headers["Retry-After"] == nil)
    }
}
