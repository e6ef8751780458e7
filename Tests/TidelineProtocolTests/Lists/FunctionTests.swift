// Filters that need more from a server than its rows: the time, patterns, and depth.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit

@Suite struct FunctionTests {
    private static let tasks = TableDefinition(
        "Task",
        columns: [
            ColumnDefinition("text", .string), ColumnDefinition("due", .dateTime),
            ColumnDefinition("rank", .integer),
        ]
    )

    private static func nested(
        _ open: String,
        _ core: String,
        _ close: String,
        _ count: Int
    )
        -> String
    {
        String(repeating: open, count: count) + core + String(repeating: close, count: count)
    }

    @Test("A cached query that calls now uses the time of each request")
    func nowIsTheMomentOfTheRequest() async throws {
        let clock = TestClock()
        let server = try await TestServer([Self.tasks], clock: clock)
        let due = Timestamp(microseconds: clock.now() + 60_000_000).text
        _ = await server.send("POST", "/tables/Task", #"{"id":"a","due":"\#(due)"}"#)
        let lists = ["$filter=due le now()", "$filter=due lt now() and now() eq now()"]
        for classic in [true, false] {
            for list in lists {
                for _ in 0..<2 {
                    #expect(
                        await server.send("GET", "/tables/Task?" + list, classic: classic).ids == []
                    )
                }
            }
        }
        clock.move(by: 120_000_000)
        for classic in [true, false] {
            for list in lists {
                let found = await server.send("GET", "/tables/Task?" + list, classic: classic)
                #expect(found.ids == ["a"])
            }
        }
        #expect(await server.send("GET", "/tables/Task?$orderby=now(),id").ids == ["a"])
    }

    @Test("A row filter that calls now hides a row when its time has passed")
    func rowFiltersKnowTheTime() async throws {
        let clock = TestClock()
        var hooks = TableHooks()
        hooks.rowFilter = { _ in "due gt now() or due eq null" }
        let server = try await TestServer([Self.tasks], clock: clock, hooks: ["Task": hooks])
        let due = Timestamp(microseconds: clock.now() + 60_000_000).text
        let created = await server.send("POST", "/tables/Task", #"{"id":"a","due":"\#(due)"}"#)
        #expect(created.status == 201)
        #expect(await server.send("GET", "/tables/Task/a").status == 200)
        clock.move(by: 120_000_000)
        #expect(await server.send("GET", "/tables/Task/a").status == 404)
        #expect(await server.send("PATCH", "/tables/Task/a", #"{"rank":1}"#).status == 404)
        #expect(await server.send("GET", "/tables/Task").ids.isEmpty)
    }

    @Test("A query of the maximum depth is accepted and paged", arguments: [true, false])
    func deepQueriesPage(classic: Bool) async throws {
        let server = try await TestServer([Self.tasks])
        for index in 0..<7 {
            let body = #"{"id":"\#(index)","text":"T\#(index % 3)","rank":\#(index)}"#
            #expect(await server.send("POST", "/tables/Task", body).status == 201)
        }
        let deep = Self.nested("concat('a',", "tolower(text)", ")", 70)
        let filter = "length(\(deep)) eq 72 and not (rank eq 6)"
        let count = classic ? "$inlinecount=allpages" : "$count=true"
        var target: String? = "/tables/Task?$filter=\(filter)&$orderby=\(deep) desc&$top=2&\(count)"
        var ids: [String] = []
        while let next = target {
            let page = await server.send("GET", next, classic: classic)
            #expect(page.status == 200, "\(page.text)")
            #expect(page.row["count"] as? Int == 6)
            ids += page.ids
            if classic {
                let link = page.headers["Link"]?.split(separator: ";").first.map(String.init)
                target = link?.split(separator: "?").last.map { "/tables/Task?" + $0 }
            } else {
                target = (page.row["nextLink"] as? String).map { "/tables/Task?" + $0 }
            }
        }
        #expect(ids == (classic ? ["2", "5", "1", "4", "0", "3"] : ["2", "5"]))
        let skipping =
            "/tables/Task?$filter=updatedAt ge 2020-01-01T00:00:00Z and \(filter)"
            + "&$orderby=updatedAt&$skip=2&$top=3"
        #expect(await server.send("GET", skipping, classic: classic).ids == ["2", "3", "4"])
    }

    @Test(
        "A query that is too deep is rejected with the position and the limit",
        arguments: ["$filter", "$orderby"],
        [true, false]
    )
    func tooDeepQueriesNameThePositionAndTheLimit(_ option: String, _ classic: Bool) async throws {
        let server = try await TestServer([Self.tasks])
        for (text, position) in [
            (Self.nested("tolower(", "text", ")", 81) + " eq 'x'", 8 * 81 - 1),
            (Self.nested("-(", "rank", ")", 41) + " eq 1", 80),
            ("rank" + Self.nested(" add 1", "", "", 90) + " eq 1", 0),
        ] {
            let answer = await server.send(
                "GET",
                "/tables/Task?\(option)=\(text)",
                classic: classic
            )
            #expect(answer.status == 400)
            #expect(answer.row["position"] as? Int == position)
            #expect(answer.error.contains("80 levels"), "\(answer.error)")
        }
    }

    @Test("A filter with a chain of 500 conditions is accepted")
    func longChainsAreAccepted() async throws {
        let server = try await TestServer([Self.tasks])
        _ = await server.send("POST", "/tables/Task", #"{"id":"a","text":"it","rank":499}"#)
        for joint in ["or", "and"] {
            let parts = (0..<500).map { "rank \(joint == "or" ? "eq" : "ne") \($0)" }
            let filter = parts.joined(separator: " \(joint) ")
            let found = await server.send("GET", "/tables/Task?$filter=\(filter)")
            #expect(found.status == 200)
            #expect(found.ids == (joint == "or" ? ["a"] : []))
        }
    }

    /// A row is one step for the database, so patterns and deep expressions check the time limit themselves.
    @Test(
        "A slow function in a filter is interrupted at the time limit of a query",
        .timeLimit(.minutes(10)),
        arguments: [false] + (PostgresCluster.reasonToSkip == nil ? [true] : [])
    )
    func slowFunctionsAreInterrupted(onPostgres: Bool) async throws {
        try await withTemporaryDirectory { directory in
            var limits = ServerLimits()
            // A server reads at startup, too.
            limits.queryTime = .milliseconds(onPostgres ? 1000 : 100)
            let server = try await TestServer(
                [Self.tasks],
                path: onPostgres ? nil : directory + "/a.db",
                onPostgres: onPostgres,
                limits: limits
            )
            let text = String(repeating: "a", count: 200_000)
            _ = await server.send("POST", "/tables/Task", #"{"text":"\#(text)"}"#)
            let lengths = "length(replace(text,'a','bbbb')) eq 7"
            let parts = Array(repeating: lengths, count: 150).joined(separator: " or ")
            for filter in [
                "matchesPattern(text,'(a?){200}b')", Self.nested("not (", parts, ")", 35),
            ] {
                // A filter that is not interrupted gets an answer, however long it takes.
                let answer = await server.getWhileBusy("/tables/Task?$filter=\(filter)")
                #expect(answer.status == 400, "\(answer.text)")
                #expect(answer.error == ServerError.queryTooExpensive.message)
            }
            await server.store.stop()
        }
    }
}
