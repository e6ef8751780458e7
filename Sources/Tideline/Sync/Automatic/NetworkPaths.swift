// NetworkPaths: reports whether the device has a network, on platforms that provide this
// information.
//
// On other platforms, the retries of SyncMachine take its place: a request to the server shows more
// than the state of the network interfaces.

#if canImport(Network)
import Network

/// A source of the network changes that the system reports.
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
/// A source of network changes that reports none, for platforms without this information.
enum NetworkPaths {
    /// Returns a stream that ends immediately.
    static func changes() -> AsyncStream<Bool> { AsyncStream { $0.finish() } }
}
#endif
