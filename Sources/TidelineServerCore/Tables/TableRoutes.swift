// TableRoutes: the verbs on tables and rows: request -> store -> answer.

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

    init(_ request: ServerRequest, user: User?, now: Int64) throws {
        self.request = request
        self.user = user
        self.now = now
        head = RequestHead(request.headers)
        parameters = try QueryParameters(request.query)
        generation = try head.generation(parameters)
        includesDeleted = parameters.includesDeleted || head.includesDeleted
    }

    /// Among whom this one takes turns.
    var caller: ReadCaller {
        if let user { return .user(user.id) }
        return request.connection == 0 ? .nobody : .connection(request.connection)
    }
}

extension TableService {
    func answer(_ call: TableCall, table name: String) async throws -> ServerResponse {
        try checkPermission(call, name, isRow: false)
        switch call.request.method {
        case "GET": return try await list(call, name)
        case "POST": return try await insert(call, name)
        default: return try await change(call, .merge, name, nil)
        }
    }

    func answer(_ call: TableCall, table name: String, id: String) async throws -> ServerResponse {
        try Self.check(id: id)
        try checkPermission(call, name, isRow: true)
        switch call.request.method {
        case "GET": return try await read(call, try table(named: name), id)
        case "PATCH": return try await change(call, .merge, name, id)
        case "PUT": return try await change(call, .replace, name, id)
        case "DELETE": return try await remove(call, try table(named: name), id)
        default: return try await undelete(call, try table(named: name), id)
        }
    }

    private static func check(id: String) throws {
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
        plan.request.caller = call.caller
        try await beforeRead(call, table, nil)
        let page = try await store.list(plan.request, in: table)
        await afterRead(call, table, nil, rows: page.rows)
        let next = plan.nextParameters(after: page, of: call.parameters)
        var answer = listAnswer(call, table.name, page, next)
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

    // MARK: - Writing

    private func insert(_ call: TableCall, _ name: String) async throws -> ServerResponse {
        try checkBody(call)
        var table = try tableForInsert(named: name)
        var body = RowBody.empty(table)
        if !call.request.body.isEmpty || call.generation == .datasync {
            (body, table) = try self.body(call.request.body, for: table)
        }
        if call.generation == .classic { try Self.refuseReserved(body) }
        var id = body.id ?? ""
        if id.isEmpty { id = settings.environment.makeID() } else { try Self.check(id: id) }
        try table.checkAbsent(body.values)
        var operation = WriteOperation(.insert, id: id)
        operation.values = body.values
        return try await write(operation, call, table)
    }

    private func change(
        _ call: TableCall,
        _ kind: WriteOperation.Kind,
        _ name: String,
        _ pathID: String?
    ) async throws -> ServerResponse {
        let isPatch =
            kind == .merge && call.generation == .datasync
            && call.head.bodyType == .patch
        try checkBody(call, isPatch: isPatch)
        var table = try self.table(named: name)
        var body: RowBody
        var patch: JSONPatch?
        if isPatch {
            let read = try self.patch(call.request.body, for: table)
            try checkTests(read, call, table)
            body = read.claims
            patch = read
        } else {
            (body, table) = try self.body(call.request.body, for: table)
        }
        guard let id = pathID ?? body.id else {
            throw ServerError.badRequest("The row's id is missing in path and body.")
        }
        if pathID == nil { try Self.check(id: id) }
        let isOther = body.id.map { !$0.utf8.elementsEqual(id.utf8) } ?? false
        // There it is one of the claims about the stored row, which has to be found first.
        let isClaim = kind == .merge && call.generation == .datasync
        if isOther && !isClaim {
            throw ServerError.badRequest("The id in the body is not that of the path.")
        }
        if kind == .replace { try table.checkAbsent(body.values) }
        var operation = WriteOperation(kind, id: id)
        operation.values = body.values
        operation.patch = patch
        operation.includesDeleted = call.includesDeleted
        operation.softDelete = table.definition.softDelete
        operation.conflict = conflictRule(of: table, for: call.user)
        operation.conditions = try Preconditions(call.head.conditions)
        if kind == .replace { operation.deleted = body.deleted ?? false }
        if call.generation == .classic {
            if kind == .merge { try Self.refuseReserved(body) }
            operation.expectedVersion = body.version
        } else if kind == .merge {
            operation.deleted = body.deleted
            operation.claimsOther = isOther || body.hasNullClaim
            operation.claimedVersion = body.version
            operation.claimedUpdatedAt = try body.updatedAt.map(Self.claimedTime)
        }
        if operation.deleted == true { try checkDelete(call, table) }
        return try await write(operation, call, table)
    }

    private func remove(
        _ call: TableCall,
        _ table: Table,
        _ id: String
    ) async throws
        -> ServerResponse
    {
        var operation = WriteOperation(.delete, id: id)
        operation.conditions = try Preconditions(call.head.conditions)
        operation.softDelete = table.definition.softDelete
        operation.conflict = conflictRule(of: table, for: call.user)
        return try await write(operation, call, table)
    }

    private func undelete(
        _ call: TableCall,
        _ table: Table,
        _ id: String
    ) async throws
        -> ServerResponse
    {
        var operation = WriteOperation(.undelete, id: id)
        operation.conflict = conflictRule(of: table, for: call.user)
        operation.conditions = try Preconditions(call.head.conditions)
        return try await write(operation, call, table)
    }

    private func write(
        _ operation: WriteOperation,
        _ call: TableCall,
        _ table: Table
    ) async throws -> ServerResponse {
        var operation = operation
        operation.view = try await view(of: table, for: call.user, at: call.now)
        setOwner(&operation, call.user, table)
        let outcome = try await outcome(operation, call, table)
        switch outcome.decision {
        case .missing: throw ServerError.noSuchRow
        case .taken: return ServerResponse(status: 409)
        case .gone: throw tombstone(call)
        case .systemChange: throw ServerError.systemChange
        case .outdated, .merge: throw ServerError.notCommitted
        case .remove: return ServerResponse(status: 204)
        case .update where operation.kind == .delete: return ServerResponse(status: 204)
        case .exists, .versionMismatch, .testFailed: return conflict(409, outcome, call, table)
        case .preconditionFailed: return conflict(412, outcome, call, table)
        case .insert:
            var answer = rowAnswer(201, outcome.row)
            answer.headers.append("Location", location(call, table.name, operation.id))
            return answer
        case .update, .keepStored:
            let isShown = outcome.decision != .keepStored && operation.kind == .replace
            let row =
                isShown || mayRead(table, call.user) ? outcome.row : outcome.row?.stub(operation.id)
            return rowAnswer(operation.kind == .undelete ? 201 : 200, row)
        }
    }

    /// The stored row, but for a caller who may not read it.
    private func conflict(
        _ status: Int,
        _ outcome: WriteOutcome,
        _ call: TableCall,
        _ table: Table
    ) -> ServerResponse {
        rowAnswer(status, mayRead(table, call.user) ? outcome.row : nil)
    }

    private static func claimedTime(_ text: String) throws -> Int64 {
        guard let stamp = Timestamp(text) else { throw ServerError.systemChange }
        return stamp.microseconds
    }

    private static func refuseReserved(_ body: RowBody) throws {
        guard let name = body.reserved.first else { return }
        throw ServerError.badRequest("Member '\(name)' is set by the server; leave it out.")
    }

    private func tombstone(_ call: TableCall) -> ServerError {
        call.generation == .classic ? .noSuchRow : .gone
    }
}
