// CallerQueries: counts and limits queries. A lock around a dictionary that contains only callers with at least one.

import Synchronization
import TidelineCore

/// The number of running queries of each caller.
package final class CallerQueries: Sendable {
    private let most: Int
    private let running = Mutex<[String: Int]>([:])

    /// Creates the counts; nil if queries are not limited.
    package init?(_ limits: ServerLimits) {
        guard limits.callerQueries > 0 else { return nil }
        most = limits.callerQueries
    }

    /// Admits another query, which must be ended with `end`; returns false if the caller has reached the limit.
    package func begin(_ caller: String) -> Bool {
        running.withLock { running in
            let count = running[caller, default: 0]
            guard count < most else { return false }
            running[caller] = count + 1
            return true
        }
    }

    package func end(_ caller: String) {
        running.withLock { running in
            let count = running[caller, default: 0]
            running[caller] = count > 1 ? count - 1 : nil
        }
    }
}

extension ServerError {
    static let queriesUnderWay = ServerError(
        429,
        "You have as many queries in progress as limits.callerQueries allows. Retry when one of them "
            + "has finished.",
        headers: ["Retry-After": "1"],
        code: .tooManyRequests
    )
}
