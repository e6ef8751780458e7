// EventRoutes: the route `GET /$events`, which returns a stream that the event loop sends.

import TidelineCore

/// The route of event streams.
struct EventRoutes {
    let service: TableService

    /// Returns the answer that begins an event stream.
    func events(
        _ request: ServerRequest,
        isOperator: Bool = false
    ) async throws -> ServerResponse {
        let now = service.settings.environment.now()
        var token = try await service.settings.authenticator?.currentToken(
            of: request.headers,
            now: now
        )
        token?.user.isOperator = isOperator
        let call = try TableCall(request, user: token?.user, now: now)
        var watched: [EventListener.Table] = []
        for name in try Self.names(call.parameters) {
            let table = try await tableToHear(name, call)
            if !watched.contains(where: { $0.name == table.name }) {
                watched.append(service.settings.traffic.events.table(named: table.name))
            }
        }
        var response = ServerResponse(
            status: 200,
            headers: ["Content-Type": "text/event-stream", "X-Accel-Buffering": "no"]
        )
        response.stream = EventStream(
            tables: watched,
            epoch: EventID.number(of: service.epoch),
            lastID: request.headers["Last-Event-ID"],
            lasts: token.flatMap { Self.lasts($0, now) },
            caller: CallerGate.name(of: request, token?.user)
        )
        return response
    }

    /// Returns the number of microseconds for which a token is still valid; nil for no limit.
    private static func lasts(_ token: CheckedToken, _ now: Int64) -> Int64? {
        guard token.validUntil != .max else { return nil }
        let (time, isBeyond) = token.validUntil.subtractingReportingOverflow(now)
        return isBeyond ? nil : max(0, time)
    }

    private static func names(_ parameters: QueryParameters) throws -> [String] {
        let names = parameters.values("tables").flatMap { $0.split(separator: ",") }.map(
            String.init
        )
        guard !names.isEmpty else {
            throw ServerError.badRequest(
                "The tables to listen to are missing. Name them: /$events?tables=a,b."
            )
        }
        guard names.count <= EventListener.tablesMax else {
            throw ServerError.badRequest(
                "A stream reports at most \(EventListener.tablesMax) tables. Open another stream for more."
            )
        }
        return names
    }

    /// Returns the table, if the caller may read it.
    private func tableToHear(_ name: String, _ call: TableCall) async throws -> Table {
        do {
            try service.access.checkPermission(call, name, isRow: false)
        } catch let error as ServerError where error.status == 405 {
            throw ServerError.mayNotListen
        }
        let table = try service.table(named: name)
        try await service.readHooks.before(call, table, nil)
        return table
    }
}
