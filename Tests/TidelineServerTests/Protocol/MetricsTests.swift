// MetricsTests: metrics of the database, the tokens and the build, and that each metric has a help text.

import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTestKit

@Suite struct MetricsTests {
    @Test("A histogram counts values up to its bounds") func aHistogramCountsUpToItsBounds() {
        let histogram = Histogram(bounds: [1, 10])
        for value in [0, 1, 2, 10, 11, 500] { histogram.add(value) }
        #expect(histogram.reading.counts == [2, 2, 2])
        #expect(histogram.reading.sum == 524)
        histogram.add(from: 5_000, to: 9_999)
        histogram.add(from: 9_000, to: 5_000)
        #expect(histogram.reading.sum == 528)
        #expect((histogram.reading + histogram.reading).counts == [6, 6, 4])
    }

    @Test("Every counter and histogram of the server is in its metrics")
    func everyCounterIsInTheMetrics() {
        let traffic = ServerTraffic()
        var expected: [(name: String, ending: String)] = []
        for owner in [traffic, traffic.store] as [AnyObject] {
            for (label, value) in Mirror(reflecting: owner).children {
                let number = 1_001 + expected.count
                if let counter = value as? ServerTraffic.Counter {
                    counter.add(number)
                    expected.append((label ?? "", " \(number)"))
                } else if let histogram = value as? Histogram {
                    for _ in 0..<number { histogram.add(1) }
                    expected.append((label ?? "", "_count \(number)"))
                }
            }
        }
        let now = ServerMetrics.Now(writeQueue: 0, logBytes: 0)
        let text = String(decoding: ServerMetrics().text(now, traffic: traffic), as: UTF8.self)
        let lines = text.split(separator: "\n")
        let missing = expected.filter { _, ending in !lines.contains { $0.hasSuffix(ending) } }
        #expect(missing.map(\.name) == [])
        #expect(expected.count > 25)
    }

    private static let backends = PostgresCluster.reasonToSkip == nil ? [false, true] : [false]

    /// The value of a series, as text.
    private func value(_ series: String, of server: TestServer) async -> String? {
        let lines = await server.send("GET", "/metrics").text.split(separator: "\n")
        return lines.first { $0.hasPrefix(series + " ") }.map {
            String($0.dropFirst(series.count + 1))
        }
    }

    @Test(
        "The reported number of ledger entries is nearly exact even if it is estimated",
        arguments: backends
    )
    func manyEntriesOfTheLedgerAreReported(_ onPostgres: Bool) async throws {
        try await withTemporaryDirectory { directory in
            let path = onPostgres ? nil : directory + "/todo.db"
            let server = try await TestServer(path: path, onPostgres: onPostgres)
            let first = HTTPDate.text(microseconds: TestClock().now())
            for batch in 0..<3 {
                let parts = (0..<800).map { number in
                    let text = String(repeating: "x", count: batch * 10)
                    return """
                        {"id":"\(number)","method":"post","url":"tables/TodoItem","headers":{
                        "content-type":"application/json",
                        "Repeatability-Request-ID":"\(batch)-\(number)",
                        "Repeatability-First-Sent":"\(first)"},"body":{"text":"\(text)"}}
                        """
                }
                let body = "{\"requests\":[" + parts.joined(separator: ",") + "]}"
                #expect(await server.send("POST", "/$batch", body).status == 200)
            }
            try await server.purge()
            let reported =
                await value("tideline_ledger_entries", of: server).flatMap { Int($0) } ?? 0
            #expect(onPostgres ? reported == 2400 : (2200...2600).contains(reported), "\(reported)")
            if path != nil { await server.store.stop() }
        }
    }

    @Test(
        "The metrics report commits, waiting reads and the size of the ledger",
        arguments: backends
    )
    func theDatabaseReportsItsWork(_ onPostgres: Bool) async throws {
        try await withTemporaryDirectory { directory in
            let path = onPostgres ? nil : directory + "/todo.db"
            let server = try await TestServer(path: path, onPostgres: onPostgres)
            for id in 0..<3 {
                let answer = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(id)"}"#)
                #expect(answer.status == 201)
            }
            #expect(await value("tideline_commit_seconds_count", of: server) == "3")
            #expect(await value("tideline_commit_writes_sum", of: server) == "3")
            #expect(await value(#"tideline_commit_writes_bucket{le="1"}"#, of: server) == "3")
            #expect(await value("tideline_commits_failed_total", of: server) == "0")
            let waits = try #require(await value("tideline_read_wait_seconds_count", of: server))
            #expect(await server.send("GET", "/tables/TodoItem?$count=true").status == 200)
            #expect(await value("tideline_read_wait_seconds_count", of: server) != waits)
            #expect(await value("tideline_reads_waiting", of: server) == "0")
            for name in [
                "ba5e9d0c-7a0c-4f0b-9d0e-0c4f1d2a3b4c", "7b1c7e1e-1c5e-4a55-8c8c-2d1b2f3a4c5d",
            ] {
                let fields: HTTPFields = [
                    "Repeatability-Request-ID": name,
                    "Repeatability-First-Sent": HTTPDate.text(microseconds: TestClock().now()),
                ]
                let named = await server.send("POST", "/tables/TodoItem", "{}", headers: fields)
                #expect(named.status == 201, "\(named.text)")
            }
            try await server.purge()
            #expect(await value("tideline_ledger_bytes", of: server) != "0")
            #expect(await value("tideline_ledger_entries", of: server) == "2")
            if path != nil { await server.store.stop() }
        }
    }

    @Test("The metrics count purged tombstones") func purgedRowsAreCounted() async throws {
        var table = TestServer.todo
        table.tombstoneDays = 1
        let clock = TestClock()
        let server = try await TestServer([table], clock: clock)
        #expect(await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#).status == 201)
        #expect(await server.send("DELETE", "/tables/TodoItem/a").status == 204)
        try await server.purge()
        #expect(await value(#"tideline_purged_total{kind="tombstones"}"#, of: server) == "0")
        clock.move(by: 2 * 86_400_000_000)
        try await server.purge()
        #expect(await value(#"tideline_purged_total{kind="tombstones"}"#, of: server) == "1")
    }

    @Test("The metrics count rejected tokens but not requests without a token")
    func rejectedTokensAreCounted() async throws {
        let server = try await TestServer(authenticator: try Tokens.authenticator())
        for (token, count) in [("nonsense", "1"), ("", "2")] {
            let fields: HTTPFields = ["Authorization": "Bearer " + token]
            #expect(await server.send("GET", "/tables/TodoItem", headers: fields).status == 401)
            #expect(await value("tideline_tokens_refused_total", of: server) == count)
        }
        // A caller without a token is asked for one, which does not count as a rejected token.
        #expect(await server.send("GET", "/tables/TodoItem").status == 401)
        #expect(await value("tideline_tokens_refused_total", of: server) == "2")
    }

    @Test("An unknown time is omitted from the metrics because a zero would mean 1970")
    func timesAreReportedIfTheyAreKnown() {
        func text(_ end: Int?, _ backup: Int?) -> String {
            let now = ServerMetrics.Now(
                writeQueue: 0,
                logBytes: 0,
                certificateEnd: end,
                lastBackup: backup
            )
            return String(
                decoding: ServerMetrics().text(now, traffic: ServerTraffic()),
                as: UTF8.self
            )
        }
        let known = text(1_800_000_000, 1_700_000_000)
        #expect(known.contains("\ntideline_certificate_end_seconds 1800000000\n"))
        #expect(known.contains("\ntideline_backup_last_seconds 1700000000\n"))
        let unknown = text(nil, nil)
        #expect(!unknown.contains("tideline_certificate") && !unknown.contains("tideline_backup"))
    }

    @Test("The metrics show the use of the process and its disk, and its limits")
    func useAndLimits() {
        var use = ProcessUse()
        func text(_ use: ProcessUse) -> String {
            var bounds = ServerMetrics.Bounds()
            bounds.connections = 11
            bounds.listeners = 12
            bounds.ledgerBytes = 13
            let now = ServerMetrics.Now(
                writeQueue: 0,
                logBytes: 0,
                certificateEnd: nil,
                lastBackup: nil,
                use: use,
                bounds: bounds
            )
            let bytes = ServerMetrics().text(now, traffic: ServerTraffic())
            return String(decoding: bytes, as: UTF8.self)
        }
        #expect(!text(use).contains("\nprocess_") && !text(use).contains("\ntideline_disk_"))
        use.memoryBytes = 1
        use.processorSeconds = 2.5
        use.descriptors = 3
        use.descriptorsMax = 4
        use.diskFreeBytes = 5
        use.diskBytes = 6
        let reported = text(use)
        for line in [
            "process_resident_memory_bytes 1", "process_cpu_seconds_total 2.5",
            "process_open_fds 3", "process_max_fds 4", "tideline_disk_free_bytes 5",
            "tideline_disk_bytes 6", "tideline_connections_max 11", "tideline_listeners_max 12",
            "tideline_ledger_bytes_max 13",
        ] {
            #expect(reported.contains("\n\(line)\n"), "\(line)")
        }
        let now = ProcessUse.now(disk: "/")
        #expect((now.memoryBytes ?? 0) > 1 << 20 && (now.descriptors ?? 0) > 2)
        #expect((now.diskBytes ?? 0) >= (now.diskFreeBytes ?? 0) && (now.diskBytes ?? 0) > 0)
        #expect(ProcessUse.now(disk: nil).diskBytes == nil)
    }

    @Test("The metrics count connections, restarts of reads and wrong clocks")
    func limitsAndClocks() async throws {
        let traffic = ServerTraffic()
        let clock = TestClock()
        let server = try await TestServer(clock: clock, traffic: traffic)
        for series in [
            "tideline_connections_evicted_total", "tideline_connections_limited_total",
            "tideline_caller_connections_max", "tideline_read_restarts_total",
            "tideline_table_clock_ahead_seconds", "tideline_wall_clock_doubted",
            "tideline_callers_limited_total", "tideline_slow_readers_total",
        ] {
            #expect(await value(series, of: server) == "0", "\(series)")
        }
        traffic.connectionsEvicted.add()
        traffic.connectionsLimited.add()
        for _ in 0..<3 { traffic.callerConnections.begin("10.0.0.1") }
        traffic.callerConnections.begin("10.0.0.2")
        #expect(await value("tideline_connections_evicted_total", of: server) == "1")
        #expect(await value("tideline_connections_limited_total", of: server) == "1")
        #expect(await value("tideline_caller_connections_max", of: server) == "3")
        // A write while the wall clock is ten days ahead.
        clock.move(by: 10 * 86_400_000_000)
        #expect(await server.send("POST", "/tables/TodoItem", "{}").status == 201)
        clock.move(by: -10 * 86_400_000_000)
        try await server.purge()
        let ahead = Double(await value("tideline_table_clock_ahead_seconds", of: server) ?? "") ?? 0
        #expect(ahead > 9 * 86_400, "\(ahead)")
    }

    @Test("Each metric has a help text and a type") func eachMetricHasAHelpText() async throws {
        let server = try await TestServer()
        _ = await server.send("GET", "/tables/TodoItem")
        let text = await server.send("GET", "/metrics").text
        let version = #"tideline_build_info{version="\#(ServerVersion.text)"} 1"#
        #expect(text.contains("\n" + version + "\n"))
        var helped: Set<Substring> = []
        var typed: [Substring: Substring] = [:]
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ")
            if line.hasPrefix("# HELP ") {
                #expect(helped.insert(words[2]).inserted && words.count > 4, "\(line)")
            } else if line.hasPrefix("# TYPE ") {
                typed[words[2]] = words[3]
            } else {
                var name = line.prefix { $0 != " " && $0 != "{" }
                for suffix in ["_bucket", "_sum", "_count"] where name.hasSuffix(suffix) {
                    let base = name.dropLast(suffix.count)
                    if typed[base] == "histogram" { name = base }
                }
                #expect(helped.contains(name) && typed[name] != nil, "\(line)")
                #expect(typed[name] != "counter" || name.hasSuffix("_total"), "\(line)")
            }
        }
        #expect(helped.count > 25)
    }
}
