// HTTPWorker: one event loop thread with its share of the connections. This file has its life cycle
// and its timers; the work on a connection is in HTTPWorker+Traffic.swift.

import CEpoll
import Glibc
import TidelineCore
import TidelineServerCore
import TidelineTLS

typealias HTTPHandler = @Sendable (ServerRequest) async -> ServerResponse

/// The source of request IDs, and the callback for requests that are answered without the handler.
struct HTTPNaming: Sendable {
    var ids: RequestIDs
    var proxies: TrustedProxies
    var rejected: @Sendable (ServerRequest, ServerResponse) -> Void
}

/// A worker that serves connections on one event loop.
///
/// `@unchecked Sendable` because it is confined to the thread of its loop: the initializer and `listen` run
/// before that thread starts, and everything else is called by it, or by a task on the loop, which is its
/// executor.
final class HTTPWorker: @unchecked Sendable {
    let loop: EventLoop
    let limits: HTTPLimits
    let handler: HTTPHandler
    let naming: HTTPNaming
    let traffic: ServerTraffic
    /// The server's certificate; nil for plain HTTP.
    private let tls: TLSIdentity?

    /// The duration of the loop's turns.
    private let turns: Histogram
    private let sockets: SocketPoll

    /// The time at the start of this turn of the loop.
    var now = ContinuousClock.now
    private(set) var connections: [Int32: HTTPConnection] = [:]
    private var listening = ListeningSockets()
    /// The end of the service; nil until it begins.
    private var drain: Drain?
    var streams = Streams()
    var buffers = Buffers()
    var pending = Pending()
    private var sweeps = Sweeps()
    /// The number of handler tasks that have not returned.
    var handlersRunning = 0
    private var date: (second: Int, text: [UInt8]) = (0, [])

    init(
        limits: HTTPLimits,
        naming: HTTPNaming,
        traffic: ServerTraffic,
        tls: TLSIdentity?,
        handler: @escaping HTTPHandler
    ) throws(HTTPServerError) {
        self.loop = try EventLoop()
        self.sockets = try SocketPoll()
        self.limits = limits
        self.naming = naming
        self.traffic = traffic
        turns = traffic.addLoop()
        self.tls = tls
        self.handler = handler
    }

    deinit { buffers.input.deallocate() }

    /// Takes ownership of the listening sockets; connections are served only by `run`.
    func listen(
        on listening: [Int32],
        areShared: Bool,
        connectionsMax: Int,
        listenersMax: Int
    ) throws(HTTPServerError) {
        guard sockets.watchForReading(loop.wakeDescriptor),
            listening.allSatisfy({
                areShared ? sockets.watchShared($0) : sockets.watchForReading($0)
            })
        else { throw .exhausted("no memory for an event loop") }
        self.listening.sockets = listening
        self.listening.areShared = areShared
        self.listening.connectionsMax = connectionsMax
        streams.countMax = listenersMax
    }

    /// Releases the sockets if `run` will not be called.
    func abandon() {
        for listener in listening.sockets {
            // Other processes have it open: the system would continue to report it.
            sockets.forget(listener)
            close(listener)
        }
        listening.sockets = []
    }

    /// Serves until it is drained; `onStop` is called when the last connection is closed.
    ///
    /// Returns later if a cancelled handler has not ended, because its task needs the loop.
    func run(onStop: () -> Void) {
        loop.bind()
        while !isDrained {
            turn(milliseconds: patience)
        }
        for connection in connections.values {
            if connection.phase == .handling {
                giveUp(connection, answer: HTTPProblem.stopping(connection.request.parser))
            }
            end(connection)
        }
        closeFeed()
        onStop()
        // The cancelled tasks have become jobs of this thread, which wake no one.
        pending.hasJobs = true
        while handlersRunning > 0 { turn(milliseconds: -1) }
    }

    var isDraining: Bool { drain != nil }

    private var isDrained: Bool {
        guard let drain else { return false }
        return connections.isEmpty || now >= drain.deadline
    }

    /// Stops listening, and closes each connection as soon as it has no current request.
    func beginDrain() {
        guard !isDraining else { return }
        now = .now
        let drain = Drain(
            deadline: now + limits.drainTimeMax,
            lastRequestDeadline: listening.areShared ? now + Self.lastRequestTime : now
        )
        self.drain = drain
        sweeps.next = min(sweeps.next, drain.lastRequestDeadline)
        // Accepts the connections that have arrived so far, unless another process accepts them.
        if !listening.areShared { for listener in listening.sockets { accept(from: listener) } }
        abandon()
        for connection in connections.values {
            switch connection.phase {
            case .reading:
                connection.input.mayRead = true
                proceed(connection)
            case .handshaking where !listening.areShared: end(connection)
            case .streaming: dismiss(connection)
            case .handshaking, .handling, .answering, .lingering, .closed: break
            }
        }
    }

    /// Closes the socket, and removes the connection.
    func end(_ connection: HTTPConnection) {
        guard connection.phase != .closed else { return }
        if connection.phase == .handling {
            // Its handler is cancelled and sends no answer.
            _ = named(HTTPProblem.callerLeft, connection)
        }
        connection.phase = .closed
        connection.handler.turn += 1
        connection.output = nil
        stopListening(connection)
        _ = countRequestBytes(0, for: connection)
        connection.handler.task?.cancel()
        connection.handler.task = nil
        connections[connection.socket] = nil
        traffic.connections.add(-1)
        if !connection.counts.address.isEmpty {
            traffic.callerConnections.end(connection.counts.address)
        }
        connection.tls?.close()
        connection.tls = nil
        close(connection.socket)
        acceptIfPossible()
    }

    /// The number of bytes of each request that are not counted, so that small requests are answered while
    /// others use up the memory for bodies.
    private static let freeBytes = 4 << 10

    /// Counts the bytes of a request; returns false if the requests of all loops exceed the limit.
    func countRequestBytes(_ bytes: Int, for connection: HTTPConnection) -> Bool {
        let bytes = max(0, bytes - Self.freeBytes)
        let more = bytes - connection.counts.bytes
        guard more != 0 else { return true }
        connection.counts.bytes = bytes
        let all = traffic.requestBytes.add(more)
        if connection.counts.caller.isEmpty {
            connection.counts.caller = bytesCaller(of: connection)
            if !connection.counts.caller.isEmpty {
                traffic.callerBytes.add(bytes, of: connection.counts.caller)
            }
        } else {
            traffic.callerBytes.add(more, of: connection.counts.caller)
        }
        let caller = connection.counts.caller
        if bytes == 0 { connection.counts.caller = "" }
        return more < 0 || all <= bodiesMax || makeRoom(forRequestOf: caller)
    }

    /// Returns the caller that the bytes of a request are counted for; behind a trusted proxy, it is empty until
    /// the head is complete.
    private func bytesCaller(of connection: HTTPConnection) -> String {
        if !connection.counts.address.isEmpty { return connection.counts.address }
        switch connection.request.parser.phase {
        case .head, .rejected: return ""
        case .body, .complete:
            let headers = connection.request.parser.request.headers
            let caller = naming.proxies.caller(peer: connection.address, headers: headers)
            return CallerNetwork.name(of: caller)
        }
    }

    private var bodiesMax: Int { max(limits.bodyBytesMax, limits.bodiesBytesMax) }

    /// Rejects the largest request of another caller that uses more than half of the memory for bodies.
    ///
    /// - Returns: Whether the remaining requests fit.
    private func makeRoom(forRequestOf caller: String) -> Bool {
        traffic.warnings.reached("bodiesBytes") { traffic.callerBytes.most }
        guard let most = traffic.callerBytes.most, most.caller != caller,
            most.count > bodiesMax / 2
        else { return false }
        let largest = connections.values.filter {
            $0.counts.caller == most.caller && $0.phase == .reading && $0.counts.bytes > 0
        }.max { $0.counts.bytes < $1.counts.bytes }
        guard let largest else { return false }
        reject(largest, .noMemory)
        largest.forgetRequest(limits)
        _ = countRequestBytes(0, for: largest)
        postpone(largest)
        return traffic.requestBytes.current <= bodiesMax
    }

    /// Returns the time for the Date field (RFC 9110 section 6.6.1).
    func dateText() -> [UInt8] {
        let second = time(nil)
        if second != date.second {
            date = (second, Array(HTTPDate.text(microseconds: Int64(second) * 1_000_000).utf8))
        }
        return date.text
    }

    // MARK: - Loop iterations

    /// The interval between two sweeps: half of what `HTTPLimits` promises, because a deadline may fall between
    /// two sweeps.
    private static let sweepMilliseconds: Int32 = 500

    /// The interval at which a drained loop checks for its end; it is short because the next server waits.
    private static let drainMilliseconds: Int32 = 20

    /// The number of connections that are accepted before others take their turn.
    private static let acceptedAtOnce = 64

    /// The number of rounds of jobs that run before the sockets take their turn.
    private static let jobRoundsMax = 16

    /// The number of bytes that are sent before the sockets take their turn.
    private static let turnBytesMax = 1 << 20

    /// The number of sweeps after a shortage of memory that return unused memory: five seconds, in which the
    /// waiting answers are sent.
    private static let spareRoundsMax = 10

    /// How long a connection may still send a request while another server replaces the drained one, so that a
    /// caller that has just sent a request gets an answer.
    private static let lastRequestTime: Duration = .milliseconds(500)

    /// Whether the loop waits for a connection without a request.
    var mayBeginRequest: Bool {
        guard let drain else { return true }
        return now < drain.lastRequestDeadline
    }

    /// How long the loop waits for events; if there are no connections, no timer has to be checked.
    private var patience: Int32 {
        if isDraining, listening.areShared { return Self.drainMilliseconds }
        return connections.isEmpty && !listening.isExhausted && sweeps.spareRounds == 0
            ? -1 : Self.sweepMilliseconds
    }

    /// Continues with a connection after others have had their turn.
    func postpone(_ connection: HTTPConnection) {
        guard !connection.input.isPostponed else { return }
        connection.input.isPostponed = true
        pending.connections.append(connection)
    }

    private func turn(milliseconds: Int32) {
        let waiting = pending.connections
        pending.connections = []
        let isAwake = pending.hasJobs || !waiting.isEmpty
        var start: ContinuousClock.Instant?
        sockets.wait(milliseconds: isAwake ? 0 : milliseconds) { ready in
            now = .now
            start = start ?? now
            switch ready.descriptor {
            case loop.wakeDescriptor: loop.clearWake()
            case let listener where listening.sockets.contains(listener): accept(from: listener)
            default:
                guard let connection = connections[ready.descriptor] else { return }
                if ready.mayRead { connection.input.mayRead = true }
                if ready.isEnding { connection.input.isEnding = true }
                if ready.isGone { connection.isGone = true }
                proceed(connection)
            }
        }
        for connection in waiting {
            now = .now
            start = start ?? now
            connection.input.isPostponed = false
            proceed(connection)
        }
        // Jobs may enqueue more jobs without a wake-up, endlessly if one peer keeps sending
        // requests: other connections are served in between.
        pending.hasJobs = true
        pending.bytesSent = 0
        for _ in 0..<Self.jobRoundsMax
        where pending.hasJobs && pending.bytesSent < Self.turnBytesMax {
            now = .now
            if now >= sweeps.next { sweep() }
            pending.hasJobs = loop.runJobs()
        }
        guard let start else { return }
        let time = (ContinuousClock.now - start).components
        turns.add(Int(clamping: time.seconds * 1_000_000 + time.attoseconds / 1_000_000_000_000))
    }

    private func accept(from listener: Int32) {
        // Other connections need their turn, too.
        for _ in 0..<(isDraining ? Int(SOMAXCONN) : Self.acceptedAtOnce) where mayAccept {
            let socket = Glibc.accept(listener, nil, nil)
            guard socket >= 0 else {
                let isOut = [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(errno)
                if isOut { listening.isExhausted = true }
                guard isOut || errno == EAGAIN else { continue }
                break
            }
            // Its calls request non-blocking mode themselves.
            _ = fcntl(socket, F_SETFD, FD_CLOEXEC)
            guard sockets.watchChanges(of: socket) else {
                close(socket)
                continue
            }
            let session = tls?.context.session(on: socket)
            guard tls == nil || session != nil else {
                close(socket)
                continue
            }
            traffic.connections.add()
            let connection = HTTPConnection(
                socket: socket,
                address: PeerAddress.text(of: socket),
                tls: session,
                now: now,
                limits: limits
            )
            connections[socket] = connection
            count(connection)
        }
        acceptIfPossible()
    }

    /// The number of connections, not counting listeners, which have their own limit.
    private var served: Int { connections.count - streams.count }

    /// Whether a connection may be accepted; those beyond the limit serve only health checks.
    private var mayAccept: Bool {
        served < listening.connectionsMax + Self.reserve || sweeps.idleKnown
    }

    /// The number of connections beyond the limit, for health checks.
    private static let reserve = 2

    /// How long a connection beyond a limit may take to send its request.
    private static let excessTime: Duration = .seconds(2)

    /// The number of idle connections that are closed at once for new ones, because finding them takes a while.
    private var evictedAtOnce: Int { min(16, max(1, listening.connectionsMax / 64)) }

    /// Counts a new connection for its address, and closes idle ones if there are too many.
    private func count(_ connection: HTTPConnection) {
        if !naming.proxies.trusts(peer: connection.address) {
            let caller = CallerNetwork.name(of: connection.address)
            connection.counts.address = caller
            let count = traffic.callerConnections.begin(caller)
            if limits.callerConnectionsMax > 0, count > limits.callerConnectionsMax {
                connection.excess = .callerConnections
                traffic.warnings.reached("callerConnections") { (caller, count) }
            }
        }
        if served > listening.connectionsMax {
            traffic.warnings.reached("connections") { traffic.callerConnections.most }
            evictIdle(but: connection)
            if served > listening.connectionsMax, connection.excess == nil {
                connection.excess = .connections
            }
        }
        if connection.excess != nil {
            connection.deadlines.current = min(connection.deadlines.current, now + Self.excessTime)
        }
    }

    /// Closes the connections that have been idle longest.
    private func evictIdle(but new: HTTPConnection) {
        var idle = connections.values.filter { $0 !== new && $0.hasNoRequest }
        sweeps.idleKnown = idle.count > evictedAtOnce
        idle.sort { $0.deadlines.idleSince < $1.deadlines.idleSince }
        for connection in idle.prefix(evictedAtOnce) {
            traffic.connectionsEvicted.add()
            end(connection)
        }
    }

    func acceptIfPossible() {
        let isPossible = mayAccept && !listening.isExhausted
        guard !listening.sockets.isEmpty, isPossible != listening.areOpen else { return }
        listening.areOpen = isPossible
        for listener in listening.sockets {
            switch (listening.areShared, isPossible) {
            case (true, true): _ = sockets.watchShared(listener)
            case (true, false): sockets.forget(listener)
            case (false, _): sockets.pause(listener, !isPossible)
            }
        }
    }

    private func sweep() {
        sweeps.next = now + .milliseconds(Int64(Self.sweepMilliseconds))
        listening.isExhausted = false
        sweeps.idleKnown = true
        acceptIfPossible()
        let isShort = traffic.memories.contains { $0.isShort }
        var waiting: [HTTPConnection] = []
        for connection in connections.values {
            switch connection.phase {
            case .handling where connection.input.isEnding: askWhetherGone(connection)
            case .answering:
                if measurePace(connection), isShort { waiting.append(connection) }
            case .handling, .handshaking, .reading, .streaming, .lingering, .closed: break
            }
            if isDraining, !mayBeginRequest, connection.hasNoRequest { end(connection) }
            guard connection.deadlines.current <= now else { continue }
            switch connection.phase {
            case .handling:
                giveUp(connection, answer: HTTPProblem.timedOut(connection.request.parser))
            case .reading where connection.request.parser.hasBegun:
                reject(connection, .tooSlow)
                proceed(connection)
            case .streaming: streamTimedOut(connection)
            case .reading, .handshaking, .answering, .lingering, .closed: end(connection)
            }
        }
        for memory in traffic.memories {
            cut(waiting.filter { $0.output?.share?.memory === memory }, for: memory)
        }
        if isShort { sweeps.spareRounds = Self.spareRoundsMax }
        guard sweeps.spareRounds > 0 else { return }
        sweeps.spareRounds -= 1
        if sweeps.spareRounds > 0 { SpareMemory.giveBack() } else { SpareMemory.keep() }
    }
}
