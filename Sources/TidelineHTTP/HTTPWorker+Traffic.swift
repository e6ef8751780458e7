// HTTPWorker+Traffic: the path of requests and answers through a connection.
//
//     bytes -> parser -> (handler) -> answer -> bytes -> the next request, or the end
//
// `proceed` continues in the connection's current phase until it has to wait. Sockets report only
// changes, so it continues until the system says that there is nothing more. Sending answers is in
// HTTPWorker+Answers.swift.

import Glibc
import TidelineCore
import TidelineServerCore

extension HTTPWorker {
    /// The number of reads from a connection before others take their turn; each read may return only one byte.
    private static let stepsAtOnce = 64

    /// Continues with a connection until it waits for the peer or the handler, or until other connections take
    /// their turn.
    func proceed(_ connection: HTTPConnection) {
        for _ in 0..<Self.stepsAtOnce {
            switch connection.phase {
            case .handshaking:
                guard handshake(connection) else { return }
            case .reading:
                guard readSome(connection) else {
                    // An answer of a request that has begun ends the connection.
                    if !mayBeginRequest, connection.hasNoRequest { end(connection) }
                    return
                }
            case .answering:
                guard sendSome(connection) else { return }
            case .streaming:
                guard streamSome(connection) else { return }
            case .lingering:
                guard dropSome(connection) else { return }
            case .handling:
                if connection.isGone { hangUp(connection) }
                return
            case .closed:
                return
            }
        }
        postpone(connection)
    }

    // MARK: - Reading

    /// Reads some bytes; returns false if none are available now.
    private func readSome(_ connection: HTTPConnection) -> Bool {
        if connection.input.unreadStart < connection.input.unread.count {
            let bytes = connection.input.unread
            let start = connection.input.unreadStart
            bytes.withUnsafeBytes { bytes in
                let count = parse(connection, UnsafeRawBufferPointer(rebasing: bytes[start...]))
                connection.input.unreadStart = start + count
            }
            // All bytes are used, so that an idle connection holds no memory.
            if connection.input.unreadStart >= bytes.count { connection.input.unread = [] }
            return true
        }
        switch receive(connection) {
        case .wait: return false
        case .retry: return true
        case .ended:
            // A peer that disconnects within a request does not wait for an answer.
            end(connection)
            return false
        case .bytes(let count):
            let taken = parse(connection, UnsafeRawBufferPointer(rebasing: buffers.input[..<count]))
            connection.input.unread = taken < count ? Array(buffers.input[taken..<count]) : []
            connection.input.unreadStart = 0
            return true
        }
    }

    /// Reads into `input`.
    func receive(_ connection: HTTPConnection) -> SocketRead {
        guard connection.input.mayRead else { return .wait }
        if let tls = connection.tls { return receive(connection, by: tls) }
        var count = 0
        repeat {
            count = recv(
                connection.socket,
                buffers.input.baseAddress,
                buffers.input.count,
                Int32(MSG_DONTWAIT)
            )
        } while count < 0 && errno == EINTR
        if count < 0 {
            guard errno == EAGAIN else { return .ended }
            connection.input.mayRead = false
            return .wait
        }
        // All available bytes have been read; the end of the connection has no length.
        if count < buffers.input.count && !connection.input.isEnding {
            connection.input.mayRead = false
        }
        return count > 0 ? .bytes(count) : .ended
    }

    /// Parses bytes; returns the number that belong to the current request.
    private func parse(_ connection: HTTPConnection, _ bytes: UnsafeRawBufferPointer) -> Int {
        let count = connection.request.parser.take(bytes)
        connection.keepTime(now: now, limits: limits)
        // Bytes after the request wait until it is answered.
        let buffered = connection.request.parser.bufferedBytes + bytes.count - count
        guard countRequestBytes(buffered, for: connection) else {
            reject(connection, .noMemory)
            return count
        }
        switch connection.request.parser.phase {
        case .head: break
        case .body:
            if connection.request.parser.takeExpectation() { askForBody(connection) }
        case .complete:
            handle(connection)
        case .rejected(let fault):
            reject(connection, fault)
        }
        return count
    }

    /// Sends `100 Continue`, which some callers wait for before they send the body (RFC 9110 section 10.1.1).
    private func askForBody(_ connection: HTTPConnection) { continueInterim(connection) }

    private func continueInterim(_ connection: HTTPConnection) {
        let line = Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)
        if let tls = connection.tls { return continueInterim(connection, line, by: tls) }
        let flags = Int32(MSG_NOSIGNAL | MSG_DONTWAIT)
        let count = Glibc.send(connection.socket, line, line.count, flags)
        // A part of the interim answer would corrupt the answer. If none of it was sent, the caller sends the body
        // without it.
        if count > 0 && count < line.count { end(connection) }
    }

    // MARK: - Handling

    /// Passes the complete request to the handler.
    private func handle(_ connection: HTTPConnection) {
        var request = connection.request.parser.takeRequest()
        request.id = naming.ids.id(request.headers)
        request.connection = Int(connection.socket)
        request.address = naming.proxies.caller(
            peer: connection.address,
            headers: request.headers
        )
        connection.request.id = request.id
        connection.request.caller = request.address
        if let excess = connection.excess, !Self.isHealth(request.path) {
            connection.isLast = true
            traffic.connectionsLimited.add()
            return send(named(HTTPProblem.answer(to: excess), connection), on: connection)
        }
        connection.isLast = !connection.request.parser.keepsAlive
        connection.phase = .handling
        connection.deadlines.current = now + limits.handlerTimeMax
        connection.handler.since = now
        let turn = connection.handler.turn
        handlersRunning += 1
        connection.handler.task = Task(executorPreference: loop) { [self, handler, request] in
            let answer = await handler(request)
            loop.checkIsolated()
            handlersRunning -= 1
            guard connection.handler.turn == turn else { return }
            send(answer, on: connection)
            proceed(connection)
        }
    }

    /// Whether a path is a health check, which is answered on any connection.
    private static func isHealth(_ path: String) -> Bool {
        path == "/health" || path == "/health/ready"
    }

    /// Cancels the handler, because its caller has disconnected.
    private func hangUp(_ connection: HTTPConnection) {
        traffic.hangUps.add()
        end(connection)
    }

    /// Tests whether a peer that has sent its last byte has disconnected, or is waiting for the answer.
    ///
    /// Both cases look the same to the server. It therefore sends an interim answer in HTTP/1.1: the system of
    /// a disconnected peer responds with a reset, and a waiting caller ignores it (RFC 9110 section 15.2).
    func askWhetherGone(_ connection: HTTPConnection) {
        guard !connection.input.wasAsked, !connection.request.parser.isVersion10,
            now - connection.handler.since >= Self.askPatience
        else { return }
        connection.input.wasAsked = true
        continueInterim(connection)
    }

    /// The time after which a peer is tested; most requests end sooner.
    private static let askPatience: Duration = .milliseconds(300)

    /// Sends an answer for a handler that is too slow.
    ///
    /// The handler's own answer is dropped.
    func giveUp(_ connection: HTTPConnection, answer: ServerResponse) {
        connection.handler.task?.cancel()
        send(named(answer, connection), on: connection)
        proceed(connection)
    }

    /// Rejects the request and closes the connection, because the start of the next request is unknown.
    func reject(_ connection: HTTPConnection, _ fault: RequestFault) {
        connection.isLast = true
        send(named(HTTPProblem.answer(to: fault, limits: limits), connection), on: connection)
    }

    /// Returns an answer of the server itself with the ID of its request, after reporting it to the log.
    func named(_ answer: ServerResponse, _ connection: HTTPConnection) -> ServerResponse {
        var request = connection.request.parser.request
        request.id =
            connection.request.id.isEmpty ? naming.ids.id(request.headers) : connection.request.id
        request.address =
            connection.request.caller.isEmpty
            ? naming.proxies.caller(peer: connection.address, headers: request.headers)
            : connection.request.caller
        request.headers = [:]
        request.body = []
        var answer = answer
        answer.headers.append("X-Request-ID", request.id)
        naming.rejected(request, answer)
        return answer
    }
}
