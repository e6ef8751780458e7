// SanitizerTests: planted mistakes that a sanitizer has to find, and locks that it has to know.
//
// The mistakes run only when `scripts/sanitize --self-test` names them, and it demands that they
// are reported. The locks run with all tests: a report of the thread sanitizer there is false, and
// would be in every other test too.

import Dispatch
import Foundation
import Synchronization
import Testing

struct PlantedMistakes {
    static let planted = ProcessInfo.processInfo.environment["TIDELINE_PLANT"] ?? ""

    @Test(.enabled(if: planted == "address", "only to try the address sanitizer"))
    func memoryIsReadAfterItIsFreed() {
        let number = UnsafeMutablePointer<Int>.allocate(capacity: 1)
        number.initialize(to: 1)
        number.deallocate()
        #expect(number.pointee != Int.min)
    }

    @Test(.enabled(if: planted == "thread", "only to try the thread sanitizer"))
    func threadsWriteWithoutALock() {
        let counter = Counter()
        onThreads { counter.unguarded += 1 }
        #expect(counter.unguarded > 0)
    }
}

struct KnownLocks {
    @Test func mutexGuardsUnderContention() {
        let counter = Counter()
        onThreads {
            counter.lock.withLock { count in
                count += 1
                counter.unguarded += 1
            }
        }
        let count = counter.lock.withLock { $0 }
        #expect(count == total)
        #expect(counter.unguarded == total)
    }

    @Test func atomicHandsOver() {
        let counter = Counter()
        Thread.detachNewThread {
            counter.unguarded = 1
            counter.isDone.store(true, ordering: .releasing)
        }
        for _ in 0..<600_000 where !counter.isDone.load(ordering: .acquiring) { usleep(100) }
        #expect(counter.unguarded == 1)
    }
}

private final class Counter: Sendable {
    let lock = Mutex(0)
    let isDone = Atomic(false)
    // What the tests above guard, or leave unguarded.
    nonisolated(unsafe) var unguarded = 0
}

private let threads = 4
private let rounds = 2_000
private let total = threads * rounds

/// Calls `body` in many rounds on each of some threads, and now and then longer ones.
private func onThreads(_ body: @escaping @Sendable () -> Void) {
    let group = DispatchGroup()
    for _ in 0..<threads {
        group.enter()
        Thread.detachNewThread {
            for round in 0..<rounds {
                body()
                if round.isMultiple(of: 100) { usleep(10) }
            }
            group.leave()
        }
    }
    group.wait()
}
