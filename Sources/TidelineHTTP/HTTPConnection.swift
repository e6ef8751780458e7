// HTTPConnection: what the worker knows of one connection and of its request under way.
//
// One object serves all requests of a connection. The phases of each are
//
//     idle -> head -> body -> handling -> answering -> idle
//
// where a request that is refused early goes straight to `answering`.

import TidelineServerCore

// Sendable without a check because it is confined to the thread of its event loop: the worker
// creates, reads and changes it there only. A handler's task carries the reference along, and
// looks into it only after it has come back to the loop, which is the executor it prefers.
final class HTTPConnection: @unchecked Sendable {
    enum Phase {
        /// No request line of the next request has arrived.
        case idle
        /// The request line has arrived.
        case head
        /// The head was accepted.
        case body
        /// The handler's task runs; the library leaves the connection alone.
        case handling
        /// The library sends the answer.
        case answering
    }

    /// The library's connection; valid until the worker forgets this object.
    let handle: OpaquePointer
    let socket: Int32

    var phase = Phase.idle
    /// When the worker loses patience with the phase; nil where the library keeps the time.
    var deadline: ContinuousClock.Instant?
    /// When the whole request has to be here.
    var requestDeadline: ContinuousClock.Instant

    /// The method of the request line.
    var method = ""
    /// The name of the request; empty until its head was accepted.
    var id = ""
    /// The target of the request line; nil if it is not a valid one.
    var target: RequestTarget?
    /// Where the library has the end of the target, which must be the end of its text.
    var targetEnd: UnsafeRawPointer?
    /// The request while its body arrives.
    var request: ServerRequest?
    /// Whether the connection ends with this request.
    var isLast = false
    /// The bytes of body seen, kept or not.
    var bodyBytes = 0
    /// `bodyBytes` when the worker last saw that the library leaves bytes of the body unread.
    var stalledAt: Int?
    /// The answer that the library is about to ask for.
    var answer: ServerResponse?
    /// Whether the library leaves the connection alone.
    var isSuspended = false
    /// The handler's task.
    var task: Task<Void, Never>?
    /// Counts answers, so that a handler that was given up cannot answer a later request.
    var turn: UInt64 = 0

    init(handle: OpaquePointer, socket: Int32, now: ContinuousClock.Instant, limits: HTTPLimits) {
        self.handle = handle
        self.socket = socket
        deadline = now + limits.headerTimeMax
        requestDeadline = now + limits.requestTimeMax
    }

    /// The request line is here.
    func beginRequest(
        target: RequestTarget?,
        now: ContinuousClock.Instant,
        limits: HTTPLimits
    ) {
        self.target = target
        phase = .head
        if turn > 0 {  // Else the times count from the start of the connection.
            deadline = now + limits.headerTimeMax
            requestDeadline = now + limits.requestTimeMax
        }
    }

    /// The request is over, answered or not.
    func endRequest(now: ContinuousClock.Instant, limits: HTTPLimits) {
        phase = .idle
        deadline = now + limits.idleTimeMax
        turn += 1
        method = ""
        id = ""
        target = nil
        targetEnd = nil
        stalledAt = nil
        isSuspended = false
        request = nil
        isLast = false
        bodyBytes = 0
        answer = nil
        task?.cancel()
        task = nil
    }
}
