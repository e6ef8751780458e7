// Which read is next, and that a slow read does not delay other callers for long.

import Dispatch
import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelinePostgres
import TidelineSQLite
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct ReadTurnsTests {
    private typealias Turns = ReadTurns<String>

    private static func take(_ turns: inout Turns, _ reader: Turns.Reader) -> String? {
        turns.take(as: reader)?.element
    }

    @Test("Restarted reads never use the reader that is reserved for first attempts")
    func aReaderIsReservedForFirstAttempts() {
        var turns = Turns(readersOfAll: 1)
        _ = turns.append("a", of: .user("a"), .restarted)
        let none = Self.take(&turns, .first)
        #expect(none == nil)
        let woken = turns.append("b", of: .user("b"), .first)
        #expect(woken == .first)
        let taken = [Self.take(&turns, .first), Self.take(&turns, .all)]
        #expect(taken == ["b", "a"])
    }

    @Test("One caller cannot use all readers")
    func aCallerCannotUseAllReaders() {
        var turns = Turns(readersOfAll: 2)
        for name in ["a1", "a2", "b1"] {
            _ = turns.append(name, of: .user(String(name.prefix(1))), .restarted)
        }
        var taken: [String?] = []
        for _ in 0..<3 { taken.append(Self.take(&turns, .all)) }
        #expect(taken == ["a1", "b1", nil])
        turns.ended(of: .user("a"), .restarted)
        taken = [Self.take(&turns, .all)]
        #expect(taken == ["a2"])
    }

    @Test("A reader knows which other callers wait for it")
    func readersSeeWaitingCallers() {
        var turns = Turns(readersOfAll: 1)
        let (anna, bert) = (ReadCaller.user("anna"), ReadCaller.user("bert"))
        _ = turns.append("a", of: anna, .first)
        #expect(!turns.otherCallersWait(than: anna, for: .all))
        #expect(
            turns.otherCallersWait(than: bert, for: .all)
                && turns.otherCallersWait(than: bert, for: .first)
        )
        _ = turns.append("b", of: bert, .restarted)
        #expect(turns.otherCallersWait(than: anna, for: .all))
        #expect(!turns.otherCallersWait(than: anna, for: .first))
    }

    @Test("Time shares double up to a limit")
    func shares() {
        let shares = (0...ReadTimeSlice.restartsMax).map { ReadTimeSlice.nanoseconds(restarts: $0) }
        #expect(shares.compactMap { $0.map { $0 / 1_000_000 } } == [200, 400, 800, 1600])
        #expect(shares.last == .some(nil))
    }

    @Test(
        "Callers of slow queries do not delay a quick one",
        .slow,
        arguments: AuditedServer.backends
    )
    func slowQueriesDelayNoCaller(_ onPostgres: Bool) async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let url = try onPostgres ? PostgresCluster.shared().database() : nil
            let server = try await TestServer(
                path: onPostgres ? nil : path,
                onPostgres: onPostgres,
                database: url,
                readers: 2,
                authenticator: try Tokens.authenticator()
            )
            try Self.fill(path, url)
            // On a fast machine, one query takes about ten seconds alone.
            let slow = (0..<400).map { "contains(tolower(text),'q\($0)')" }.joined(
                separator: " or "
            )
            let headers = try Tokens.headers("quick")
            let (quick, alone) = try await Self.quickQuery(server, headers)
            let stop = Flag()
            let load = try (0..<4).map { number in
                let headers = try Tokens.headers("slow\(number)")
                return Task {
                    while !stop.isSet {
                        _ = await server.send(
                            "GET",
                            "/tables/TodoItem?$filter=\(slow)",
                            headers: headers
                        )
                    }
                }
            }
            let clock = ContinuousClock()
            var times: [Duration] = []
            for _ in 0..<20 {
                let start = clock.now
                let answer = await server.send("GET", quick, headers: headers)
                #expect(answer.status == 200, "\(answer.text)")
                times.append(clock.now - start)
            }
            stop.set()
            for task in load { task.cancel() }
            times.sort()
            // Without turns, most would wait for a slow query. A quick one that the machine delays for longer than its first
            // turn waits for the turns of slow ones.
            let found = Comment("\(alone) alone, then \(times)")
            #expect(times[10] < .milliseconds(500) + alone * 10, found)
            #expect(times[18] < .seconds(5), found)
            let metrics = await server.send("GET", "/metrics").text
            #expect(!metrics.contains("\ntideline_read_restarts_total 0\n"))
            await server.store.stop()
        }
    }

    /// A query that needs less than its first turn on this machine, and its shortest time.
    private static func quickQuery(
        _ server: TestServer,
        _ headers: HTTPFields
    ) async throws -> (path: String, alone: Duration) {
        let clock = ContinuousClock()
        var rows = 60_000
        while true {
            let path = String(
                format: "/tables/TodoItem?$filter=id le '%07d' and rank add 1 eq -5",
                rows
            )
            var alone = Duration.seconds(10)
            for _ in 0..<5 {
                let start = clock.now
                #expect(await server.send("GET", path, headers: headers).status == 200)
                alone = min(alone, clock.now - start)
            }
            if alone < .milliseconds(60) { return (path, alone) }
            rows /= 2
            try #require(rows > 100, "\(alone) for a few rows")
        }
    }

    /// 60,000 rows of 400 characters.
    private static func fill(_ path: String, _ url: String?) throws {
        guard let url else {
            return try Database(path: path, mode: .existing).execute(
                """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
                INSERT INTO "TodoItem" (
                    "id", "createdAt", "updatedAt", "version", "deleted", "text", "rank", "complete"
                )
                SELECT printf('%07d', i), i, i, i, 0, hex(zeroblob(200)), i, 0 FROM n
                """
            )
        }
        try PostgresConnection(PostgresAddress(url)).execute(
            """
            SET tideline.own = 'on';
            INSERT INTO "TodoItem" (
                "id", "createdAt", "updatedAt", "version", "deleted", "text", "rank", "complete"
            )
            SELECT lpad(i::text, 7, '0'), tideline.instant(i), tideline.instant(i), i, false,
                repeat('0', 400), i, false FROM generate_series(1, 60000) AS i
            """
        )
    }
}
