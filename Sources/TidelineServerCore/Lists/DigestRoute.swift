// DigestRoute: the route GET /tables/{table}/$digest.

import TidelineCore

/// The route of digests.
struct DigestRoute {
    let service: TableService

    /// The path segment after a table's name that requests a digest instead of a row.
    static let name = "$digest"

    func digest(_ call: TableCall, _ name: String) async throws -> ServerResponse {
        guard call.request.method == "GET", service.access.allowsReads(name) else {
            throw ServerError.methodNotAllowed(service.access.digestMethods(name))
        }
        try service.access.checkPermission(call, name, isRow: true)
        let table = try service.table(named: name)
        var request = DigestRequest()
        request.caller = call.caller
        let filter = try digestFilter(call)
        if let filter {
            let now = Timestamp(microseconds: call.now).date
            let checker = FilterChecker(schema: table.definition.schema, now: now)
            do {
                let dialect: ODataDialect = call.generation == .classic ? .v3 : .v4
                request.filter = try checker.filter(
                    try ODataParser.filter(filter, dialect: dialect)
                )
            } catch {
                throw ServerError.badRequest(error.message, position: error.position)
            }
        }
        request.after = try bound(call.parameters.values("after"), "after")
        request.upTo = try bound(call.parameters.values("upto"), "upTo")
        let view = try await table.callerView(for: call.user, at: call.now)
        request.view = view.condition
        try await service.readHooks.before(call, table, nil)
        let digest = try await service.store.digest(request, in: table)
        await service.readHooks.after(call, table, nil, rows: 0)
        var writer = JSONWriter()
        digest.write(to: &writer)
        let clock =
            if let known = digest.clock {
                known
            } else {
                try await service.clock(of: table)
            }
        service.epochs.learn(clock)
        var headers = service.answers.listHeaders(clock)
        if let horizon = clock.horizonText { headers.append("Tideline-Horizon", horizon) }
        return ServerResponse(status: 200, headers: headers, body: writer.bytes)
    }

    private func digestFilter(_ call: TableCall) throws -> String? {
        var filter: String?
        for parameter in call.parameters.all where parameter.name.utf8.first == UInt8(ascii: "$") {
            guard ASCII.equal(parameter.name, "$filter") else {
                throw ServerError.badRequest(
                    "A digest accepts only the options $filter, after and upTo."
                )
            }
            guard filter == nil else {
                throw ServerError.badRequest("Option '$filter' occurs twice.")
            }
            guard !parameter.value.isEmpty else {
                throw ServerError.badRequest("Option '$filter' has no value.")
            }
            filter = parameter.value
        }
        return filter
    }

    private func bound(_ values: [String], _ name: String) throws -> String? {
        guard let id = values.first else { return nil }
        guard values.count == 1 else {
            throw ServerError.badRequest("Option '\(name)' occurs twice.")
        }
        if let fault = ItemID.fault(in: id) {
            throw ServerError.badRequest("Option '\(name)' is not a valid id: \(fault).")
        }
        return id
    }
}
