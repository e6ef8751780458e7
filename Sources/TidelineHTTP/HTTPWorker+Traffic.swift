// HTTPWorker+Traffic: the way of requests and answers through a connection.
//
//     bytes -> parser -> (handler) -> answer -> bytes -> the next request, or the end
//
// `proceed` goes on with whatever phase the connection is in until it has to wait. Sockets tell of
// changes only, so it goes on until the system says that there is nothing more.

import Glibc
import TidelineCore
import TidelineServerCore

extension HTTPWorker {
    /// Goes on until the peer or the handler has its turn.
    func proceed(_ connection: HTTPConnection) {
        while true {
            switch connection.phase {
            case .reading:
                guard readSome(connection) else {
                    // An answer of a request that has begun ends the connection.
                    if isDraining && !connection.parser.hasBegun { end(connection) }
                    return
                }
            case .answering:
                guard sendSome(connection) else { return }
            case .lingering:
                guard dropSome(connection) else { return }
            case .handling, .closed:
                return
            }
        }
    }

    // MARK: - Reading

    /// False if there is nothing to read now.
    private func readSome(_ connection: HTTPConnection) -> Bool {
        if connection.unreadStart < connection.unread.count {
            let bytes = connection.unread
            let start = connection.unreadStart
            bytes.withUnsafeBytes { bytes in
                let count = parse(connection, UnsafeRawBufferPointer(rebasing: bytes[start...]))
                connection.unreadStart = start + count
            }
            // All of it is used: an idle connection holds no memory.
            if connection.unreadStart >= bytes.count { connection.unread = [] }
            return true
        }
        guard let count = receive(connection) else { return false }
        guard count > 0 else {
            // Who leaves within a request does not wait for an answer.
            end(connection)
            return false
        }
        let taken = parse(connection, UnsafeRawBufferPointer(rebasing: input[..<count]))
        connection.unread = taken < count ? Array(input[taken..<count]) : []
        connection.unreadStart = 0
        return true
    }

    /// The number of bytes read into `input`: 0 at the end of the connection, nil if none are here.
    private func receive(_ connection: HTTPConnection) -> Int? {
        guard connection.mayRead else { return nil }
        var count = 0
        repeat {
            count = recv(connection.socket, input.baseAddress, input.count, Int32(MSG_DONTWAIT))
        } while count < 0 && errno == EINTR
        if count < 0 {
            guard errno == EAGAIN else { return 0 }
            connection.mayRead = false
            return nil
        }
        // What was there has been read; the end of the connection has no length.
        if count < input.count && !connection.isEnding { connection.mayRead = false }
        return count
    }

    /// The number of bytes that belong to the request under way.
    private func parse(_ connection: HTTPConnection, _ bytes: UnsafeRawBufferPointer) -> Int {
        let count = connection.parser.take(bytes)
        connection.keepTime(now: now, limits: limits)
        guard hold(connection.parser.request.body.count, for: connection) else {
            refuse(connection, .noMemory)
            return count
        }
        switch connection.parser.phase {
        case .head: break
        case .body:
            if connection.parser.takeExpectation() { askForBody(connection) }
        case .complete:
            handle(connection)
        case .refused(let fault):
            refuse(connection, fault)
        }
        return count
    }

    /// Some wait for a word before they send a body (RFC 9110 section 10.1.1).
    private func askForBody(_ connection: HTTPConnection) {
        let line = Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)
        let flags = Int32(MSG_NOSIGNAL | MSG_DONTWAIT)
        let count = Glibc.send(connection.socket, line, line.count, flags)
        // A part of it would be a part of the answer. Without any of it the caller comes by itself.
        if count > 0 && count < line.count { end(connection) }
    }

    // MARK: - Handling

    /// The request is whole: the handler's turn.
    private func handle(_ connection: HTTPConnection) {
        var request = connection.parser.takeRequest()
        request.id = naming.ids.id(request.headers)
        request.connection = Int(connection.socket)
        connection.id = request.id
        connection.isLast = !connection.parser.keepsAlive
        connection.phase = .handling
        connection.deadline = now + limits.handlerTimeMax
        let turn = connection.turn
        handlersRunning += 1
        connection.task = Task(executorPreference: loop) { [self, handler, request] in
            let answer = await handler(request)
            loop.checkIsolated()
            handlersRunning -= 1
            guard connection.turn == turn else { return }
            send(answer, on: connection)
            proceed(connection)
        }
    }

    /// Answers in the place of a handler that is too slow.
    ///
    /// Its own answer will be dropped.
    func giveUp(_ connection: HTTPConnection, answer: ServerResponse) {
        connection.task?.cancel()
        send(named(answer, connection), on: connection)
        proceed(connection)
    }

    /// Answers, and ends the connection: where the next request begins is not known.
    func refuse(_ connection: HTTPConnection, _ fault: RequestFault) {
        connection.isLast = true
        send(named(HTTPProblem.answer(to: fault, limits: limits), connection), on: connection)
    }

    /// An answer of ours with the name of its request; it is told to whoever keeps the log.
    private func named(_ answer: ServerResponse, _ connection: HTTPConnection) -> ServerResponse {
        var request = connection.parser.request
        request.id = connection.id.isEmpty ? naming.ids.id(request.headers) : connection.id
        request.headers = [:]
        request.body = []
        var answer = answer
        answer.headers.append("X-Request-ID", request.id)
        naming.refused(request, answer)
        return answer
    }

    // MARK: - Answering

    private func send(_ answer: ServerResponse, on connection: HTTPConnection) {
        guard (200...599).contains(answer.status) else {
            return send(named(HTTPProblem.invalidAnswer, connection), on: connection)
        }
        if isDraining { connection.isLast = true }
        let hasNoBody = answer.status == 204 || answer.status == 304
        let isCut = hasNoBody || connection.parser.request.method == "HEAD"
        head.removeAll(keepingCapacity: true)
        AnswerHead(
            status: answer.status,
            fields: answer.headers,
            contentLength: hasNoBody ? nil : answer.body.count,
            connection: connection.isLast
                ? .ends : connection.parser.isVersion10 ? .lastsInVersion10 : .lasts,
            date: dateText()
        )
        .write(to: &head)
        _ = hold(0, for: connection)
        connection.turn += 1
        connection.task = nil
        connection.phase = .answering
        connection.wholeDeadline = now + limits.answerTimeMax
        connection.deadline = min(now + limits.idleTimeMax, connection.wholeDeadline)
        connection.output = HTTPConnection.Output(
            head: head,
            body: isCut ? [] : answer.body,
            sent: 0
        )
    }

    /// False if the peer has to read first.
    private func sendSome(_ connection: HTTPConnection) -> Bool {
        guard let output = connection.output else { return false }
        let total = output.head.count + output.body.count
        var sent = output.sent
        while sent < total {
            let count = Self.write(output, from: sent, to: connection.socket)
            if count < 0 {
                if errno == EINTR { continue }
                if errno == EAGAIN {
                    connection.output?.sent = sent
                } else {
                    end(connection)
                }
                return false
            }
            sent += count
            connection.deadline = min(now + limits.idleTimeMax, connection.wholeDeadline)
        }
        connection.output = nil
        finish(connection)
        return true
    }

    /// Head and body in one call, so that they leave in one packet where they fit.
    private static func write(
        _ output: HTTPConnection.Output,
        from sent: Int,
        to socket: Int32
    ) -> Int {
        output.head.withUnsafeBytes { head in
            output.body.withUnsafeBytes { body in
                var parts = (Self.part(head, from: sent), Self.part(body, from: sent - head.count))
                return withUnsafeMutableBytes(of: &parts) { bytes in
                    bytes.withMemoryRebound(to: iovec.self) { parts in
                        var message = msghdr()
                        message.msg_iov = parts.baseAddress
                        message.msg_iovlen = parts.count
                        return sendmsg(socket, &message, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
                    }
                }
            }
        }
    }

    private static func part(_ bytes: UnsafeRawBufferPointer, from start: Int) -> iovec {
        let start = min(max(0, start), bytes.count)
        return iovec(
            iov_base: UnsafeMutableRawPointer(mutating: bytes.baseAddress.map { $0 + start }),
            iov_len: bytes.count - start
        )
    }

    /// The answer is gone: the next request, or the end.
    private func finish(_ connection: HTTPConnection) {
        guard connection.isLast else {
            connection.startOver(now: now, limits: limits)
            return
        }
        connection.unread = []
        connection.phase = .lingering
        connection.deadline = now + limits.lingerTimeMax
        shutdown(connection.socket, Int32(SHUT_WR))
    }

    /// Reads what nobody wants, until the peer closes; false if there is nothing now.
    private func dropSome(_ connection: HTTPConnection) -> Bool {
        guard let count = receive(connection) else { return false }
        connection.dropped += count
        guard count > 0, connection.dropped <= limits.lingerBytesMax else {
            end(connection)
            return false
        }
        return true
    }
}
