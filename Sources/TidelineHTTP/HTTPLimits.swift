// HTTPLimits: all limits of the HTTP server, each with its unit and its reason.

/// The limits of an ``HTTPServer``.
///
/// Times are checked twice a second, so a limit may be overstepped by up to half a second.
public struct HTTPLimits: Sendable, Hashable {
    /// The most bytes of a request body.
    ///
    /// Bodies are held in memory. A larger one is answered with 413 as soon as its length, or that
    /// of a chunk, shows that.
    public var bodyBytesMax = 4 << 20

    /// The most bytes of a request head, and of the trailers after a chunked body.
    ///
    /// A larger head is answered with 431, or with 414 if the target is too long. A next link
    /// contains the filter of its list and the keys of a row, so it is longer than the request.
    public var headerBytesMax = 32 << 10

    /// The most fields of a request head.
    ///
    /// A head with more is answered with 431: each field costs more memory than its bytes, and each
    /// lookup by name goes through all fields. Browsers behind proxies send some thirty.
    public var headerFieldsMax = 100

    /// The most bytes of bodies and large heads that are held in memory at a time, for all
    /// connections.
    ///
    /// A request that would exceed it is answered with 503, so that many callers with large
    /// requests do not use up the memory of the machine. The first 4 KiB of a request are not
    /// counted. Never less than ``bodyBytesMax``.
    public var bodiesBytesMax = 256 << 20

    /// The most bytes of answers that are held in memory at a time, for all connections.
    ///
    /// If there is not enough memory left, a large answer waits before it is built, and callers
    /// that have read nothing for a second are disconnected, those that have been idle longest
    /// first. While half of the memory is used, callers that read more slowly than
    /// ``answerRateMin`` are disconnected, those with the most left to read first.
    public var answersBytesMax = 64 << 20

    /// The bytes per second that a caller has to read while memory for answers is short.
    ///
    /// A phone on a poor network reads faster.
    public var answerRateMin = 16 << 10

    /// The most connections open at a time.
    ///
    /// For a further one the server closes the connection that has been idle longest. If each
    /// connection has a request, further ones are answered with 503, except for `/health`, or wait
    /// in the backlog of the kernel. Each costs a file descriptor: the soft limit of the process is
    /// raised to fit, and if the hard limit is lower (`ulimit -Hn`), fewer are accepted, so that
    /// the database still gets its files.
    public var connectionsMax = 10_000

    /// The most callers that listen for changes at a time; they do not count as connections.
    ///
    /// Further ones are answered with 503. Each costs a file descriptor, too: if there are not
    /// enough for both, they are shared.
    public var listenersMax = 10_000

    /// The most connections of one address, or for IPv6 of one 64-bit network; 0 for no limit.
    ///
    /// A request on a further one is answered with 429, and the connection is closed. Trusted
    /// proxies have no such limit.
    public var callerConnectionsMax = 0

    /// The most streams of changes of one caller; 0 for no limit.
    ///
    /// A caller is a user or, without a token, an address. A further one is answered with 429.
    public var callerListenersMax = 0

    /// How long a stream of changes is silent until a heartbeat is sent.
    ///
    /// Shorter than the timeout of usual proxies, which is a minute.
    public var eventsHeartbeat: Duration = .seconds(25)

    /// The longest time for a TLS handshake.
    ///
    /// It needs at most two round trips, including those over a slow mobile network.
    public var handshakeTimeMax: Duration = .seconds(10)

    /// The longest time for a request head to arrive.
    ///
    /// Counted from the start of the connection, or from the first byte of a later request. It
    /// disconnects callers that send a byte now and then to occupy the server: with 408, or without
    /// an answer if no byte arrived.
    public var headerTimeMax: Duration = .seconds(10)

    /// The longest time for a complete request to arrive, head and body.
    ///
    /// Long enough for ``bodyBytesMax`` over a slow mobile network.
    public var requestTimeMax: Duration = .seconds(60)

    /// The longest silence between two requests of a connection, or of a peer that reads an answer.
    public var idleTimeMax: Duration = .seconds(60)

    /// The longest time for a handler to build an answer.
    ///
    /// After that its task is cancelled and the caller gets 503, so that a database that hangs does
    /// not keep callers waiting forever.
    public var handlerTimeMax: Duration = .seconds(30)

    /// The longest time for a peer to read an answer.
    ///
    /// Without it a caller that reads a byte now and then would keep an answer in memory forever.
    /// Long enough for a page of 4 MB over a slow mobile network.
    public var answerTimeMax: Duration = .seconds(300)

    /// The longest time for a peer to receive the answer that ends its connection.
    ///
    /// Bytes that it still sends are read and dropped meanwhile: closing immediately would make the
    /// kernel discard an answer that the peer has not read (RFC 9112 section 9.6).
    public var lingerTimeMax: Duration = .seconds(1)

    /// The most bytes that are read and dropped in that time.
    public var lingerBytesMax = 16 << 20

    /// How long a server that is being stopped continues as before, except for its readiness.
    ///
    /// A load balancer polls the readiness now and then, and stops sending requests once it sees
    /// the change. Zero drains immediately.
    public var drainNoticeTime: Duration = .zero

    /// The longest time for current requests to end once the server is drained.
    ///
    /// Shorter than the timeout of the usual supervisors, which kill after 30 to 90 seconds.
    public var drainTimeMax: Duration = .seconds(25)

    /// The limits for a public server with small bodies.
    public init() {}
}
