// SyncBounds: what callers may ask for, within what can be counted and waited for.

extension Duration {
    /// At least nothing and at most a year: timers cannot count `.seconds(.max)`.
    var clampedForTimers: Duration { min(max(self, .zero), .seconds(365 * 86_400)) }
}

extension SyncLimits {
    /// The same limits, each within what the client can count.
    var clamped: SyncLimits {
        var limits = self
        for limit in [\SyncLimits.batchRowsFirst, \.batchRowsMax, \.pageRowsFirst, \.pageRowsMax] {
            limits[keyPath: limit] = min(max(1, self[keyPath: limit]), Self.rowsMax)
        }
        for limit in [
            \SyncLimits.attemptsMax, \.conflictsMax, \.batchBytesMax, \.transactionRowsMax,
            \.transactionBytesMax, \.compressedBatchBytesMin, \.lostBatchesMax,
            \.parallelOperations,
            \.storedRowsMax, \.storedBytesMax, \.pageRowsSmall, \.pagesMax, \.handedOutRowsMax,
            \.handedOutVersionsMax,
        ] {
            limits[keyPath: limit] = min(max(0, self[keyPath: limit]), Self.countMax)
        }
        for limit in [
            \SyncLimits.retryDelayFirst, \.retryDelayMax, \.requestTimeMax, \.batchRetryTime,
            \.pageTimeWanted, \.observeInterval, \.liveSilenceMax,
        ] {
            limits[keyPath: limit] = self[keyPath: limit].clampedForTimers
        }
        return limits
    }

    /// The most rows of a batch or a page.
    private static let rowsMax = 1_000_000
    /// The most of anything else.
    private static let countMax = 1 << 40
}

extension SyncPolicy {
    /// The same policy with times that timers can count, and a rest between two syncs.
    var clamped: SyncPolicy {
        var policy = self
        policy.debounce = debounce.clampedForTimers
        policy.interval = interval.map { max($0.clampedForTimers, .seconds(1)) }
        policy.retryFirst = max(retryFirst.clampedForTimers, .milliseconds(1))
        policy.retryMax = max(retryMax.clampedForTimers, .milliseconds(1))
        return policy
    }
}
