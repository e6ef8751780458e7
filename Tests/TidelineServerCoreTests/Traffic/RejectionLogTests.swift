// RejectionLogTests: rejected callers are named in one line a minute.

import Testing
import TidelineServerCore

@Suite struct RejectionLogTests {
    private static let second: Int64 = 1_000_000

    @Test(
        "The first rejection is logged at once, and a line names the top caller a minute later"
    )
    func aLineAMinute() {
        let notes = RejectionLog()
        let first = notes.note(.tokens, "address a", now: 0)
        #expect(first == RejectionLog.Line(caller: "address a", count: 1, ofCaller: 1))
        for number in 1..<60 {
            let caller = number % 3 == 0 ? "address a" : "address b"
            #expect(notes.note(.tokens, caller, now: Int64(number) * Self.second) == nil)
        }
        // Each kind has separate lines.
        #expect(notes.note(.limits, "user anna", now: 30 * Self.second) != nil)
        let next = notes.note(.tokens, "address c", now: 60 * Self.second)
        #expect(next == RejectionLog.Line(caller: "address b", count: 60, ofCaller: 40))
        #expect(notes.note(.tokens, "address c", now: 61 * Self.second) == nil)
    }

    @Test("A wall clock that steps back delays no line")
    func aClockThatStepsBack() {
        let notes = RejectionLog()
        _ = notes.note(.limits, "a", now: 100 * Self.second)
        #expect(notes.note(.limits, "a", now: 50 * Self.second) != nil)
    }

    @Test("The server reports the memory, processor time, descriptors and disk of its process")
    func processUse() {
        let use = ProcessUse.now(disk: "/")
        #expect((use.memoryBytes ?? 0) > 1 << 20 && (use.processorSeconds ?? 0) > 0)
        #expect((use.descriptors ?? 0) > 2 && (use.descriptorsMax ?? 0) >= (use.descriptors ?? 0))
        #expect((use.diskBytes ?? 0) > 0 && use.diskFreeBytes != nil)
        #expect(ProcessUse.now(disk: nil).diskBytes == nil)
    }
}
