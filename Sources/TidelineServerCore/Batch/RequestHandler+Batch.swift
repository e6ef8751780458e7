// RequestHandler+Batch: the route `POST /$batch`.

import TidelineCore

extension RequestHandler {
    /// Answers a batch.
    ///
    /// It does not run on the caller's event loop, because a batch is as much work as all its requests.
    @concurrent
    func batch(_ request: ServerRequest, user: User?) async throws -> ServerResponse {
        guard request.method == "POST" else { throw ServerError.methodNotAllowed("POST") }
        let head = RequestHead(request.headers)
        try Self.checkNames(head)
        try Self.checkType(head)
        let (body, share) = try await plainBody(of: request, head, user)
        // The decompressed bytes stay reserved until the whole batch is done.
        defer { withExtendedLifetime(share) {} }
        var envelope = try BatchReader.read(
            body,
            origin: BatchOrigin(host: head.host, publicURL: service.settings.publicURL),
            limits: service.settings.limits
        )
        let preferences = head.preferences
        let isDryRun = envelope.isDryRun || preferences.wantsDryRun
        if isDryRun { try envelope.checkDryRun() }
        plainNumbers(&envelope, request)
        service.callers.charge(
            requests: envelope.requests.count,
            writes: envelope.requests.count { $0.method != "GET" },
            of: request,
            user
        )
        // If an endpoint sends a batch while a batch is executed, the inner one uses the reservation of the outer
        // one.
        let outer = AnswerReservation.ofBatch
        let reservation = outer ?? reservation(of: envelope)
        var run = try BatchRun(
            envelope,
            of: request,
            user: user,
            service: service,
            continuesOnError: preferences.continuesOnError ?? false,
            isDryRun: isDryRun,
            reservation: reservation
        ) { await perform($0, user: user) }
        if outer == nil { try await reserve(reservation, for: envelope) }
        var answers = await AnswerReservation.$ofBatch.withValue(reservation) { await run.run() }
        textNumbers(&answers, envelope, request)
        // The requests of a dry run are not counted as writes.
        if !isDryRun { note(envelope, answers, id: request.id) }
        let type = "application/json; charset=utf-8"
        var response = ServerResponse(
            status: 200,
            headers: [
                "Content-Type": TextNumbers.isAsked(by: request.headers["Accept"])
                    ? type + TextNumbers.parameter : type,
                "Accept-Encoding": "gzip",
            ],
            body: BatchAnswers.body(envelope, answers)
        )
        if outer == nil { response.share = reservation.share }
        var applied: [String] = []
        if preferences.continuesOnError != nil { applied.append(preferences.continuesOnErrorText) }
        if isDryRun { applied.append(Preferences.dryRun) }
        if !applied.isEmpty {
            response.headers.append("Preference-Applied", applied.joined(separator: ", "))
        }
        return response
    }

    /// Converts strings to numbers in bodies, if the batch or a request declares such strings.
    private func plainNumbers(_ envelope: inout BatchEnvelope, _ request: ServerRequest) {
        let isForAll = TextNumbers.isAsked(by: request.headers["Content-Type"])
        for (place, inner) in envelope.requests.enumerated() where !inner.body.isEmpty {
            guard TextNumbers.choice(of: inner.headers["Content-Type"]) ?? isForAll,
                let name = envelope.table(of: place),
                let table = service.catalog.table(named: name)
            else { continue }
            let body = TextNumbers(of: table).unquoted(inner.body)
            envelope.requests[place] = inner.with(body: body)
        }
    }

    /// Adds the former names of columns, and converts numbers to strings if the batch or a request asks for that.
    private func textNumbers(
        _ answers: inout [ServerResponse],
        _ envelope: BatchEnvelope,
        _ request: ServerRequest
    ) {
        let all = request.headers["Accept"]
        let isForAll = TextNumbers.isAsked(by: all)
        let hasFormerNames = service.catalog.hasFormerNames
        for (place, inner) in envelope.requests.enumerated() {
            // The answers to reads have them already.
            if hasFormerNames, inner.method != "GET", let name = envelope.table(of: place) {
                answers[place] = service.catalog.formerNames(
                    in: answers[place],
                    table: name,
                    .row,
                    service.settings.log
                )
            }
            // The header of the request itself takes precedence.
            let own = inner.headers["Accept"]
            let accept = TextNumbers.choice(of: own) == nil && isForAll ? all : own
            guard TextNumbers.isAsked(by: accept), let name = envelope.table(of: place) else {
                continue
            }
            var shape = TextNumbers.Shape.row
            if inner.method == "GET", case .table? = inner.route { shape = .list }
            answers[place] = service.catalog.textNumbers(
                answers[place],
                to: accept,
                table: name,
                shape
            )
        }
    }

    /// The estimated size of an answer with one row.
    private static let rowBytesLikely = 2048

    /// Returns the budget for the answers.
    ///
    /// Writes never wait for batches that read, because such a batch may keep its first answers in memory until
    /// the last ones are built.
    private func reservation(of envelope: BatchEnvelope) -> AnswerReservation {
        let traffic = service.settings.traffic
        let writes = envelope.units.allSatisfy { $0.kind == .write }
        return AnswerReservation(in: writes ? traffic.writeAnswers : traffic.batchReads)
    }

    /// Reserves memory for the answers to many writes before the first one is executed.
    private func reserve(_ reservation: AnswerReservation, for envelope: BatchEnvelope) async throws
    {
        guard envelope.units.allSatisfy({ $0.kind == .write }) else { return }
        let bytes = PageSize.product(envelope.requests.count, Self.rowBytesLikely)
        guard bytes > ResponseMemory.smallBytes else { return }
        try await reservation.reserve(min(bytes, service.settings.limits.batchAnswerBytes))
    }

    /// Rejects an idempotency key of the batch itself, because the caller would rely on a guarantee that does
    /// not exist.
    private static func checkNames(_ head: RequestHead) throws {
        guard head.repeatability == RepeatKey.Fields() else { throw ServerError.namedBatch }
    }

    private static func checkType(_ head: RequestHead) throws {
        let type = head.contentType?.lowercased() ?? ""
        if type.hasPrefix("multipart/") { throw ServerError.multipartBatch }
        guard head.bodyType == .json else { throw ServerError.notJSON }
        if head.isCoded, !head.isGzip { throw ServerError.codedBatch }
    }

    /// Returns the decompressed body of a batch, with its memory reservation if it was compressed.
    private func plainBody(
        of request: ServerRequest,
        _ head: RequestHead,
        _ user: User?
    ) async throws -> ([UInt8], MemoryReservation?) {
        guard head.isCoded else { return (request.body, nil) }
        guard let count = ContentCoding.plainCount(ofGzip: request.body) else {
            throw ServerError.damagedGzip
        }
        let most = service.settings.limits.batchBytes
        guard count <= most else { throw ServerError.batchTooLarge(most) }
        let share = try await service.settings.traffic.codedBatches.reserve(count)
        guard let body = ContentCoding.gunzip(request.body, count: count) else {
            throw ServerError.damagedGzip
        }
        service.callers.charge(bytes: max(0, count - request.body.count), of: request, user)
        return (body, share)
    }

    /// Counts and logs the requests of a batch, each with the duration of the whole batch.
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
