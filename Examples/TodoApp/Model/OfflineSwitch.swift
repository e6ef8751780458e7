// OfflineSwitch: a transport that can be switched off to test an app without a network.

import Synchronization
public import Tideline

/// A transport that sends requests while it is on.
///
/// While it is off, every call fails as it does without a network.
public final class OfflineSwitch: Transport {
    private let inner: any Transport
    private let state = Mutex(true)

    /// Creates a switch that wraps a transport, or the platform's own transport if nil.
    public init(_ inner: (any Transport)? = nil) {
        #if canImport(Darwin)
        self.inner = inner ?? URLSessionTransport()
        #else
        self.inner = inner ?? CurlTransport()
        #endif
    }

    /// Whether there is a network.
    public var isOn: Bool {
        get { state.withLock { $0 } }
        set { state.withLock { $0 = newValue } }
    }

    /// Sends a request while there is a network.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        try checkIsOn()
        return try await inner.send(request)
    }

    /// Opens a stream while there is a network.
    public func stream(_ request: TransportRequest) async throws -> TransportStream {
        try checkIsOn()
        return try await inner.stream(request)
    }

    private func checkIsOn() throws {
        guard !isOn else { return }
        throw TransportError(.cannotConnect, "The app is offline.", outcomeIsUnknown: false)
    }
}
