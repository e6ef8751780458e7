// Worlds: runs simulations on all cores, for any number of seeds.
//
//     swift run -c release worlds [--history | --failing | --relations | --rules] [FIRST] COUNT
//
// If a seed breaks a guarantee, its simulation is shrunk and its events are printed, and the program exits with 1.
// `--history` prints a digest of each simulation, which is the same in every process. `--failing` prints the broken
// guarantee of each seed, without shrinking it and without events. `--relations` simulates rows that refer to each
// other, and `--rules` those with rules for their columns.

import Foundation
import Synchronization
import TidelineTestKit

@main
struct Worlds {
    private static let usage =
        "usage: worlds [--history | --failing | --relations | --rules] [FIRST] COUNT"

    private enum Mode: String {
        case stories
        case history = "--history"
        case failing = "--failing"
        case relations = "--relations"
        case rules = "--rules"
    }

    static func main() {
        var arguments = Array(CommandLine.arguments.dropFirst())
        var mode = Mode.stories
        if let named = arguments.first.flatMap(Mode.init) {
            mode = named
            arguments.removeFirst()
        }
        let numbers = arguments.map { UInt64($0) }
        guard (1...2).contains(numbers.count), let count = numbers.last ?? nil,
            let first = numbers.count == 2 ? numbers.first ?? nil : 0,
            count > 0, !first.addingReportingOverflow(count).overflow
        else {
            print(usage)
            exit(2)
        }
        let start = ContinuousClock.now
        let broken = run(first..<(first + count), mode)
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        print("\(count) simulations from seed \(first) in \(Int(seconds)) s, \(broken) broken")
        exit(broken == 0 ? 0 : 1)
    }

    /// Runs the seeds and returns how many break a guarantee.
    private static func run(_ seeds: Range<UInt64>, _ mode: Mode) -> Int {
        let next = Mutex(seeds.lowerBound)
        let broken = Mutex(0)
        let threads = DispatchGroup()
        for _ in 0..<ProcessInfo.processInfo.activeProcessorCount {
            threads.enter()
            let thread = Thread {
                while let seed = take(next, seeds.upperBound) {
                    do {
                        let line = try line(of: seed, mode)
                        if let line { broken.withLock { _ in show(line) } }
                    } catch {
                        broken.withLock { count in
                            count += 1
                            show("\(error)")
                        }
                    }
                }
                threads.leave()
            }
            thread.stackSize = 8 << 20
            thread.start()
        }
        threads.wait()
        return broken.withLock { $0 }
    }

    /// Prints a line without buffering, even if the output is a file.
    private static func show(_ line: String) {
        FileHandle.standardOutput.write(Data((line + "\n").utf8))
    }

    /// Runs a simulation.
    ///
    /// - Returns: The line to print if it breaks no guarantee; nil for none.
    private static func line(of seed: UInt64, _ mode: Mode) throws -> String? {
        switch mode {
        case .stories:
            _ = try World(WorldPlan(seed: seed)).runShrinking()
            return nil
        case .failing:
            _ = try World(WorldPlan(seed: seed)).run()
            return nil
        case .relations:
            try RelationWorld(seed: seed).run()
            return nil
        case .rules:
            try RelationWorld(seed: seed, hasRules: true).run()
            return nil
        case .history:
            let report = try World(WorldPlan(seed: seed)).run()
            return "\(seed) \(report.requests) \(report.edits) \(report.history)"
        }
    }

    private static func take(_ next: borrowing Mutex<UInt64>, _ end: UInt64) -> UInt64? {
        next.withLock { seed in
            guard seed < end else { return nil }
            defer { seed += 1 }
            return seed
        }
    }
}
