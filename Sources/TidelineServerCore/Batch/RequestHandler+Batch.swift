// RequestHandler+Batch: `POST /$batch`: from its body to its answer.

import TidelineCore

extension RequestHandler {
    /// Answers a batch.
    ///
    /// Not on the caller's thread, which serves others, too: a batch is as much work as all its
    /// requests.
    @concurrent
    func batch(_ request: ServerRequest, user: User?) async throws -> ServerResponse {
        guard request.method == "POST" else { throw ServerError.methodNotAllowed("POST") }
        let head = RequestHead(request.headers)
        try Self.checkNames(head)
        try Self.checkType(head)
        let envelope = try BatchReader.read(
            request.body,
            origin: BatchOrigin(host: head.host, publicURL: service.settings.publicURL),
            limits: service.settings.limits
        )
        let preferences = head.preferences
        var run = try BatchRun(
            envelope,
            of: request,
            user: user,
            service: service,
            continuesOnError: preferences.continuesOnError ?? false
        ) { await perform($0, user: user) }
        // What is done has to be told: there is no refusal for want of memory behind it.
        let share = try await room(for: envelope)
        let answers = await AnswerMemory.$isGiven.withValue(true) { await run.run() }
        note(envelope, answers, id: request.id)
        var response = ServerResponse(
            status: 200,
            headers: ["Content-Type": "application/json; charset=utf-8"],
            body: BatchAnswers.body(envelope, answers)
        )
        response.share = share
        if preferences.continuesOnError != nil {
            response.headers.append("Preference-Applied", preferences.continuesOnErrorText)
        }
        return response
    }

    /// What the answer about one row likely has.
    private static let rowBytesLikely = 4096

    /// Room for all answers, before any of it is done; nil when they are likely small.
    private func room(for envelope: BatchEnvelope) async throws -> AnswerShare? {
        let limits = service.settings.limits
        var bytes = 0
        for request in envelope.requests where bytes < limits.batchAnswerBytes {
            switch (request.route, request.method) {
            case (.table, "GET"), (.endpoint, _): bytes += limits.pageBytes
            default: bytes += Self.rowBytesLikely
            }
        }
        guard bytes > AnswerMemory.smallBytes else { return nil }
        return try await service.settings.traffic.answers.room(
            for: min(bytes, limits.batchAnswerBytes)
        )
    }

    /// A batch has no name of its own: whoever sends one counts on what is not so.
    private static func checkNames(_ head: RequestHead) throws {
        guard head.repeatability == RepeatKey.Fields() else { throw ServerError.namedBatch }
    }

    private static func checkType(_ head: RequestHead) throws {
        let type = head.contentType?.lowercased() ?? ""
        if type.hasPrefix("multipart/") { throw ServerError.multipartBatch }
        guard head.bodyType == .json else { throw ServerError.notJSON }
        if head.isCoded { throw ServerError.codedBody }
    }

    /// Counts and logs the requests of a batch as such; the time is that of the batch.
    private func note(_ envelope: BatchEnvelope, _ answers: [ServerResponse], id: String) {
        for (request, answer) in zip(envelope.requests, answers) {
            var route = request.route
            if case .row = request.target { route = .row(table: "", id: "") }
            service.metrics.record(
                ServerMetrics.Operation(route, method: request.method),
                status: answer.status
            )
            guard log.writesRequests else { continue }
            var path = "$"
            if case .path(let text, _) = request.target { path = text }
            log.request(
                ServerRequest(method: request.method, path: path),
                answer,
                id: id,
                microseconds: 0
            )
        }
    }
}
