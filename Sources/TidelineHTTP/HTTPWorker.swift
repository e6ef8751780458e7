// HTTPWorker: one event loop thread with its share of the connections. This file has its life and
// its timers; what happens to a request is in HTTPWorker+Request.swift.

import CMicroHTTPD
import Glibc
import TidelineServerCore

typealias HTTPHandler = @Sendable (ServerRequest) async -> ServerResponse

/// How requests get their names, and who hears of those that are answered without the handler.
struct HTTPNaming: Sendable {
    var ids: RequestIDs
    var refused: @Sendable (ServerRequest, ServerResponse) -> Void
}

/// Sendable without a check because it is confined to the thread of its loop: the initialiser and
/// `listen` run before that thread starts, and everything else is called by it, by a callback of
/// the library inside its `MHD_run`, or by a task on the loop, which is its executor.
final class HTTPWorker: @unchecked Sendable {
    let loop: EventLoop
    let limits: HTTPLimits
    let handler: HTTPHandler
    let naming: HTTPNaming

    /// The time at the start of this turn of the loop.
    private(set) var now = ContinuousClock.now
    private(set) var isDraining = false
    /// The drain has run out of time: nothing may be suspended any more.
    private(set) var isStopping = false
    /// Tasks of handlers that have not returned.
    var handlersRunning = 0

    private var daemon: OpaquePointer?
    private(set) var connections: [Int32: HTTPConnection] = [:]
    private var nextSweep = ContinuousClock.now
    private var drainDeadline = ContinuousClock.now

    init(
        limits: HTTPLimits,
        naming: HTTPNaming,
        handler: @escaping HTTPHandler
    ) throws(HTTPServerError) {
        self.loop = try EventLoop()
        self.limits = limits
        self.naming = naming
        self.handler = handler
    }

    /// Takes the listening socket over; nothing is served before `run`.
    func listen(on socket: Int32, connectionsMax: Int) throws(HTTPServerError) {
        daemon = MHDDaemon.start(for: self, listening: socket, connectionsMax: connectionsMax)
        guard daemon != nil else { throw .exhausted("libmicrohttpd did not start") }
    }

    /// Undoes `listen` when `run` will not be called.
    func abandon() {
        if let daemon { MHD_stop_daemon(daemon) }
        daemon = nil
    }

    /// Serves until it is drained; `onStop` is called when the last connection is gone.
    ///
    /// Returns later than that if a handler is slow to notice that it was cancelled, since its
    /// task needs the loop to end.
    func run(onStop: () -> Void) {
        guard let daemon else { preconditionFailure("run before listen") }
        loop.bind()
        Self.blockBrokenPipeSignal()
        while !(isDraining && (connections.isEmpty || now >= drainDeadline)) {
            wait(daemon)
            // Jobs may make the library ready, and the library may make jobs, all without a
            // wake-up: sleep only after a round that had none.
            repeat {
                now = .now
                if now >= nextSweep { sweep() }
                MHD_run(daemon)
            } while loop.runJobs()
        }
        stop(daemon)
        onStop()
        while handlersRunning > 0 {
            poll(milliseconds: -1)
            while loop.runJobs() {}
        }
    }

    /// Stops listening, and ends every connection as soon as no request is under way on it.
    func beginDrain() {
        guard !isDraining, let daemon else { return }
        isDraining = true
        now = .now
        drainDeadline = now + limits.drainTimeMax
        MHD_run(daemon)  // Takes what has arrived so far.
        let listener = MHD_quiesce_daemon(daemon)
        if listener >= 0 { close(listener) }
        for connection in connections.values where connection.phase == .idle {
            cutUnlessAsked(connection)
        }
    }

    func connectionStarted(_ handle: OpaquePointer) -> HTTPConnection {
        let connection = HTTPConnection(
            handle: handle,
            socket: tideline_mhd_socket(handle),
            now: now,
            limits: limits
        )
        connections[connection.socket] = connection
        return connection
    }

    func connectionEnded(_ connection: HTTPConnection) {
        connections[connection.socket] = nil
    }

    func requestEnded(_ connection: HTTPConnection) {
        connection.endRequest(now: now, limits: limits)
        if isDraining { cutUnlessAsked(connection) }
    }

    // MARK: - The turns of the loop

    private func wait(_ daemon: OpaquePointer) {
        // Without connections there is no timer to look after.
        guard !connections.isEmpty else {
            return poll(milliseconds: -1, tideline_mhd_poll_descriptor(daemon))
        }
        var milliseconds: UInt64 = Self.sweepMilliseconds
        if MHD_get_timeout(daemon, &milliseconds) != .YES { milliseconds = Self.sweepMilliseconds }
        poll(
            milliseconds: Int32(min(milliseconds, Self.sweepMilliseconds)),
            tideline_mhd_poll_descriptor(daemon)
        )
    }

    // Sleeps until a job or a socket is ready. A negative descriptor is ignored by the system.
    private func poll(milliseconds: Int32, _ descriptor: Int32 = -1) {
        var waited = (
            pollfd(fd: loop.wakeDescriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        )
        withUnsafeMutableBytes(of: &waited) { bytes in
            bytes.withMemoryRebound(to: pollfd.self) { descriptors in
                _ = Glibc.poll(descriptors.baseAddress, nfds_t(descriptors.count), milliseconds)
            }
        }
        if waited.0.revents != 0 { loop.clearWake() }
    }

    /// Half of what `HTTPLimits` promises, as a deadline may fall between two looks.
    private static let sweepMilliseconds: UInt64 = 500

    private func sweep() {
        nextSweep = now + .milliseconds(Int64(Self.sweepMilliseconds))
        for connection in connections.values {
            if isStuck(connection) {
                cut(connection)
                continue
            }
            guard let deadline = connection.deadline, deadline <= now else { continue }
            if connection.phase == .handling {
                giveUp(connection, answer: HTTPProblem.handlerTimedOut)
            } else {
                cut(connection)
            }
        }
    }

    /// Whether nothing of a body was read since the last sweep though there was something to read.
    ///
    /// The library does not give up a chunk whose first line is longer than its memory: it asks to
    /// be run again at once, for ever.
    private func isStuck(_ connection: HTTPConnection) -> Bool {
        guard connection.phase == .body, hasUnread(connection) else {
            connection.stalledAt = nil
            return false
        }
        defer { connection.stalledAt = connection.bodyBytes }
        return connection.stalledAt == connection.bodyBytes
    }

    /// Ends a connection; the library notices in its next run.
    private func cut(_ connection: HTTPConnection) {
        connection.deadline = nil
        shutdown(connection.socket, Int32(SHUT_RDWR))
    }

    /// Ends a connection between two requests, unless the next one has begun to arrive.
    ///
    /// That one is answered, and its answer ends the connection.
    private func cutUnlessAsked(_ connection: HTTPConnection) {
        if !hasUnread(connection) { cut(connection) }
    }

    private func hasUnread(_ connection: HTTPConnection) -> Bool {
        var byte: UInt8 = 0
        return recv(
            connection.socket,
            &byte,
            1,
            Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)
        ) > 0
    }

    private func stop(_ daemon: OpaquePointer) {
        // The library must not be stopped while a connection is suspended.
        isStopping = true
        for connection in connections.values where connection.phase == .handling {
            giveUp(connection, answer: HTTPProblem.stopping)
        }
        MHD_run(daemon)
        MHD_run(daemon)
        MHD_stop_daemon(daemon)
        self.daemon = nil
    }

    /// For this thread only: what a process does about the signal is not a library's business.
    private static func blockBrokenPipeSignal() {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }
}
