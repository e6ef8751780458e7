// Backoff: how long push and pull wait between attempts.

/// How long to wait between attempts.
package enum Backoff {
    package static func delay(
        after attempt: Int,
        asked: Duration?,
        _ limits: SyncLimits
    ) -> Duration {
        let own = limits.retryDelayFirst * (1 << min(attempt - 1, 16))
        return min(max(own, asked ?? .zero), limits.retryDelayMax)
    }

    /// Whether the server asks for a longer wait than a push or pull lasts, so that it ends.
    package static func isTooLong(_ asked: Duration?, _ limits: SyncLimits) -> Bool {
        asked.map { $0 > limits.retryDelayMax } ?? false
    }

    /// Adds up to a quarter, so that devices that failed together do not return together.
    ///
    /// Never shorter: the server may have asked for the delay.
    package static func spread(_ delay: Duration, _ fraction: Double) -> Duration {
        delay * (1 + fraction / 4)
    }
}
