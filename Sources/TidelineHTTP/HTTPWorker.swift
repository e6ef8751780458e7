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
    var refused: @Sendable (ServerRequest, ServerResponse) -> Void
}

/// Sendable without a check because it is confined to the thread of its loop: the initializer and
/// `listen` run before that thread starts, and everything else is called by it, or by a task on the
/// loop, which is its executor.
final class HTTPWorker: @unchecked Sendable {
    let loop: EventLoop
    let limits: HTTPLimits
    let handler: HTTPHandler
    let naming: HTTPNaming
    let traffic: ServerTraffic
    /// The certificate that callers are shown; nil for plain HTTP.
    private let tls: TLSIdentity?

    /// The time at the start of this turn of the loop.
    var now = ContinuousClock.now
    private(set) var isDraining = false
    /// The bytes of answers that this turn of the loop has sent.
    var bytesSent = 0
    /// Tasks of handlers that have not returned.
    var handlersRunning = 0
    /// The buffer of a read; it keeps nothing from one read to the next.
    let input = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
    /// The head of an answer while it is sent.
    var head: [UInt8] = []
    /// The bytes of one TLS record.
    var record: [UInt8] = []

    /// The number of connections that listen for changes.
    var listeners = 0
    /// The most listeners, of all loops together.
    private(set) var listenersMax = 0
    /// The loop's feed of table changes; nil until the first listener.
    var feed: EventFeed?
    /// The events of the current state of the tables, as text.
    var eventTexts = EventTexts()
    /// Listeners that have to be notified, those from `dueStart` on.
    var due: [HTTPConnection] = []
    var dueStart = 0
    var isTelling = false

    /// Connections that have used their turn and are not done.
    private var postponed: [HTTPConnection] = []

    /// How long the turns of the loop take.
    private let turns: Histogram
    private let sockets: SocketPoll
    /// Listening sockets.
    private var doors: [Int32] = []
    /// Whether another process has the sockets, too, and accepts connections that are not accepted
    /// here.
    private(set) var sharesDoors = false
    private var isAccepting = true
    /// The system had no descriptor or memory for a connection when it was last asked.
    private var isExhausted = false
    private var connectionsMax = 0
    /// Whether some connections were idle at the last check.
    private var idleKnown = true
    private(set) var connections: [Int32: HTTPConnection] = [:]
    private var nextSweep = ContinuousClock.now
    /// The number of sweeps after which spare memory is returned to the system.
    private var spareRounds = 0
    private var drainDeadline = ContinuousClock.now
    /// Until then connections without a request may still send one, while the server is drained.
    private var lastRequestDeadline = ContinuousClock.now
    /// There may be jobs that nothing will wake the loop for.
    private var hasJobs = false
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

    deinit { input.deallocate() }

    /// Takes ownership of the listening sockets; nothing is served before `run`.
    func listen(
        on doors: [Int32],
        areShared: Bool,
        connectionsMax: Int,
        listenersMax: Int
    ) throws(HTTPServerError) {
        guard sockets.watchForReading(loop.wakeDescriptor),
            doors.allSatisfy({
                areShared ? sockets.watchShared($0) : sockets.watchForReading($0)
            })
        else { throw .exhausted("no memory for an event loop") }
        self.doors = doors
        sharesDoors = areShared
        self.connectionsMax = connectionsMax
        self.listenersMax = listenersMax
    }

    /// Reverses `listen` if `run` will not be called.
    func abandon() {
        for door in doors {
            // Other processes have it open: the system would continue to report it.
            sockets.forget(door)
            close(door)
        }
        doors = []
    }

    /// Serves until it is drained; `onStop` is called when the last connection is gone.
    ///
    /// Returns later than that if a handler is slow to notice that it was cancelled, since its
    /// task needs the loop to end.
    func run(onStop: () -> Void) {
        loop.bind()
        while !(isDraining && (connections.isEmpty || now >= drainDeadline)) {
            turn(milliseconds: patience)
        }
        for connection in connections.values {
            if connection.phase == .handling {
                giveUp(connection, answer: HTTPProblem.stopping(connection.parser))
            }
            end(connection)
        }
        closeFeed()
        onStop()
        // The cancelled tasks have become jobs of this thread, which wake no one.
        hasJobs = true
        while handlersRunning > 0 { turn(milliseconds: -1) }
    }

    /// Stops listening, and closes each connection as soon as it has no current request.
    func beginDrain() {
        guard !isDraining else { return }
        isDraining = true
        now = .now
        drainDeadline = now + limits.drainTimeMax
        lastRequestDeadline = sharesDoors ? now + Self.lastRequestTime : now
        nextSweep = min(nextSweep, lastRequestDeadline)
        // Accepts the connections that have arrived so far, unless another process accepts them.
        if !sharesDoors { for door in doors { accept(from: door) } }
        abandon()
        for connection in connections.values {
            switch connection.phase {
            case .reading:
                connection.mayRead = true
                proceed(connection)
            case .handshaking where !sharesDoors: end(connection)
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
        connection.turn += 1
        connection.output = nil
        stopListening(connection)
        _ = hold(0, for: connection)
        connection.task?.cancel()
        connection.task = nil
        connections[connection.socket] = nil
        traffic.connections.add(-1)
        if !connection.countedFor.isEmpty {
            traffic.callerConnections.end(connection.countedFor)
        }
        connection.tls?.close()
        connection.tls = nil
        close(connection.socket)
        acceptIfPossible()
    }

    /// The size of a usual head is not counted, so that small requests get an answer while others
    /// use all the memory for bodies.
    private static let freeBytes = 4 << 10

    /// Counts the bytes of a request; false if they exceed the limit together with other requests,
    /// on all loops.
    func hold(_ bytes: Int, for connection: HTTPConnection) -> Bool {
        let bytes = max(0, bytes - Self.freeBytes)
        let more = bytes - connection.heldBytes
        guard more != 0 else { return true }
        connection.heldBytes = bytes
        let all = traffic.requestBytes.add(more)
        if connection.heldFor.isEmpty {
            connection.heldFor = bytesCaller(of: connection)
            if !connection.heldFor.isEmpty {
                traffic.callerBytes.add(bytes, of: connection.heldFor)
            }
        } else {
            traffic.callerBytes.add(more, of: connection.heldFor)
        }
        let caller = connection.heldFor
        if bytes == 0 { connection.heldFor = "" }
        return more < 0 || all <= bodiesMax || makeRoom(forRequestOf: caller)
    }

    /// Returns the caller that the bytes of a request count for: behind a trusted proxy it is known
    /// when the head is complete; empty until then.
    private func bytesCaller(of connection: HTTPConnection) -> String {
        if !connection.countedFor.isEmpty { return connection.countedFor }
        switch connection.parser.phase {
        case .head, .refused: return ""
        case .body, .complete:
            let headers = connection.parser.request.headers
            let caller = naming.proxies.caller(peer: connection.address, headers: headers)
            return CallerNetwork.name(of: caller)
        }
    }

    private var bodiesMax: Int { max(limits.bodyBytesMax, limits.bodiesBytesMax) }

    /// Rejects a large request of the caller that uses more bytes than all others.
    private func makeRoom(forRequestOf caller: String) -> Bool {
        traffic.warnings.reached("bodiesBytes") { traffic.callerBytes.most }
        guard let most = traffic.callerBytes.most, most.caller != caller,
            most.count > bodiesMax / 2
        else { return false }
        let largest = connections.values.filter {
            $0.heldFor == most.caller && $0.phase == .reading && $0.heldBytes > 0
        }.max { $0.heldBytes < $1.heldBytes }
        guard let largest else { return false }
        refuse(largest, .noMemory)
        largest.forgetRequest(limits)
        _ = hold(0, for: largest)
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

    // MARK: - The turns of the loop

    /// Half of what `HTTPLimits` promises, because a deadline may fall between two sweeps.
    private static let sweepMilliseconds: Int32 = 500

    /// The next server waits for the end of a drain.
    private static let drainMilliseconds: Int32 = 20

    /// The number of connections that are accepted before others have their turn.
    private static let acceptedAtOnce = 64

    /// The number of rounds of jobs that run before the sockets have their turn.
    private static let jobRoundsMax = 16

    /// The number of bytes that are sent before the sockets have their turn.
    private static let turnBytesMax = 1 << 20

    /// Five seconds after memory for answers was last short: answers that waited are gone by then.
    private static let spareRoundsMax = 10

    /// How long a connection may still send a request when the server is drained and another one
    /// replaces it, so that a caller that has just sent one does not get a closed connection
    /// instead of an answer.
    private static let lastRequestTime: Duration = .milliseconds(500)

    /// Whether the loop waits for a connection without a request.
    var mayBeginRequest: Bool { !isDraining || now < lastRequestDeadline }

    /// Without connections no timer has to be checked.
    private var patience: Int32 {
        if isDraining, sharesDoors { return Self.drainMilliseconds }
        return connections.isEmpty && !isExhausted && spareRounds == 0
            ? -1 : Self.sweepMilliseconds
    }

    /// Continues with a connection after others had their turn.
    func postpone(_ connection: HTTPConnection) {
        guard !connection.isPostponed else { return }
        connection.isPostponed = true
        postponed.append(connection)
    }

    private func turn(milliseconds: Int32) {
        let waiting = postponed
        postponed = []
        let isAwake = hasJobs || !waiting.isEmpty
        var start: ContinuousClock.Instant?
        sockets.wait(milliseconds: isAwake ? 0 : milliseconds) { ready in
            now = .now
            start = start ?? now
            switch ready.descriptor {
            case loop.wakeDescriptor: loop.clearWake()
            case let door where doors.contains(door): accept(from: door)
            default:
                guard let connection = connections[ready.descriptor] else { return }
                if ready.mayRead { connection.mayRead = true }
                if ready.isEnding { connection.isEnding = true }
                if ready.isGone { connection.isGone = true }
                proceed(connection)
            }
        }
        for connection in waiting {
            now = .now
            start = start ?? now
            connection.isPostponed = false
            proceed(connection)
        }
        // Jobs may enqueue more jobs without a wake-up, endlessly if one peer keeps sending
        // requests: other connections are served in between.
        hasJobs = true
        bytesSent = 0
        for _ in 0..<Self.jobRoundsMax where hasJobs && bytesSent < Self.turnBytesMax {
            now = .now
            if now >= nextSweep { sweep() }
            hasJobs = loop.runJobs()
        }
        guard let start else { return }
        let time = (ContinuousClock.now - start).components
        turns.add(Int(clamping: time.seconds * 1_000_000 + time.attoseconds / 1_000_000_000_000))
    }

    private func accept(from door: Int32) {
        // Other connections need their turn, too.
        for _ in 0..<(isDraining ? Int(SOMAXCONN) : Self.acceptedAtOnce) where mayAccept {
            let socket = Glibc.accept(door, nil, nil)
            guard socket >= 0 else {
                let isOut = [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(errno)
                if isOut { isExhausted = true }
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

    /// Listeners have a limit of their own.
    private var served: Int { connections.count - listeners }

    /// Connections beyond the limit serve only the health of the server.
    private var mayAccept: Bool { served < connectionsMax + Self.reserve || idleKnown }

    /// Connections beyond the limit, for health checks.
    private static let reserve = 2

    /// How long a connection that exceeds a limit waits for its request.
    private static let excessTime: Duration = .seconds(2)

    /// The number of connections that are closed at once to make room, because finding them takes a
    /// while.
    private var evictedAtOnce: Int { min(16, max(1, connectionsMax / 64)) }

    /// Counts a new connection for its address, and makes room for it.
    private func count(_ connection: HTTPConnection) {
        if !naming.proxies.trusts(peer: connection.address) {
            let caller = CallerNetwork.name(of: connection.address)
            connection.countedFor = caller
            let count = traffic.callerConnections.begin(caller)
            if limits.callerConnectionsMax > 0, count > limits.callerConnectionsMax {
                connection.excess = .callerConnections
                traffic.warnings.reached("callerConnections") { (caller, count) }
            }
        }
        if served > connectionsMax {
            traffic.warnings.reached("connections") { traffic.callerConnections.most }
            evictIdle(but: connection)
            if served > connectionsMax, connection.excess == nil {
                connection.excess = .connections
            }
        }
        if connection.excess != nil {
            connection.deadline = min(connection.deadline, now + Self.excessTime)
        }
    }

    /// Closes the connections that have been idle longest.
    private func evictIdle(but new: HTTPConnection) {
        var idle = connections.values.filter { $0 !== new && $0.hasNoRequest }
        idleKnown = idle.count > evictedAtOnce
        idle.sort { $0.idleSince < $1.idleSince }
        for connection in idle.prefix(evictedAtOnce) {
            traffic.connectionsEvicted.add()
            end(connection)
        }
    }

    func acceptIfPossible() {
        let isPossible = mayAccept && !isExhausted
        guard !doors.isEmpty, isPossible != isAccepting else { return }
        isAccepting = isPossible
        for door in doors {
            switch (sharesDoors, isPossible) {
            case (true, true): _ = sockets.watchShared(door)
            case (true, false): sockets.forget(door)
            case (false, _): sockets.pause(door, !isPossible)
            }
        }
    }

    private func sweep() {
        nextSweep = now + .milliseconds(Int64(Self.sweepMilliseconds))
        isExhausted = false
        idleKnown = true
        acceptIfPossible()
        let isShort = traffic.memories.contains { $0.isShort }
        var waiting: [HTTPConnection] = []
        for connection in connections.values {
            switch connection.phase {
            case .handling where connection.isEnding: askWhetherGone(connection)
            case .answering:
                if lookAtPace(connection), isShort { waiting.append(connection) }
            case .handling, .handshaking, .reading, .streaming, .lingering, .closed: break
            }
            if isDraining, !mayBeginRequest, connection.hasNoRequest { end(connection) }
            guard connection.deadline <= now else { continue }
            switch connection.phase {
            case .handling: giveUp(connection, answer: HTTPProblem.timedOut(connection.parser))
            case .reading where connection.parser.hasBegun:
                refuse(connection, .tooSlow)
                proceed(connection)
            case .streaming: streamTimedOut(connection)
            case .reading, .handshaking, .answering, .lingering, .closed: end(connection)
            }
        }
        for memory in traffic.memories {
            cut(waiting.filter { $0.output?.share?.memory === memory }, for: memory)
        }
        if isShort { spareRounds = Self.spareRoundsMax }
        guard spareRounds > 0 else { return }
        spareRounds -= 1
        if spareRounds > 0 { SpareMemory.giveBack() } else { SpareMemory.keep() }
    }
}
