// TableRoutes: the verbs on tables and rows; those that read: request -> store -> answer.

import TidelineCore

/// What a table request brought beside its body.
struct TableCall: Sendable {
    let request: ServerRequest
    /// Who sent it; nil for a caller without a token.
    let user: User?
    let head: RequestHead
    let parameters: QueryParameters
    let generation: Generation
    let includesDeleted: Bool
    /// The moment of the request, in microseconds since 1970.
    let now: Int64

    /// Whether it changes nothing.
    var isRead: Bool { request.method == "GET" }

    init(_ request: ServerRequest, user: User?, now: Int64) throws {
        self.request = request
        self.user = user
        self.now = now
        head = RequestHead(request.headers)
        parameters = try QueryParameters(request.query)
        generation = try head.generation(parameters)
        includesDeleted = parameters.includesDeleted || head.includesDeleted
    }
}

extension TableService {
    /// Answers a request on a table, or with an id on a row of it.
    func answer(
        _ call: TableCall,
        table name: String,
        id: String? = nil
    ) async throws -> ServerResponse {
        if !call.isRead { return try await write(call, table: name, id: id) }
        if let id { try Self.check(id: id) }
        try checkPermission(call, name, isRow: id != nil)
        guard let id else { return try await list(call, name) }
        return try await read(call, try table(named: name), id)
    }

    static func check(id: String) throws {
        if let fault = ItemID.fault(in: id) {
            throw ServerError.badRequest("The id cannot be used: \(fault).")
        }
    }

    // MARK: - Reading

    private func list(_ call: TableCall, _ name: String) async throws -> ServerResponse {
        guard let table = catalog.table(named: name) else {
            let options = try ListOptions(call.parameters, generation: call.generation)
            guard settings.dynamicSchema, TableDefinition.nameFault(name) == nil else {
                throw ServerError.noSuchTable
            }
            return listAnswer(call, name, ListPlan.emptyPage(options, call.generation), nil)
        }
        guard var plan = try plan(call, table) else {
            let options = try ListOptions(call.parameters, generation: call.generation)
            return listAnswer(call, name, ListPlan.emptyPage(options, call.generation), nil)
        }
        // Plans are kept by the text of the query, for all users.
        plan.request.view = try await view(of: table, for: call.user, at: call.now)
        try await beforeRead(call, table, nil)
        let share = try await room(forPageOf: plan.request.rowsMax)
        let page = try await store.list(plan.request, in: table)
        await afterRead(call, table, nil, rows: page.rows)
        let next = plan.nextParameters(after: page, of: call.parameters)
        var answer = listAnswer(call, table.name, page, next)
        answer.share = share
        if let size = plan.pageSizeApplied {
            answer.headers.append(
                "Preference-Applied",
                call.head.preferences.applied(pageSize: size)
            )
        }
        return answer
    }

    /// Nil when nothing can match.
    private func plan(_ call: TableCall, _ table: Table) throws -> ListPlan? {
        let query = ListPlans.Query(
            table: ObjectIdentifier(table),
            text: call.request.query,
            generation: call.generation,
            pageSizeWanted: call.head.preferences.pageSize,
            includesDeleted: call.includesDeleted
        )
        if let known = plans.plan(query) { return known }
        let plan = try ListPlan(
            try ListOptions(call.parameters, generation: call.generation),
            table: table,
            generation: call.generation,
            pageSizeWanted: query.pageSizeWanted,
            limits: settings.limits,
            isDynamic: settings.dynamicSchema,
            now: call.now
        )
        guard var plan else { return nil }
        plan.request.includesDeleted = call.includesDeleted
        plans.keep(&plan, for: query, of: table)
        return plan
    }

    private func read(
        _ call: TableCall,
        _ table: Table,
        _ id: String
    ) async throws
        -> ServerResponse
    {
        let conditions = try Preconditions(call.head.conditions)
        let view = try await view(of: table, for: call.user, at: call.now)
        try await beforeRead(call, table, id)
        guard let row = try await store.read(id, view: view, in: table) else {
            throw ServerError.noSuchRow
        }
        if row.state.isDeleted && !call.includesDeleted { throw tombstone(call) }
        let result = conditions.evaluate(
            version: row.state.version,
            updatedAt: row.state.updatedAt,
            isRead: true
        )
        await afterRead(call, table, id, rows: result == .notModified ? 0 : 1)
        switch result {
        case .holds: return rowAnswer(200, row)
        case .failed: return rowAnswer(412, row)
        case .notModified:
            var answer = rowAnswer(304, row)
            answer.body = []
            answer.headers["Content-Type"] = nil
            return answer
        }
    }

    func tombstone(_ call: TableCall) -> ServerError {
        call.generation == .classic ? .noSuchRow : .gone
    }
}
