// Worlds: runs seeded worlds on all cores, for as many seeds as one likes.
//
//     swift run -c release worlds [FIRST] COUNT
//
// A seed that breaks a guarantee is made small and told as a story, and ends the program with 1.

import Foundation
import Synchronization
import TidelineTestKit

@main
struct Worlds {
    private static let usage = "usage: worlds [FIRST] COUNT"

    static func main() {
        let numbers = CommandLine.arguments.dropFirst().map { UInt64($0) }
        guard (1...2).contains(numbers.count), let count = numbers.last ?? nil,
            let first = numbers.count == 2 ? numbers.first ?? nil : 0,
            count > 0, !first.addingReportingOverflow(count).overflow
        else {
            print(usage)
            exit(2)
        }
        let start = ContinuousClock.now
        let broken = run(first..<(first + count))
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        print("\(count) worlds from seed \(first) in \(Int(seconds)) s, \(broken) broken")
        exit(broken == 0 ? 0 : 1)
    }

    /// How many of the seeds break a guarantee.
    private static func run(_ seeds: Range<UInt64>) -> Int {
        let next = Mutex(seeds.lowerBound)
        let broken = Mutex(0)
        let threads = DispatchGroup()
        for _ in 0..<ProcessInfo.processInfo.activeProcessorCount {
            threads.enter()
            let thread = Thread {
                while let seed = take(next, seeds.upperBound) {
                    do {
                        _ = try World(WorldPlan(seed: seed)).runShrinking()
                    } catch {
                        broken.withLock { count in
                            count += 1
                            print(error)
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

    private static func take(_ next: borrowing Mutex<UInt64>, _ end: UInt64) -> UInt64? {
        next.withLock { seed in
            guard seed < end else { return nil }
            defer { seed += 1 }
            return seed
        }
    }
}
