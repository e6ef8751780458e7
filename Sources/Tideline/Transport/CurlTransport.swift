// CurlTransport: the door to libcurl for tasks. The work is done by CurlLoop on its thread.
//
//     send() -> CurlInbox -> CurlLoop (thread) -> CurlTransfer -> CurlCall.finish
//
// A call is finished once, by whoever comes first: the loop, its deadline or its cancellation.
// The last two do not need the loop's thread, so a thread that is stuck cannot hold a caller.

#if canImport(CCurl)
import Foundation
import TidelineCore

/// The transport of Linux: libcurl on one thread, with kept connections, over HTTP/1.1.
///
/// Calls from any number of tasks are served at once, up to ``TransportLimits/callsMax``.
/// Proxies are taken from the environment (`https_proxy`, `no_proxy`), except for loopback.
/// When a kept connection turns out to be dead before any response, libcurl sends the request
/// again on a new one: a server can get it twice.
///
/// ```swift
/// let transport = CurlTransport(certificateAuthorities: "/etc/ssl/own.pem")
/// let client = SyncClient(endpoint: url, transport: transport)
/// ```
public final class CurlTransport: Transport {
    private let limits: TransportLimits
    private let inbox: CurlInbox
    private let watch = DeadlineWatch()

    /// Starts the thread of a new transport; it ends with the transport.
    ///
    /// - Parameters:
    ///   - limits: The bounds besides the timeout of each request.
    ///   - certificateAuthorities: The path of a PEM file with certificates of authorities that are
    ///     trusted beside those of the system. TLS is always verified.
    public init(
        limits: TransportLimits = TransportLimits(),
        certificateAuthorities: String? = nil
    ) {
        self.limits = limits
        let multi = CurlMulti()
        let inbox = CurlInbox(multi)
        self.inbox = inbox
        Thread.detachNewThread {
            // Named from within, in 15 characters: else the system does not take the name.
            Thread.current.name = "tideline.http"
            CurlLoop(multi, inbox: inbox, limits, certificateAuthorities)?.run()
        }
    }

    deinit {
        inbox.stop()
    }

    /// Sends a request; see ``Transport/send(_:)``.
    ///
    /// - Throws: ``TransportError``, with code `invalidRequest` for what cannot be sent as it is,
    ///   or `CancellationError`.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        try Task.checkCancellation()
        try CurlOptions.check(request)
        return try await run(CurlCall(request))
    }

    /// Sends a request and returns its head; see ``Transport/stream(_:)``.
    ///
    /// - Throws: ``TransportError``, with code `invalidRequest` for what cannot be sent as it is,
    ///   or `CancellationError`.
    public func stream(_ request: TransportRequest) async throws -> TransportStream {
        try Task.checkCancellation()
        try CurlOptions.check(request)
        let (bytes, continuation) = AsyncThrowingStream.makeStream(
            of: [UInt8].self,
            bufferingPolicy: .bufferingOldest(TransportStream.piecesMax)
        )
        let call = CurlCall(request, sink: CurlSink(continuation))
        continuation.onTermination = { [inbox] _ in inbox.abandon(call) }
        let head = try await run(call)
        return TransportStream(status: head.status, headers: head.headers, bytes: bytes)
    }

    /// Runs a call to its answer, or to the head of a streamed one.
    private func run(_ call: CurlCall) async throws -> TransportResponse {
        let id = watch.add(call.deadline) { [inbox] in
            call.expire()
            inbox.abandon(call)
        }
        defer { watch.remove(id) }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                call.attach(continuation)
                inbox.submit(call)
            }
        } onCancel: {
            call.finish(.failure(CancellationError()))
            inbox.abandon(call)
        }
    }
}
#endif
