// StoreRetry: the delays of a reader that retries an unavailable store.

/// The delays between retries while a store is unavailable.
enum StoreRetry {
    /// Returns 0.1 s, doubled after each failure up to 5 s, which is the longest wait after the
    /// user unlocks the device.
    static func delay(after failures: Int) -> Duration {
        min(.milliseconds(100) * (1 << min(max(failures - 1, 0), 6)), .seconds(5))
    }
}
