// RequestHandler: the whole server as one function from request to answer.
//
// It is the in-process door of the test kit, and what the HTTP library calls. It never throws:
// refusals become problem documents, failures of the server are logged and become 500.

import TidelineCore

package struct RequestHandler: Sendable {
    package let service: TableService
    private let log: ServerLog
    private let clock = ContinuousClock()

    /// Names requests that have no name yet; whoever takes them in may name them by it.
    package let ids: RequestIDs

    /// The prefix tells the requests of this start of the server from those of others.
    package init(_ service: TableService, log: ServerLog = .silent, idPrefix: String = "request") {
        self.service = service
        self.log = log
        ids = RequestIDs(prefix: idPrefix)
    }

    /// Answers a request.
    package func handle(_ request: ServerRequest) async -> ServerResponse {
        let start = clock.now
        let id = request.id.isEmpty ? ids.id(request.headers) : request.id
        let (answered, operation) = await answer(request, id)
        var response = answered
        // Every answer forbids caches, refusals too.
        response.headers.append("Cache-Control", "no-store")
        response.headers.append("X-Request-ID", id)
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

    /// Counts and logs an answer that was given before a request came here, or in its place.
    package func note(_ request: ServerRequest, _ response: ServerResponse) {
        service.metrics.record(.refused, status: response.status, microseconds: 0)
        if log.writesRequests { log.request(request, response, id: request.id, microseconds: 0) }
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
            guard service.settings.exposesMetrics else { throw ServerError.metricsAreLocal }
            return ServerResponse(
                status: 200,
                headers: ["Content-Type": "text/plain; version=0.0.4; charset=utf-8"],
                body: service.metrics.text(writeQueue: service.store.writeQueueLength)
            )
        case .table(let table):
            return try await service.answer(try TableCall(request), table: table)
        case .row(let table, let id):
            return try await service.answer(try TableCall(request), table: table, id: id)
        }
    }
}
