// HTTPWorker+Streams: answers without an end: connections that listen for changes.
//
// A listener has no task and no queue: a commit sets bits, and the events for them are written when
// the socket takes them. All listeners of a loop share one wake-up for a commit.

import Glibc
import TidelineServerCore

extension HTTPWorker {
    /// Begins an event stream as the answer.
    func begin(_ stream: EventStream, _ answer: ServerResponse, on connection: HTTPConnection) {
        if isDraining {
            return send(
                named(HTTPProblem.stopping(connection.request.parser), connection),
                on: connection
            )
        }
        if limits.callerListenersMax > 0,
            traffic.callerListeners.count(of: stream.caller) >= limits.callerListenersMax
        {
            let count = traffic.callerListeners.count(of: stream.caller)
            traffic.warnings.reached("callerListeners") { (stream.caller, count) }
            traffic.connectionsLimited.add()
            return send(named(HTTPProblem.tooManyOwnListeners, connection), on: connection)
        }
        if traffic.listeners.current >= streams.countMax {
            traffic.warnings.reached("listeners") { traffic.callerListeners.most }
            makeRoom(forListenerOf: stream.caller)
        }
        guard traffic.listeners.current < streams.countMax else {
            return send(named(HTTPProblem.tooManyListeners, connection), on: connection)
        }
        traffic.callerListeners.begin(stream.caller)
        keepShort(connection.socket)
        let listener = stream.listener(openFeed())
        traffic.listeners.add()
        streams.count += 1
        connection.stream = HTTPConnection.Stream(listener: listener, caller: stream.caller)
        connection.isLast = true
        writeHead(of: answer, contentLength: nil, connection)
        connection.handler.turn += 1
        connection.handler.task = nil
        connection.phase = .streaming
        connection.forgetRequest(limits)
        _ = countRequestBytes(0, for: connection)
        connection.deadlines.whole =
            now + (stream.lasts.map { Duration.microseconds($0) } ?? Self.withoutEnd)
        connection.deadlines.current = min(now + limits.eventsHeartbeat, connection.deadlines.whole)
        connection.output = HTTPConnection.Output(
            head: buffers.head,
            body: listener.opening(feedTimestamps),
            sent: 0
        )
        acceptIfPossible()
    }

    /// The size of the system's buffer for a listener that does not read.
    ///
    /// An event in that buffer is delivered however late it is read; events that are not yet in it are merged
    /// into one for each table.
    private static let listenerBufferBytes: Int32 = 16 << 10

    private func keepShort(_ socket: Int32) {
        var bytes = Self.listenerBufferBytes
        setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, socklen_t(MemoryLayout<Int32>.size))
    }

    /// A duration longer than the lifetime of any process.
    private static let withoutEnd: Duration = .seconds(1 << 32)

    /// Sends events until the peer has to read or no event is left; returns true when the stream is over.
    func streamSome(_ connection: HTTPConnection) -> Bool {
        while connection.phase == .streaming {
            if connection.isGone {
                end(connection)
                return false
            }
            if connection.output != nil {
                guard push(connection) else { return false }
                connection.deadlines.current = min(
                    now + limits.eventsHeartbeat,
                    connection.deadlines.whole
                )
            }
            if var listener = connection.stream?.listener, listener.isPending {
                let events = streams.texts.next(for: &listener, feedTimestamps)
                connection.stream?.listener = listener
                connection.output = HTTPConnection.Output(head: [], body: events, sent: 0)
            } else if connection.input.isEnding, !connection.input.wasAsked {
                // If the peer has disconnected, its system answers these bytes with a reset.
                connection.input.wasAsked = true
                beat(connection)
            } else {
                return false
            }
        }
        return true
    }

    /// Handles a listener's deadline: it has not read, its token has expired, or a heartbeat is due.
    func streamTimedOut(_ connection: HTTPConnection) {
        if connection.output != nil {
            end(connection)
        } else if now >= connection.deadlines.whole {
            dismiss(connection)
        } else {
            beat(connection)
            proceed(connection)
        }
    }

    private func beat(_ connection: HTTPConnection) {
        connection.output = HTTPConnection.Output(
            head: [],
            body: EventListener.heartbeat,
            sent: 0
        )
    }

    /// Ends a stream properly, or closes the connection if its peer does not read.
    func dismiss(_ connection: HTTPConnection) {
        guard connection.phase == .streaming else { return }
        guard connection.output == nil else { return end(connection) }
        stopListening(connection)
        connection.phase = .answering
        connection.deadlines.whole = now + limits.answerTimeMax
        connection.deadlines.current = min(now + limits.idleTimeMax, connection.deadlines.whole)
        connection.output = HTTPConnection.Output(
            head: [],
            body: EventListener.farewell,
            sent: 0
        )
        proceed(connection)
    }

    /// Removes a listener from the counts.
    func stopListening(_ connection: HTTPConnection) {
        guard let stream = connection.stream else { return }
        connection.stream = nil
        streams.count -= 1
        traffic.listeners.add(-1)
        traffic.callerListeners.end(stream.caller)
    }

    /// Ends the oldest stream on this loop of the caller with the most streams, if the new caller
    /// has fewer.
    private func makeRoom(forListenerOf caller: String) {
        guard let most = traffic.callerListeners.most,
            most.count > traffic.callerListeners.count(of: caller) + 1
        else { return }
        let own = connections.values.filter { $0.stream?.caller == most.caller }
        guard let first = own.min(by: { $0.deadlines.idleSince < $1.deadlines.idleSince }) else {
            return
        }
        traffic.connectionsEvicted.add()
        dismiss(first)
    }

    // MARK: - Changes

    /// Returns the loop's feed of changes, which is created for the first listener.
    private func openFeed() -> EventFeed {
        if let feed = streams.feed { return feed }
        let opened = traffic.events.attach { [self] in
            Task(executorPreference: loop) { [self] in notifyListeners() }
        }
        streams.feed = opened
        return opened
    }

    func closeFeed() {
        if let feed = streams.feed { traffic.events.detach(feed) }
        streams.feed = nil
    }

    private var feedTimestamps: [Int64] { streams.feed?.timestamps ?? [] }

    /// Flags the listeners of each changed table, and begins to notify them.
    private func notifyListeners() {
        guard let changed = streams.feed?.refresh(), !changed.isEmpty else { return }
        streams.texts.begin()
        for connection in connections.values where connection.phase == .streaming {
            guard connection.stream?.note(changed) == true, connection.output == nil,
                connection.stream?.isDue == false
            else { continue }
            connection.stream?.isDue = true
            streams.due.append(connection)
        }
        guard !streams.isNotifying else { return }
        streams.isNotifying = true
        notifyNextListeners()
    }

    /// The number of listeners that are notified before other connections take their turn.
    private static let notifiedAtOnce = 64

    private func notifyNextListeners() {
        now = .now
        let end = min(streams.due.count, streams.dueStart + Self.notifiedAtOnce)
        for connection in streams.due[streams.dueStart..<end] {
            connection.stream?.isDue = false
            if connection.phase == .streaming { proceed(connection) }
        }
        streams.dueStart = end
        guard streams.dueStart == streams.due.count else {
            Task(executorPreference: loop) { [self] in notifyNextListeners() }
            return
        }
        streams.due = []
        streams.dueStart = 0
        streams.isNotifying = false
    }
}
