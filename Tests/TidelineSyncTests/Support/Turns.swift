// Turns and blocking: for closures that are not asynchronous.

import Foundation
import Synchronization

/// Counts calls.
final class Turns: Sendable {
    private let count = Mutex(0)

    func next() -> Int {
        count.withLock { count in
            count += 1
            return count
        }
    }
}

/// Runs asynchronous work to its end on another thread while this one waits.
func blocking(_ body: @escaping @Sendable () async throws -> Void) {
    let done = DispatchSemaphore(value: 0)
    Task.detached {
        try? await body()
        done.signal()
    }
    done.wait()
}
