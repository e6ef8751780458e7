// RequestHandler: the whole server as one function from request to answer.
//
// It is the in-process door of the test kit, and what the HTTP library calls. It never throws:
// refusals become problem documents, failures of the server are logged and become 500.

import TidelineCore

package struct RequestHandler: Sendable {
    package let service: TableService
    private let log: ServerLog
    private let clock = ContinuousClock()

    private let ids: RequestIDs

    /// The prefix tells the requests of this start of the server from those of others.
    package init(_ service: TableService, log: ServerLog = .silent, idPrefix: String = "request") {
        self.service = service
        self.log = log
        ids = RequestIDs(prefix: idPrefix)
    }

    /// Answers a request.
    package func handle(_ request: ServerRequest) async -> ServerResponse {
        let start = clock.now
        let id = ids.id(request.headers)
        let (answered, operation) = await answer(request, id)
        var response = answered
        // Every answer forbids caches, refusals too.
        response.headers.append("Cache-Control", "no-store")
        response.headers.append("X-Request-ID", id)
        service.settings.crossOrigin?.mark(&response, for: request)
        response.compress(for: request)
        let elapsed = (clock.now - start).components
        let microseconds = elapsed.seconds * 1_000_000 + elapsed.attoseconds / 1_000_000_000_000
        service.metrics.record(
            operation,
            status: response.status,
            microseconds: Int(microseconds)
        )
        if log.writesRequests {
            log.request(request, response, id: id, microseconds: microseconds)
        }
        return response
    }

    private func answer(
        _ request: ServerRequest,
        _ id: String
    ) async -> (ServerResponse, ServerMetrics.Operation) {
        var route: Route?
        var response: ServerResponse
        do {
            let named = try Route(path: request.path)
            route = named
            response = try await dispatch(named, request)
        } catch let error as ServerError {
            response = ServerResponse(error)
        } catch {
            log.write(.error, "request failed", ["request": id, "cause": "\(error)"])
            response = ServerResponse(.failed)
        }
        return (response, ServerMetrics.Operation(route, method: request.method))
    }

    private func dispatch(_ route: Route, _ request: ServerRequest) async throws -> ServerResponse {
        if request.method == "OPTIONS" { return try options(route, request) }
        switch route {
        case .unknown:
            throw ServerError.noSuchPath
        case .health:
            guard request.method == "GET" else { throw ServerError.methodNotAllowed("GET") }
            return ServerResponse(
                status: 200,
                headers: ["Content-Type": "application/json"],
                body: Array("{\"status\":\"ok\"}".utf8)
            )
        case .metrics:
            guard request.method == "GET" else { throw ServerError.methodNotAllowed("GET") }
            try checkOperator(request)
            return ServerResponse(
                status: 200,
                headers: ["Content-Type": "text/plain; version=0.0.4; charset=utf-8"],
                body: service.metrics.text(writeQueue: service.store.writeQueueLength)
            )
        case .table(let table):
            return try await service.answer(try call(request), table: table)
        case .row(let table, let id):
            return try await service.answer(try call(request), table: table, id: id)
        }
    }

    private func call(_ request: ServerRequest) throws -> TableCall {
        try TableCall(request, user: try service.user(of: request))
    }

    /// What is about the whole server is for this machine, and for callers with a token.
    private func checkOperator(_ request: ServerRequest) throws {
        if service.settings.exposesMetrics { return }
        guard service.settings.authenticator != nil else { throw ServerError.metricsAreLocal }
        guard try service.user(of: request) != nil else { throw ServerError.notSignedIn }
    }

    /// The verbs of a route.
    ///
    /// A browser asks before it knows whether the path is there.
    private func options(_ route: Route, _ request: ServerRequest) throws -> ServerResponse {
        let allowed: String
        switch route {
        case .unknown:
            guard request.isPreflight else { throw ServerError.noSuchPath }
            allowed = "OPTIONS"
        case .health, .metrics: allowed = "GET"
        case .table(let table): allowed = service.allowedMethods(table, isRow: false, .classic)
        case .row(let table, _): allowed = service.allowedMethods(table, isRow: true, .classic)
        }
        return ServerResponse(status: 200, headers: ["Allow": allowed])
    }
}
