// HTTPLimits: every bound of the HTTP server, with its unit and its reason.

/// The bounds of an ``HTTPServer``.
///
/// Times are checked twice a second, so a limit may be overstepped by up to half a second.
public struct HTTPLimits: Sendable, Hashable {
    /// The most bytes of a request body.
    ///
    /// Bodies are held in memory. A larger one is answered with 413 as soon as its length, or that
    /// of a chunk, tells.
    public var bodyBytesMax = 4 << 20

    /// The most bytes of a request head, and of the trailers behind a chunked body.
    ///
    /// A larger head is answered with 431, or 414 if it is the target that is too long. A next link
    /// has the filter of its list, and the keys of a row, so it is longer than the request.
    public var headerBytesMax = 32 << 10

    /// The most fields of a request head.
    ///
    /// One with more is answered with 431: each field costs more memory than its bytes, and is looked
    /// through for each name that is asked for. Browsers behind proxies send some thirty.
    public var headerFieldsMax = 100

    /// The most bytes of bodies and large heads that are held in memory at a time, for all
    /// connections.
    ///
    /// What would go beyond is answered with 503, so that many callers with large requests do not
    /// take the memory of the machine. The first 4 KiB of a request are not counted. Never less
    /// than ``bodyBytesMax``.
    public var bodiesBytesMax = 256 << 20

    /// The most bytes of answers that are held in memory at a time, for all connections.
    ///
    /// Where there is no room the making of a large answer waits, and callers that have read nothing
    /// for a second are cut, those first that have stood still for the longest time. While half of
    /// it is taken, callers that read more slowly than ``answerRateMin`` are cut, those with the most
    /// to read first.
    public var answersBytesMax = 64 << 20

    /// The bytes per second that a caller has to read while memory for answers is short.
    ///
    /// A phone in a poor network reads faster.
    public var answerRateMin = 16 << 10

    /// The most connections open at a time.
    ///
    /// For a further one the connection makes room on which nothing was asked for the longest time. If
    /// something is asked on each, further ones are answered with 503, but for `/health`, or wait in the
    /// backlog of the kernel. Each costs a file descriptor: the soft limit
    /// of the process is raised to fit, and where the hard one is lower (`ulimit -Hn`), fewer are
    /// accepted, so that the database still gets its files.
    public var connectionsMax = 10_000

    /// The most callers that listen for changes at a time; they do not count as connections.
    ///
    /// Further ones are answered with 503. Each costs a file descriptor, too: where there are not
    /// enough for both, they are shared.
    public var listenersMax = 10_000

    /// The most connections of one address, of IPv6 of one network of 64 bits; 0 for no bound.
    ///
    /// A request on a further one is answered with 429, and ends it. Proxies that are trusted have no
    /// such bound.
    public var callerConnectionsMax = 0

    /// The most streams of changes of one caller; 0 for no bound.
    ///
    /// A caller is a user or, without a token, an address. A further one is answered with 429.
    public var callerListenersMax = 0

    /// How long a stream of changes is silent until a sign of life is sent.
    ///
    /// Shorter than the patience of usual proxies, which is a minute.
    public var eventsHeartbeat: Duration = .seconds(25)

    /// The longest time for a handshake of TLS.
    ///
    /// It needs two ways there and back at most, over a slow mobile network, too.
    public var handshakeTimeMax: Duration = .seconds(10)

    /// The longest time for a request head to arrive.
    ///
    /// Counted from the start of the connection, or from the first byte of a later request.
    /// It cuts off those who send a byte now and then to occupy the server: with 408, or without
    /// an answer if no byte came.
    public var headerTimeMax: Duration = .seconds(10)

    /// The longest time for a whole request to arrive, head and body.
    ///
    /// Long enough for ``bodyBytesMax`` over a slow mobile network.
    public var requestTimeMax: Duration = .seconds(60)

    /// The longest silence between two requests of a connection, or of a peer that reads an answer.
    public var idleTimeMax: Duration = .seconds(60)

    /// The longest time for a handler to make an answer.
    ///
    /// Then its task is cancelled and the caller gets 503, so that a database that hangs does
    /// not keep callers waiting for ever.
    public var handlerTimeMax: Duration = .seconds(30)

    /// The longest time for a peer to read an answer.
    ///
    /// Who reads a byte now and then would hold an answer in memory for ever otherwise. Long enough
    /// for a page of 4 MB over a slow mobile network.
    public var answerTimeMax: Duration = .seconds(300)

    /// The longest time for a peer to take note of the answer that ends its connection.
    ///
    /// What it still sends is read and dropped meanwhile: closing at once would make the kernel
    /// throw away an answer that the peer has not read (RFC 9112 section 9.6).
    public var lingerTimeMax: Duration = .seconds(1)

    /// The most bytes that are read and dropped then.
    public var lingerBytesMax = 16 << 20

    /// How long a server that is stopped goes on as before, but for its readiness.
    ///
    /// Whoever spreads requests over servers asks for it now and then, and sends nothing more
    /// meanwhile. Zero drains at once.
    public var drainNoticeTime: Duration = .zero

    /// The longest time for requests under way to end once the server is drained.
    ///
    /// Shorter than the patience of the usual supervisors, which kill after 30 to 90 seconds.
    public var drainTimeMax: Duration = .seconds(25)

    /// The limits for a public server with small bodies.
    public init() {}
}
