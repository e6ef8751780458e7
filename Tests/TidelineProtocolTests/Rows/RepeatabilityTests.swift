// Repeated writes: executed once, and answered alike, whatever happens in between.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServer
import TidelineServerCore
import TidelineServerSQLite

@Suite struct RepeatabilityTests {
    private static let table = "/tables/TodoItem"
    private static let row = "/tables/TodoItem/a"

    /// The header fields of a request that was first sent at the start of the clock, or days before it.
    private static func named(
        _ name: String,
        daysAgo: Int64 = 0,
        _ others: HTTPFields = [:]
    ) -> HTTPFields {
        let sent = 1_800_000_000_000_000 - daysAgo * 86_400_000_000
        var fields = others
        fields.append("Repeatability-Request-ID", name)
        fields.append("Repeatability-First-Sent", HTTPDate.text(microseconds: sent))
        return fields
    }

    private static func server(
        _ definition: TableDefinition = TestServer.todo,
        clock: TestClock = TestClock(),
        limits: ServerLimits = ServerLimits(),
        hooks: TableHooks? = nil
    ) async throws -> TestServer {
        let server = try await TestServer(
            [definition],
            clock: clock,
            limits: limits,
            hooks: hooks.map { [definition.name: $0] } ?? [:]
        )
        _ = await server.send("POST", table, #"{"id":"a","text":"first","rank":1}"#)
        return server
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var method: String
        var path: String
        var body: String?
        var type = "application/json"
        var isClassic = false
        var status: Int

        var testDescription: String { "\(method) \(path) \(type) \(isClassic)" }
    }

    static let cases = [
        Case(method: "POST", path: table, body: #"{"id":"b","text":"x"}"#, status: 201),
        Case(method: "POST", path: table, body: #"{"text":"x"}"#, status: 201),
        Case(method: "POST", path: table, body: #"{"id":"c"}"#, isClassic: true, status: 201),
        Case(method: "PATCH", path: row, body: #"{"text":"x"}"#, status: 200),
        Case(method: "PATCH", path: table, body: #"{"id":"a"}"#, isClassic: true, status: 200),
        Case(method: "PUT", path: row, body: #"{"id":"a","rank":2}"#, status: 200),
        Case(
            method: "PATCH",
            path: row,
            body: #"[{"op":"copy","from":"/text","path":"/text"}]"#,
            type: "application/json-patch+json",
            status: 200
        ),
        Case(method: "DELETE", path: row, status: 204),
        Case(method: "POST", path: row, isClassic: true, status: 201),
    ]

    /// Also if the row has changed since, and with hooks, which run once.
    @Test(
        "A repeated write is not executed again and gets the first response",
        arguments: cases,
        [false, true]
    )
    func aRepeatedWriteIsAnsweredAndNotExecuted(_ write: Case, hasHooks: Bool) async throws {
        let runs = Mutex<[String]>([])
        var hooks = TableHooks()
        hooks.beforeWrite = { change in
            runs.withLock { $0.append("before \(change.requestID)") }
        }
        hooks.afterWrite = { event in runs.withLock { $0.append("after \(event.requestID)") } }
        let server = try await Self.server(hooks: hasHooks ? hooks : nil)
        var headers = Self.named("one")
        headers.append("Content-Type", write.type)
        func send() async -> ServerResponse {
            await server.send(
                write.method,
                write.path,
                write.body,
                classic: write.isClassic,
                headers: headers
            )
        }
        headers.append("X-Request-ID", "write")
        let first = await send()
        #expect(first.status == write.status, "\(first.text)")
        #expect(first.headers["Repeatability-Result"] == "accepted")
        let all = Self.table + "?__includedeleted=true&$top=1000"
        let after = await server.send("GET", all)
        let again = await send()
        #expect(again.status == first.status)
        #expect(again.body == first.body)
        for name in ["ETag", "Last-Modified", "Location", "Repeatability-Result"] {
            #expect(again.headers[name] == first.headers[name], "\(name)")
        }
        #expect(await server.send("GET", all).body == after.body)
        _ = await server.send("POST", Self.row, headers: ["X-Request-ID": "other"])
        _ = await server.send("PATCH", Self.row, #"{"text":"later"}"#)
        let late = await send()
        #expect(late.status == first.status && late.body == first.body)
        let own = runs.withLock { $0.filter { $0.hasSuffix(" write") } }
        #expect(own == (hasHooks ? ["before write", "after write"] : []))
    }

    /// The parts of a request that make it a different one.
    @Test(
        "An idempotency key that was used for a different request is rejected",
        arguments: [
            ("PATCH", "/tables/TodoItem/a", #"{"text":"y"}"#, [:]),
            ("PUT", "/tables/TodoItem/a", #"{"text":"x"}"#, [:]),
            ("PATCH", "/tables/TodoItem/b", #"{"text":"x"}"#, [:]),
            ("PATCH", "/tables/TodoItem/a?__includedeleted=true", #"{"text":"x"}"#, [:]),
            ("PATCH", "/tables/TodoItem/a", #"{"text":"x"}"#, ["If-Match": "*"]),
            ("PATCH", "/tables/TodoItem/a", #"{"text":"x"}"#, ["ZUMO-API-VERSION": "2.0.0"]),
        ] as [(String, String, String, HTTPFields)]
    )
    func anIdempotencyKeyBelongsToOneRequest(
        _ method: String,
        _ path: String,
        _ body: String,
        _ headers: HTTPFields
    ) async throws {
        let server = try await Self.server()
        let first = await server.send("PATCH", Self.row, #"{"text":"x"}"#, headers: Self.named("n"))
        #expect(first.status == 200)
        let answer = await server.send(method, path, body, headers: Self.named("n", headers))
        #expect(answer.status == 400, "\(answer.text)")
        #expect(answer.headers["Repeatability-Result"] == "rejected")
        #expect(answer.row["code"] as? String == "repeatabilityMismatch")
        #expect(await server.send("GET", Self.row).body == first.body)
    }

    private static let date = "Fri, 15 Jan 2027 08:00:00 GMT"

    @Test(
        "Malformed repeatability fields are rejected with 400",
        arguments: [
            ["Repeatability-Request-ID": "n"],
            ["Repeatability-First-Sent": date],
            ["Repeatability-Request-ID": "", "Repeatability-First-Sent": date],
            ["Repeatability-Request-ID": "a b", "Repeatability-First-Sent": date],
            ["Repeatability-Request-ID": "\u{E4}", "Repeatability-First-Sent": date],
            [
                "Repeatability-Request-ID": "n", "repeatability-request-id": "m",
                "Repeatability-First-Sent": date,
            ],
            [
                "Repeatability-Request-ID": String(repeating: "n", count: 129),
                "Repeatability-First-Sent": date,
            ],
            ["Repeatability-Request-ID": "n", "Repeatability-First-Sent": "yesterday"],
            ["Repeatability-Request-ID": "n", "Repeatability-First-Sent": "2027-01-15T08:00:00Z"],
            [
                "Repeatability-Request-ID": "n",
                "Repeatability-First-Sent": "Fri, 15 Jan 9223372036854775807 08:00:00 GMT",
            ],
            [
                "Repeatability-Request-ID": "n",
                "Repeatability-First-Sent": "Thu, 01 Jan -001 00:00:00 GMT",
            ],
            [
                "Repeatability-Request-ID": "n",
                "Repeatability-First-Sent": "Thu, 01 Jan -2027 00:00:00 GMT",
            ],
            [
                "Repeatability-Request-ID": "n",
                "Repeatability-First-Sent": "Thu Jan  1 00:00:00 -2027",
            ],
        ] as [HTTPFields]
    )
    func rejectsMalformedFields(_ headers: HTTPFields) async throws {
        let server = try await Self.server()
        let before = await server.send("GET", Self.row).body
        let answer = await server.send("PATCH", Self.row, #"{"text":"x"}"#, headers: headers)
        #expect(answer.status == 400, "\(answer.text)")
        #expect(answer.headers["Repeatability-Result"] == "rejected")
        #expect(await server.send("GET", Self.row).body == before)
    }

    @Test("A retry of a rejected write is evaluated again")
    func rejectedWritesMayBeRetried() async throws {
        let server = try await Self.server()
        let tag = await server.send("GET", Self.row).headers["ETag"] ?? ""
        func insert() async -> ServerResponse {
            await server.send("POST", Self.table, #"{"id":"b"}"#, headers: Self.named("insert"))
        }
        func missing() async -> ServerResponse {
            await server.send("PATCH", "/tables/TodoItem/b", "{}", headers: Self.named("missing"))
        }
        let absent = await missing()
        #expect(absent.status == 404)
        #expect(absent.headers["Repeatability-Result"] == "accepted")
        #expect(await insert().status == 201)
        #expect(await missing().status == 200)
        _ = await server.send("PATCH", Self.row, #"{"text":"theirs"}"#)
        func stale() async -> ServerResponse {
            await server.send(
                "PATCH",
                Self.row,
                #"{"text":"mine"}"#,
                headers: Self.named("stale", ["If-Match": tag])
            )
        }
        for text in ["theirs", "again"] {
            let rejected = await stale()
            #expect(rejected.status == 412)
            #expect(rejected.headers["Repeatability-Result"] == "accepted")
            #expect(rejected.row["text"] as? String == text)
            _ = await server.send("PATCH", Self.row, #"{"text":"again"}"#)
        }
    }

    @Test("A write from before the ledger's retention is rejected without the row")
    func aWriteThatMayBeForgottenIsRejectedWithoutTheRow() async throws {
        let clock = TestClock()
        let server = try await Self.server(clock: clock)
        let kept = Self.named("kept")
        let first = await server.send("PATCH", Self.row, #"{"text":"x"}"#, headers: kept)
        #expect(first.status == 200)
        let old = Self.named("old", daysAgo: 31)
        let answer = await server.send("PATCH", Self.row, #"{"text":"y"}"#, headers: old)
        #expect(answer.status == 412)
        #expect(answer.headers["Repeatability-Result"] == "rejected")
        #expect(answer.headers["Content-Type"] == "application/problem+json")
        #expect(answer.headers["ETag"] == nil)
        #expect(answer.row["id"] == nil && answer.row["code"] as? String == "repeatabilityExpired")
        // A known write is answered however old it is; entries are kept for a day beyond the limit.
        clock.move(by: 30 * 86_400_000_000 + 1_000_000)
        let known = await server.send("PATCH", Self.row, #"{"text":"x"}"#, headers: kept)
        #expect(known.status == 200 && known.body == first.body)
        clock.move(by: 86_400_000_000)
        let young = Self.named("young", daysAgo: -31)
        #expect(await server.send("PATCH", Self.row, "{}", headers: young).status == 200)
        try await server.purge()
        let late = await server.send("PATCH", Self.row, #"{"text":"x"}"#, headers: kept)
        #expect(late.status == 412)
        #expect(late.headers["Repeatability-Result"] == "rejected")
    }

    /// It would later be unknown whether such a write was dropped, so its entry is valid for as long as it is stored.
    @Test(
        "A First-Sent time far in the future is rejected with 412",
        arguments: [1, 40, 2_000_000] as [Int64]
    )
    func aFirstSentInTheFutureIsRejected(_ days: Int64) async throws {
        let clock = TestClock()
        let server = try await Self.server(clock: clock)
        let before = await server.send("GET", Self.row).body
        let ahead = Self.named("ahead", daysAgo: -days)
        for _ in 0..<2 {
            let answer = await server.send("PATCH", Self.row, #"{"rank":5}"#, headers: ahead)
            #expect(answer.status == 412)
            #expect(answer.headers["Repeatability-Result"] == "rejected")
            #expect(answer.row["code"] as? String == "repeatabilityAhead")
            #expect(answer.row["id"] == nil)
        }
        #expect(await server.send("GET", Self.row).body == before)
        let now = Self.named("now")
        #expect(await server.send("PATCH", Self.row, #"{"rank":5}"#, headers: now).status == 200)
    }

    @Test("A write from a device whose wall clock is minutes ahead is known until it expires")
    func aClockThatIsMinutesAheadIsAccepted() async throws {
        let clock = TestClock()
        var limits = ServerLimits()
        limits.ledgerDays = 1
        let server = try await Self.server(clock: clock, limits: limits)
        func sent(_ name: String, ahead: Int64) -> HTTPFields {
            let time = 1_800_000_000_000_000 + ahead * 1_000_000
            return [
                "Repeatability-Request-ID": name,
                "Repeatability-First-Sent": HTTPDate.text(microseconds: time),
            ]
        }
        let ahead = sent("ahead", ahead: 290)
        let first = await server.send("PATCH", Self.row, #"{"rank":5}"#, headers: ahead)
        #expect(first.status == 200)
        // Days later, after a purge step that drops old entries.
        for _ in 0..<3 {
            clock.move(by: 43_200_000_000)
            try await server.purge()
            let again = await server.send("PATCH", Self.row, #"{"rank":5}"#, headers: ahead)
            #expect(again.status == 200 && again.body == first.body)
        }
        clock.move(by: 43_200_000_000 + 100_000_000)
        try await server.purge()
        let kept = await server.send("PATCH", Self.row, #"{"rank":5}"#, headers: ahead)
        #expect(kept.status == 200 && kept.body == first.body)
        clock.move(by: 300_000_000)
        try await server.purge()
        let late = await server.send("PATCH", Self.row, #"{"rank":5}"#, headers: ahead)
        #expect(late.status == 412)
    }

    @Test("A First-Sent time in the future does not cause current writes to be rejected")
    func aCurrentWriteIsNotTakenForAForgottenOne() async throws {
        let clock = TestClock(step: 1000)
        var limits = ServerLimits()
        limits.ledgerBytes = 120_000
        let server = try await Self.server(clock: clock, limits: limits)
        let text = String(repeating: "x", count: 3000)
        var first: HTTPFields = [:]
        for number in 0..<200 {
            clock.move(by: 1_000_000)
            // Like the first write, most arrived when they were sent; some have times in the future.
            let time = clock.now() + (number % 10 == 5 ? 250_000_000 : 0)
            let fields: HTTPFields = [
                "Repeatability-Request-ID": "\(number)",
                "Repeatability-First-Sent": HTTPDate.text(microseconds: time),
            ]
            if number == 0 { first = fields }
            let body = #"{"id":"n\#(number)","text":"\#(text)"}"#
            let answer = await server.send("POST", Self.table, body, headers: fields)
            #expect(answer.status == 201, "\(number): \(answer.text)")
        }
        clock.move(by: 400_000_000)
        let fresh = HTTPDate.text(microseconds: clock.now())
        for name in ["a", "b"] {
            let answer = await server.send(
                "POST",
                Self.table,
                "{}",
                headers: ["Repeatability-Request-ID": name, "Repeatability-First-Sent": fresh]
            )
            #expect(answer.status == 201)
        }
        try await server.purge()
        let body = #"{"id":"n0","text":"\#(text)"}"#
        #expect(await server.send("POST", Self.table, body, headers: first).status == 412)
    }

    @Test("The oldest entries of a full ledger are dropped, and their writes are rejected")
    func theSizeOfTheLedgerIsLimited() async throws {
        var limits = ServerLimits()
        limits.ledgerBytes = 20_000
        let clock = TestClock(step: 1_000_000)
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let server = try await TestServer(path: path, clock: clock, limits: limits)
            for number in 0..<200 {
                let sent = HTTPDate.text(microseconds: clock.now())
                let answer = await server.send(
                    "POST",
                    Self.table,
                    #"{"id":"\#(number)"}"#,
                    headers: [
                        "Repeatability-Request-ID": "\(number)", "Repeatability-First-Sent": sent,
                    ]
                )
                #expect(answer.status == 201)
            }
            let oldest = await server.send(
                "POST",
                Self.table,
                #"{"id":"0"}"#,
                headers: Self.named("0")
            )
            #expect(oldest.status == 412)
            await server.store.stop()
            let file = try Database(path: path, mode: .readOnly)
            let count = try file.integer("SELECT count(*) FROM tideline_ledger") ?? 0
            #expect((20...80).contains(count), "\(count) entries")
        }
    }

    @Test("Each caller has separate idempotency keys")
    func idempotencyKeysArePerCaller() async throws {
        var table = TestServer.todo
        table.owner = "userId"
        let server = try await TestServer([table], authenticator: try Tokens.authenticator())
        let anna = Self.named("n", try Tokens.headers("anna"))
        let bert = Self.named("n", try Tokens.headers("bert"))
        let first = await server.send("POST", Self.table, #"{"text":"x"}"#, headers: anna)
        let other = await server.send("POST", Self.table, #"{"text":"x"}"#, headers: bert)
        #expect(first.status == 201 && other.status == 201)
        #expect(first.row["id"] as? String != other.row["id"] as? String)
        let again = await server.send("POST", Self.table, #"{"text":"x"}"#, headers: anna)
        #expect(again.body == first.body)
    }

    @Test("A replayed response without read permission discloses no more than the first one")
    func aReplayedResponseDisclosesNoMoreThanTheFirst() async throws {
        var table = TestServer.todo
        table.permissions.read = .disabled
        let server = try await Self.server(table)
        let body = #"{"rank":5}"#
        let first = await server.send("PATCH", Self.row, body, headers: Self.named("n"))
        #expect(first.status == 200 && first.row["text"] == nil)
        let again = await server.send("PATCH", Self.row, body, headers: Self.named("n"))
        #expect(again.body == first.body)
    }

    @Test("A row that a conflict handler writes instead of a delete is written once")
    func aRowThatReplacesADeleteIsWrittenOnce() async throws {
        let runs = Mutex(0)
        var hooks = TableHooks()
        hooks.conflict = { _ in
            runs.withLock { $0 += 1 }
            return .write(["text": "kept"])
        }
        let server = try await Self.server(hooks: hooks)
        let stale = Self.named("n", ["If-Match": "\"AAAAAAAAAAA=\""])
        let first = await server.send("DELETE", Self.row, headers: stale)
        #expect(first.status == 412 && first.row["text"] as? String == "kept")
        let again = await server.send("DELETE", Self.row, headers: stale)
        #expect(again.status == 412 && again.body == first.body)
        #expect(runs.withLock { $0 } == 1)
    }

    @Test("A repeated insert into a table of a dynamic schema is accepted")
    func aDynamicSchemaGrowsOnce() async throws {
        let server = try await TestServer([], dynamic: true)
        for _ in 0..<2 {
            let answer = await server.send(
                "POST",
                "/tables/New",
                #"{"id":"a","more":1}"#,
                headers: Self.named("n")
            )
            #expect(answer.status == 201 && answer.row["more"] as? Int == 1)
        }
    }

    @Test("An idempotency key applies to concurrent writes, after a restart and in a backup")
    func appliesConcurrentlyAfterARestartAndInABackup() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var server = try await TestServer(path: path)
            let headers = Self.named("n")
            let answers = await withTaskGroup(of: ServerResponse.self) { [server] group in
                for _ in 0..<20 {
                    group.addTask {
                        await server.send("POST", Self.table, #"{"text":"x"}"#, headers: headers)
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(Set(answers.map(\.body)).count == 1)
            #expect(answers.allSatisfy { $0.status == 201 })
            #expect(await server.send("GET", Self.table).rows.count == 1)
            var configuration = ServerConfiguration()
            configuration.database = .sqlite(path: path)
            configuration.tables = [TestServer.todo]
            let copy = directory + "/copy.db"
            _ = try ServerDatabase(configuration).backup(to: copy)
            await server.store.stop()
            for file in [path, copy] {
                server = try await TestServer(path: file)
                let again = await server.send(
                    "POST",
                    Self.table,
                    #"{"text":"x"}"#,
                    headers: headers
                )
                #expect(again.body == answers[0].body)
                #expect(await server.send("GET", Self.table).rows.count == 1)
                await server.store.stop()
            }
        }
    }

    @Test("A database of an older storage format gets an idempotency ledger", arguments: 1...4)
    func olderDatabasesGetALedger(_ format: Int) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            var server = try await TestServer(path: path)
            _ = await server.send("POST", Self.table, #"{"id":"a","text":"x"}"#)
            await server.store.stop()
            let file = try Database(path: path, mode: .existing)
            try file.execute("DROP TABLE tideline_ledger; PRAGMA user_version = \(format)")
            if format < 4 { try file.execute("DROP TABLE tideline_bases") }
            if format < 3 { try file.execute("PRAGMA application_id = 0") }
            if format < 2 { try file.execute("DROP TABLE tideline_state") }
            server = try await TestServer(path: path)
            for _ in 0..<2 {
                let answer = await server.send(
                    "POST",
                    Self.table,
                    #"{"id":"b"}"#,
                    headers: Self.named("n")
                )
                #expect(answer.status == 201)
            }
            #expect(await server.send("GET", Self.table).ids == ["a", "b"])
            await server.store.stop()
        }
    }
}
