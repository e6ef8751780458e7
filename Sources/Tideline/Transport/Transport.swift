// Transport: one HTTP call. What is sent and what it means is decided elsewhere.
//
// A transport does not retry by intention, follow redirects, keep cookies or cache. A lower
// layer may resend a request by itself when a kept connection turns out to be dead, so a
// server can get the same request twice: every write carries `If-Match` or a request id.

public import Foundation
public import TidelineCore

/// Sends HTTP requests.
///
/// Three implementations exist: ``CurlTransport``, `URLSessionTransport`, and the in-process
/// transport of the test kit, which calls the server's router without a socket.
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
    /// Any status is a response, also 3xx: redirects are not followed. The call ends by the
    /// request's own timeout, and at once when its task is cancelled.
    ///
    /// - Parameter request: What to send.
    /// - Returns: The response, whose body has arrived in full.
    /// - Throws: ``TransportError``, or `CancellationError` in a cancelled task. In the second
    ///   case the server may have got the request.
    func send(_ request: TransportRequest) async throws -> TransportResponse

    /// Sends a request and returns its response as soon as its head is there, for live updates.
    ///
    /// The request's timeout bounds the wait for the head. The body may go on for ever, and may be
    /// silent: neither the limit of the whole call nor that of slow calls holds for it.
    ///
    /// - Parameter request: What to send.
    /// - Returns: The head, and the body as it comes.
    /// - Throws: ``TransportError``, with code `unsupported` from a transport without streams, or
    ///   `CancellationError`.
    func stream(_ request: TransportRequest) async throws -> TransportStream
}

/// A request as a transport sends it.
public struct TransportRequest: Sendable {
    /// The method, in capitals.
    public var method: String

    /// Where to send the request: an absolute http or https URL.
    public var url: URL

    /// The header fields.
    ///
    /// `Content-Length`, `Host` and `Expect` are the transport's own.
    public var headers: HTTPFields

    /// The body; nil sends none, which for `POST`, `PUT` and `PATCH` is a body of length zero.
    public var body: [UInt8]?

    /// How long the whole call may take, a year at most.
    public var timeout: Duration

    /// Makes a request.
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

/// A response as it arrived, its body decoded.
///
/// A body that the server ends only by closing the connection cannot be checked for length;
/// the reader of its JSON finds the missing end.
public struct TransportResponse: Sendable {
    /// The status code.
    public var status: Int

    /// The header fields.
    ///
    /// `Content-Length` and `Content-Encoding` describe what was sent, the
    /// body is already decoded.
    public var headers: HTTPFields

    /// The body.
    public var body: [UInt8]

    /// Makes a response.
    public init(status: Int, headers: HTTPFields = [:], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }
}

/// The bounds of a transport, besides the timeout of each request.
public struct TransportLimits: Sendable {
    /// How long connecting may take, with name lookup and TLS: a call to a server that is not there
    /// ends after it.
    public var connectTimeout: Duration = .seconds(10)

    /// How long a call may stay under ``stallBytesPerSecond``.
    ///
    /// A server may think for this long before it answers: a call to a silent one ends after it.
    /// Less than six seconds count as six where libcurl is the transport.
    public var stallTimeout: Duration = .seconds(30)

    /// The speed under which a call counts as stalled.
    public var stallBytesPerSecond = 16

    /// The largest response body, decoded.
    ///
    /// A small compressed body can become a large one; the limit ends it.
    public var responseBytesMax = 64 << 20

    /// The most calls on the wire at once, at least one; the others wait within their own timeouts.
    ///
    /// Also the number of connections that are kept open.
    public var callsMax = 16

    /// The default bounds.
    public init() {}
}

/// The transport of this platform.
package func makeDefaultTransport() -> any Transport {
    #if canImport(Darwin)
    URLSessionTransport()
    #else
    CurlTransport()
    #endif
}
