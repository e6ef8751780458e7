// What a batch does next, by scripts of what became of its units.

import Testing
import TidelineServerCore

@Suite struct BatchMachineTests {
    /// A unit by a word: `w` writes, `s` is by itself; digits behind it are what it depends on.
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

    @Test func neighboursWriteTogetherAndReadsSplitThem() {
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

    @Test func nothingIsDoneAfterTheFirstFailure() {
        var machine = Self.machine("w w w s w")
        #expect(machine.next() == .write([0, 1, 2]))
        machine.ended(0, .succeeded)
        machine.ended(1, .failed)
        #expect(machine.next() == .finish)
        #expect(machine.ends == [.succeeded, .failed, .notProcessed, .notProcessed, .notProcessed])
    }

    @Test func aReadThatFailsStopsToo() {
        var machine = Self.machine("s w")
        #expect(machine.next() == .ask(0))
        machine.ended(0, .failed)
        #expect(machine.next() == .finish)
        #expect(machine.ends == [.failed, .notProcessed])
    }

    @Test func whatDependsOnAFailureIsLeftAndTheOthersGoOn() {
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

    @Test func writesMayDependOnThoseBesideThem() {
        var machine = Self.machine("w w0 w1", continuing: true)
        #expect(machine.next() == .write([0, 1, 2]))
        machine.ended(0, .failed)
        #expect(machine.lacksDependency(1))
        #expect(machine.next() == .finish)
        #expect(machine.ends == [.failed, .dependencyFailed, .dependencyFailed])
    }

    @Test func whatWasNotTriedComesAgain() {
        var machine = Self.machine("w w0 w")
        #expect(machine.next() == .write([0, 1, 2]))
        machine.ended(0, .succeeded)
        #expect(machine.next() == .write([1, 2]))
        machine.ended(1, .succeeded)
        #expect(machine.next() == .write([2]))
        machine.ended(2, .succeeded)
        #expect(machine.next() == .finish)
    }

    @Test func nothingIsNothing() {
        var machine = Self.machine("")
        #expect(machine.next() == .finish)
    }
}
