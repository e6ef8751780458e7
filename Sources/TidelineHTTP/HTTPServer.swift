// HTTPServer: an HTTP/1.1 server of a few event loop threads that share one port.
//
// It handles requests and answers as values and knows nothing of tables. HTTP/2 is left to a
// reverse proxy in front of it.

import Glibc
import Synchronization
package import TidelineServerCore
package import TidelineTLS

/// An HTTP/1.1 server.
///
/// ```swift
/// let server = try HTTPServer(host: "127.0.0.1", port: 0, limits: HTTPLimits()) { request in
///     ServerResponse(status: 200, body: Array("You asked for \(request.path)".utf8))
/// }
/// let port = try server.start()
/// // …
/// await server.drain()
/// ```
///
/// The handler runs on the thread of its connection's event loop, and so do the actors that it awaits, unless
/// they have their own executor. Blocking work, such as that of a database, has to run on another thread;
/// awaiting it from the handler is cheap.
package final class HTTPServer: Sendable {
    private enum Phase {
        case ready
        case running
        case draining
    }

    private struct State {
        var phase = Phase.ready
        var workers: [HTTPWorker] = []
        var workersRunning = 0
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let host: String
    private let port: Int
    private let limits: HTTPLimits
    private let loops: Int
    private let naming: HTTPNaming
    private let traffic: ServerTraffic
    private let tls: TLSIdentity?
    private let handed: HandedSockets?
    private let handler: @Sendable (ServerRequest) async -> ServerResponse
    private let state = Mutex(State())

    /// Creates a server that does nothing until it is started.
    ///
    /// - Parameters:
    ///   - host: An IPv4 or IPv6 address of this machine, or `localhost` for 127.0.0.1.
    ///   - port: The port, or 0 for a free one.
    ///   - limits: The limits for requests, connections and waits.
    ///   - loops: The number of threads that serve connections, at least one.
    ///   - handler: The function that answers a request. It is cancelled after `handlerTimeMax`.
    package convenience init(
        host: String,
        port: Int,
        limits: HTTPLimits,
        loops: Int = 2,
        handler: @escaping @Sendable (ServerRequest) async -> ServerResponse
    ) {
        self.init(
            host: host,
            port: port,
            limits: limits,
            loops: loops,
            ids: RequestIDs(prefix: "request"),
            traffic: ServerTraffic(answersBytesMax: limits.answersBytesMax),
            rejected: { _, _ in },
            handler: handler
        )
    }

    /// Creates a server whose requests have IDs, and which speaks TLS if `tls` is given.
    ///
    /// Each request gets an ID from `ids` before it reaches the handler; `rejected` is called for requests that
    /// do not reach it, and for those whose handler was too slow. The `proxies` are trusted to report the
    /// client's address. If sockets are passed, the server listens on them instead of `host` and `port`.
    package init(
        host: String,
        port: Int,
        limits: HTTPLimits,
        loops: Int = 2,
        ids: RequestIDs,
        traffic: ServerTraffic,
        tls: TLSIdentity? = nil,
        proxies: TrustedProxies = .none,
        handed: HandedSockets? = nil,
        rejected: @escaping @Sendable (ServerRequest, ServerResponse) -> Void,
        handler: @escaping @Sendable (ServerRequest) async -> ServerResponse
    ) {
        precondition(loops > 0, "loops is a count of threads, at least one")
        self.host = host
        self.port = port
        self.limits = limits
        self.loops = loops
        naming = HTTPNaming(ids: ids, proxies: proxies, rejected: rejected)
        self.traffic = traffic
        self.tls = tls
        self.handed = handed
        self.handler = handler
    }

    /// Starts to listen, and serves until the server is drained.
    ///
    /// A server can be started only once, even if the start failed because there were no threads left.
    ///
    /// - Returns: The port that was bound.
    /// - Throws: ``HTTPServerError``, with code `alreadyStarted` for a second start. If the address
    ///   cannot be listened on, the server may be started again.
    package func start() throws -> Int {
        try state.withLock { state in
            guard state.phase == .ready else { throw HTTPServerError.startedTwice }
            let (sockets, port) = try listen()
            let workers = try makeWorkers(sockets)
            handed?.release()
            state.phase = .running
            state.workers = workers
            state.workersRunning = workers.count
            for (index, worker) in workers.enumerated() {
                do {
                    try LoopThread.start { [self] in run(worker) }
                } catch {
                    state.phase = .draining
                    state.workersRunning = index
                    for started in workers[..<index] { Self.drain(started) }
                    for other in workers[index...] { other.abandon() }
                    throw error
                }
            }
            return port
        }
    }

    /// Ends the server: stops accepting connections, waits for current requests, and closes all connections.
    ///
    /// Returns when everything is done, at the latest after `drainTimeMax`: requests that are not answered by then get
    /// 503 if it can be sent immediately. The method may be called more than once; each call waits for the end.
    package func drain() async {
        let workers = state.withLock { state in
            let workers = state.phase == .running ? state.workers : []
            state.phase = .draining
            return workers
        }
        for worker in workers { Self.drain(worker) }
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if state.workersRunning > 0 { state.waiting.append(continuation) }
                return state.workersRunning == 0
            }
            if isOver { continuation.resume() }
        }
    }

    private static func drain(_ worker: HTTPWorker) {
        Task(executorPreference: worker.loop) { worker.beginDrain() }
    }

    /// Returns the maximum numbers of connections and listeners for which there are descriptors.
    ///
    /// The limit of the process is raised as far as possible; some descriptors are left for files.
    private static func sockets(_ limits: HTTPLimits) -> (connections: Int, listeners: Int) {
        let (connections, listeners) = (max(0, limits.connectionsMax), max(0, limits.listenersMax))
        let wanted = rlim_t(connections) + rlim_t(listeners) + rlim_t(filesReserved)
        let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(files, &limit) == 0 else { return (connections, listeners) }
        if limit.rlim_cur < wanted {
            limit.rlim_cur = min(wanted, limit.rlim_max)
            setrlimit(files, &limit)
            getrlimit(files, &limit)
        }
        let available = max(0, Int(clamping: limit.rlim_cur) - filesReserved)
        let left = available - min(connections, connectionsWanted)
        let listening = min(listeners, max(left, available / 2))
        return (min(connections, available - listening), listening)
    }

    /// The number of connections that have priority over listeners if there are few descriptors.
    private static let connectionsWanted = 1000

    /// The number of descriptors that are left for the database and for other files.
    private static let filesReserved = 64

    /// Returns the listening sockets of each event loop, and the port.
    private func listen() throws -> (sockets: [[Int32]], port: Int) {
        guard let handed else {
            let (sockets, port) = try ListenSocket.open(host: host, port: port, count: loops)
            return (sockets.map { [$0] }, port)
        }
        var sockets: [[Int32]] = []
        do {
            for _ in 0..<loops { sockets.append(try handed.copies()) }
        } catch {
            for socket in sockets.joined() { close(socket) }
            throw error
        }
        return (sockets, handed.port)
    }

    /// Returns when each event loop has run once.
    package func pulse() async {
        for worker in state.withLock({ $0.workers }) {
            await Task(executorPreference: worker.loop) {}.value
        }
    }

    private func makeWorkers(_ sockets: [[Int32]]) throws -> [HTTPWorker] {
        let most = Self.sockets(limits)
        var workers: [HTTPWorker] = []
        do {
            for listening in sockets {
                let worker = try HTTPWorker(
                    limits: limits,
                    naming: naming,
                    traffic: traffic,
                    tls: tls,
                    handler: handler
                )
                try worker.listen(
                    on: listening,
                    areShared: handed != nil,
                    connectionsMax: max(1, most.connections / sockets.count),
                    listenersMax: most.listeners
                )
                workers.append(worker)
            }
            return workers
        } catch {
            for worker in workers { worker.abandon() }
            for socket in sockets.dropFirst(workers.count).joined() { close(socket) }
            throw error
        }
    }

    private func run(_ worker: HTTPWorker) {
        worker.run { [self] in
            let waiting = state.withLock { state in
                state.workersRunning -= 1
                guard state.workersRunning == 0 else { return [CheckedContinuation<Void, Never>]() }
                defer { state.waiting = [] }
                return state.waiting
            }
            for continuation in waiting { continuation.resume() }
        }
    }
}
