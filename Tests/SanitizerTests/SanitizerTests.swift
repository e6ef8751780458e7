// SanitizerTests: planted bugs that a sanitizer has to report, and locks that it has to support.
//
// The planted bugs run only if `scripts/sanitize --self-test` names them, which expects a report of
// each. The lock tests always run: a report of the thread sanitizer in them would be false, and would
// occur in all other tests, too.

import Dispatch
import Foundation
import Synchronization
import Testing

struct PlantedMistakes {
    static let planted = ProcessInfo.processInfo.environment["TIDELINE_PLANT"] ?? ""

    @Test(
        "The address sanitizer detects a read of freed memory",
        .enabled(if: planted == "address", "only to test the address sanitizer")
    )
    func memoryIsReadAfterItIsFreed() {
        let number = UnsafeMutablePointer<Int>.allocate(capacity: 1)
        number.initialize(to: 1)
        number.deallocate()
        #expect(number.pointee != Int.min)
    }

    @Test(
        "The thread sanitizer detects writes without a lock",
        .enabled(if: planted == "thread", "only to test the thread sanitizer")
    )
    func threadsWriteWithoutALock() {
        let counter = Counter()
        onThreads { counter.unguarded += 1 }
        #expect(counter.unguarded > 0)
    }
}

struct KnownLocks {
    @Test("A mutex protects a counter under contention") func mutexGuardsUnderContention() {
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

    @Test("A releasing store makes earlier writes visible to an acquiring load")
    func atomicHandsOver() {
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
    // Unsafe because some tests above access it without the lock, on purpose.
    nonisolated(unsafe) var unguarded = 0
}

private let threads = 4
private let rounds = 2_000
private let total = threads * rounds

/// Calls `body` in many rounds on several threads, with occasional pauses.
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
