// StoreRetry: how long a reader waits for a store that cannot be read for a while.

/// The waits of readers while a store cannot be read.
enum StoreRetry {
    /// 0.1 s, doubled with each failure, and 5 s at most: a user who unlocks the device waits no longer.
    static func delay(after failures: Int) -> Duration {
        min(.milliseconds(100) * (1 << min(max(failures - 1, 0), 6)), .seconds(5))
    }
}
