// Transport: sends one HTTP request. Other types decide what to send and what the response means.
//
// A transport does not retry on purpose, follow redirects, keep cookies, or cache. A lower layer
// may resend a request if a persistent connection turns out to be dead, so a server can receive the
// same request twice. Therefore, every write carries `If-Match` or a request id.

public import Foundation
public import TidelineCore

/// A sender of HTTP requests.
///
/// There are three implementations: ``CurlTransport``, `URLSessionTransport`, and the test kit's
/// in-process transport, which calls the server's router without a socket.
///
/// ```swift
/// struct Labelled: Transport {
///     let inner: any Transport
///
///     func send(_ request: TransportRequest) async throws -> TransportResponse {
///         var request = request
///         request.headers["X-App"] = "todo"
///         return try await inner.send(request)
///     }
/// }
/// ```
public protocol Transport: Sendable {
    /// Sends a request and returns the complete response.
    ///
    /// Any status is a response, including 3xx, because redirects are not followed. The call ends
    /// no later than the request's timeout, and immediately if its task is cancelled.
    ///
    /// - Parameter request: The request to send.
    /// - Returns: The response with its complete body.
    /// - Throws: ``TransportError``, or `CancellationError` if the task is cancelled. After a
    ///   cancellation, the server may have received the request.
    func send(_ request: TransportRequest) async throws -> TransportResponse

    /// Sends a request and returns the response as soon as its head arrives, for live updates.
    ///
    /// The request's timeout limits only the wait for the head. The body may never end, and may
    /// pause for any length of time, because neither the request's timeout nor the stall timeout
    /// applies to it.
    ///
    /// - Parameter request: The request to send.
    /// - Returns: The response head, and the body as a stream.
    /// - Throws: ``TransportError``, with code `unsupported` if the transport does not support
    ///   streams, or `CancellationError`.
    func stream(_ request: TransportRequest) async throws -> TransportStream
}

/// A request that a transport sends.
public struct TransportRequest: Sendable {
    /// The method, in uppercase.
    public var method: String

    /// The destination: an absolute http or https URL.
    public var url: URL

    /// The header fields.
    ///
    /// The transport sets `Content-Length`, `Host`, and `Expect` itself.
    public var headers: HTTPFields

    /// The body.
    ///
    /// If nil, there is no body; `POST`, `PUT`, and `PATCH` then send a body of length zero.
    public var body: [UInt8]?

    /// The timeout for the whole call, at most one year.
    public var timeout: Duration

    /// Creates a request.
    public init(
        method: String = "GET",
        url: URL,
        headers: HTTPFields = [:],
        body: [UInt8]? = nil,
        timeout: Duration = .seconds(60)
    ) {
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.timeout = timeout
    }
}

/// A response with its decoded body.
///
/// If the server marks the end of a body only by closing the connection, the transport cannot check
/// the length. In that case, the JSON parser detects a truncated body.
public struct TransportResponse: Sendable {
    /// The status code.
    public var status: Int

    /// The header fields.
    ///
    /// `Content-Length` and `Content-Encoding` describe the body as it was sent; `body` is
    /// already decoded.
    public var headers: HTTPFields

    /// The body.
    public var body: [UInt8]

    /// Creates a response.
    public init(status: Int, headers: HTTPFields = [:], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }
}

/// The limits of a transport, in addition to each request's timeout.
public struct TransportLimits: Sendable {
    /// The timeout for connecting, including name lookup and TLS; a call to an unreachable server
    /// ends after this time.
    public var connectTimeout: Duration = .seconds(10)

    /// The longest time for which a call may stay below ``stallBytesPerSecond``.
    ///
    /// This is also the longest time that a server may take to respond. With libcurl, the minimum
    /// is six seconds.
    public var stallTimeout: Duration = .seconds(30)

    /// The speed below which a call counts as stalled, in bytes per second.
    public var stallBytesPerSecond = 16

    /// The maximum size of a decoded response body, in bytes.
    ///
    /// The limit therefore also applies to a small compressed body that expands to a large one.
    public var responseBytesMax = 64 << 20

    /// The maximum number of concurrent calls, at least one.
    ///
    /// Further calls wait; the wait counts toward their timeouts.
    ///
    /// This is also the number of connections that are kept open.
    public var callsMax = 16

    /// Creates the default limits.
    public init() {}
}

/// Creates the default transport of this platform.
package func makeDefaultTransport() -> any Transport {
    #if canImport(Darwin)
    URLSessionTransport()
    #else
    CurlTransport()
    #endif
}
