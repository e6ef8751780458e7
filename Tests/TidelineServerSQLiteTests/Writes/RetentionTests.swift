// Data past its retention is removed automatically, in small steps: ledger entries, and the change logs of tables that
// a dynamic schema created.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit

@Suite struct RetentionTests {
    private static let day: Int64 = 86_400_000_000

    private static func named(_ name: String, _ clock: TestClock) -> HTTPFields {
        [
            "Repeatability-Request-ID": name,
            "Repeatability-First-Sent": HTTPDate.text(microseconds: clock.now()),
        ]
    }

    /// Waits until a query on the file returns this result.
    private static func wait(
        _ path: String,
        _ sql: String,
        until holds: (Int64) -> Bool
    ) async throws {
        let file = try Database(path: path, mode: .readOnly)
        try await until { try holds(file.integer(sql) ?? 0) }
    }

    // MARK: - The ledger

    @Test(
        "Old ledger entries are removed even though no further write arrives",
        .timeLimit(.minutes(10))
    )
    func ledgerEntriesAreRemovedWithoutWrites() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let clock = TestClock()
            let server = try await TestServer(
                path: path,
                clock: clock,
                purgeInterval: .milliseconds(5)
            )
            for number in 0..<250 {
                let body = #"{"id":"\#(number)"}"#
                let fields = Self.named("\(number)", clock)
                let answer = await server.send("POST", "/tables/TodoItem", body, headers: fields)
                #expect(answer.status == 201)
            }
            let fields = Self.named("0", clock)
            clock.move(by: 32 * Self.day)
            let entries = #"SELECT count(*) FROM "tideline_ledger""#
            try await Self.wait(path, entries) { $0 == 0 }
            // A forgotten write is not taken for a new one.
            let late = await server.send("POST", "/tables/TodoItem", "{}", headers: fields)
            #expect(late.status == 412 && late.headers["Repeatability-Result"] == "rejected")
            await server.store.stop()
        }
    }

    @Test("A purge step removes at most the 200 oldest ledger entries")
    func aPurgeStepOfTheLedgerIsSmall() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let clock = TestClock()
            let server = try await TestServer(path: path, clock: clock)
            for number in 0..<500 {
                let fields = Self.named("\(number)", clock)
                _ = await server.send("POST", "/tables/TodoItem", "{}", headers: fields)
            }
            clock.move(by: 32 * Self.day)
            let file = try Database(path: path, mode: .readOnly)
            let entries = #"SELECT count(*) FROM "tideline_ledger""#
            for left in [300, 100, 0, 0] {
                try await server.purge()
                #expect(try file.integer(entries) == Int64(left))
            }
            await server.store.stop()
        }
    }

    @Test("A large ledger entry displaces enough small ones to stay within the limit")
    func theLedgerStaysWithinItsLimitWhateverItsEntriesAre() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let clock = TestClock(step: 60_000_000)
            var limits = ServerLimits()
            limits.ledgerBytes = 200_000
            let server = try await TestServer(path: path, clock: clock, limits: limits)
            for number in 0..<500 {
                let fields = Self.named("\(number)", clock)
                _ = await server.send("POST", "/tables/TodoItem", "{}", headers: fields)
            }
            let file = try Database(path: path, mode: .readOnly)
            let kept = """
                SELECT sum("bytes") FROM "tideline_ledger"
                """
            let text = String(repeating: "x", count: 3500)
            var first: HTTPFields = [:]
            for number in 0..<80 {
                let fields = Self.named("large \(number)".replacing(" ", with: "-"), clock)
                if number == 0 { first = fields }
                let body = #"{"id":"\#(number)","text":"\#(text)"}"#
                let answer = await server.send("POST", "/tables/TodoItem", body, headers: fields)
                #expect(answer.status == 201)
                #expect(try file.integer(kept) ?? 0 <= 200_000)
            }
            let body = #"{"id":"0","text":"\#(text)"}"#
            let late = await server.send("POST", "/tables/TodoItem", body, headers: first)
            #expect(late.status == 412, "what was dropped is not known any more")
            await server.store.stop()
        }
    }

    // MARK: - Tables that a dynamic schema creates

    @Test("The log of a dynamically created table is purged", .timeLimit(.minutes(10)))
    func theLogsOfNewTablesArePurged() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let clock = TestClock()
            var limits = ServerLimits()
            limits.changeDays = 2
            var hooks = TableHooks()
            hooks.rowFilter = { _ in "rank gt 0" }
            let server = try await TestServer(
                [],
                path: path,
                dynamic: true,
                clock: clock,
                limits: limits,
                purgeInterval: .milliseconds(5),
                hooks: ["Fresh": hooks]
            )
            _ = await server.send("POST", "/tables/Other", "{}")
            let created = await server.send("POST", "/tables/Fresh", #"{"id":"a","rank":1}"#)
            #expect(created.status == 201, "\(created.text)")
            let list = await server.send(
                "GET",
                "/tables/Fresh",
                headers: ["Prefer": "odata.track-changes"]
            )
            let link = "/tables/Fresh?" + (list.deltaLink ?? "")
            for rank in 2..<250 {
                let answer = await server.send(
                    "PATCH",
                    "/tables/Fresh/a",
                    #"{"rank":\#(rank)}"#
                )
                #expect(answer.status == 200)
            }
            let entries = #"SELECT count(*) FROM "tideline_log.Fresh""#
            try await Self.wait(path, entries) { $0 >= 248 }
            clock.move(by: 3 * Self.day)
            try await Self.wait(path, entries) { $0 == 0 }
            let expired = await server.send("GET", link)
            #expect(expired.status == 410 && expired.code == "deltaExpired")
            await server.store.stop()
        }
    }

    // MARK: - Turns

    /// Steps without work share a turn; a step that removes something ends the turn, and runs again if more may be
    /// left.
    @Test("A purge turn runs steps without work together and ends after a step with work")
    func turns() {
        var schedule = PurgeSchedule()
        let steps = (0..<40).map { PurgeStep.changes(of: "t\($0)", days: 1) }
        var left = ["t20": 450, "t21": 3]
        var log: [[String]] = []
        func turn(at now: UInt64) {
            var names: [String] = []
            func run(_ step: PurgeStep) -> PurgeSchedule.Removed {
                guard case .changes(let table, _) = step else { return .nothing }
                let count = min(left[table] ?? 0, PurgeSchedule.rowsMax)
                left[table] = (left[table] ?? 0) - count
                names.append(table)
                return PurgeSchedule.Removed(count)
            }
            schedule.turn(at: now, round: { steps }, next: { now + 1000 }, run: run)
            log.append(names)
        }
        for now in 1...8 { turn(at: UInt64(now)) }
        #expect(log.map(\.count) == [16, 5, 1, 1, 1, 16, 2, 0])
        #expect(log[1].last == "t20" && log[2] == ["t20"] && log[3] == ["t20"])
        #expect(log[4] == ["t21"])
        #expect(schedule.due == 1007)
        turn(at: 1007)
        #expect(log[8].first == "t0")
        schedule.begin()
        turn(at: 1008)
        #expect(log[9].first == "t0")
    }
}
