// RequestHandler: the whole server as one function from request to answer.
//
// It is the in-process door of the test kit, and what the HTTP library calls. It never throws:
// refusals become problem documents, failures of the server are logged and become 500.

import TidelineCore

package struct RequestHandler: Sendable {
    package let service: TableService
    private let log: ServerLog
    private let clock = ContinuousClock()

    package init(_ service: TableService, log: ServerLog = .silent) {
        self.service = service
        self.log = log
    }

    /// Answers a request.
    package func handle(_ request: ServerRequest) async -> ServerResponse {
        guard log.writesRequests else { return await answer(request) }
        let start = clock.now
        let response = await answer(request)
        let elapsed = (clock.now - start).components
        log.request(
            request,
            response,
            microseconds: elapsed.seconds * 1_000_000 + elapsed.attoseconds / 1_000_000_000_000
        )
        return response
    }

    /// Every answer forbids caches, refusals too.
    private func answer(_ request: ServerRequest) async -> ServerResponse {
        var response: ServerResponse
        do {
            response = try await dispatch(try Route(path: request.path), request)
        } catch let error as ServerError {
            response = ServerResponse(error)
        } catch {
            log.write(.error, "request failed", ["cause": "\(error)"])
            response = ServerResponse(.failed)
        }
        response.headers.append("Cache-Control", "no-store")
        return response
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
        case .table(let table):
            return try await service.answer(try TableCall(request), table: table)
        case .row(let table, let id):
            return try await service.answer(try TableCall(request), table: table, id: id)
        }
    }
}
