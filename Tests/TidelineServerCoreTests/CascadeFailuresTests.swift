// CascadeFailuresTests: which pending cascades are tried after one of them failed.

import Testing
import TidelineServerCore

struct CascadeFailuresTests {
    private static let second: UInt64 = 1_000_000_000

    /// Runs the next step over some entries, of which some fail; returns what it has read, and when the next one is due.
    private func run(
        _ failures: inout CascadeFailures,
        at now: UInt64,
        of entries: [Int64],
        failing: Set<Int64>
    ) -> (places: [Int64], due: UInt64?) {
        var step = failures.step(at: now)
        let left = entries.filter { !step.skipped.contains($0) }
        step.places = Array(left.sorted(by: >).prefix(step.countMax))
        guard step.places.contains(where: failing.contains) else {
            failures.succeeded(at: now)
            return (step.places, nil)
        }
        return (step.places, failures.failed(step, at: now))
    }

    @Test("After a failure, each entry is tried alone, and the entry that fails is left out")
    func isolates() {
        var failures = CascadeFailures()
        let entries: [Int64] = [1, 2, 3, 4]
        #expect(run(&failures, at: 0, of: entries, failing: [3]) == ([4, 3, 2, 1], 0))
        #expect(run(&failures, at: 0, of: entries, failing: [3]).places == [4])
        #expect(run(&failures, at: 0, of: [1, 2, 3], failing: [3]) == ([3, 2], 0))
        #expect(run(&failures, at: 0, of: [1, 2, 3], failing: [3]) == ([3], 0))
        #expect(failures.due == Self.second)
        #expect(run(&failures, at: 0, of: [1, 2, 3], failing: [3]).places == [2])
    }

    @Test("The pause after a failure doubles up to a minute, and ends with a success")
    func pauses() {
        var failures = CascadeFailures()
        var now: UInt64 = 0
        for seconds: UInt64 in [1, 2, 4, 8, 16, 32, 64, 64] {
            #expect(run(&failures, at: now, of: [7], failing: [7]) == ([7], now))
            #expect(failures.due == now + seconds * Self.second)
            now += seconds * Self.second
        }
        #expect(run(&failures, at: now, of: [7], failing: []).places == [7])
        #expect(failures.due == nil)
    }

    @Test("A step that could read no entry is retried after a second")
    func unreadable() {
        var failures = CascadeFailures()
        var step = failures.step(at: 5)
        step.places = []
        #expect(failures.failed(step, at: 5) == 5 + Self.second)
        #expect(failures.due == nil)
    }
}
