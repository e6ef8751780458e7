// HTTPWorker: one event loop thread with its share of the connections. This file has its life and
// its timers; what happens on a connection is in HTTPWorker+Traffic.swift.

import CEpoll
import Glibc
import TidelineCore
import TidelineServerCore
import TidelineTLS

typealias HTTPHandler = @Sendable (ServerRequest) async -> ServerResponse

/// How requests get their names, and who hears of those that are answered without the handler.
struct HTTPNaming: Sendable {
    var ids: RequestIDs
    var proxies: TrustedProxies
    var refused: @Sendable (ServerRequest, ServerResponse) -> Void
}

/// Sendable without a check because it is confined to the thread of its loop: the initialiser and
/// `listen` run before that thread starts, and everything else is called by it, or by a task on
/// the loop, which is its executor.
final class HTTPWorker: @unchecked Sendable {
    let loop: EventLoop
    let limits: HTTPLimits
    let handler: HTTPHandler
    let naming: HTTPNaming
    let traffic: ServerTraffic
    /// What callers are shown; nil for plain HTTP.
    private let tls: TLSIdentity?

    /// The time at the start of this turn of the loop.
    var now = ContinuousClock.now
    private(set) var isDraining = false
    /// The bytes of answers that this turn of the loop has sent.
    var bytesSent = 0
    /// Tasks of handlers that have not returned.
    var handlersRunning = 0
    /// What a read fills; nothing is kept in it from one read to the next.
    let input = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
    /// The head of an answer while it is sent.
    var head: [UInt8] = []
    /// What goes into one record of TLS.
    var record: [UInt8] = []

    /// How many of the connections listen for changes.
    var listeners = 0
    /// The most listeners, of all loops together.
    private(set) var listenersMax = 0
    /// What the loop knows of the tables; nil as long as nobody listened.
    var feed: EventFeed?
    /// What listeners are told of the tables as they are.
    var eventTexts = EventTexts()
    /// Listeners that something is to be told, those from `dueStart` on.
    var due: [HTTPConnection] = []
    var dueStart = 0
    var isTelling = false

    /// Connections that had their turn and are not done.
    private var postponed: [HTTPConnection] = []

    /// How long the turns of the loop take.
    private let turns: Histogram
    private let sockets: SocketPoll
    /// Listening sockets.
    private var doors: [Int32] = []
    /// Whether somebody else has them, too, who takes what is not taken here.
    private(set) var sharesDoors = false
    private var isAccepting = true
    /// The system had no descriptor or memory for a connection when it was last asked.
    private var isExhausted = false
    private var connectionsMax = 0
    /// Whether nothing was asked on some of the connections when it was last looked.
    private var idleKnown = true
    private(set) var connections: [Int32: HTTPConnection] = [:]
    private var nextSweep = ContinuousClock.now
    /// At how many sweeps from now on spare memory goes back to the system.
    private var spareRounds = 0
    private var drainDeadline = ContinuousClock.now
    /// Until then connections without a request may still bring one, while the server is drained.
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

    /// Takes the listening sockets over; nothing is served before `run`.
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

    /// Undoes `listen` when `run` will not be called.
    func abandon() {
        for door in doors {
            // Others have it open: the system would go on to report it.
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
        // What was cancelled has become jobs of this thread, which wake nobody.
        hasJobs = true
        while handlersRunning > 0 { turn(milliseconds: -1) }
    }

    /// Stops listening, and ends every connection as soon as no request is under way on it.
    func beginDrain() {
        guard !isDraining else { return }
        isDraining = true
        now = .now
        drainDeadline = now + limits.drainTimeMax
        lastRequestDeadline = sharesDoors ? now + Self.lastRequestTime : now
        nextSweep = min(nextSweep, lastRequestDeadline)
        // Takes what has arrived so far, unless there is somebody else who does.
        if !sharesDoors { for door in doors { accept(from: door) } }
        abandon()
        for connection in connections.values {
            switch connection.phase {
            case .reading:
                connection.mayRead = true
                proceed(connection)
            case .handshaking where !sharesDoors: end(connection)
            case .streaming: dismiss(connection)
            default: break
            }
        }
    }

    /// Closes the socket, and forgets the connection.
    func end(_ connection: HTTPConnection) {
        guard connection.phase != .closed else { return }
        if connection.phase == .handling {
            // Its handler is cancelled and says nothing.
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

    /// What a usual head has is not counted, so that small requests have an answer while others hold
    /// all the memory that there is for bodies.
    private static let freeBytes = 4 << 10

    /// Counts the bytes of a request; false if they are too many with those of the others, on all
    /// loops.
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

    /// The caller that the bytes of a request count for: behind a proxy that is trusted it is known when
    /// the head is there; empty until then.
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

    /// Refuses a large request of the caller that has more bytes under way than all others.
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

    /// The time for the Date field (RFC 9110 section 6.6.1).
    func dateText() -> [UInt8] {
        let second = time(nil)
        if second != date.second {
            date = (second, Array(HTTPDate.text(microseconds: Int64(second) * 1_000_000).utf8))
        }
        return date.text
    }

    // MARK: - The turns of the loop

    /// Half of what `HTTPLimits` promises, as a deadline may fall between two looks.
    private static let sweepMilliseconds: Int32 = 500

    /// The next server waits for the end of a drain.
    private static let drainMilliseconds: Int32 = 20

    /// How many connections are accepted before others have their turn.
    private static let acceptedAtOnce = 64

    /// How often jobs that jobs made are run before the sockets have their turn.
    private static let jobRoundsMax = 16

    /// How many bytes are answered before the sockets have their turn.
    private static let turnBytesMax = 1 << 20

    /// Five seconds behind the last moment when memory for answers was short: what waited is gone then.
    private static let spareRoundsMax = 10

    /// How long a connection may still bring a request when the server is drained and another one takes
    /// over: who has sent it sees no connection that ends instead of an answer.
    private static let lastRequestTime: Duration = .milliseconds(500)

    /// Whether a connection without a request is waited for.
    var mayBeginRequest: Bool { !isDraining || now < lastRequestDeadline }

    /// Without connections there is no timer to look after.
    private var patience: Int32 {
        if isDraining, sharesDoors { return Self.drainMilliseconds }
        return connections.isEmpty && !isExhausted && spareRounds == 0
            ? -1 : Self.sweepMilliseconds
    }

    /// Goes on with a connection when others had their turn.
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
        // Jobs may make more jobs without a wake-up, for ever where one peer sends requests without
        // end: the others are looked after in between.
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
        // The others want their turn, too.
        for _ in 0..<(isDraining ? Int(SOMAXCONN) : Self.acceptedAtOnce) where mayAccept {
            let socket = Glibc.accept(door, nil, nil)
            guard socket >= 0 else {
                let isOut = [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(errno)
                if isOut { isExhausted = true }
                guard isOut || errno == EAGAIN else { continue }
                break
            }
            // Its calls say themselves that they do not wait.
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

    /// Connections beyond the limit serve the health of the server only.
    private var mayAccept: Bool { served < connectionsMax + Self.reserve || idleKnown }

    /// Connections beyond the limit, for those who ask whether the server is well.
    private static let reserve = 2

    /// How long a connection that is beyond a limit waits for its request.
    private static let excessTime: Duration = .seconds(2)

    /// How many connections are closed at once to make room: to look for them takes a while.
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

    /// Closes connections on which nothing was asked for the longest time.
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
            default: break
            }
            if isDraining, !mayBeginRequest, connection.hasNoRequest { end(connection) }
            guard connection.deadline <= now else { continue }
            switch connection.phase {
            case .handling: giveUp(connection, answer: HTTPProblem.timedOut(connection.parser))
            case .reading where connection.parser.hasBegun:
                refuse(connection, .tooSlow)
                proceed(connection)
            case .streaming: streamTimedOut(connection)
            default: end(connection)
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
