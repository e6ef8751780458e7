// BatchCommitTests: how many transactions a batch uses.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite

@Suite struct BatchCommitTests {
    /// Counts the commits in a write-ahead log: frames that contain the size of the database after the commit.
    private static func commits(_ database: String) throws -> Int {
        let log = Array(try Data(contentsOf: URL(filePath: database + "-wal")))
        func number(_ offset: Int) -> Int {
            log[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) }
        }
        guard log.count > 32 else { return 0 }
        let frameBytes = 24 + number(8)
        return stride(from: 32, through: log.count - frameBytes, by: frameBytes).count { frame in
            number(frame + 4) > 0 && log[frame + 8..<frame + 16] == log[16..<24]
        }
    }

    @Test("A batch of a thousand inserts is one commit")
    func aThousandInsertsAreOneCommit() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/server.db"
            let server = try await TestServer(path: path)
            let before = try Self.commits(path)
            let answer = await server.batch(
                (0..<1000).map { number in
                    BatchPart(
                        "\(number)",
                        "post",
                        "tables/TodoItem",
                        #"{"id":"row-\#(number)","rank":\#(number)}"#,
                        group: number < 10 || number >= 20 ? nil : "g"
                    )
                }
            )
            #expect(answer.partStatuses == Array(repeating: 201, count: 1000))
            #expect(try Self.commits(path) == before + 1)
            let count = await server.send("GET", "/tables/TodoItem?$count=true&$top=0")
            #expect(count.row["count"] as? Int == 1000)
            await server.store.stop()
        }
    }

    /// If a rejection were thrown, its transaction would restart, and each write in it would read the clock again.
    @Test("A rejection by content does not restart the transaction")
    func aRejectionByContentRestartsNothing() async throws {
        let clock = TestClock(step: 1)
        let table = TableDefinition(
            "TodoItem",
            columns: [
                ColumnDefinition("text", .string),
                ColumnDefinition("note", .string, rules: ColumnRules(maxLength: 3)),
            ]
        )
        let server = try await TestServer([table], clock: clock)
        for text in ["short", "long"] {
            let row = #"{"id":"\#(text)","text":"\#(text == "short" ? "ab" : "abcdef")"}"#
            #expect(await server.send("POST", "/tables/TodoItem", row).status == 201)
        }
        /// How often the clock was read.
        func looks(_ id: String, _ status: Int) async -> Int64 {
            let copy = BatchPart(
                "2",
                "patch",
                "tables/TodoItem/\(id)",
                #"[{"op":"copy","from":"/text","path":"/note"}]"#,
                headers: ["content-type": "application/json-patch+json"]
            )
            let before = clock.now()
            let answer = await server.batch(
                [
                    BatchPart("1", "post", "tables/TodoItem", #"{"id":"\#(id)-1"}"#), copy,
                    BatchPart("3", "post", "tables/TodoItem", #"{"id":"\#(id)-3"}"#),
                ],
                continuing: true
            )
            #expect(answer.partStatuses == [201, status, 201], "\(answer.text)")
            return clock.now() - before
        }
        let (done, rejected) = (await looks("short", 200), await looks("long", 400))
        #expect(done > 3 && rejected == done)
    }

    @Test("A write that is rolled back is not reported and does not change delta links")
    func writesThatAreRolledBackAreNotReported() async throws {
        try await withTemporaryDirectory { directory in
            let tables = ["TodoItem", "Other"].map { name in
                var table = TestServer.todo
                table.schema.name = name
                return table
            }
            let server = try await TestServer(tables, path: directory + "/server.db")
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"taken"}"#)
            let reported = Mutex<[[TableTimestamp]]>([])
            try await server.store.watch { news in reported.withLock { $0.append(news) } }
            reported.withLock { $0 = [] }
            let tracked: HTTPFields = ["Prefer": "odata.track-changes"]
            let list = await server.send("GET", "/tables/TodoItem", headers: tracked)
            let link = "/tables/TodoItem?" + (list.deltaLink ?? "")
            let failing = [
                BatchPart("1", "post", "tables/TodoItem", #"{"id":"a"}"#, group: "g"),
                BatchPart("2", "patch", "tables/TodoItem/taken", #"{"rank":2}"#, group: "g"),
                BatchPart("3", "post", "tables/TodoItem", #"{"id":"taken"}"#, group: "g"),
            ]
            let answer = await server.batch(failing)
            #expect(answer.partStatuses == [424, 424, 409])
            #expect(reported.withLock { $0.isEmpty }, "the rolled-back write was reported")
            let same = await server.send("GET", link)
            #expect(same.status == 200 && same.rows.isEmpty && same.deltaLink == list.deltaLink)
            // Other tables of the same transaction are reported, and only those.
            let mixed = await server.batch(
                [BatchPart("0", "post", "tables/Other", #"{"id":"o"}"#)] + failing,
                headers: ["Prefer": "continue-on-error"]
            )
            #expect(mixed.partStatuses == [201, 424, 424, 409])
            #expect(reported.withLock { $0.map { $0.map(\.table) } } == [["other"]])
            #expect(await server.send("GET", link).deltaLink == list.deltaLink)
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"b"}"#)
            #expect(await server.send("GET", link).ids == ["b"])
            #expect(reported.withLock { $0.last?.map(\.table) } == ["todoitem"])
            await server.store.stop()
        }
    }
}
