// HTTPLimits: all limits of the HTTP server, each with its unit and its reason.

/// The limits of an ``HTTPServer``.
///
/// Times are checked twice a second, so a limit may be exceeded by up to half a second.
public struct HTTPLimits: Sendable, Hashable {
    /// The maximum size of a request body, in bytes.
    ///
    /// Bodies are kept in memory. A larger body is rejected with 413 as soon as its length, or that of a chunk,
    /// shows that it is too large.
    public var bodyBytesMax = 4 << 20

    /// The maximum size of a request head, and of the trailers after a chunked body, in bytes.
    ///
    /// A larger head is answered with 431, or with 414 if the target is too long. A next link contains the
    /// filter of its list and the keys of a row, so it is longer than the first request's URL.
    public var headerBytesMax = 32 << 10

    /// The maximum number of fields of a request head.
    ///
    /// A head with more fields is rejected with 431, because each field takes more memory than its bytes, and
    /// each lookup by name is a linear search. Browsers behind proxies send about thirty.
    public var headerFieldsMax = 100

    /// The maximum size of all bodies and large heads in memory together, in bytes.
    ///
    /// A request that would exceed it is answered with 503, so that many callers with large requests do not use
    /// up the memory of the machine. The first 4 KiB of a request are not counted. The limit is never less than
    /// ``bodyBytesMax``.
    public var bodiesBytesMax = 256 << 20

    /// The maximum size of all answers in memory together, in bytes.
    ///
    /// If there is not enough memory left, a large answer waits before it is built, and callers that have read
    /// nothing for a second are disconnected, beginning with the longest idle. While half of the memory is used,
    /// callers that read more slowly than ``answerRateMin`` are disconnected, beginning with those that have
    /// the most left to read.
    public var answersBytesMax = 64 << 20

    /// The minimum bytes per second that a caller has to read while memory for answers is short.
    ///
    /// A phone on a poor network reads faster.
    public var answerRateMin = 16 << 10

    /// The maximum number of open connections.
    ///
    /// If the limit is reached, the server closes the connection that has been idle longest. If each connection
    /// has a request, requests on further connections are rejected with 503, except for `/health`, or wait in
    /// the kernel's backlog. Each connection takes a file descriptor: the soft limit of the process is raised
    /// accordingly, and if the hard limit is lower (`ulimit -Hn`), fewer connections are accepted, so that
    /// descriptors are left for the database.
    public var connectionsMax = 10_000

    /// The maximum number of callers that listen for changes; they do not count as connections.
    ///
    /// Further callers are rejected with 503. Each takes a file descriptor, too; if there are not enough,
    /// listeners and connections share them.
    public var listenersMax = 10_000

    /// The maximum number of connections of one address, or of one 64-bit network for IPv6; 0 for no limit.
    ///
    /// A request on a further connection is rejected with 429, and the connection is closed. The limit does not
    /// apply to trusted proxies.
    public var callerConnectionsMax = 0

    /// The maximum number of event streams of one caller; 0 for no limit.
    ///
    /// A caller is a user or, without a token, an address. A further stream is rejected with 429.
    public var callerListenersMax = 0

    /// The time without events after which a heartbeat is sent.
    ///
    /// It is shorter than the timeout of most proxies, which is a minute.
    public var eventsHeartbeat: Duration = .seconds(25)

    /// The longest time for a TLS handshake.
    ///
    /// A handshake takes at most two round trips, so the limit is long enough for a slow mobile network.
    public var handshakeTimeMax: Duration = .seconds(10)

    /// The longest time for a request head to arrive.
    ///
    /// The time begins with the connection, or with the first byte of a later request. The limit disconnects
    /// callers that occupy the server by sending a byte now and then. They get 408, or no answer if no byte
    /// arrived.
    public var headerTimeMax: Duration = .seconds(10)

    /// The longest time for a complete request to arrive, head and body.
    ///
    /// It is long enough for ``bodyBytesMax`` over a slow mobile network.
    public var requestTimeMax: Duration = .seconds(60)

    /// The longest pause between two requests on a connection, or while a peer reads an answer.
    public var idleTimeMax: Duration = .seconds(60)

    /// The longest time for a handler to build an answer.
    ///
    /// After that, the handler's task is cancelled and the caller gets 503, so that callers do not wait forever
    /// for a database that hangs.
    public var handlerTimeMax: Duration = .seconds(30)

    /// The longest time for a peer to read an answer.
    ///
    /// Without the limit, a caller that reads a byte now and then would keep an answer in memory forever. It is
    /// long enough for a page of 4 MB over a slow mobile network.
    public var answerTimeMax: Duration = .seconds(300)

    /// The longest time for a peer to receive the answer that ends its connection.
    ///
    /// In the meantime, bytes from the peer are read and dropped, because the kernel would discard an unread
    /// answer if the socket were closed immediately (RFC 9112 section 9.6).
    public var lingerTimeMax: Duration = .seconds(1)

    /// The maximum number of bytes that are read and dropped during ``lingerTimeMax``.
    public var lingerBytesMax = 16 << 20

    /// How long a server that is being stopped continues to serve while it reports that it is not ready.
    ///
    /// A load balancer polls the readiness, and stops sending requests once it has changed. Zero drains
    /// immediately.
    public var drainNoticeTime: Duration = .zero

    /// The longest time for current requests to end after the drain has begun.
    ///
    /// It is shorter than the timeout of most supervisors, which kill a process after 30 to 90 seconds.
    public var drainTimeMax: Duration = .seconds(25)

    /// Creates the limits for a public server with small bodies.
    public init() {}
}
