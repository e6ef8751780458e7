// NetworkPaths: whether the device has a network, where the platform tells.
//
// Elsewhere the retries of SyncMachine are the probe: a request to the server itself says more
// than any look at interfaces.

#if canImport(Network)
import Network

enum NetworkPaths {
    /// True when a network comes, false when it goes.
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
enum NetworkPaths {
    /// Nothing is told.
    static func changes() -> AsyncStream<Bool> { AsyncStream { $0.finish() } }
}
#endif
