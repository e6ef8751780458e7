// Pulls with the algorithms of the original clients while rows are edited, inserted and deleted.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore
import TidelineTestKit

/// Other writers of the table.
private actor Writers {
    private let server: TestServer
    private let clock: TestClock
    private var dice: Dice
    private var count = 0

    init(_ server: TestServer, _ clock: TestClock, seed: UInt64) {
        self.server = server
        self.clock = clock
        dice = Dice(seed)
    }

    func fill(_ rows: Int) async {
        for _ in 0..<rows { await insert() }
    }

    private func insert() async {
        count += 1
        // Ids that do not follow the order of time.
        let id = "\((count * 7919) % 10007)"
        _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(id)","text":"a"}"#)
    }

    /// A few writes, after the time that a response takes to reach its client.
    func write(pause: Int64) async {
        clock.move(by: pause)
        for _ in 0..<dice.roll(6) {
            let id = "\(((1 + dice.roll(count)) * 7919) % 10007)"
            switch dice.roll(4) {
            case 0: await insert()
            case 1: _ = await server.send("DELETE", "/tables/TodoItem/\(id)")
            case 2: _ = await server.send("POST", "/tables/TodoItem/\(id)", classic: true)
            default: _ = await server.send("PATCH", "/tables/TodoItem/\(id)", #"{"text":"b"}"#)
            }
        }
        clock.move(by: pause)
    }
}

@Suite struct PullTests {
    /// The differences between device and server after three pulls during writes and one without.
    static func lost(
        _ algorithm: Device.Algorithm,
        seed: UInt64,
        step: Int64,
        pause: Int64,
        size: Int,
        rows: Int = 130
    ) async throws -> Lost {
        let clock = TestClock(step: step)
        let server = try await TestServer(clock: clock)
        let writers = Writers(server, clock, seed: seed)
        await writers.fill(rows)
        var device = Device(algorithm, server, size: size)
        for _ in 0..<3 {
            var pages = 0
            try await device.pull {
                pages += 1
                if pages < 12 { await writers.write(pause: pause) }
            }
        }
        try await device.pull()
        var stored: [String: String] = [:]
        let all = await server.send("GET", "/tables/TodoItem?$top=1000", classic: true)
        for row in all.rows { stored[row["id"] as? String ?? ""] = row["version"] as? String ?? "" }
        let ids = Set(stored.keys).union(device.rows.keys)
        return Lost(
            rows: stored.keys.filter { stored[$0] != device.rows[$0] }.sorted(),
            tombstones: ids.subtracting(stored.keys).sorted()
        )
    }

    /// The differences between a device and the server.
    struct Lost {
        /// The ids of rows that the device lacks or has in an older version.
        var rows: [String]
        /// The ids of rows that the device has and the server does not.
        var tombstones: [String]
    }

    /// A burst of writes creates 40 rows in a millisecond; a calm table has one row in each.
    ///
    /// Without a pause other writers write in the millisecond in which a page is served.
    @Test(
        "A pull during concurrent writes loses no row",
        arguments: Device.Algorithm.allCases,
        [(1, 1000), (1, 0), (200, 0), (1000, 1000)]
    )
    func noRowIsLost(_ algorithm: Device.Algorithm, _ times: (Int, Int)) async throws {
        for seed in TestScope.first(1, of: 1...3) {
            let lost = try await Self.lost(
                algorithm,
                seed: UInt64(seed),
                step: Int64(times.0),
                pause: Int64(times.1),
                size: 50
            )
            #expect(lost.rows.isEmpty, "seed \(seed): \(lost.rows)")
            // Its first pull requests no tombstones, so it misses those that are created while it pages.
            guard algorithm != .datasync6 else { continue }
            #expect(lost.tombstones.isEmpty, "seed \(seed): \(lost.tombstones)")
        }
    }

    /// A page may end within a millisecond, and rows that the client has read may leave that millisecond.
    @Test(
        "A pull with small pages loses no row during concurrent writes",
        arguments: Device.Algorithm.allCases,
        [(1, 1000), (1, 0), (200, 1000)]
    )
    func noRowIsLostBySmallPages(_ algorithm: Device.Algorithm, _ times: (Int, Int)) async throws {
        for seed in TestScope.first(1, of: 1...3) {
            let lost = try await Self.lost(
                algorithm,
                seed: UInt64(seed),
                step: Int64(times.0),
                pause: Int64(times.1),
                size: 10
            )
            #expect(lost.rows.isEmpty, "seed \(seed): \(lost.rows)")
        }
    }

    @Test(
        "The $skip option is an offset in a caller's filter that resembles that of a pull",
        arguments: [0, 20, 399]
    )
    func skipInOtherTimeFiltersIsAnOffset(_ from: Int) async throws {
        let server = try await TestServer(clock: TestClock(step: 100))
        for index in 0..<400 {
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"\#(1000 + index)"}"#)
        }
        let all = await server.send("GET", "/tables/TodoItem?$top=1000", classic: true).rows
        let since = try #require(all[from]["updatedAt"] as? String)
        let rest = all.filter { ($0["updatedAt"] as? String ?? "") >= since }
        for skip in [0, 1, 5, 9, 10, 40, 41, 100, 399, 1000] {
            let query = "$filter=updatedAt ge datetimeoffset'\(since)'&$orderby=updatedAt"
            let page = await server.send(
                "GET",
                "/tables/TodoItem?\(query)&$skip=\(skip)&$top=7",
                classic: true
            )
            #expect(
                page.ids == rest.dropFirst(skip).prefix(7).compactMap { $0["id"] as? String },
                "$skip=\(skip)"
            )
        }
    }

    /// Measures the figures in docs/differences.md, on demand.
    @Test(
        "The rows that pulls of the original clients lose are measured on demand",
        .enabled(if: ProcessInfo.processInfo.environment["MEASURE_PULLS"] != nil)
    )
    func measure() async throws {
        for algorithm in Device.Algorithm.allCases {
            for (step, pause, size) in [
                (1, 1000, 50), (1, 0, 50), (1, 1000, 10), (1000, 1000, 10), (1000, 0, 50),
                (200, 0, 50), (200, 1000, 10),
            ] {
                var rows = 0
                var tombstones = 0
                for seed in 1...60 {
                    let lost = try await Self.lost(
                        algorithm,
                        seed: UInt64(seed),
                        step: Int64(step),
                        pause: Int64(pause),
                        size: size
                    )
                    rows += lost.rows.count
                    tombstones += lost.tombstones.count
                }
                let settings = "\(algorithm) step \(step) pause \(pause) size \(size)"
                print("\(settings): \(rows) rows, \(tombstones) tombstones lost")
            }
        }
    }
}
