// DashboardRoutes: `GET /` and everything under `/$admin`: gate -> route -> answer.
//
//     /                               the page
//     /$admin/page/NAME               its scripts and styles
//     /$admin/overview                tables, traffic, devices, settings
//     /$admin/migration               the steps of `tideline migrate`
//     /$admin/tables/TABLE[/ID]       rows, with the powers of an operator
//     /$admin/events                  the stream of changes, likewise

import TidelineCore

extension RequestHandler {
    /// Answers a request for the page.
    ///
    /// If other machines can reach the server, the page asks for a token. A browser cannot send a token with
    /// the first request, so the page is also the body of the rejection.
    func page(_ request: ServerRequest) async throws -> ServerResponse {
        guard let dashboard = service.settings.dashboard else { throw ServerError.noSuchPath }
        try dashboard.gate.checkPage(request)
        var response = try dashboard.answer("index.html", request.headers)
        let isHere = dashboard.gate.isLoopback && request.isLocal
        guard dashboard.gate.hasAuthentication, !isHere else { return response }
        do {
            _ = try await dashboard.gate.pass(request) {
                try await service.callers.countedUser(of: request)
            }
        } catch let rejection as ServerError where [401, 403].contains(rejection.status) {
            if response.status == 304 { response = try dashboard.answer("index.html", [:]) }
            response.status = rejection.status
            for field in rejection.headers { response.headers.append(field.name, field.value) }
        }
        return response
    }

    /// Answers the requests of the page.
    func admin(_ path: [String], _ request: ServerRequest) async throws -> ServerResponse {
        guard let dashboard = service.settings.dashboard else { throw ServerError.noSuchPath }
        if path.count == 2, path[0] == "page" {
            try Self.checkReads(request)
            try dashboard.gate.checkPage(request)
            return try dashboard.answer(path[1], request.headers)
        }
        let pass = try await dashboard.gate.pass(request) {
            try await service.callers.admit(request)
        }
        var user: User?
        switch pass {
        case .operator(let passed): user = passed
        case .caller: try service.callers.checkRate(request, nil)
        }
        switch path.first {
        case "tables" where path.count == 2 || path.count == 3:
            return try await service.callers.counting(request, user) {
                try await rows(path, request, user)
            }
        case "overview" where path.count == 1:
            try Self.checkReads(request)
            return await overview(dashboard, user)
        case "migration" where path.count == 1:
            try Self.checkReads(request)
            return Self.sentences(try await dashboard.plannedMigration())
        case "events" where path.count == 1:
            try Self.checkReads(request)
            return try await service.eventStreams.events(request, isOperator: user != nil)
        default: throw ServerError.noSuchPath
        }
    }

    /// Handles requests on rows.
    ///
    /// The dashboard never replaces a whole row, because that would change the owner.
    private func rows(
        _ path: [String],
        _ request: ServerRequest,
        _ user: User?
    ) async throws -> ServerResponse {
        let id = path.count > 2 ? path[2] : nil
        if request.method == "PUT" { throw ServerError.methodNotAllowed(Self.verbs(of: id)) }
        let shape: TextNumbers.Shape = id == nil && request.method == "GET" ? .list : .row
        return try await withTextNumbers(request, path[1], shape) { request in
            let call = try TableCall(request, user: user, now: now, isDashboard: true)
            return try await service.tables.answer(call, table: path[1], id: id)
        }
    }

    private static func verbs(of id: String?) -> String {
        id == nil ? "GET, HEAD, POST" : "GET, HEAD, PATCH, DELETE, POST"
    }

    private static func sentences(_ steps: [String]) -> ServerResponse {
        var writer = JSONWriter()
        writer.list("{\"steps\":[", steps) { $0.string($1) }
        writer.raw("}")
        return ServerResponse(
            status: 200,
            headers: ["Content-Type": "application/json"],
            body: writer.bytes
        )
    }
}

extension JSONWriter {
    /// Returns the opening bracket, the elements separated by commas, and `]`.
    mutating func list<Element>(
        _ opening: StaticString,
        _ elements: some Sequence<Element>,
        _ write: (inout JSONWriter, Element) -> Void
    ) {
        raw(opening)
        var isFirst = true
        for element in elements {
            if !isFirst { byte(",") }
            isFirst = false
            write(&self, element)
        }
        byte("]")
    }
}
