// CurlTransport: lets tasks use libcurl, whose work is done by CurlLoop on its own thread.
//
//     send() -> CurlInbox -> CurlLoop (thread) -> CurlTransfer -> CurlCall.finish
//
// A call is finished exactly once: by the loop, by its deadline, or by cancellation, whichever
// comes first. The deadline and the cancellation do not depend on the loop's thread, so a thread
// that hangs cannot block a caller.

#if canImport(CCurl)
import Foundation
import TidelineCore

/// A transport for Linux: libcurl on one thread, with persistent connections, over HTTP/1.1.
///
/// Calls from any number of tasks run concurrently, up to ``TransportLimits/callsMax``. Proxies are
/// taken from the environment (`https_proxy`, `no_proxy`), except for loopback. If a persistent
/// connection turns out to be dead before a response begins, libcurl resends the request on a new
/// connection, so a server can receive the request twice.
///
/// ```swift
/// let transport = CurlTransport(certificateAuthorities: "/etc/ssl/own.pem")
/// let client = SyncClient(endpoint: url, transport: transport)
/// ```
public final class CurlTransport: Transport {
    private let limits: TransportLimits
    private let inbox: CurlInbox
    private let watch = DeadlineWatch()

    /// Creates a transport and starts its thread, which ends when the transport is deallocated.
    ///
    /// - Parameters:
    ///   - limits: The limits in addition to the timeout of each request.
    ///   - certificateAuthorities: The path of a PEM file with certificate authorities to trust in
    ///     addition to the system's. TLS is always verified.
    public init(
        limits: TransportLimits = TransportLimits(),
        certificateAuthorities: String? = nil
    ) {
        self.limits = limits
        let multi = CurlMulti()
        let inbox = CurlInbox(multi)
        self.inbox = inbox
        Thread.detachNewThread {
            // The name is set from within the thread and has at most 15 characters; otherwise, the
            // system rejects it.
            Thread.current.name = "tideline.http"
            CurlLoop(multi, inbox: inbox, limits, certificateAuthorities)?.run()
        }
    }

    deinit {
        inbox.stop()
    }

    /// Sends a request; see ``Transport/send(_:)``.
    ///
    /// - Throws: ``TransportError``, with code `invalidRequest` if the request cannot be sent
    ///   unchanged, or `CancellationError`.
    public func send(_ request: TransportRequest) async throws -> TransportResponse {
        try Task.checkCancellation()
        try CurlOptions.check(request)
        return try await run(CurlCall(request))
    }

    /// Sends a request and returns its head; see ``Transport/stream(_:)``.
    ///
    /// - Throws: ``TransportError``, with code `invalidRequest` if the request cannot be sent
    ///   unchanged, or `CancellationError`.
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

    /// Runs a call until its response arrives, or, for a streamed call, until the head arrives.
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
