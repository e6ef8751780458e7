// CallerCounts: counts by caller. A lock around a dictionary that contains only callers with at least one.

import Synchronization
import TidelineCore

/// The number of connections or streams of each caller.
package final class CallerCounts: Sendable {
    private let counts = Mutex<[String: Int]>([:])

    package init() {}

    /// Increments the count of a caller.
    ///
    /// - Returns: The new count.
    @discardableResult
    package func begin(_ caller: String) -> Int {
        counts.withLock { counts in
            counts[caller, default: 0] += 1
            return counts[caller, default: 0]
        }
    }

    package func end(_ caller: String) { add(-1, of: caller) }

    /// Adds to the count of a caller.
    package func add(_ amount: Int, of caller: String) {
        counts.withLock { counts in
            let count = counts[caller, default: 0] + amount
            counts[caller] = count > 0 ? count : nil
        }
    }

    /// Returns the count of a caller.
    package func count(of caller: String) -> Int { counts.withLock { $0[caller, default: 0] } }

    /// The caller with the highest count, and that count.
    package var most: (caller: String, count: Int)? {
        counts.withLock { $0.max { $0.value < $1.value }.map { ($0.key, $0.value) } }
    }
}

/// A log of the limits that are reached.
///
/// It has at most one line a minute for each limit, with the caller that uses most of it.
package final class LimitWarnings: Sendable {
    private struct State {
        var log = ServerLog.silent
        /// When each limit may be logged next, in microseconds of the steady clock.
        var due: [String: Int64] = [:]
    }

    private static let pause: Int64 = 60_000_000

    private let state = Mutex(State())
    private let steady: @Sendable () -> Int64

    package init(steady: @escaping @Sendable () -> Int64 = ServerEnvironment.steadyClock) {
        self.steady = steady
    }

    /// Uses this log from now on.
    package func begin(_ log: ServerLog) { state.withLock { $0.log = log } }

    /// Records that a limit is reached.
    ///
    /// - Parameters:
    ///   - limit: The key of the configuration.
    ///   - caller: Returns the caller to log, with its count; called only if a line is due.
    package func reached(_ limit: String, _ caller: () -> (caller: String, count: Int)?) {
        let now = steady()
        let log = state.withLock { state -> ServerLog? in
            guard now >= state.due[limit] ?? .min else { return nil }
            state.due[limit] = now + Self.pause
            return state.log
        }
        guard let log else { return }
        let most = caller() ?? ("", 0)
        log.write(
            .warning,
            "limit reached; this caller uses the largest share",
            ["limit": "limits." + limit, "caller": most.caller, "count": "\(most.count)"]
        )
    }
}
