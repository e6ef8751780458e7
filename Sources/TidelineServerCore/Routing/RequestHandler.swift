// RequestHandler: answers requests.
//
// The HTTP layer calls it, and so does the test kit within its own process. It never throws: rejections become
// problem documents, and failures of the server are logged and become 500.

import TidelineCore

/// The whole server as one function from request to response.
package struct RequestHandler: Sendable {
    package let service: TableService
    let log: ServerLog
    private let clock = ContinuousClock()
    private let gzip = GzipThreads()

    /// The generator of ids for requests without one, which the HTTP layer may use as well.
    package let ids: RequestIDs

    /// Creates a handler.
    ///
    /// The prefix distinguishes its request ids from those of earlier runs of the server.
    package init(_ service: TableService, log: ServerLog = .silent, idPrefix: String = "request") {
        self.service = service
        self.log = log
        ids = RequestIDs(prefix: idPrefix)
    }

    /// Answers a request.
    ///
    /// The response to a HEAD request has the same body as that to a GET request; the HTTP layer sends its
    /// length and omits the body.
    package func handle(_ request: ServerRequest) async -> ServerResponse {
        let start = clock.now
        var request = request
        if request.id.isEmpty { request.id = ids.id(request.headers) }
        let id = request.id
        var asked = request
        if asked.method == "HEAD" { asked.method = "GET" }
        // Its fields are changed in place, because a copy would copy the headers.
        var answered = await answer(asked, id)
        makeRoom(for: &answered.response, isRead: asked.method == "GET")
        // Every response forbids caching, rejections too, except for the files of the dashboard.
        if answered.response.headers["Cache-Control"] == nil {
            answered.response.headers.append("Cache-Control", "no-store")
        }
        answered.response.headers.append("X-Request-ID", id)
        service.settings.crossOrigin?.addHeaders(to: &answered.response, for: request)
        await answered.response.compress(for: request, on: gzip)
        let elapsed = (clock.now - start).components
        let microseconds = elapsed.seconds * 1_000_000 + elapsed.attoseconds / 1_000_000_000_000
        // The HTTP layer has sent another response, or none, and has logged it (`note`).
        let isCancelled = request.connection != 0 && Task.isCancelled
        if !isCancelled {
            service.metrics.record(
                answered.operation,
                status: answered.response.status,
                microseconds: Int(microseconds)
            )
        }
        service.settings.dashboard?.slow.note(
            request,
            status: answered.response.status,
            microseconds: microseconds,
            at: now
        )
        if log.writesRequests, !isCancelled {
            log.request(request, answered.response, id: id, microseconds: microseconds)
        }
        if microseconds >= log.slowMicroseconds {
            log.slow(request, answered.response, id: id, microseconds: microseconds)
        }
        return answered.response
    }

    /// The server's time, in microseconds since 1970.
    package var now: Int64 { service.settings.environment.now() }

    /// Reports the server as not ready from now on.
    package func beginDrain() { service.phase.beginDrain() }

    /// Counts and logs a response that was sent without a call of this handler.
    package func note(_ request: ServerRequest, _ response: ServerResponse) {
        service.metrics.record(.refused, status: response.status, microseconds: 0)
        if log.writesRequests { log.request(request, response, id: request.id, microseconds: 0) }
    }

    /// Reserves memory for a large response.
    ///
    /// If there is not enough memory, the response is replaced with a rejection, unless the request may have
    /// changed something.
    ///
    /// Pages and rows already have a reservation, so only the response of an endpoint that reads can be rejected.
    private func makeRoom(for response: inout ServerResponse, isRead: Bool) {
        guard response.body.count > ResponseMemory.smallBytes else {
            response.share = nil
            return
        }
        if let share = response.share { return share.resize(to: response.body.count) }
        let answers = service.settings.traffic.answers
        response.share = answers.reserveNow(response.body.count)
        guard response.share == nil else { return }
        if isRead {
            response = ServerResponse(.answerMemoryFull)
        } else {
            response.share = answers.count(response.body.count)
        }
    }

    private func answer(
        _ request: ServerRequest,
        _ id: String
    ) async -> (response: ServerResponse, operation: ServerMetrics.Operation) {
        var route: Route?
        var response: ServerResponse
        // It is read before the request is executed: a write is never older than the epoch in its response.
        let epoch = service.epoch
        do {
            let named = try Route(path: request.path)
            route = named
            try CrossSite.check(
                request,
                service.settings.crossOrigin,
                publicURL: service.settings.publicURL
            )
            response = try await service.current { try await dispatch(named, request) }
        } catch {
            response = service.rejection(error, of: id)
        }
        if route?.isOfTables == true { addState(to: &response, epoch) }
        return (response, ServerMetrics.Operation(route, method: request.method))
    }

    private func dispatch(_ route: Route, _ request: ServerRequest) async throws -> ServerResponse {
        if request.method == "OPTIONS" { return try options(route, request) }
        let began = now
        switch route {
        case .unknown:
            throw ServerError.noSuchPath
        case .health:
            try Self.checkReads(request)
            return Self.healthy
        case .ready:
            try Self.checkReads(request)
            try await service.checkReady()
            return Self.healthy
        case .metrics:
            try Self.checkReads(request)
            try await checkOperator(request)
            return ServerResponse(
                status: 200,
                headers: ["Content-Type": "text/plain; version=0.0.4; charset=utf-8"],
                body: service.metrics.text(
                    ServerMetrics.Now(
                        writeQueue: service.store.writeQueueLength,
                        logBytes: service.store.logBytes,
                        certificateEnd: service.settings.certificateEnd(),
                        lastBackup: service.settings.lastBackup(),
                        use: service.settings.processUse(),
                        bounds: service.settings.bounds
                    ),
                    traffic: service.settings.traffic
                )
            )
        case .events:
            try Self.checkReads(request)
            _ = try await service.callers.admit(request)
            return try await service.eventStreams.events(request)
        case .dashboard:
            try Self.checkReads(request)
            return try await page(request)
        case .admin(let path): return try await admin(path, request)
        case .table, .row, .endpoint, .batch, .schema:
            let isBatch = route == .batch
            let user = try await service.callers.admit(request, isBatch: isBatch)
            let answer = try await service.callers.counting(request, user, isBatch: isBatch) {
                try await dispatch(route, request, user: user)
            }
            service.settings.dashboard?.devices.saw(
                request,
                route,
                status: answer.status,
                user: user?.id,
                at: began
            )
            return answer
        }
    }

    /// The methods of routes that only read.
    private static let reads = "GET, HEAD"

    static func checkReads(_ request: ServerRequest) throws {
        guard request.method == "GET" else { throw ServerError.methodNotAllowed(reads) }
    }

    private static let healthy = ServerResponse(
        status: 200,
        headers: ["Content-Type": "application/json"],
        body: Array("{\"status\":\"ok\"}".utf8)
    )

    private func call(_ request: ServerRequest, _ user: User?) throws -> TableCall {
        try TableCall(request, user: user, now: service.settings.environment.now())
    }

    /// Answers a route whose result depends on the caller.
    private func dispatch(
        _ route: Route,
        _ request: ServerRequest,
        user: User?
    ) async throws -> ServerResponse {
        switch route {
        case .table(let table):
            let shape: TextNumbers.Shape = request.method == "GET" ? .list : .row
            return try await withTextNumbers(request, table, shape) {
                try await service.tables.answer(try call($0, user), table: table)
            }
        case .row(let table, let id):
            let shape: TextNumbers.Shape? = id == DigestRoute.name ? nil : .row
            return try await withTextNumbers(request, table, shape) {
                try await service.tables.answer(
                    try call($0, user),
                    table: table,
                    id: id
                )
            }
        case .endpoint(let path):
            return try await service.endpoints.answer(
                request,
                user: user,
                endpoint: path
            ) { inner in
                await perform(inner, user: user)
            }
        case .batch: return try await batch(request, user: user)
        case .schema: return try service.schemas.schema(try call(request, user))
        case .health, .ready, .metrics, .events, .dashboard, .admin, .unknown:
            throw ServerError.noSuchPath
        }
    }

    /// Answers a request on a table.
    ///
    /// Adds the former names of columns to the rows, uses the caller's names in errors, and converts numbers that the
    /// caller sends or requests as strings. `shape` is nil for an answer without rows.
    func withTextNumbers(
        _ request: ServerRequest,
        _ table: String,
        _ shape: TextNumbers.Shape?,
        _ answer: (ServerRequest) async throws -> ServerResponse
    ) async throws -> ServerResponse {
        let plain: ServerResponse
        do {
            plain = try await answer(service.catalog.plainNumbers(request, table: table))
        } catch {
            throw service.catalog.named(error, as: request.body, table: table)
        }
        guard let shape else { return plain }
        let response = service.catalog.formerNames(
            in: plain,
            table: table,
            shape,
            service.settings.log
        )
        let accept = request.headers["Accept"]
        return service.catalog.textNumbers(response, to: accept, table: table, shape)
    }

    /// Executes a request of an endpoint or a batch with its caller's rights.
    func perform(_ request: ServerRequest, user: User?) async -> ServerResponse {
        do {
            let route = try Route(path: request.path)
            var answer = try await service.current {
                try await dispatch(route, request, user: user)
            }
            // A request that keeps a reservation while it waits for more could wait forever.
            answer.share = nil
            return answer
        } catch {
            return service.rejection(error, of: request.id)
        }
    }

    /// Adds the epoch of the database, unless the response has that of its page, and a hash of the server's tables,
    /// columns and permissions.
    ///
    /// A device compares the hash to find out when to resend operations that were rejected under a different schema.
    private func addState(to response: inout ServerResponse, _ epoch: String) {
        if response.headers["Tideline-Epoch"] == nil {
            response.headers.append("Tideline-Epoch", epoch)
        }
        response.headers.append("Tideline-Schema", service.catalog.fingerprint)
    }

    /// Rejects callers of server-wide routes who are neither operators nor have the scraper's key.
    ///
    /// If neither is configured, requests from this machine and callers with a token are accepted.
    private func checkOperator(_ request: ServerRequest) async throws {
        let settings = service.settings
        if settings.scrapeKey.isShown(by: request.headers) { return }
        if settings.operators.areListed {
            guard let user = try await service.callers.countedUser(of: request) else {
                throw ServerError.notSignedIn
            }
            guard settings.operators.contains(user) else { throw ServerError.notAnOperator }
            return
        }
        if settings.scrapeKey.isSet {
            try service.callers.checkRate(request, nil)
            throw ServerError.metricsNeedTheirKey
        }
        // A proxy on this machine passes on the host name of its own request.
        let isAskedHere = request.headers["Host"].map { OperatorGate.isOfThisMachine($0) } ?? true
        if settings.exposesMetrics, request.isLocal, isAskedHere { return }
        guard settings.authenticator != nil else { throw ServerError.metricsAreLocal }
        guard try await service.callers.countedUser(of: request) != nil else {
            throw ServerError.notSignedIn
        }
    }

    /// Returns the response with the methods of a route.
    ///
    /// A browser sends this request before it knows whether the path exists.
    private func options(_ route: Route, _ request: ServerRequest) throws -> ServerResponse {
        let allowed: String
        switch route {
        case .unknown:
            guard request.isPreflight else { throw ServerError.noSuchPath }
            allowed = "OPTIONS"
        case .health, .ready, .metrics, .events, .dashboard, .schema: allowed = Self.reads
        case .admin: throw ServerError.noSuchPath
        case .batch: allowed = "POST"
        case .endpoint(let path):
            allowed = HTTPMethods.listed(service.endpoints.methods(ofEndpoint: path))
            guard !allowed.isEmpty || request.isPreflight else { throw ServerError.noSuchPath }
        case .table(let table):
            allowed = service.access.allowedMethods(table, isRow: false, .classic)
        case .row(let table, DigestRoute.name): allowed = service.access.digestMethods(table)
        case .row(let table, _):
            allowed = service.access.allowedMethods(table, isRow: true, .classic)
        }
        return ServerResponse(status: 200, headers: ["Allow": allowed])
    }
}
