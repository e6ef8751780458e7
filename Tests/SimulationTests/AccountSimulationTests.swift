// Guarantee 10 in simulations from seeds: phones that several people share, one server with owners, and a bad network.
// No account's operation is sent by another account, and purged rows are not visible.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct AccountSimulationTests {
    @Test("No account sends or receives the data of another account")
    func noAccountSendsAnotherAccountsData() async throws {
        // Runs a single seed if TIDELINE_SEED names one.
        let seeds =
            SimulationTests.seeds.count == 1
            ? SimulationTests.seeds : TestScope.first(4, of: 0..<Self.count)
        let reports = try await Self.run(seeds.map { AccountWorld(seed: $0) })
        for (seed, report) in zip(seeds, reports) {
            #expect(report.foreign == [], "seed \(seed)")
            #expect(report.strangers == [], "seed \(seed)")
            #expect(report.wrong == [], "seed \(seed)")
        }
        guard seeds.count > 1 else { return }
        // The simulations cover all kinds of events.
        for what in [\AccountWorld.Report.purged, \.left, \.ended] {
            #expect(reports.map { $0[keyPath: what] }.reduce(0, +) > seeds.count)
        }
    }

    private static let count: UInt64 = 12

    @Test("A seed repeats its simulation of accounts") func aSeedRepeatsItsRun() async throws {
        let worlds = [AccountWorld(seed: 3)]
        #expect(try await Self.run(worlds) == Self.run(worlds))
    }

    @Test("The checker finds the rows of an account that were not purged")
    func aRowThatStaysIsDetected() async throws {
        let reports = try await Self.run((0..<2).map { AccountWorld(seed: $0, purges: false) })
        #expect(reports.contains { !$0.strangers.isEmpty })
        #expect(reports.allSatisfy { $0.foreign.isEmpty })
    }

    @Test("The checker finds data that is sent or returned under another account's token")
    func anotherAccountsOperationIsDetected() async throws {
        let echo = ScriptedTransport()
        echo.add(.json(200, #"{"id":"by-cleo-1"}"#))
        let gate = AccountGate(echo, seed: 0)
        gate.stopFaults()
        var headers = HTTPFields()
        headers["Authorization"] = "Bearer ben-token-1"
        let request = TransportRequest(
            method: "PATCH",
            url: Device.endpoint.appending(path: "tables/Todo/by-anna-1"),
            headers: headers,
            body: Array(#"{"text":"by-ben-p0-1"}"#.utf8)
        )
        _ = try await gate.send(request)
        var report = AccountWorld.Report()
        gate.add(to: &report)
        #expect(report.foreign == ["by-anna-1 under 'ben'", "by-cleo-1 under 'ben'"])
    }

    /// Runs on a separate thread, because a simulation would block one of Swift's thread pool.
    private static func run(_ worlds: [AccountWorld]) async throws -> [AccountWorld.Report] {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(
                    with: Result {
                        try worlds.map { world in
                            guard let report = try world.run() else { throw Stuck() }
                            return report
                        }
                    }
                )
            }
        }
    }

    private struct Stuck: Error {}
}
