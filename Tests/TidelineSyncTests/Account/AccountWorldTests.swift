// Guarantee 10 in seeded worlds: phones that several people share, one server with owners, a bad
// network. No operation of one account is sent by another, and who took their rows along is not seen.

import Foundation
import Testing
import Tideline
import TidelineCore

@Suite struct AccountWorldTests {
    @Test func nobodysDataUnderAnothersName() async throws {
        // One alone where TIDELINE_SEED names it.
        let seeds = WorldTests.seeds.count == 1 ? WorldTests.seeds : Array(0..<Self.count)
        let reports = try await Self.run(seeds.map { AccountWorld(seed: $0) })
        for (seed, report) in zip(seeds, reports) {
            #expect(report.foreign == [], "seed \(seed)")
            #expect(report.strangers == [], "seed \(seed)")
            #expect(report.wrong == [], "seed \(seed)")
        }
        guard seeds.count > 1 else { return }
        // The worlds have what they are to show.
        for what in [\AccountWorld.Report.purged, \.left, \.ended] {
            #expect(reports.map { $0[keyPath: what] }.reduce(0, +) > seeds.count)
        }
    }

    private static let count: UInt64 = 12

    @Test func aSeedRepeats() async throws {
        let worlds = [AccountWorld(seed: 3)]
        #expect(try await Self.run(worlds) == Self.run(worlds))
    }

    /// Where nobody takes their rows along they are seen.
    @Test func aRowThatStaysIsNoticed() async throws {
        let reports = try await Self.run((0..<2).map { AccountWorld(seed: $0, purges: false) })
        #expect(reports.contains { !$0.strangers.isEmpty })
        #expect(reports.allSatisfy { $0.foreign.isEmpty })
    }

    /// What comes under another's token is seen, and what goes to another.
    @Test func aForeignOperationIsNoticed() async throws {
        let echo = ScriptedTransport()
        echo.add(.json(200, #"{"id":"by-cleo-1"}"#))
        let gate = AccountGate(echo, seed: 0)
        gate.mend()
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

    /// On a thread of its own: a world would keep one of Swift's pool busy.
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
