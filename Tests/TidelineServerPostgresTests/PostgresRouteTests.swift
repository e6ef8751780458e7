// Goal: the same requests have the same responses on SQLite and PostgreSQL, also if PostgreSQL evaluates only a part of
// a filter, or nothing of an order. Method: two servers with the same rows and clocks; bodies are compared byte for
// byte, page by page.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct PostgresRouteTests {
    private static let table = TableDefinition(
        "Part",
        columns: [
            ColumnDefinition("label", .string), ColumnDefinition("pieces", .integer),
            ColumnDefinition("weight", .number), ColumnDefinition("price", .decimal),
            ColumnDefinition("fragile", .boolean, nullable: false),
            ColumnDefinition("sent", .dateTime), ColumnDefinition("day", .date),
            ColumnDefinition("hour", .time, nullable: false), ColumnDefinition("key", .guid),
            ColumnDefinition("grade", .enumeration(["low", "middle", "high"])),
        ],
        indexes: [["label"]]
    )

    private static let rows = 300

    /// A row; many rows repeat their values.
    private static func row(_ number: Int, _ random: inout SeededGenerator) -> String {
        func pick(_ values: [String]) -> String {
            values[Int(random.next() % UInt64(values.count))]
        }
        let labels = [#""Copper wire""#, #""ŻÓŁW""#, #""żółw""#, #""a%b_c""#, "null", #""""#]
        let times = [#""2021-03-05T07:08:09.120Z""#, #""1969-07-20T20:17:40Z""#, "null"]
        let members = [
            #""id":"p\#(number)""#,
            #""label":\#(pick(labels))"#,
            #""pieces":\#(pick(["0", "-7", "3", "9223372036854775807", "null"]))"#,
            #""weight":\#(pick(["0.5", "-1.5", "1e300", "7", "null"]))"#,
            #""price":\#(pick(["4.99", "12.5", "0.1", "99999999999999999999.01", "null"]))"#,
            #""fragile":\#(pick(["true", "false"]))"#,
            #""sent":\#(pick(times))"#,
            #""day":\#(pick([#""2020-02-29""#, #""1969-07-20""#, "null"]))"#,
            #""key":"0123456\#(random.next() % 10)-89ab-cdef-0123-456789abcdef""#,
            #""grade":\#(pick([#""low""#, #""high""#, "null"]))"#,
        ]
        return "{" + members.joined(separator: ",") + "}"
    }

    private static func servers() async throws -> [TestServer] {
        var servers: [TestServer] = []
        for onPostgres in [false, true] {
            let server = try await TestServer(
                [table],
                onPostgres: onPostgres,
                // Each write has the same time, however often a database reads the clock.
                clock: TestClock(step: 0)
            )
            var random = SeededGenerator(seed: 7)
            for number in 0..<rows {
                let answer = await server.send("POST", "/tables/Part", row(number, &random))
                #expect(answer.status == 201, "\(answer.text)")
            }
            servers.append(server)
        }
        return servers
    }

    private static let filters = [
        "", "fragile", "label eq 'żółw'", "contains(tolower(label),'wire')", "pieces gt 0",
        "pieces add 1 gt 0", "weight lt pieces", "price gt 1", "price mul 2 gt 20 and fragile",
        "year(sent) eq 2021", "day eq 2020-02-29 or hour eq null", "matchesPattern(label,'^C.*e$')",
        "key gt 01234565-89ab-cdef-0123-456789abcdef", "grade gt 'low'", "not (grade eq 'high')",
        "label in ('ŻÓŁW','')", "length(label) gt 4 and round(weight) eq 0", "label eq null",
        "startswith(label,'Ż') and endswith(label,'W')", "trim(label) eq ''",
        "updatedAt ge 2027-01-15T08:00:00Z and substring(id,1) gt '20'", "false",
    ]

    private static let orders = [
        "", "$orderby=label desc,pieces", "$orderby=price", "$orderby=tolower(label),id desc",
        "$orderby=weight mul -1 desc", "$orderby=day desc,hour,key", "$orderby=grade,fragile desc",
        "$orderby=length(label) desc,sent",
    ]

    @Test("Lists are the same on both databases for each filter and order")
    func listsAreTheSame() async throws {
        let servers = try await Self.servers()
        for (number, filter) in Self.filters.enumerated() {
            for (index, order) in Self.orders.enumerated() {
                var options = [order, "$top=\(20 + 90 * (number % 2))"]
                if !filter.isEmpty { options.append("$filter=\(filter)") }
                if (number + index) % 3 == 0 { options.append("$count=true") }
                if (number + index) % 4 == 1 { options.append("$select=id,price,hour,version") }
                if (number + index) % 5 == 2 { options.append("$skip=3") }
                let query = options.filter { !$0.isEmpty }.joined(separator: "&")
                try await expectSamePages("/tables/Part?" + query, servers)
            }
        }
    }

    @Test(
        "A page that begins far after the last row is empty, whatever the order",
        arguments: ["$orderby=tolower(label)", "$orderby=sent,createdAt", "$orderby=sent desc"]
    )
    func pagesAfterTheLastRowAreEmpty(_ order: String) async throws {
        var table = Self.table
        table.indexes = [["sent"]]
        for onPostgres in [false, true] {
            let server = try await TestServer([table], onPostgres: onPostgres)
            #expect(await server.send("POST", "/tables/Part", #"{"id":"a"}"#).status == 201)
            for skip in [20_000, Int.max / 2, Int.max] {
                let target = "/tables/Part?\(order)&$skip=\(skip)&$count=true"
                let page = await server.send("GET", target)
                #expect(page.status == 200 && page.rows.isEmpty, "\(skip): \(page.text)")
                #expect(page.row["count"] as? Int == 1)
            }
        }
    }

    /// Seven lists of 10,000 elements, which have more literals than a statement may have parameters.
    private static let longLists = (1...7).map { number in
        "pieces%20in%20(\(number)," + String(repeating: "1,", count: 9998) + "1)"
    }

    @Test(
        "A filter with more literals than a statement allows is answered, but an order is rejected",
        arguments: [
            ("$filter", "%20and%20", 200), ("$filter", "%20or%20", 200), ("$orderby", ",", 400),
        ]
    )
    func manyLiterals(_ option: String, _ joint: String, _ status: Int) async throws {
        let server = try await TestServer([Self.table], onPostgres: true)
        for body in [#"{"id":"a","pieces":1}"#, #"{"id":"b","pieces":100}"#] {
            #expect(await server.send("POST", "/tables/Part", body).status == 201)
        }
        // The query is too long for the URL of a request.
        let url = "tables/Part?\(option)=\(Self.longLists.joined(separator: joint))"
        let request = #"{"id":"1","method":"get","url":"\#(url)"}"#
        let answer = await server.send("POST", "/$batch", #"{"requests":[\#(request)]}"#)
        let response = (answer.row["responses"] as? [[String: Any]])?.first ?? [:]
        #expect(response["status"] as? Int == status, "\(answer.text.prefix(500))")
        let rows = (response["body"] as? [String: Any])?["items"] as? [[String: Any]] ?? []
        #expect(rows.compactMap { $0["id"] as? String } == (status == 200 ? ["a"] : []))
        #expect(await server.send("GET", "/tables/Part/a").status == 200)
    }

    /// A link is a query, or a whole URL.
    private static func target(_ link: String) -> String {
        guard let path = link.range(of: "/tables/")?.lowerBound else {
            return "/tables/Part?" + link
        }
        return String(link[path...])
    }

    /// Follows the links of both servers.
    private func expectSamePages(_ target: String, _ servers: [TestServer]) async throws {
        var targets = [target, target]
        for _ in 0..<4 {
            let answers = [
                await servers[0].send("GET", targets[0]), await servers[1].send("GET", targets[1]),
            ]
            #expect(answers[1].status == answers[0].status, "\(target): \(answers[1].text)")
            #expect(answers[1].text == answers[0].text, "\(target)")
            let links = answers.map { $0.row["nextLink"] as? String }
            #expect((links[0] == nil) == (links[1] == nil), "\(target)")
            guard let one = links[0], let other = links[1] else { return }
            targets = [Self.target(one), Self.target(other)]
        }
    }

    @Test("Digests are the same on both databases after the same changes")
    func changesAndDigestsAreTheSame() async throws {
        let servers = try await Self.servers()
        var links: [String] = []
        for server in servers {
            let list = await server.send(
                "GET",
                "/tables/Part?$top=1",
                headers: ["Prefer": "odata.track-changes"]
            )
            #expect(list.status == 200)
            for number in 0..<40 {
                let patch = number % 3 == 0 ? #"{"pieces":5}"# : #"{"label":"Changed"}"#
                let id = "p\(number * 7)"
                let answer =
                    number % 5 == 4
                    ? await server.send("DELETE", "/tables/Part/\(id)")
                    : await server.send("PATCH", "/tables/Part/\(id)", patch)
                #expect(answer.status == (number % 5 == 4 ? 204 : 200), "\(answer.text)")
            }
            var link = await server.send(
                "GET",
                "/tables/Part?$filter=contains(tolower(label),'changed') or pieces eq 5",
                headers: ["Prefer": "odata.track-changes"]
            )
            while let next = link.row["nextLink"] as? String {
                link = await server.send("GET", Self.target(next))
            }
            links.append(link.row["@odata.deltaLink"] as? String ?? "none")
            let digest = await server.send(
                "GET",
                "/tables/Part/$digest?$filter=tolower(label) eq 'changed'"
            )
            links.append(digest.text)
        }
        #expect(links[1] == links[3])
        #expect(links[0].contains("deltatoken") && links[2].contains("deltatoken"))
    }
}
