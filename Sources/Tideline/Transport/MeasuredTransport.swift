// MeasuredTransport: tells what each call took, for an app's own metrics.

import TidelineCore

/// What one call took.
public struct CallMetrics: Sendable, Hashable {
    /// Scheme, host and port; nothing of the path or the query.
    public var origin: String
    /// The method, in capitals.
    public var method: String
    /// The status of the answer; nil where none came.
    public var status: Int?
    /// The bytes of the request's body.
    public var sentBytes: Int
    /// The bytes of the answer's body, decoded; 0 for a stream.
    public var receivedBytes: Int
    /// From the call to its answer, or to the head of a stream.
    public var duration: Duration

    /// What a call took: for tests of what an app does with it.
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

/// A transport that tells what each call of another one took.
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

    /// Measures a transport; the platform's own when nil.
    ///
    /// - Parameters:
    ///   - inner: What carries the requests.
    ///   - report: Called at the end of each call, on no particular thread. It should be brief: the
    ///     call waits for it.
    public init(
        _ inner: (any Transport)? = nil,
        report: @escaping @Sendable (CallMetrics) -> Void
    ) {
        self.inner = inner ?? makeDefaultTransport()
        self.report = report
    }

    /// Sends a request; see ``Transport/send(_:)``.
    ///
    /// - Throws: What the measured transport throws, after it was told.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        try await measured(request) {
            try await inner.send(request)
        } told: {
            ($0.status, $0.body.count)
        }
    }

    /// Sends a request and returns its head; see ``Transport/stream(_:)``.
    ///
    /// - Throws: What the measured transport throws, after it was told.
    public func stream(_ request: TransportRequest) async throws -> TransportStream {
        try await measured(request) {
            try await inner.stream(request)
        } told: {
            ($0.status, 0)
        }
    }

    private func measured<Answer>(
        _ request: TransportRequest,
        _ call: () async throws -> Answer,
        told: (Answer) -> (status: Int, bytes: Int)
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
        let (status, bytes) = told(answer)
        (metrics.status, metrics.receivedBytes) = (status, bytes)
        return answer
    }
}
