// Times that other programs wrote in microseconds mean the same on the server as on a device, which has milliseconds:
// in filters, orders, pages, deltas and row filters.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineSQLite
import TidelineServerCore
import TidelineTestKit

@Suite struct MicrosecondTests {
    /// Whether a test runs on PostgreSQL.
    static let stores =
        PostgresCluster.reasonToSkip == nil ? TestScope.first(1, of: [false, true]) : [false]

    private static func table(_ indexes: [[String]] = []) -> TableDefinition {
        TableDefinition(
            "T",
            columns: [
                ColumnDefinition("due", .dateTime), ColumnDefinition("other", .dateTime),
                ColumnDefinition("rank", .integer),
            ],
            indexes: indexes
        )
    }

    /// A row whose times another program wrote, in microseconds since 1970.
    private struct Times {
        var id: String
        var due: Int64?
        var other: Int64?
    }

    /// Most are within two milliseconds of 2026-01-02T03:04:05.123Z; one is before 1970, one in the last representable
    /// millisecond.
    private static let rows: [Times] = [
        Times(id: "a", due: 1_767_323_045_123_900, other: 1_767_323_045_123_000),
        Times(id: "b", due: 1_767_323_045_123_456, other: 1_767_323_045_122_999),
        Times(id: "c", due: 1_767_323_045_124_000, other: 1_767_323_045_124_999),
        Times(id: "d", due: 1_767_323_045_122_999, other: nil),
        Times(id: "e", due: -1, other: -1000),
        Times(id: "f", due: nil, other: nil),
        Times(id: "g", due: 253_402_300_799_999_999, other: 253_402_300_799_999_000),
    ]

    /// A server with these rows, whose times were written by another program.
    private func withServer(
        _ onPostgres: Bool,
        _ rows: [Times] = Self.rows,
        indexes: [[String]] = [],
        hooks: [String: TableHooks] = [:],
        _ body: (TestServer) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let url = onPostgres ? try PostgresCluster.shared().database() : nil
            let server = try await TestServer(
                [Self.table(indexes)],
                path: onPostgres ? nil : path,
                onPostgres: onPostgres,
                database: url,
                hooks: hooks
            )
            for (rank, row) in rows.enumerated() {
                _ = await server.send(
                    "POST",
                    "/tables/T",
                    #"{"id":"\#(row.id)","rank":\#(rank / 3)}"#
                )
            }
            let literal: (Int64?) -> String = { time in
                guard let time else { return "NULL" }
                return onPostgres
                    ? "'\(Timestamp(microseconds: time).exactText)'" : String(time)
            }
            let updates = rows.map { row in
                """
                UPDATE "T" SET "due" = \(literal(row.due)), "other" = \(literal(row.other))
                WHERE "id" = '\(row.id)'
                """
            }
            if let url {
                let connection = try PostgresConnection(PostgresAddress(url))
                for update in updates { try connection.execute(update) }
            } else {
                let database = try Database(path: path, mode: .existing)
                for update in updates { try database.execute(update) }
            }
            try await body(server)
            await server.store.stop()
        }
    }

    /// The ids on all pages of a list.
    private func ids(_ target: String, pageSize: Int, _ server: TestServer) async -> [String] {
        var next: String? = target
        var found: [String] = []
        while let target = next, found.count < 200 {
            let page = await server.send(
                "GET",
                target,
                headers: ["Prefer": "odata.maxpagesize=\(pageSize)"]
            )
            #expect(page.status == 200, "\(target): \(page.text)")
            found += page.ids
            next = (page.row["nextLink"] as? String).map { "/tables/T?" + $0 }
        }
        return found
    }

    // MARK: - Tables of cases

    private static let filters: [(filter: String, ids: [String])] = [
        ("due eq 2026-01-02T03:04:05.123Z", ["a", "b"]),
        ("due ne 2026-01-02T03:04:05.123Z", ["c", "d", "e", "f", "g"]),
        ("due gt 2026-01-02T03:04:05.123Z", ["c", "g"]),
        ("due ge 2026-01-02T03:04:05.123Z", ["a", "b", "c", "g"]),
        ("due lt 2026-01-02T03:04:05.123Z", ["d", "e"]),
        ("due le 2026-01-02T03:04:05.123Z", ["a", "b", "d", "e"]),
        ("2026-01-02T03:04:05.123Z lt due", ["c", "g"]),
        ("2026-01-02T03:04:05.123Z ge due", ["a", "b", "d", "e"]),
        ("not (due gt 2026-01-02T03:04:05.123Z)", ["a", "b", "d", "e", "f"]),
        ("not (due eq 2026-01-02T03:04:05.123Z)", ["c", "d", "e", "f", "g"]),
        ("due in (2026-01-02T03:04:05.123Z,2026-01-02T03:04:05.124Z)", ["a", "b", "c"]),
        ("due in (2026-01-02T03:04:05.123456Z,null)", ["f"]),
        ("not (due in (2026-01-02T03:04:05.123Z))", ["c", "d", "e", "f", "g"]),
        ("due eq 2026-01-02T03:04:05.123456Z", []),
        ("due ne 2026-01-02T03:04:05.123456Z", ["a", "b", "c", "d", "e", "f", "g"]),
        ("due gt 2026-01-02T03:04:05.123456Z", ["c", "g"]),
        ("due ge 2026-01-02T03:04:05.123456Z", ["c", "g"]),
        ("due lt 2026-01-02T03:04:05.123456Z", ["a", "b", "d", "e"]),
        ("due le 2026-01-02T03:04:05.123456Z", ["a", "b", "d", "e"]),
        ("due eq 1969-12-31T23:59:59.999Z", ["e"]),
        ("due eq 9999-12-31T23:59:59.999Z", ["g"]),
        ("due ge 9999-12-31T23:59:59.999Z", ["g"]),
        ("due gt 9999-12-31T23:59:59.999Z", []),
        ("due le 9999-12-31T23:59:59.999Z", ["a", "b", "c", "d", "e", "g"]),
        ("due eq other", ["a", "c", "e", "f", "g"]),
        ("due gt other", ["b"]),
        ("due ne other", ["b", "d"]),
        ("fractionalseconds(due) eq 0.123", ["a", "b"]),
        ("time(due) eq 03:04:05.123", ["a", "b"]),
        ("endswith(cast(due,Edm.String),'.123Z')", ["a", "b"]),
    ]

    @Test("A filter compares truncated milliseconds", arguments: stores, [false, true])
    func filters(onPostgres: Bool, isIndexed: Bool) async throws {
        try await withServer(onPostgres, indexes: isIndexed ? [["due"]] : []) { server in
            for (filter, ids) in Self.filters {
                let found = await server.send("GET", "/tables/T?$filter=\(filter)&$count=true")
                #expect(found.ids.sorted() == ids, "\(filter): \(found.text)")
                #expect(found.row["count"] as? Int == ids.count, "\(filter)")
            }
            let shown = await server.send("GET", "/tables/T/a").row
            #expect(shown["due"] as? String == "2026-01-02T03:04:05.123Z")
            let last = await server.send("GET", "/tables/T/e").row
            #expect(last["due"] as? String == "1969-12-31T23:59:59.999Z")
        }
    }

    @Test(
        "Rows of the same millisecond are ordered by ID, on pages too",
        arguments: stores,
        [false, true]
    )
    func orders(onPostgres: Bool, isIndexed: Bool) async throws {
        try await withServer(onPostgres, indexes: isIndexed ? [["due"]] : []) { server in
            let orders = [
                ("due", ["f", "e", "d", "a", "b", "c", "g"]),
                ("due desc", ["g", "c", "a", "b", "d", "e", "f"]),
                ("due,rank desc", ["f", "e", "d", "a", "b", "c", "g"]),
                ("due,id desc", ["f", "e", "d", "b", "a", "c", "g"]),
            ]
            for (order, ids) in orders {
                let target = "/tables/T?$orderby=\(order)"
                #expect(await server.send("GET", target).ids == ids, "\(order)")
                for size in 1...3 {
                    let found = await self.ids(target, pageSize: size, server)
                    #expect(found == ids, "\(order) by \(size)")
                    // A part of the filter that PostgreSQL does not evaluate.
                    let slow = target + "&$filter=rank mul 2 lt 100"
                    #expect(await self.ids(slow, pageSize: size, server) == ids, "\(slow)")
                }
                // Without the column in the page.
                let bare = await self.ids(target + "&$select=id", pageSize: 2, server)
                #expect(bare == ids, "\(order)")
                let skipped = await server.send("GET", target + "&$skip=2&$top=3").ids
                #expect(skipped == Array(ids[2..<5]), "\(order)")
            }
        }
    }

    @Test(
        "Rows whose creation times differ only in microseconds are ordered by ID",
        arguments: stores
    )
    func creation(onPostgres: Bool) async throws {
        let server = try await TestServer(onPostgres: onPostgres, clock: TestClock(step: 1))
        for id in ["c", "a", "b"] {
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
        }
        let rows = await server.send("GET", "/tables/TodoItem?$orderby=createdAt").rows
        let times = Set(rows.compactMap { $0["createdAt"] as? String })
        let time = try #require(times.first)
        #expect(times.count == 1)
        #expect(rows.compactMap { $0["id"] as? String } == ["a", "b", "c"])
        for (filter, count) in [("eq", 3), ("le", 3), ("ge", 3), ("gt", 0), ("lt", 0), ("ne", 0)] {
            let target = "/tables/TodoItem?$filter=createdAt \(filter) \(time)"
            #expect(await server.send("GET", target).ids.count == count, "\(filter)")
        }
        // As on a device, which has both times in milliseconds, though the server stores one more exactly.
        let same = "/tables/TodoItem?$filter=createdAt eq updatedAt"
        #expect(await server.send("GET", same).ids.count == 3)
        let other = "/tables/TodoItem?$filter=tolower(id) ne 'z' and (createdAt lt updatedAt)"
        #expect(await server.send("GET", other).ids.isEmpty)
        // Pulls continue at the millisecond of their last row, and miss no row that is committed in it.
        let walk = "/tables/TodoItem?$orderby=updatedAt&$filter=updatedAt gt \(time)"
        #expect(await server.send("GET", walk).ids == ["c", "a", "b"])
        let deep = walk + " and concat(id,'') ne ''"
        #expect(await server.send("GET", deep).ids == ["c", "a", "b"])
    }

    @Test("A link of a server that used microseconds loses no row", arguments: stores)
    func olderLinks(onPostgres: Bool) async throws {
        try await withServer(onPostgres) { server in
            for order in ["due", "due desc"] {
                let ids = await server.send("GET", "/tables/T?$orderby=\(order)").ids
                let token = PageToken(
                    [.integer(1_767_323_045_123_456), .text("b")],
                    version: nil
                )
                let page = await server.send(
                    "GET",
                    "/tables/T?$orderby=\(order)&$skiptoken=\(token.text)"
                )
                let index = try #require(ids.firstIndex(of: "a"))
                #expect(page.ids == Array(ids[index...]), "\(order)")
            }
        }
    }

    @Test(
        "A delta contains the rows whose truncated milliseconds match the filter",
        arguments: stores
    )
    func deltas(onPostgres: Bool) async throws {
        try await withServer(onPostgres) { server in
            let first = await server.send(
                "GET",
                "/tables/T?$filter=due le 2026-01-02T03:04:05.123Z",
                headers: ["Prefer": "odata.track-changes"]
            )
            #expect(first.ids.sorted() == ["a", "b", "d", "e"])
            let link = first.row["@odata.deltaLink"] as? String ?? ""
            let changed = await server.send("PATCH", "/tables/T/b", #"{"rank":7}"#)
            #expect(changed.row["due"] as? String == "2026-01-02T03:04:05.123Z")
            let next = await server.send("GET", "/tables/T?" + link)
            #expect(next.ids == ["b"] && !next.text.contains("@removed"), "\(next.text)")
        }
    }

    @Test("A row filter in code sees milliseconds in lists, rows and writes", arguments: stores)
    func rowFilters(onPostgres: Bool) async throws {
        var hooks = TableHooks()
        hooks.rowFilter = { _ in
            "due eq 2026-01-02T03:04:05.123Z or due eq null and updatedAt ne 2026-01-02T00:00:00Z"
        }
        try await withServer(onPostgres, hooks: ["T": hooks]) { server in
            #expect(await server.send("GET", "/tables/T").ids.sorted() == ["a", "b", "f"])
            for (id, status) in [("a", 200), ("b", 200), ("c", 404), ("f", 200)] {
                #expect(await server.send("GET", "/tables/T/\(id)").status == status, "\(id)")
                let write = await server.send("PATCH", "/tables/T/\(id)", #"{"rank":7}"#)
                #expect(write.status == status, "\(id): \(write.text)")
            }
        }
    }

    /// Most tables have few rows with microseconds or none: their pages are read from the index.
    @Test(
        "A page from an index is correct for each position of the rows with microseconds",
        arguments: stores
    )
    func pagesByIndex(onPostgres: Bool) async throws {
        let start: Int64 = 1_767_323_045_000_000
        let places = [[], [0], [5], [7], [8], [11], [2, 9], [0, 4, 8]]
        for (number, withMicroseconds) in places.enumerated() {
            // Three rows in each millisecond, the later ones first; the last three have no time.
            var rows = (0..<12).map { index in
                let micros: Int64 = withMicroseconds.contains(index) ? 300 : 0
                return Times(
                    id: "r\(10 + 7 * index % 12)",
                    due: start + Int64(index / 3) * 1000 + micros,
                    other: nil
                )
            }
            rows += ["z", "x", "y"].map { Times(id: $0, due: nil, other: nil) }
            if number == 0 {
                for index in [9, 10, 11] { rows[index].due = 253_402_300_799_999_000 }
            } else if number == 5 {
                for index in [9, 10, 11] { rows[index].due = 253_402_300_799_999_000 }
                rows[11].due = 253_402_300_799_999_999
            }
            let sorted = rows.sorted { one, other in
                let (first, second) = (
                    one.due.map { $0 / 1000 } ?? .min, other.due.map { $0 / 1000 } ?? .min
                )
                return first == second ? one.id < other.id : first < second
            }
            let ids = sorted.map(\.id)
            let groups = Dictionary(grouping: sorted) { $0.due.map { $0 / 1000 } ?? .min }
            let falling = groups.keys.sorted(by: >).flatMap { groups[$0]!.map(\.id) }
            try await withServer(onPostgres, rows, indexes: [["due"]]) { server in
                for (order, expected) in [("due", ids), ("due desc", falling)] {
                    let target = "/tables/T?$orderby=\(order)"
                    for size in [1, 2, 3, 5] {
                        let found = await self.ids(target, pageSize: size, server)
                        #expect(found == expected, "\(withMicroseconds) \(order) by \(size)")
                    }
                    for skip in 0..<13 {
                        let page = await server.send("GET", target + "&$skip=\(skip)&$top=2").ids
                        #expect(
                            page == Array(expected[skip..<skip + 2]),
                            "\(withMicroseconds) \(order) from \(skip)"
                        )
                    }
                }
            }
        }
    }

    // MARK: - Random cases

    @Test(
        "Random filters find the rows that an evaluation of the JSON rows in memory finds",
        arguments: stores,
        TestScope.first(1, of: UInt64(0)..<3)
    )
    func agrees(onPostgres: Bool, seed: UInt64) async throws {
        var random = MicrosecondGenerator(seed: seed)
        let rows = (10..<50).map { Times(id: "r\($0)", due: random.time(), other: random.time()) }
        let indexes = seed == 0 ? [] : [["due", "id"], ["rank", "other"]]
        try await withServer(onPostgres, rows, indexes: indexes) { server in
            let shown = await server.send("GET", "/tables/T?$top=100").rows.map(Self.row)
            #expect(shown.count == rows.count)
            let schema = Table(Self.table()).definition.schema
            let checker = FilterChecker(schema: schema)
            var telling = 0
            for _ in 0..<60 {
                let text = random.condition(2)
                let filter = Filter(
                    try checker.filter(ODataParser.filter(text, dialect: .v4))
                )
                let expected = shown.filter(filter.matches).map(\.id).sorted()
                let found = await server.send("GET", "/tables/T?$filter=\(text)&$top=100")
                #expect(found.ids.sorted() == expected, "\(text): \(found.status)")
                if !expected.isEmpty && expected.count < shown.count { telling += 1 }
            }
            #expect(telling > 25, "most filters find all rows or none, and prove little")
            for number in 0..<24 {
                let order = random.order()
                let keys = try checker.order(ODataParser.orderBy(order, dialect: .v4))
                var target = "/tables/T?$orderby=\(order)"
                var expected = RowOrder(keys).sorted(shown)
                if number % 2 == 1 {
                    let text = random.condition(1)
                    target += "&$filter=\(text)"
                    let filter = Filter(
                        try checker.filter(ODataParser.filter(text, dialect: .v4))
                    )
                    expected = expected.filter(filter.matches)
                }
                let found = await ids(target, pageSize: 1 + number % 3, server)
                #expect(found == expected.map(\.id), "\(target)")
            }
        }
    }

    /// A row as a device decodes it.
    private static func row(_ members: [String: Any]) -> Row {
        var row: Row = [:]
        for (name, value) in members {
            switch value {
            case let text as String:
                row[name] = Timestamp(text).map { .date($0.date) } ?? .string(text)
            case let number as Int: row[name] = .integer(Int64(number))
            default: row[name] = .null
            }
        }
        return row
    }
}

/// Random times within a few milliseconds, and filters and orders on them.
private struct MicrosecondGenerator {
    var random: SeededGenerator

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
    }

    private mutating func pick<Choice>(_ choices: [Choice]) -> Choice {
        choices[Int.random(in: 0..<choices.count, using: &random)]
    }

    private static let starts: [Int64] = [
        1_767_323_045_123_000, 1_767_323_045_124_000, 1_767_323_045_122_000, -1000, 0,
        1_767_323_100_000_000,
    ]

    mutating func time() -> Int64? {
        guard pick([true, true, true, true, true, false]) else { return nil }
        return pick(Self.starts)
            + pick([0, 1, 500, 999, Int64.random(in: 0..<1000, using: &random)])
    }

    private mutating func literal() -> String {
        let time = pick(Self.starts) + pick([0, 0, 0, 1000, 1, 456, 999])
        return Timestamp(microseconds: time).exactText
    }

    private mutating func column() -> String { pick(["due", "other", "due", "createdAt"]) }

    mutating func condition(_ depth: Int) -> String {
        guard depth > 0 else { return comparison() }
        switch Int.random(in: 0..<6, using: &random) {
        case 0: return "(\(condition(depth - 1)) and \(condition(depth - 1)))"
        case 1, 2: return "(\(condition(depth - 1)) or \(condition(depth - 1)))"
        case 3: return "not (\(condition(depth - 1)))"
        default: return comparison()
        }
    }

    private mutating func comparison() -> String {
        let operation = pick(["eq", "ne", "lt", "le", "gt", "ge"])
        switch Int.random(in: 0..<11, using: &random) {
        case 0, 1, 2, 3: return "\(column()) \(operation) \(literal())"
        case 4: return "\(literal()) \(operation) \(column())"
        case 5: return "\(column()) \(operation) \(pick(["due", "other", "updatedAt"]))"
        case 6: return "\(column()) \(pick(["eq", "ne"])) null"
        case 7: return "\(column()) in (\(literal()),\(literal()),\(pick([literal(), "null"])))"
        case 8:
            return
                "fractionalseconds(\(column())) \(operation) \(pick(["0.123", "0.124", "0.999"]))"
        case 9: return "time(\(column())) \(operation) 03:04:05.123"
        default: return "(\(column()) lt \(literal())) eq (\(column()) ge \(literal()))"
        }
    }

    mutating func order() -> String {
        let keys = [
            "due", "due", "due desc", "other", "other desc", "createdAt desc", "rank",
            "fractionalseconds(due)", "time(other) desc", "due gt other",
        ]
        let count = pick([1, 1, 2, 3])
        return (0..<count).map { _ in pick(keys) }.joined(separator: ",")
    }
}
