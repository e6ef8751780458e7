// HTTPConnection: the worker's state of one connection and of its current request.
//
// One object serves all requests of a connection. Its phases are
//
//     (handshaking ->) reading -> handling -> answering -> reading … -> lingering -> closed
//
// where a request that is refused goes straight from reading to answering, and one for a stream
// from handling to streaming and from there to answering, when the server ends it.

import TidelineServerCore
import TidelineTLS

// Sendable without a check because it is confined to the thread of its event loop: the worker
// creates, reads and changes it only there. A handler's task carries the reference along and uses
// it only after it has returned to the loop, which is the executor it prefers.
final class HTTPConnection: @unchecked Sendable {
    enum Phase {
        /// Client and server negotiate keys; only with TLS.
        case handshaking
        /// A request arrives, or none has begun.
        case reading
        /// The handler's task runs; nothing is read.
        case handling
        /// The answer is being sent; no request is read.
        case answering
        /// The answer continues for as long as both sides want; nothing is read.
        case streaming
        /// The last answer is sent; bytes that still arrive are dropped.
        case lingering
        case closed
    }

    /// The limit that a connection exceeds.
    enum Excess {
        case connections
        case callerConnections
    }

    /// The part of an answer that the socket has not taken yet.
    struct Output {
        var head: [UInt8]
        var body: [UInt8]
        var sent: Int
        /// The memory reservation of the answer.
        var share: AnswerShare?
        /// The number of bytes that were sent and released.
        var dropped = 0
        /// How fast the peer reads; nil as long as the system took all the bytes it was given.
        var pace: ReadPace?

        var left: Int { head.count + body.count - sent }
    }

    /// The number of bytes of the answer that the system has not taken.
    var bytesLeft: Int { output?.left ?? 0 }

    let socket: Int32
    /// The IP address of the peer.
    let address: String
    /// The TLS session that reads and writes go through; nil for plain HTTP.
    var tls: TLSSession?

    var phase: Phase
    var parser: RequestParser
    /// The ID of the current request; empty until it has one.
    var id = ""
    /// The address that the current request comes from if a proxy sends it; empty until it is
    /// complete.
    var caller = ""
    /// When the current phase times out.
    var deadline: ContinuousClock.Instant
    /// The deadline for the complete request, and later for sending the complete answer.
    var wholeDeadline: ContinuousClock.Instant
    /// Whether the deadlines count for a request that has begun.
    var isTimed = true

    /// Whether the loop continues with the connection without an event of its socket.
    var isPostponed = false
    /// Whether a read may return bytes; the system reports when that becomes true.
    var mayRead = false
    /// Whether the peer has sent its last byte, which a short read does not reveal.
    var isEnding = false
    /// When the handler got the request.
    var handlingSince = ContinuousClock.now
    /// Whether the peer has disconnected.
    var isGone = false
    /// When the connection last became idle.
    var idleSince: ContinuousClock.Instant
    /// Why requests on the connection are rejected, except health checks.
    var excess: Excess?
    /// The caller that its stream counts for.
    var listensFor = ""
    /// The address that the connection counts for; empty for a trusted proxy.
    var countedFor = ""
    /// Whether the server has tested if a peer that has sent its last byte still reads.
    var wasAsked = false
    /// The bytes of the current request, and of those received after it, as the worker has counted
    /// them.
    var heldBytes = 0
    /// The caller that these bytes count for; empty for none.
    var heldFor = ""
    /// Bytes that were read together with a request; those from `unreadStart` on come after it.
    var unread: [UInt8] = []
    var unreadStart = 0

    /// The number of bytes that arrived after the last answer.
    var dropped = 0

    var output: Output?
    /// The listener of a stream.
    var listener: EventListener?
    /// Whether the loop will send events to the stream without an event of its socket.
    var isDue = false
    /// Whether the connection ends with this answer.
    var isLast = false
    /// The handler's task.
    var task: Task<Void, Never>?
    /// Counts answers, so that a handler that timed out cannot answer a later request.
    var turn: UInt64 = 0

    init(
        socket: Int32,
        address: String,
        tls: TLSSession?,
        now: ContinuousClock.Instant,
        limits: HTTPLimits
    ) {
        self.socket = socket
        self.address = address
        self.tls = tls
        idleSince = now
        phase = tls == nil ? .reading : .handshaking
        parser = Self.parser(limits)
        // The time of the first request counts from here, because the peer connected to send it.
        deadline = now + (tls == nil ? limits.headerTimeMax : limits.handshakeTimeMax)
        wholeDeadline = now + limits.requestTimeMax
    }

    /// Ends the handshake; the first request follows.
    func handshakeEnded(now: ContinuousClock.Instant, limits: HTTPLimits) {
        phase = .reading
        // The request may have arrived already, and the system does not report that again.
        mayRead = true
        deadline = now + limits.headerTimeMax
        wholeDeadline = now + limits.requestTimeMax
    }

    /// Whether the connection has no request.
    var hasNoRequest: Bool {
        phase == .handshaking || phase == .reading && !parser.hasBegun
    }

    /// Prepares for the next request.
    func startOver(now: ContinuousClock.Instant, limits: HTTPLimits) {
        phase = .reading
        parser = Self.parser(limits)
        id = ""
        caller = ""
        deadline = now + limits.idleTimeMax
        idleSince = now
        isTimed = false
        wasAsked = false
    }

    /// Flags the changed tables that the listener watches; returns false if there are none.
    func hear(_ changed: [Bool]) -> Bool {
        listener?.mark(changed)
        return listener?.isPending == true
    }

    /// Releases the current request, on a connection that gets no further one.
    func forgetRequest(_ limits: HTTPLimits) {
        parser = Self.parser(limits)
        unread = []
    }

    /// Sets the deadlines of a request that may just have begun.
    func keepTime(now: ContinuousClock.Instant, limits: HTTPLimits) {
        if !isTimed && parser.hasBegun {
            isTimed = true
            deadline = now + limits.headerTimeMax
            wholeDeadline = now + limits.requestTimeMax
        }
        if parser.phase == .body { deadline = wholeDeadline }
    }

    private static func parser(_ limits: HTTPLimits) -> RequestParser {
        RequestParser(
            headBytesMax: limits.headerBytesMax,
            headFieldsMax: limits.headerFieldsMax,
            bodyBytesMax: limits.bodyBytesMax
        )
    }
}
