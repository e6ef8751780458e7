// HTTPConnection: what the worker knows of one connection and of its request under way.
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
// creates, reads and changes it there only. A handler's task carries the reference along, and
// looks into it only after it has come back to the loop, which is the executor it prefers.
final class HTTPConnection: @unchecked Sendable {
    enum Phase {
        /// Both sides agree on keys; only with TLS.
        case handshaking
        /// A request arrives, or none has begun.
        case reading
        /// The handler's task runs; nothing is read.
        case handling
        /// The answer is being sent; nothing is read.
        case answering
        /// The answer goes on for as long as both sides want; nothing is read.
        case streaming
        /// The last answer is sent; what still comes is dropped.
        case lingering
        case closed
    }

    /// Which limit a connection is beyond.
    enum Excess {
        case connections
        case callerConnections
    }

    /// The part of an answer that the socket did not take yet.
    struct Output {
        var head: [UInt8]
        var body: [UInt8]
        var sent: Int
        /// What it holds of the memory for answers.
        var share: AnswerShare?
        /// Bytes that were sent and let go.
        var dropped = 0
        /// How the peer takes it; nil as long as the system took all that it was given.
        var pace: ReadPace?

        var left: Int { head.count + body.count - sent }
    }

    /// The bytes of the answer that the system has not taken.
    var bytesLeft: Int { output?.left ?? 0 }

    let socket: Int32
    /// The IP address of the peer.
    let address: String
    /// What is sent and read goes through it; nil for plain HTTP.
    var tls: TLSSession?

    var phase: Phase
    var parser: RequestParser
    /// The name of the request under way; empty until it has one.
    var id = ""
    /// Where the request under way comes from, when a proxy sends it; empty until it is whole.
    var caller = ""
    /// When the worker loses patience with the phase.
    var deadline: ContinuousClock.Instant
    /// When the whole request has to be here, and later when the whole answer has to be gone.
    var wholeDeadline: ContinuousClock.Instant
    /// Whether the deadlines count for a request that has begun.
    var isTimed = true

    /// Whether the loop will go on with it by itself.
    var isPostponed = false
    /// Whether a read may find something; the system tells when it becomes so.
    var mayRead = false
    /// The peer has sent its last, which a short read does not show.
    var isEnding = false
    /// When the handler got the request.
    var handlingSince = ContinuousClock.now
    /// Nobody is there any more.
    var isGone = false
    /// Since when nothing was asked on it.
    var idleSince: ContinuousClock.Instant
    /// Why what is asked on it is refused, unless it is the health of the server.
    var excess: Excess?
    /// The caller that its stream counts for.
    var listensFor = ""
    /// The address that it counts for; empty for a proxy that is trusted.
    var countedFor = ""
    /// Whether the peer that has sent its last was asked whether it still reads.
    var wasAsked = false
    /// The bytes of the request under way, and of what came behind it, as the worker has counted
    /// them.
    var heldBytes = 0
    /// The caller that they count for; empty for none.
    var heldFor = ""
    /// Bytes that were read together with a request; those from `unreadStart` on are behind it.
    var unread: [UInt8] = []
    var unreadStart = 0

    /// Bytes that came behind the last answer.
    var dropped = 0

    var output: Output?
    /// What is told on a stream.
    var listener: EventListener?
    /// Whether the loop will look after the stream by itself.
    var isDue = false
    /// Whether the connection ends with this answer.
    var isLast = false
    /// The handler's task.
    var task: Task<Void, Never>?
    /// Counts answers, so that a handler that was given up cannot answer a later request.
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
        // The time of the first request counts from here, as it was what the peer came for.
        deadline = now + (tls == nil ? limits.headerTimeMax : limits.handshakeTimeMax)
        wholeDeadline = now + limits.requestTimeMax
    }

    /// The keys are agreed on: the first request is what comes next.
    func handshakeEnded(now: ContinuousClock.Instant, limits: HTTPLimits) {
        phase = .reading
        // It may be here already, of which the system tells no more.
        mayRead = true
        deadline = now + limits.headerTimeMax
        wholeDeadline = now + limits.requestTimeMax
    }

    /// Whether nothing is asked on it.
    var hasNoRequest: Bool {
        phase == .handshaking || phase == .reading && !parser.hasBegun
    }

    /// Ready for the next request.
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

    /// Marks what a listener is to be told; false if that is nothing.
    func hear(_ changed: [Bool]) -> Bool {
        listener?.mark(changed)
        return listener?.isPending == true
    }

    /// Lets go of what was asked for, on a connection that is asked for nothing more.
    func forgetRequest(_ limits: HTTPLimits) {
        parser = Self.parser(limits)
        unread = []
    }

    /// Keeps the time of a request that may just have begun.
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
