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
            let monitor = NWPathMonitor()
            monitor.pathUpdateHandler = { continuation.yield($0.status == .satisfied) }
            continuation.onTermination = { _ in monitor.cancel() }
            monitor.start(queue: .global(qos: .utility))
        }
    }
}
#else
enum NetworkPaths {
    /// Nothing is told.
    static func changes() -> AsyncStream<Bool> { AsyncStream { $0.finish() } }
}
#endif
