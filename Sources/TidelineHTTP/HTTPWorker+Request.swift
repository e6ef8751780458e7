// HTTPWorker+Request: the way of one request through its connection. The library calls
//
//     requestLine -> head -> body* -> complete -> (handler) -> answer
//
// and a step that refuses the request answers at once.

import CMicroHTTPD
import Glibc
import TidelineCore
import TidelineServerCore

extension HTTPWorker {
    func requestLine(_ connection: HTTPConnection, _ target: UnsafePointer<CChar>) {
        let bytes = UnsafeRawBufferPointer(start: target, count: strlen(target))
        connection.beginRequest(target: RequestTarget(bytes), now: now, limits: limits)
        connection.targetEnd = bytes.baseAddress.map { $0 + bytes.count }
        // The library would keep a record of each parameter, and close without an answer when
        // there are too many for its memory. It works in place, so the query ends here for it.
        if let mark = strchr(target, Int32(UInt8(ascii: "?"))) { mark[1] = 0 }
    }

    /// The head is complete.
    func head(
        _ connection: HTTPConnection,
        method: UnsafePointer<CChar>,
        version: UnsafePointer<CChar>
    ) -> MHD_Result {
        connection.phase = .body
        connection.deadline = connection.requestDeadline
        connection.method = String(cString: method)
        guard let target = connection.target else {
            return refuse(connection, HTTPProblem.badTarget)
        }
        var head = Head(layout: HeadLayout(version: version))
        withUnsafeMutablePointer(to: &head) { head in
            _ = MHD_get_connection_values_n(connection.handle, .HEADER_KIND, takeField, head)
        }
        head.check.finish(isVersion11: strcmp(version, "HTTP/1.1") == 0)
        head.layout.finish(headEnd: method + tideline_mhd_head_size(connection.handle))
        if HeadLayout.isNeeded {
            // A NUL ends the target for the library, and not for a proxy.
            guard connection.targetEnd.map({ $0 + 1 }) == UnsafeRawPointer(version) else {
                return refuse(connection, HTTPProblem.badTarget)
            }
            guard head.layout.isWhole else {
                return refuse(
                    connection,
                    HTTPProblem.badRequest("A header line is not well formed.")
                )
            }
        }
        if let problem = head.check.problem {
            return refuse(connection, HTTPProblem.badRequest(problem))
        }
        // The library is as careless with chunks and trailers as with lines: what follows them on
        // the connection may be something else for a proxy, so it is not read.
        connection.isLast = head.check.isChunked
        let length = head.check.contentLength ?? 0
        if length > limits.bodyBytesMax { return refuseBody(connection) }
        var request = ServerRequest(
            method: connection.method,
            path: target.path,
            query: target.query,
            headers: head.fields
        )
        request.id = naming.ids.id(head.fields)
        connection.id = request.id
        // A length is only a claim: no more is set aside for it than a busy server can spare.
        if length > 0 { request.body.reserveCapacity(min(length, 64 << 10)) }
        connection.request = request
        return .YES
    }

    /// Answers in place of the library, which refuses some complete heads on its own before `head`
    /// and then sends its answer with the head twice: who reads on takes the second for another.
    ///
    /// The library does not tell which connection it is. It is the one whose head is complete and
    /// was not shown to `head`; there is no other, as a head is shown in the same turn.
    func libraryRefuses(_ answer: ServerResponse) {
        let refused = connections.values.filter {
            $0.phase == .head && tideline_mhd_head_size($0.handle) > 0
        }
        guard refused.count == 1, let connection = refused.first else { return }
        let bytes = HTTPProblem.wholeMessage(named(answer, connection))
        _ = Glibc.send(connection.socket, bytes, bytes.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT))
        // The library finds the socket closed when it sends its own.
        shutdown(connection.socket, Int32(SHUT_WR))
        connection.phase = .answering
    }

    /// A part of the body is here.
    func body(_ connection: HTTPConnection, _ bytes: UnsafeRawBufferPointer) -> MHD_Result {
        connection.bodyBytes += bytes.count
        if connection.bodyBytes <= limits.bodyBytesMax {
            connection.request?.body.append(contentsOf: bytes)
            return .YES
        }
        // The library takes an answer only between requests, so what follows is swallowed: up to
        // as much again, then the connection is closed without an answer.
        connection.request?.body = []
        return connection.bodyBytes - limits.bodyBytesMax <= limits.bodyBytesMax ? .YES : .NO
    }

    /// The body is complete: the handler's turn.
    func complete(_ connection: HTTPConnection) -> MHD_Result {
        guard connection.bodyBytes <= limits.bodyBytesMax else { return refuseBody(connection) }
        guard let request = connection.request else { return .NO }
        if isStopping { return refuse(connection, HTTPProblem.stopping) }
        connection.request = nil
        connection.phase = .handling
        connection.deadline = now + limits.handlerTimeMax
        let turn = connection.turn
        handlersRunning += 1
        connection.task = Task(executorPreference: loop) { [self, handler] in
            suspend(connection, turn)
            let answer = await handler(request)
            loop.checkIsolated()
            handlersRunning -= 1
            guard connection.turn == turn, connection.answer == nil else { return }
            resume(connection, with: answer)
        }
        return .YES
    }

    /// Makes the library leave the connection alone until it is resumed.
    ///
    /// Not within its callback: there it expects more to read, looks for it when the connection is
    /// resumed, and drops the answer of a peer that has sent its last and waits.
    private func suspend(_ connection: HTTPConnection, _ turn: UInt64) {
        guard connection.turn == turn, connection.answer == nil else { return }
        MHD_suspend_connection(connection.handle)
        connection.isSuspended = true
    }

    // Answers in the place of a handler that is too slow. Its own answer will be dropped.
    func giveUp(_ connection: HTTPConnection, answer: ServerResponse) {
        guard connection.answer == nil else { return }
        connection.task?.cancel()
        resume(connection, with: named(answer, connection))
    }

    /// The connection runs on after its handler.
    func answer(_ connection: HTTPConnection) -> MHD_Result {
        // Without an answer the library looks again later.
        guard let answer = connection.answer else { return .YES }
        connection.answer = nil
        return send(answer, on: connection, isLast: connection.isLast || isDraining)
    }

    private func resume(_ connection: HTTPConnection, with answer: ServerResponse) {
        connection.answer = answer
        connection.turn += 1
        connection.deadline = nil
        connection.task = nil
        if connection.isSuspended { MHD_resume_connection(connection.handle) }
        connection.isSuspended = false
    }

    private func refuseBody(_ connection: HTTPConnection) -> MHD_Result {
        refuse(connection, HTTPProblem.contentTooLarge(bytesMax: limits.bodyBytesMax))
    }

    /// Answers and closes: what else the peer sends is not worth reading.
    private func refuse(_ connection: HTTPConnection, _ answer: ServerResponse) -> MHD_Result {
        send(named(answer, connection), on: connection, isLast: true)
    }

    /// An answer of ours with the name of its request; it is told to whoever keeps the log.
    private func named(_ answer: ServerResponse, _ connection: HTTPConnection) -> ServerResponse {
        var request = ServerRequest(
            method: connection.method,
            path: connection.target?.path ?? "",
            query: connection.target?.query ?? ""
        )
        request.id = connection.id
        if request.id.isEmpty {
            // The fields were not all taken.
            var fields = HTTPFields()
            if let own = MHD_lookup_connection_value(
                connection.handle,
                .HEADER_KIND,
                "X-Request-ID"
            ) {
                fields.append("X-Request-ID", String(cString: own))
            }
            request.id = naming.ids.id(fields)
        }
        var answer = answer
        answer.headers.append("X-Request-ID", request.id)
        naming.refused(request, answer)
        return answer
    }

    private func send(
        _ answer: ServerResponse,
        on connection: HTTPConnection,
        isLast: Bool
    ) -> MHD_Result {
        guard (200...599).contains(answer.status) else {
            let problem = named(HTTPProblem.invalidAnswer, connection)
            return send(problem, on: connection, isLast: isLast)
        }
        connection.phase = .answering
        connection.deadline = now + limits.answerTimeMax
        guard let response = Self.response(answer) else { return .NO }
        defer { MHD_destroy_response(response) }
        for field in answer.headers {
            // Refuses line breaks, so no value can add a header of its own.
            MHD_add_response_header(response, field.name, field.value)
        }
        if isLast { MHD_add_response_header(response, "Connection", "close") }
        return MHD_queue_response(connection.handle, UInt32(answer.status), response)
    }

    private static func response(_ answer: ServerResponse) -> OpaquePointer? {
        if answer.body.isEmpty || answer.status == 204 || answer.status == 304 {
            return MHD_create_response_from_buffer(0, nil, .RESPMEM_PERSISTENT)
        }
        return answer.body.withUnsafeBytes { bytes in
            MHD_create_response_from_buffer(
                bytes.count,
                UnsafeMutableRawPointer(mutating: bytes.baseAddress),
                .RESPMEM_MUST_COPY
            )
        }
    }
}

/// What is gathered while the library lists the header fields.
private struct Head {
    var layout: HeadLayout
    var check = FramingCheck()
    var fields = HTTPFields()
}

private let takeField: MHD_KeyValueIteratorN = { context, _, name, nameCount, value, valueCount in
    guard let head = context?.assumingMemoryBound(to: Head.self) else { return .NO }
    let name = UnsafeRawBufferPointer(start: name, count: nameCount)
    let value = UnsafeRawBufferPointer(start: value, count: valueCount)
    head.pointee.layout.line(name: name, value: value)
    head.pointee.check.field(name: name, value: value)
    if head.pointee.check.problem != nil { return .NO }
    head.pointee.fields.append(String(decoding: name, as: UTF8.self), value.trimmed.headerText)
    return .YES
}
