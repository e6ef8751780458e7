// MeasuredTransport: reports the size and duration of each call, for an app's own metrics.

import TidelineCore

/// The measurements for one call.
public struct CallMetrics: Sendable, Hashable {
    /// The scheme, host, and port, without path and query.
    public var origin: String
    /// The method, in uppercase.
    public var method: String
    /// The status of the response; nil if no response arrived.
    public var status: Int?
    /// The size of the request body, in bytes.
    public var sentBytes: Int
    /// The size of the decoded response body, in bytes; 0 for a stream.
    public var receivedBytes: Int
    /// The time from the call to the response, or for a stream, to the response head.
    public var duration: Duration

    /// Creates measurements, for use in an app's tests.
    public init(
        origin: String,
        method: String,
        status: Int? = nil,
        sentBytes: Int = 0,
        receivedBytes: Int = 0,
        duration: Duration = .zero
    ) {
        self.origin = origin
        self.method = method
        self.status = status
        self.sentBytes = sentBytes
        self.receivedBytes = receivedBytes
        self.duration = duration
    }
}

/// A transport that measures each call of another transport and reports the measurements.
///
/// ```swift
/// let transport = MeasuredTransport { metrics in
///     print(metrics.method, metrics.status ?? 0, metrics.duration)
/// }
/// let client = SyncClient(endpoint: url, transport: transport)
/// ```
public struct MeasuredTransport: Transport {
    private let inner: any Transport
    private let report: @Sendable (CallMetrics) -> Void

    /// Creates a transport that measures another transport, by default the platform's own.
    ///
    /// - Parameters:
    ///   - inner: The transport that carries the requests.
    ///   - report: A closure that is called at the end of each call, on any thread. It should
    ///     return quickly, because the call waits for it.
    public init(
        _ inner: (any Transport)? = nil,
        report: @escaping @Sendable (CallMetrics) -> Void
    ) {
        self.inner = inner ?? makeDefaultTransport()
        self.report = report
    }

    /// Sends a request; see ``Transport/send(_:)``.
    ///
    /// - Throws: The errors of the measured transport, after the report.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        try await measured(request) {
            try await inner.send(request)
        } measure: {
            ($0.status, $0.body.count)
        }
    }

    /// Sends a request and returns its head; see ``Transport/stream(_:)``.
    ///
    /// - Throws: The errors of the measured transport, after the report.
    public func stream(_ request: TransportRequest) async throws -> TransportStream {
        try await measured(request) {
            try await inner.stream(request)
        } measure: {
            ($0.status, 0)
        }
    }

    private func measured<Answer>(
        _ request: TransportRequest,
        _ call: () async throws -> Answer,
        measure: (Answer) -> (status: Int, bytes: Int)
    ) async throws -> Answer {
        var metrics = CallMetrics(
            origin: EndpointRules.name(of: request.url),
            method: request.method,
            status: nil,
            sentBytes: request.body?.count ?? 0,
            receivedBytes: 0,
            duration: .zero
        )
        let start = ContinuousClock.now
        defer {
            metrics.duration = .now - start
            report(metrics)
        }
        let answer = try await call()
        let (status, bytes) = measure(answer)
        (metrics.status, metrics.receivedBytes) = (status, bytes)
        return answer
    }
}
