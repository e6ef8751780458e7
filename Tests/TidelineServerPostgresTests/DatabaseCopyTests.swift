// Goal: a database that was copied from a file into PostgreSQL, or back, is the same database for every client:
// responses are equal byte for byte, and delta links, repeated requests and merges continue. Method: a server's file
// with values of every type and all kinds of stored state; copies that are interrupted. All pages of lists and of delta
// links are compared, then the copy is written to, and is copied back.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServer
import TidelineServerCore
import TidelineServerPostgres
import TidelineServerSQLite
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct DatabaseCopyTests {
    private static let tables = [
        TableDefinition(
            "Thing",
            columns: [
                ColumnDefinition("label", .string), ColumnDefinition("pieces", .integer),
                ColumnDefinition("weight", .number), ColumnDefinition("price", .decimal),
                ColumnDefinition("fragile", .boolean, nullable: false),
                ColumnDefinition("sent", .dateTime), ColumnDefinition("day", .date),
                ColumnDefinition("hour", .time, nullable: false), ColumnDefinition("key", .guid),
                ColumnDefinition("bytes", .binary), ColumnDefinition("data", .json),
                ColumnDefinition("grade", .enumeration(["low", "high"])),
            ],
            indexes: [["label"]],
            conflict: .merge,
            audit: true
        ),
        TableDefinition(
            "Gone",
            columns: [ColumnDefinition("text", .string)],
            softDelete: false,
            pageSize: 2
        ),
    ]

    private static let rows = 2500
    private static let tracking: HTTPFields = ["Prefer": "odata.track-changes"]
    private static let firstSent: String = {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return formatter.string(from: Date(timeIntervalSince1970: 1_800_000_000))
    }()

    private static func insert(named name: String, _ server: TestServer) async -> ServerResponse {
        await server.send(
            "POST",
            "/tables/Thing",
            #"{"label":"\#(name)"}"#,
            headers: [
                "Repeatability-Request-ID": name, "Repeatability-First-Sent": firstSent,
            ]
        )
    }

    /// The data that a device has stored about the database.
    private struct Device {
        /// Delta links, some from before there were rows.
        var links: [String] = []
        /// Next links into the middle of lists.
        var pages: [String] = []
        var version = ""
        /// The responses to writes with idempotency keys.
        var named: [String: String] = [:]
    }

    private static func fill(_ server: TestServer) async throws -> Device {
        var device = Device()
        var random = SeededGenerator(seed: 11)
        func pick(_ values: [String]) -> String {
            values[Int(random.next() % UInt64(values.count))]
        }
        for table in ["Thing", "Gone"] { try await link(to: table, server, &device) }
        for start in stride(from: 0, to: rows, by: 500) {
            let requests = (start..<start + 500).map { number in
                """
                {"id":"\(number)","method":"POST","url":"/tables/Thing",\
                "headers":{"Content-Type":"application/json"},"body":{"id":"t\(number)",\
                "label":\(pick(["null", #""żółw""#, #""a \" b""#, #""""#])),\
                "pieces":\(pick(["null", "-5", "9007199254740993"])),\
                "weight":\(pick(["null", "0.1", "1e300", "7"])),\
                "price":\(pick(["null", "12.50", "99999999999999999999.01"])),\
                "fragile":\(pick(["true", "false"])),\
                "sent":\(pick(["null", #""1969-07-20T20:17:40.123456Z""#])),\
                "day":\(pick(["null", #""2020-02-29""#])),\
                "key":\(pick(["null", #""01234567-89ab-cdef-0123-456789abcdef""#])),\
                "bytes":\(pick(["null", #""AAEC""#])),"data":\(pick(["null", #"{"a":[1,2.50]}"#])),\
                "grade":\(pick(["null", #""low""#]))}}
                """
            }
            let body = "{\"requests\":[" + requests.joined(separator: ",") + "]}"
            let answer = await server.send("POST", "/$batch", body)
            let answers = answer.row["responses"] as? [[String: Any]] ?? []
            let isDone = answers.allSatisfy { $0["status"] as? Int == 201 }
            #expect(isDone && answers.count == 500, "\(answer.text.prefix(300))")
        }
        for table in ["Thing", "Gone"] {
            for number in 0..<3 {
                let members = table == "Thing" ? #""label":"x","hour":"10:00:00""# : #""text":"x""#
                let body = #"{"id":"x\#(number)",\#(members)}"#
                #expect(await server.send("POST", "/tables/\(table)", body).status == 201)
            }
            try await link(to: table, server, &device)
            #expect(await server.send("DELETE", "/tables/\(table)/x1").status == 204)
        }
        let row = await server.send("GET", "/tables/Thing/x0")
        device.version = row.headers["ETag"] ?? ""
        let changed = await server.send("PATCH", "/tables/Thing/x0", #"{"pieces":1}"#)
        #expect(changed.status == 200)
        let first = await insert(named: "file", server)
        #expect(first.status == 201)
        device.named["file"] = first.text
        return device
    }

    /// A delta link to the changes from now on, and a next link into the middle of its list.
    private static func link(
        to table: String,
        _ server: TestServer,
        _ device: inout Device
    ) async throws {
        var list = await server.send("GET", "/tables/\(table)", headers: tracking)
        var next = list.row["nextLink"] as? String
        if let next { device.pages.append("/tables/\(table)?" + next) }
        while let link = next {
            list = await server.send("GET", "/tables/\(table)?" + link)
            next = list.row["nextLink"] as? String
        }
        let link = try #require(list.row["@odata.deltaLink"] as? String)
        device.links.append("/tables/\(table)?" + link)
    }

    /// Everything that the server returns about its tables.
    private static func answers(_ server: TestServer, _ device: Device) async -> [String] {
        var texts: [String] = []
        for table in ["Thing", "Gone"] {
            let list = "/tables/\(table)?$orderby=id&$count=true&__includeDeleted=true"
            texts += await pages(list, server).texts
            texts.append(await server.send("GET", "/tables/\(table)/$digest").text)
        }
        for link in device.pages + device.links { texts += await pages(link, server).texts }
        return texts
    }

    /// All pages from a link on, and the ids on them.
    private static func pages(
        _ target: String,
        _ server: TestServer
    ) async -> (texts: [String], ids: [String]) {
        var found: (texts: [String], ids: [String]) = ([], [])
        var target = target
        let path = target.prefix { $0 != "?" }
        while true {
            let page = await server.send("GET", target)
            let epoch = page.headers["Tideline-Epoch"] ?? ""
            found.texts.append("\(page.status) \(epoch) \(page.text)")
            found.ids += page.ids
            guard let next = page.row["nextLink"] as? String else { return found }
            target = path + "?" + next
        }
    }

    private struct Killed: Error {}

    private static func copy(
        _ source: ServerConfiguration.Database,
        _ target: ServerConfiguration.Database
    ) throws {
        // The copy is interrupted three times.
        for count in [1, 2, 4] {
            var pieces = 0
            #expect(throws: Killed.self) {
                try ServerDatabase.copy(from: source, to: target) { _, _ in
                    pieces += 1
                    if pieces == count { throw Killed() }
                }
            }
        }
        try ServerDatabase.copy(from: source, to: target)
    }

    @Test("A copy to PostgreSQL and back is the same database for its devices")
    func aCopyIsTheSameDatabaseForItsDevices() async throws {
        try await withTemporaryDirectory { directory in
            let file = directory + "/first.db"
            var server: TestServer? = try await TestServer(Self.tables, path: file)
            var device = try await Self.fill(try #require(server))
            let before = await Self.answers(try #require(server), device)
            try await expectWhole(try #require(server), device)
            await server?.store.stop()
            var query = AuditQuery()
            query.countMax = 2 * Self.rows
            let audit = try DatabaseInspection(path: file).audit(query)
            #expect(audit.count > Self.rows)
            let url = try PostgresCluster.shared().database()
            try Self.copy(.sqlite(path: file), .postgres(url: url))
            #expect(try PostgresMaintenance(url: url).audit(query) == audit)
            server = try await TestServer(Self.tables, onPostgres: true, database: url)
            expectSame(await Self.answers(try #require(server), device), before)
            try await goOn(try #require(server), &device, #""label":"merged""#)
            let changed = await Self.answers(try #require(server), device)
            await server?.store.stop()
            let grown = try PostgresMaintenance(url: url).audit(query)
            #expect(grown.count > audit.count)
            let back = directory + "/back.db"
            try Self.copy(.postgres(url: url), .sqlite(path: back))
            #expect(try DatabaseInspection(path: back).audit(query) == grown)
            server = try await TestServer(Self.tables, path: back)
            expectSame(await Self.answers(try #require(server), device), changed)
            try await goOn(try #require(server), &device, #""weight":3"#)
            await server?.store.stop()
        }
    }

    /// The links lead to all rows and tombstones, and there are enough of them to fill pages.
    private func expectWhole(_ server: TestServer, _ device: Device) async throws {
        try #require(device.links.count == 4 && device.pages.count == 2)
        let first = await Self.pages(device.links[0], server)
        #expect(first.texts.count > 20 && Set(first.ids).count == Self.rows + 4)
        for link in device.links {
            let changes = await Self.pages(link, server)
            #expect(changes.texts.allSatisfy { $0.hasPrefix("200") })
            #expect(changes.texts.contains { $0.contains("@removed") && $0.contains("x1") })
        }
        for page in device.pages {
            #expect(await Self.pages(page, server).texts.allSatisfy { $0.hasPrefix("200") })
        }
    }

    private func expectSame(_ answers: [String], _ before: [String]) {
        #expect(answers.count == before.count)
        for (one, other) in zip(answers, before) where one != other {
            Issue.record("\(one.prefix(400)) … \(other.prefix(400))")
        }
    }

    /// Writes as the device continues: repeated requests, a merge with an earlier base version, and rows that all of
    /// its links lead to.
    private func goOn(_ server: TestServer, _ device: inout Device, _ change: String) async throws {
        let name = "after\(device.named.count)"
        for (name, text) in device.named {
            let again = await Self.insert(named: name, server)
            #expect(again.status == 201 && again.text == text)
        }
        let merged = await server.send(
            "PATCH",
            "/tables/Thing/x0",
            "{\(change)}",
            headers: ["If-Match": device.version]
        )
        #expect(merged.status == 200, "\(merged.text)")
        #expect(merged.row["pieces"] as? Int == 1 && merged.row["label"] as? String == "merged")
        let created = await Self.insert(named: name, server)
        #expect(created.status == 201)
        device.named[name] = created.text
        let gone = await server.send("POST", "/tables/Gone", #"{"id":"\#(name)"}"#)
        #expect(gone.status == 201)
        for (index, link) in device.links.enumerated() {
            let id = index % 2 == 0 ? created.row["id"] as? String ?? "" : name
            let ids = await Self.pages(link, server).ids
            #expect(ids.count(where: { $0 == id }) == 1)
            // The row that was merged is in Thing, to which every other link belongs.
            if index % 2 == 0 { #expect(ids.contains("x0")) }
        }
        try await Self.link(to: "Thing", server, &device)
        try await Self.link(to: "Gone", server, &device)
    }

    /// The counts of rows that left a millisecond, which a classic client needs, are unknown after the copy.
    @Test("The pull of a classic client continues in the copy without missing a row")
    func aPullOfAClassicClientContinuesInTheCopy() async throws {
        try await withTemporaryDirectory { directory in
            let clock = TestClock(step: 0)
            let file = directory + "/first.db"
            var server = try await TestServer(path: file, clock: clock)
            for id in 0..<6 {
                _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
            }
            let time = "2027-01-15T08:00:00.000Z"
            let query = "$filter=updatedAt ge datetimeoffset'\(time)'&$orderby=updatedAt"
            let first = await server.send("GET", "/tables/TodoItem?\(query)&$top=3", classic: true)
            #expect(first.ids == ["0", "1", "2"])
            _ = await server.send("PATCH", "/tables/TodoItem/0", #"{"text":"b"}"#)
            await server.store.stop()
            let url = try PostgresCluster.shared().database()
            try ServerDatabase.copy(from: .sqlite(path: file), to: .postgres(url: url))
            server = try await TestServer(onPostgres: true, database: url, clock: clock)
            _ = await server.send("PATCH", "/tables/TodoItem/1", #"{"text":"b"}"#)
            let rest = await server.send(
                "GET",
                "/tables/TodoItem?\(query)&$top=50&$skip=3",
                classic: true
            )
            #expect(Set(rest.ids).isSuperset(of: ["3", "4", "5", "0", "1"]))
            await server.store.stop()
        }
    }

    @Test("An unfinished copy is not served, and an outdated one cannot be continued")
    func anUnfinishedCopyIsNotServed() async throws {
        try await withTemporaryDirectory { directory in
            let file = directory + "/first.db"
            let server = try await TestServer([TestServer.todo], path: file)
            #expect(await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#).status == 201)
            let url = try PostgresCluster.shared().database()
            let target = ServerConfiguration.Database.postgres(url: url)
            let inUse = #expect(throws: DatabaseError.self) {
                try ServerDatabase.copy(from: .sqlite(path: file), to: target)
            }
            #expect(inUse?.code == .inUse)
            await server.store.stop()
            #expect(throws: Killed.self) {
                try ServerDatabase.copy(from: .sqlite(path: file), to: target) { _, _ in
                    throw Killed()
                }
            }
            await #expect(throws: DatabaseError.self) {
                _ = try await TestServer([TestServer.todo], onPostgres: true, database: url)
            }
            var configuration = ServerConfiguration()
            configuration.database = target
            #expect(throws: DatabaseError.self) {
                try ServerDatabase(configuration).renewEpoch()
            }
            let back = ServerConfiguration.Database.sqlite(path: directory + "/back.db")
            #expect(throws: DatabaseError.self) { try ServerDatabase.copy(from: target, to: back) }
            // Rows that were written to the source during the copy are not in the copy.
            let other = try await TestServer([TestServer.todo], path: file)
            #expect(await other.send("POST", "/tables/TodoItem", #"{"id":"b"}"#).status == 201)
            await other.store.stop()
            #expect(throws: DatabaseError.self) {
                try ServerDatabase.copy(from: .sqlite(path: file), to: target)
            }
        }
    }

    @Test("A copy does not overwrite existing tables")
    func existingTablesAreNotOverwritten() async throws {
        try await withTemporaryDirectory { directory in
            let file = directory + "/first.db"
            let server = try await TestServer([TestServer.todo], path: file)
            await server.store.stop()
            let url = try PostgresCluster.shared().database()
            let there = try await TestServer([TestServer.todo], onPostgres: true, database: url)
            let error = #expect(throws: DatabaseError.self) {
                try ServerDatabase.copy(from: .sqlite(path: file), to: .postgres(url: url))
            }
            #expect(error?.code == .exists)
            #expect(await there.send("GET", "/tables/TodoItem").status == 200)
        }
    }
}
