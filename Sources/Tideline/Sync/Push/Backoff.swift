// Backoff: the delays of push and pull between attempts.

/// The delays between two attempts.
package enum Backoff {
    package static func delay(
        after attempt: Int,
        asked: Duration?,
        _ limits: SyncLimits
    ) -> Duration {
        let own = limits.retryDelayFirst * (1 << min(attempt - 1, 16))
        return min(max(own, asked ?? .zero), limits.retryDelayMax)
    }

    /// Returns whether the delay that the server asks for is so long that the push or pull ends
    /// instead of waiting.
    package static func isTooLong(_ asked: Duration?, _ limits: SyncLimits) -> Bool {
        asked.map { $0 > limits.retryDelayMax } ?? false
    }

    /// Returns the delay with up to a quarter added as jitter, so that devices that failed together
    /// do not retry together.
    ///
    /// The delay is never shortened, because the server may have asked for it.
    package static func spread(_ delay: Duration, _ fraction: Double) -> Duration {
        delay * (1 + fraction / 4)
    }
}
