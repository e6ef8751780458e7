// Several servers on one database: a table change by one server is known to the others with their next request, and a
// change that an operator makes to the database is seen by all of them.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct ManyServersTests {
    private static func servers(
        _ tables: [[TableDefinition]],
        dynamic: Bool
    ) async throws -> (servers: [TestServer], url: String) {
        let url = try PostgresCluster.shared().database()
        var servers: [TestServer] = []
        for declared in tables {
            servers.append(
                try await TestServer(declared, onPostgres: true, database: url, dynamic: dynamic)
            )
        }
        return (servers, url)
    }

    @Test("A server serves tables and columns that another server has added")
    func aServerSeesATableChangeByAnotherServer() async throws {
        let (servers, _) = try await Self.servers([[], []], dynamic: true)
        let (one, other) = (servers[0], servers[1])
        #expect(await other.send("GET", "/tables/Fresh/a").status == 404)
        var answer = await one.send("POST", "/tables/Fresh", #"{"id":"a","text":"one"}"#)
        #expect(answer.status == 201)
        // A table that the other server does not know.
        #expect(await other.send("GET", "/tables/Fresh/a").row["text"] as? String == "one")
        #expect(await other.send("GET", "/tables/Fresh").ids == ["a"])
        // A column, in a single row, a list, a replacement and a batch.
        answer = await one.send("PATCH", "/tables/Fresh/a", #"{"rank":5}"#)
        #expect(answer.status == 200)
        #expect(await other.send("GET", "/tables/Fresh/a").row["rank"] as? Double == 5)
        answer = await one.send("PATCH", "/tables/Fresh/a", #"{"level":6}"#)
        #expect(answer.status == 200)
        let list = await other.send("GET", "/tables/Fresh?$filter=level eq 6")
        #expect(list.rows.first?["level"] as? Double == 6)
        answer = await one.send("PATCH", "/tables/Fresh/a", #"{"weight":7}"#)
        #expect(answer.status == 200)
        answer = await other.send("PUT", "/tables/Fresh/a", #"{"id":"a","text":"two"}"#)
        #expect(answer.status == 200, "\(answer.text)")
        #expect(answer.row["weight"] is NSNull && answer.row["level"] is NSNull)
        #expect(await one.send("GET", "/tables/Fresh/a").row["weight"] is NSNull)
        answer = await other.send("PATCH", "/tables/Fresh/a", #"{"size":8}"#)
        #expect(answer.status == 200)
        let batch = """
            {"requests":[{"id":"1","method":"PUT","url":"/tables/Fresh/a",\
            "headers":{"Content-Type":"application/json"},"body":{"id":"a","text":"three"}},\
            {"id":"2","method":"GET","url":"/tables/Fresh/a","dependsOn":["1"]}]}
            """
        answer = await one.send("POST", "/$batch", batch)
        let answers = answer.row["responses"] as? [[String: Any]] ?? []
        #expect(answers.map { $0["status"] as? Int } == [200, 200], "\(answer.text)")
        let row = answers.last?["body"] as? [String: Any]
        #expect(row?["size"] is NSNull && row?["text"] as? String == "three", "\(answer.text)")
    }

    @Test("An atomic group may add columns to the same table more than once")
    func aGroupMayAddColumnsMoreThanOnce() async throws {
        let (servers, _) = try await Self.servers([[], []], dynamic: true)
        let created = await servers[0].send("POST", "/tables/Fresh", #"{"id":"a","text":"t"}"#)
        #expect(created.status == 201)
        func part(_ id: String, _ body: String) -> String {
            """
            {"id":"\(id)","atomicityGroup":"g","method":"PATCH","url":"/tables/Fresh/a",\
            "headers":{"Content-Type":"application/json"},"body":\(body)}
            """
        }
        let parts = [part("1", #"{"x":1}"#), part("2", #"{"y":2}"#), part("3", #"{"z":3}"#)]
        let body = "{\"requests\":[" + parts.joined(separator: ",") + "]}"
        let answer = await servers[0].send("POST", "/$batch", body)
        let statuses = (answer.row["responses"] as? [[String: Any]] ?? []).map {
            $0["status"] as? Int
        }
        #expect(statuses == [200, 200, 200], "\(answer.text)")
        for server in servers {
            let row = await server.send("GET", "/tables/Fresh/a").row
            #expect(["x", "y", "z"].map { row[$0] as? Double } == [1, 2, 3])
        }
    }

    @Test("Two servers that add columns at the same time lose no column and no value")
    func serversThatAddColumnsTogetherKeepAllOfThem() async throws {
        let (servers, _) = try await Self.servers([[], []], dynamic: true)
        let created = await servers[0].send("POST", "/tables/Fresh", #"{"id":"a"}"#)
        #expect(created.status == 201)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<4 {
                group.addTask {
                    for index in 0..<10 {
                        let body = #"{"c\#(number)_\#(index)":\#(index + 1)}"#
                        var status = 503
                        try await until {
                            let server = servers[number % 2]
                            status = await server.send("PATCH", "/tables/Fresh/a", body).status
                            return status != 503
                        }
                        #expect(status == 200)
                    }
                }
            }
            try await group.waitForAll()
        }
        for server in servers {
            let row = await server.send("GET", "/tables/Fresh/a").row
            for number in 0..<4 {
                for index in 0..<10 {
                    #expect(row["c\(number)_\(index)"] as? Double == Double(index + 1))
                }
            }
        }
    }

    @Test("A server continues with added columns and responds with 503 for a dropped one")
    func aServerContinuesAlongsideOneWithMoreColumns() async throws {
        var wide = TestServer.todo
        wide.schema.columns.append(ColumnDefinition("level", .integer))
        let (servers, url) = try await Self.servers([[TestServer.todo], [wide]], dynamic: false)
        var answer = await servers[1].send("POST", "/tables/TodoItem", #"{"id":"a","level":3}"#)
        #expect(answer.status == 201)
        answer = await servers[0].send("PATCH", "/tables/TodoItem/a", #"{"text":"b"}"#)
        #expect(answer.status == 200, "\(answer.text)")
        #expect(await servers[0].send("GET", "/tables/TodoItem").ids == ["a"])
        #expect(await servers[1].send("GET", "/tables/TodoItem/a").row["level"] as? Double == 3)
        // Its own column was dropped: it reports that until it is restarted with the current declaration.
        var other = wide
        other.schema.columns.removeAll { $0.name == "rank" }
        let last = try await TestServer([other], onPostgres: true, database: url)
        #expect(await last.send("GET", "/tables/TodoItem/a").status == 200)
        for target in ["/tables/TodoItem", "/tables/TodoItem/a"] {
            let answer = await servers[0].send("GET", target)
            #expect(answer.status == 503 && answer.headers["Retry-After"] != nil)
        }
        let write = await servers[0].send("PATCH", "/tables/TodoItem/a", #"{"text":"c"}"#)
        #expect(write.status == 503)
    }

    @Test("Running servers reject delta links of the previous epoch")
    func aNewEpochIsSeenByRunningServers() async throws {
        let (servers, url) = try await Self.servers(
            [[TestServer.todo], [TestServer.todo]],
            dynamic: false
        )
        let created = await servers[0].send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
        #expect(created.status == 201)
        var links: [String] = []
        var epochs: Set<String> = []
        for server in servers {
            let list = await server.send(
                "GET",
                "/tables/TodoItem",
                headers: ["Prefer": "odata.track-changes"]
            )
            epochs.insert(list.headers["Tideline-Epoch"] ?? "")
            let link = try #require(list.row["@odata.deltaLink"] as? String)
            links.append("/tables/TodoItem?" + link)
        }
        #expect(epochs.count == 1)
        let database = try PostgresConnection(PostgresAddress(url))
        try database.run("UPDATE tideline.state SET \"value\" = 'other' WHERE \"key\" = 'epoch'")
        for (server, link) in zip(servers, links) {
            #expect(await server.send("GET", link).status == 410)
            let list = await server.send("GET", "/tables/TodoItem?$top=1")
            #expect(list.headers["Tideline-Epoch"] == "other")
        }
    }

    @Test("A selection reads only its columns") func aSelectionReadsOnlyItsColumns() async throws {
        let (servers, url) = try await Self.servers([[TestServer.todo]], dynamic: false)
        let answer = await servers[0].send("POST", "/tables/TodoItem", #"{"id":"a","text":"t"}"#)
        #expect(answer.status == 201)
        let role = "r\(UUID().uuidString.lowercased().prefix(8))"
        try PostgresConnection(PostgresAddress(url)).execute(
            """
            CREATE ROLE \(role) LOGIN;
            GRANT USAGE ON SCHEMA tideline TO \(role);
            GRANT SELECT ON ALL TABLES IN SCHEMA tideline TO \(role);
            GRANT SELECT ("id", "createdAt", "updatedAt", "version", "deleted", "text")
            ON "TodoItem" TO \(role);
            """
        )
        let store = try PostgresTableStore(
            url: url.replacing("//postgres@", with: "//\(role)@")
        )
        let table = Table(TestServer.todo)
        var request = ListRequest()
        request.order = [SortKey(column: "text")]
        request.opening = [UInt8(ascii: "[")]
        request.select = [0]
        let page = try await store.list(request, in: table)
        #expect(String(decoding: page.bytes, as: UTF8.self) == #"[{"text":"t"}"#)
        request.select = nil
        await #expect(throws: (any Error).self) { try await store.list(request, in: table) }
        await store.stop()
    }
}
