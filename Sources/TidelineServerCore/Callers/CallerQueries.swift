// CallerQueries: the number of running queries of each caller. A lock around a dictionary that contains
// only callers with at least one.

import Synchronization
import TidelineCore

package final class CallerQueries: Sendable {
    private let most: Int
    private let running = Mutex<[String: Int]>([:])

    /// Nil when nothing is bounded.
    package init?(_ limits: ServerLimits) {
        guard limits.callerQueries > 0 else { return nil }
        most = limits.callerQueries
    }

    /// Admits one more, which has to end; returns false if the caller has as many as are allowed.
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

extension TableService {
    /// Answers an admitted request; a request that reads counts as a query until then.
    func counting<Answer>(
        _ request: ServerRequest,
        _ user: User?,
        _ body: () async throws -> Answer
    ) async throws -> Answer {
        let reads = request.method == "GET" || request.path == Self.batchPath
        guard let queries, reads else { return try await body() }
        let caller = Self.callerName(request, user)
        guard queries.begin(caller) else {
            settings.traffic.tooMany.add()
            noteRefusal(.limits, caller)
            throw ServerError.queriesUnderWay
        }
        defer { queries.end(caller) }
        return try await body()
    }
}

extension ServerError {
    static let queriesUnderWay = ServerError(
        429,
        "You have as many queries under way as limits.callerQueries allows; try again when one of them "
            + "has ended.",
        headers: ["Retry-After": "1"],
        code: .tooManyRequests
    )
}
