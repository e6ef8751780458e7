// HTTPConnection: the phases of a connection.
//
// One object serves all requests of a connection. Its phases are
//
//     (handshaking ->) reading -> handling -> answering -> reading … -> lingering -> closed
//
// where a rejected request goes straight from reading to answering, and one for a stream
// from handling to streaming and from there to answering, when the server ends it.

import TidelineServerCore
import TidelineTLS

/// The worker's state of one connection and of its current request.
///
/// Sendable without a check because it is confined to the thread of its event loop: the worker
/// creates, reads and changes it only there. A handler's task carries the reference along and uses
/// it only after it has returned to the loop, which is the executor it prefers.
final class HTTPConnection: @unchecked Sendable {
    enum Phase {
        /// The TLS handshake is in progress.
        case handshaking
        /// A request is arriving, or none has begun.
        case reading
        /// The handler's task is running; nothing is read.
        case handling
        /// The response is being sent; no request is read.
        case answering
        /// The answer continues until one side ends it; nothing is read.
        case streaming
        /// The last answer was sent; bytes that still arrive are dropped.
        case lingering
        case closed
    }

    /// The limit that a connection exceeds.
    enum Excess {
        case connections
        case callerConnections
    }

    /// The part of an answer that the socket has not accepted yet.
    struct Output {
        var head: [UInt8]
        var body: [UInt8]
        var sent: Int
        /// The memory reservation of the answer.
        var share: MemoryReservation?
        /// The number of bytes that were sent and freed.
        var dropped = 0
        /// How fast the peer reads; nil if the system accepted all bytes so far.
        var pace: ReadPace?

        var left: Int { head.count + body.count - sent }
    }

    /// The current request.
    struct Request {
        var parser: RequestParser
        /// The ID of the request; empty until it has one.
        var id = ""
        /// The client's address, if a proxy sends it; empty until the head is complete.
        var caller = ""

        init(_ limits: HTTPLimits) {
            parser = RequestParser(
                headBytesMax: limits.headerBytesMax,
                headFieldsMax: limits.headerFieldsMax,
                bodyBytesMax: limits.bodyBytesMax
            )
        }
    }

    struct Deadlines {
        /// When the current phase times out.
        var current: ContinuousClock.Instant
        /// The deadline for the complete request, and later for sending the complete answer.
        var whole: ContinuousClock.Instant
        /// Whether the deadlines apply to a request that has begun.
        var areOfRequest = true
        /// When the connection last became idle.
        var idleSince: ContinuousClock.Instant
    }

    /// The state of reading from the socket.
    struct Input {
        /// Whether the loop continues with the connection even without a socket event.
        var isPostponed = false
        /// Whether a read may return bytes; the system reports when that becomes true.
        var mayRead = false
        /// Whether the peer has sent its last byte, which a short read does not show.
        var isEnding = false
        /// Whether the server has probed the peer after it closed its sending side.
        var wasAsked = false
        /// The bytes that were read with a request; those from `unreadStart` on follow the request.
        var unread: [UInt8] = []
        var unreadStart = 0
        /// The number of bytes that arrived after the last answer and were dropped.
        var dropped = 0
    }

    /// The handler of the current request.
    struct Handler {
        var task: Task<Void, Never>?
        /// When the handler received the request.
        var since = ContinuousClock.now
        /// The number of answers so far; a handler that timed out compares it, and does not answer a later request.
        var turn: UInt64 = 0
    }

    /// The connection's share of the limits of its caller.
    struct Counts {
        /// The address that the connection is counted for; empty for a trusted proxy.
        var address = ""
        /// The bytes of the current request, and of the data received after it, as the worker has counted them.
        var bytes = 0
        /// The caller that these bytes are counted for; empty for none.
        var caller = ""
    }

    /// A stream of events.
    struct Stream {
        var listener: EventListener
        /// The caller that the stream is counted for.
        var caller: String
        /// Whether the loop will send events even without a socket event.
        var isDue = false

        /// Flags the changed tables that the listener watches; returns false if there are none.
        mutating func note(_ changed: [Bool]) -> Bool {
            listener.note(changed)
            return listener.isPending
        }
    }

    let socket: Int32
    /// The IP address of the peer.
    let address: String
    /// The TLS session that reads and writes go through; nil for plain HTTP.
    var tls: TLSSession?

    var phase: Phase
    var request: Request
    var deadlines: Deadlines
    var input = Input()
    var handler = Handler()
    var counts = Counts()
    /// Whether the peer has disconnected.
    var isGone = false
    /// The reason why requests on the connection are rejected, except health checks.
    var excess: Excess?
    var output: Output?
    /// The event stream; nil for any other response.
    var stream: Stream?
    /// Whether the connection is closed after this answer.
    var isLast = false

    /// The number of bytes of the answer that are not yet written to the socket.
    var bytesLeft: Int { output?.left ?? 0 }

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
        phase = tls == nil ? .reading : .handshaking
        request = Request(limits)
        // The time of the first request counts from here, because the peer connected to send it.
        deadlines = Deadlines(
            current: now + (tls == nil ? limits.headerTimeMax : limits.handshakeTimeMax),
            whole: now + limits.requestTimeMax,
            idleSince: now
        )
    }

    /// Ends the handshake and prepares for the first request.
    func handshakeEnded(now: ContinuousClock.Instant, limits: HTTPLimits) {
        phase = .reading
        // The request may have arrived already, and the system does not report that again.
        input.mayRead = true
        deadlines.current = now + limits.headerTimeMax
        deadlines.whole = now + limits.requestTimeMax
    }

    /// Whether the connection has no current request.
    var hasNoRequest: Bool {
        phase == .handshaking || phase == .reading && !request.parser.hasBegun
    }

    /// Prepares for the next request.
    func startOver(now: ContinuousClock.Instant, limits: HTTPLimits) {
        phase = .reading
        request = Request(limits)
        deadlines.current = now + limits.idleTimeMax
        deadlines.idleSince = now
        deadlines.areOfRequest = false
        input.wasAsked = false
    }

    /// Releases the current request of a connection that accepts no further one.
    func forgetRequest(_ limits: HTTPLimits) {
        request.parser = Request(limits).parser
        input.unread = []
    }

    /// Sets the deadlines of a request that may have just begun.
    func keepTime(now: ContinuousClock.Instant, limits: HTTPLimits) {
        if !deadlines.areOfRequest && request.parser.hasBegun {
            deadlines.areOfRequest = true
            deadlines.current = now + limits.headerTimeMax
            deadlines.whole = now + limits.requestTimeMax
        }
        if request.parser.phase == .body { deadlines.current = deadlines.whole }
    }
}
