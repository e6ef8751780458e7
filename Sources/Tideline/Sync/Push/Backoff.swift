// Backoff: how long push and pull wait between attempts.

/// The delays between attempts.
package enum Backoff {
    package static func delay(
        after attempt: Int,
        asked: Duration?,
        _ limits: SyncLimits
    ) -> Duration {
        let own = limits.retryDelayFirst * (1 << min(attempt - 1, 16))
        return min(max(own, asked ?? .zero), limits.retryDelayMax)
    }

    /// Whether the server asks for such a long delay that the push or pull ends instead of waiting.
    package static func isTooLong(_ asked: Duration?, _ limits: SyncLimits) -> Bool {
        asked.map { $0 > limits.retryDelayMax } ?? false
    }

    /// Adds up to a quarter as jitter, so that devices that failed together do not retry together.
    ///
    /// The delay is never shortened, because the server may have asked for it.
    package static func spread(_ delay: Duration, _ fraction: Double) -> Duration {
        delay * (1 + fraction / 4)
    }
}
