// Waiting: waits until a condition is true, with a time limit.

import Foundation

/// Waits until a condition is true, while other tasks run.
///
/// - Throws: ``WaitTooLong`` if the limit is exceeded, so that a test fails instead of hanging.
package func until(
    within limit: Duration = .seconds(60),
    isolation: isolated (any Actor)? = #isolation,
    file: StaticString = #fileID,
    line: UInt = #line,
    _ condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + limit
    var turns = 0
    while try await !condition() {
        guard ContinuousClock.now < deadline else {
            throw WaitTooLong(place: "\(file):\(line)", limit: limit)
        }
        turns += 1
        // A loop without pauses would keep other tests from running.
        if turns > 20 { try? await Task.sleep(for: .milliseconds(1)) }
        await Task.yield()
    }
}

/// Returns whether a condition becomes true within a limit, for tests that retry if it does not.
package func becomesTrue(
    within limit: Duration,
    isolation: isolated (any Actor)? = #isolation,
    _ condition: () async throws -> Bool
) async throws -> Bool {
    do {
        try await until(within: limit, isolation: isolation, condition)
        return true
    } catch is WaitTooLong {
        return false
    }
}

/// Blocks the calling thread until a condition is true.
///
/// Do not call this function on a thread of the concurrency pool.
///
/// - Throws: ``WaitTooLong`` if the limit is exceeded.
package func blockingUntil(
    within limit: Duration = .seconds(60),
    file: StaticString = #fileID,
    line: UInt = #line,
    _ condition: () throws -> Bool
) throws {
    let deadline = ContinuousClock.now + limit
    while try !condition() {
        guard ContinuousClock.now < deadline else {
            throw WaitTooLong(place: "\(file):\(line)", limit: limit)
        }
        Thread.sleep(forTimeInterval: 0.001)
    }
}

/// An error for a condition that did not become true within its time limit.
package struct WaitTooLong: Error, CustomStringConvertible {
    let place: String
    let limit: Duration

    package var description: String { "the condition at \(place) did not hold within \(limit)" }
}
