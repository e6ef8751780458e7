// StoreRetry: how long a reader waits before it tries to read an unavailable store again.

/// The delays between retries while a store cannot be read.
enum StoreRetry {
    /// Returns 0.1 s, doubled with each failure, and 5 s at most: the longest wait after the user unlocks the
    /// device.
    static func delay(after failures: Int) -> Duration {
        min(.milliseconds(100) * (1 << min(max(failures - 1, 0), 6)), .seconds(5))
    }
}
