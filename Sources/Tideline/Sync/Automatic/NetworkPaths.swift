// NetworkPaths: whether the device has a network, on platforms that report it.
//
// On other platforms the retries of SyncMachine are the probe: a request to the server shows more
// than the state of the interfaces.

#if canImport(Network)
import Network

/// A source of changes of the device's network connection, as the system reports them.
enum NetworkPaths {
    /// Emits true when a network becomes available, and false when it is lost.
    static func changes() -> AsyncStream<Bool> {
        AsyncStream { continuation in
            let monitoring = Task {
                for await path in NWPathMonitor() { continuation.yield(path.status == .satisfied) }
                continuation.finish()
            }
            continuation.onTermination = { _ in monitoring.cancel() }
        }
    }
}
#else
/// A source of network changes for platforms that do not report them, which emits none.
enum NetworkPaths {
    /// Returns a stream that ends immediately.
    static func changes() -> AsyncStream<Bool> { AsyncStream { $0.finish() } }
}
#endif
