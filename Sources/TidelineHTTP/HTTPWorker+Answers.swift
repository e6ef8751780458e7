// HTTPWorker+Answers: sends answers: the head, the bytes, and the handling of slow callers.

import CEpoll
import Glibc
import TidelineServerCore
import TidelineTLS

extension HTTPWorker {
    func send(_ answer: ServerResponse, on connection: HTTPConnection) {
        guard (200...599).contains(answer.status) else {
            return send(named(HTTPProblem.invalidAnswer, connection), on: connection)
        }
        var answer = answer
        if answer.share == nil, answer.body.count > ResponseMemory.smallBytes {
            answer.share = traffic.answers.reserveNow(answer.body.count)
            if answer.share == nil { answer = named(HTTPProblem.noMemory, connection) }
        }
        if isDraining { connection.isLast = true }
        let isHead = connection.request.parser.request.method == "HEAD"
        if let stream = answer.stream, !isHead { return begin(stream, answer, on: connection) }
        let hasNoBody = answer.status == 204 || answer.status == 304
        let isCut = hasNoBody || isHead
        writeHead(
            of: answer,
            contentLength: hasNoBody || answer.stream != nil ? nil : answer.body.count,
            connection
        )
        // Bytes that arrived after the request stay.
        _ = countRequestBytes(connection.input.unread.count, for: connection)
        connection.handler.turn += 1
        connection.handler.task = nil
        connection.phase = .answering
        connection.deadlines.whole = now + limits.answerTimeMax
        connection.deadlines.current = min(now + limits.idleTimeMax, connection.deadlines.whole)
        connection.output = HTTPConnection.Output(
            head: buffers.head,
            body: isCut ? [] : answer.body,
            sent: 0,
            share: isCut ? nil : answer.share
        )
    }

    /// Writes the head of an answer to `head`.
    func writeHead(of answer: ServerResponse, contentLength: Int?, _ connection: HTTPConnection) {
        buffers.head.removeAll(keepingCapacity: true)
        AnswerHead(
            status: answer.status,
            fields: answer.headers,
            contentLength: contentLength,
            connection: connection.isLast
                ? .ends : connection.request.parser.isVersion10 ? .lastsInVersion10 : .lasts,
            date: dateText()
        )
        .write(to: &buffers.head)
    }

    /// Sends more of the answer; returns false if the peer has to read first.
    func sendSome(_ connection: HTTPConnection) -> Bool {
        guard push(connection) else { return false }
        finish(connection)
        return true
    }

    /// Sends the buffered output; returns false if some of it is left.
    func push(_ connection: HTTPConnection) -> Bool {
        guard var output = connection.output else { return false }
        while output.left > 0 {
            let result =
                connection.tls.map { write(output, by: $0) }
                ?? Self.write(output, from: output.sent, to: connection.socket)
            switch result {
            case .sent(let count):
                output.sent += count
                pending.bytesSent += count
                connection.deadlines.current = min(
                    now + limits.idleTimeMax,
                    connection.deadlines.whole
                )
            case .wait:
                connection.output = nil
                keep(&output, connection.socket)
                connection.output = output
                return false
            case .failed:
                end(connection)
                return false
            }
        }
        connection.output = nil
        return true
    }

    /// Counts the bytes that wait for the peer, and releases those that were sent.
    private func keep(_ output: inout HTTPConnection.Output, _ socket: Int32) {
        if output.sent >= output.head.count, output.sent >= output.left {
            output.dropped += output.sent
            output.body = Array(output.body[(output.sent - output.head.count)...])
            output.head = []
            output.sent = 0
        }
        let bytes = output.head.count + output.body.count
        if let share = output.share {
            share.resize(to: bytes)
        } else {
            output.share = traffic.answers.count(bytes)
        }
        if output.pace == nil { output.pace = ReadPace(taken: taken(output, socket), now: now) }
    }

    /// Returns the number of bytes of the answer that the peer's system has accepted.
    private func taken(_ output: HTTPConnection.Output, _ socket: Int32) -> Int {
        output.dropped + output.sent - Int(tideline_untaken(socket))
    }

    // MARK: - Callers that do not read

    /// Measures how fast the peer reads its answer; returns false if no bytes are left to read.
    func measurePace(_ connection: HTTPConnection) -> Bool {
        guard let output = connection.output, output.pace != nil else { return false }
        connection.output?.pace?.measure(
            taken: taken(output, connection.socket),
            now: now,
            rateMin: limits.answerRateMin
        )
        return true
    }

    /// Closes connections whose peers occupy memory for answers and read nothing, or read too slowly.
    ///
    /// If an answer waits for memory, the connections that have been idle longest are closed first. Slow peers
    /// are disconnected only if closing the idle connections is not enough, beginning with those that have the
    /// most bytes left.
    func cut(_ waiting: [HTTPConnection], for answers: ResponseMemory) {
        let idle = waiting.filter { $0.output?.pace?.isIdle(now: now) == true }
        var isCut = false
        for connection in idle.sorted(by: Self.goesBefore) where answers.isWanted {
            cut(connection)
            isCut = true
        }
        // Memory that was just released is used first.
        if isCut && !answers.isWanted { return }
        let slow = waiting.filter { $0.output?.pace?.isSlow == true }
        for connection in slow.sorted(by: { $0.bytesLeft > $1.bytesLeft }) where answers.isShort {
            cut(connection)
        }
    }

    private func cut(_ connection: HTTPConnection) {
        guard connection.phase == .answering else { return }
        traffic.slowReaders.add()
        end(connection)
    }

    private static func goesBefore(_ one: HTTPConnection, _ other: HTTPConnection) -> Bool {
        guard let pace = one.output?.pace, let others = other.output?.pace else { return false }
        return pace.hasWaitedLonger(than: others)
    }

    // MARK: - Sending

    /// Writes head and body in one call, so that they are sent in one packet if they fit.
    private static func write(
        _ output: HTTPConnection.Output,
        from sent: Int,
        to socket: Int32
    ) -> SocketWrite {
        while true {
            let count = writeOnce(output, from: sent, to: socket)
            if count >= 0 { return .sent(count) }
            if errno != EINTR { return errno == EAGAIN ? .wait : .failed }
        }
    }

    private static func writeOnce(
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

    /// Completes a sent answer: continues with the next request, or ends the connection.
    func finish(_ connection: HTTPConnection) {
        guard connection.isLast else {
            connection.startOver(now: now, limits: limits)
            return
        }
        connection.input.unread = []
        _ = countRequestBytes(0, for: connection)
        connection.phase = .lingering
        connection.deadlines.current = now + limits.lingerTimeMax
        connection.tls?.close()
        // Bytes that still arrive are dropped unread.
        connection.tls = nil
        shutdown(connection.socket, Int32(SHUT_WR))
    }

    /// Reads and drops bytes until the peer closes; returns false if none are available now.
    func dropSome(_ connection: HTTPConnection) -> Bool {
        switch receive(connection) {
        case .wait: return false
        case .retry: return true
        case .bytes(let count):
            connection.input.dropped += count
            if connection.input.dropped <= limits.lingerBytesMax { return true }
        case .ended: break
        }
        end(connection)
        return false
    }
}
