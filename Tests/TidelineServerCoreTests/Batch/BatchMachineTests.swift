// The next actions of a batch, as scripts of units and their outcomes.

import Testing
import TidelineServerCore

@Suite struct BatchMachineTests {
    /// A unit in a word: `w` is a write, `s` runs alone; the digits after it are its dependencies.
    private static func machine(_ words: String, continuing: Bool = false) -> BatchMachine {
        var units: [BatchUnit] = []
        for word in words.split(separator: " ") {
            var unit = BatchUnit(
                kind: word.first == "w" ? .write : .single,
                requests: units.count..<units.count + 1
            )
            unit.dependsOn = word.dropFirst().compactMap(\.wholeNumberValue)
            units.append(unit)
        }
        return BatchMachine(units, continuesOnError: continuing)
    }

    @Test("Adjacent writes of a batch run together, and reads separate them")
    func adjacentWritesRunTogetherAndReadsSplitThem() {
        var machine = Self.machine("w w s w")
        #expect(machine.next() == .write([0, 1]))
        machine.ended(0, .succeeded)
        machine.ended(1, .succeeded)
        #expect(machine.next() == .ask(2))
        machine.ended(2, .succeeded)
        #expect(machine.next() == .write([3]))
        machine.ended(3, .succeeded)
        #expect(machine.next() == .finish)
        #expect(machine.ends.allSatisfy { $0 == .succeeded })
    }

    @Test("No request of a batch is executed after the first failure")
    func nothingIsExecutedAfterTheFirstFailure() {
        var machine = Self.machine("w w w s w")
        #expect(machine.next() == .write([0, 1, 2]))
        machine.ended(0, .succeeded)
        machine.ended(1, .failed)
        #expect(machine.next() == .finish)
        #expect(machine.ends == [.succeeded, .failed, .notProcessed, .notProcessed, .notProcessed])
    }

    @Test("A failed read stops the batch") func aFailedReadStopsTheBatchToo() {
        var machine = Self.machine("s w")
        #expect(machine.next() == .ask(0))
        machine.ended(0, .failed)
        #expect(machine.next() == .finish)
        #expect(machine.ends == [.failed, .notProcessed])
    }

    @Test("Requests that depend on a failed one are skipped, and the rest continues")
    func requestsThatDependOnAFailureAreSkippedAndTheOthersContinue() {
        var machine = Self.machine("s w0 w w1 s2", continuing: true)
        #expect(machine.next() == .ask(0))
        machine.ended(0, .failed)
        #expect(machine.next() == .write([2]))
        machine.ended(2, .succeeded)
        #expect(machine.next() == .ask(4))
        machine.ended(4, .succeeded)
        #expect(machine.next() == .finish)
        #expect(
            machine.ends == [.failed, .dependencyFailed, .succeeded, .dependencyFailed, .succeeded]
        )
    }

    @Test("A write that depends on a failed adjacent write fails")
    func writesMayDependOnAdjacentWrites() {
        var machine = Self.machine("w w0 w1", continuing: true)
        #expect(machine.next() == .write([0, 1, 2]))
        machine.ended(0, .failed)
        #expect(machine.lacksDependency(1))
        #expect(machine.next() == .finish)
        #expect(machine.ends == [.failed, .dependencyFailed, .dependencyFailed])
    }

    @Test("Writes that were not tried are run again") func unitsThatWereNotTriedRunAgain() {
        var machine = Self.machine("w w0 w")
        #expect(machine.next() == .write([0, 1, 2]))
        machine.ended(0, .succeeded)
        #expect(machine.next() == .write([1, 2]))
        machine.ended(1, .succeeded)
        #expect(machine.next() == .write([2]))
        machine.ended(2, .succeeded)
        #expect(machine.next() == .finish)
    }

    @Test("An empty batch ends at once") func anEmptyBatchEndsAtOnce() {
        var machine = Self.machine("")
        #expect(machine.next() == .finish)
    }
}
