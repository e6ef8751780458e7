// TableRoutes: dispatches requests on tables and rows, and answers those that read.

import TidelineCore

/// The context of a table request, without its body.
///
/// It is a class because it is passed along many times, and each copy of a struct would copy all its fields.
final class TableCall: Sendable {
    let request: ServerRequest
    /// The user who sent the request; nil for a caller without a token.
    let user: User?
    let head: RequestHead
    let parameters: QueryParameters
    let generation: Generation
    let includesDeleted: Bool
    /// The time of the request, in microseconds since 1970.
    let now: Int64
    /// Whether the request came through the dashboard.
    let isDashboard: Bool

    /// Whether the request changes nothing.
    var isRead: Bool { request.method == "GET" }

    init(
        _ request: ServerRequest,
        user: User?,
        now: Int64,
        isDashboard: Bool = false
    ) throws {
        var (request, head) = (request, RequestHead(request.headers))
        if request.method != "GET", !request.query.isEmpty {
            // The digest of the write stays the same, so a repeat may come with or without the parameter.
            let condition = try QueryCondition.remove(from: &request.query)
            head.conditions.ifMatch = head.conditions.ifMatch ?? condition
        }
        self.request = request
        self.head = head
        self.user = user
        self.now = now
        self.isDashboard = isDashboard
        parameters = try QueryParameters(request.query)
        generation = try head.generation(parameters)
        includesDeleted = parameters.includesDeleted || head.includesDeleted
    }

    /// The caller whose turn a read takes.
    var caller: ReadCaller {
        if let user { return .user(user.id) }
        return request.address.isEmpty
            ? .unknown : .address(CallerNetwork.name(of: request.address))
    }
}

/// The routes of tables and rows.
struct TableRoutes {
    let service: TableService

    /// Answers a request on a table, or on a row if there is an id.
    func answer(
        _ call: TableCall,
        table name: String,
        id: String? = nil
    ) async throws -> ServerResponse {
        if !call.isRead, id != DigestRoute.name {
            return try await service.writes.write(call, table: name, id: id)
        }
        try await service.lookUp(name)
        if let id, id == DigestRoute.name {
            return try await service.digests.digest(call, name)
        }
        if let id { try ItemID.check(id) }
        try service.access.checkPermission(call, name, isRow: id != nil)
        guard let id else { return try await service.lists.list(call, name) }
        return try await read(call, try service.table(named: name), id)
    }

    // MARK: - Reading

    private func read(
        _ call: TableCall,
        _ table: Table,
        _ id: String
    ) async throws
        -> ServerResponse
    {
        let conditions = try Preconditions(call.head.conditions)
        let view = try await table.view(for: call.user, at: call.now)
        try await service.readHooks.before(call, table, id)
        let answer = try await service.pages.makeRowAnswer {
            try await service.store.read(id, view: view, in: table, reservation: $0)
        } _: {
            try self.answer(call, conditions, $0, table)
        }
        await service.readHooks.after(
            call,
            table,
            id,
            rows: answer.status == 304 ? 0 : 1
        )
        return answer
    }

    private func answer(
        _ call: TableCall,
        _ conditions: Preconditions,
        _ row: StoredRow?,
        _ table: Table
    ) throws -> ServerResponse {
        guard let row else { throw ServerError.noSuchRow }
        if row.state.isDeleted && !call.includesDeleted { throw call.tombstone }
        let result = conditions.evaluate(
            version: row.state.version,
            updatedAt: row.state.updatedAt,
            isRead: true
        )
        switch result {
        case .holds:
            var answer = service.answers.row(200, row)
            if row.state.isDeleted, try row.isBare(in: table) {
                answer.headers.append("Tideline-Tombstone", "bare")
            }
            return answer
        case .failed: return service.answers.row(412, row)
        case .notModified:
            var answer = service.answers.row(304, row)
            answer.body = []
            answer.headers["Content-Type"] = nil
            return answer
        }
    }
}

extension StoredRow {
    /// Returns whether a deleted row has no values but those that a bare tombstone keeps: each other
    /// value is null or zero.
    ///
    /// The setting of the table is not enough, because tombstones stay bare when it changes to `full`.
    /// The references of a row in such a table may be its only values, and count.
    fileprivate func isBare(in table: Table) throws -> Bool {
        // The values of a tombstone may break the rules of their columns.
        let values = try table.members(of: json)
        let definition = table.definition
        let places = table.columns.indices.filter { place in
            definition.tombstones == .bare
                ? !definition.keepsInTombstone(table.columns[place])
                : definition.owner.map { SchemaPlan.isSame($0, table.columns[place].name) } != true
        }
        return !places.isEmpty
            && places.allSatisfy { place in
                let type = table.columns[place].type
                guard let value = values[place], value != .null else { return true }
                return type.isSame(value, SQLValue(type.zero, type: type))
            }
    }
}

extension ItemID {
    /// Rejects an invalid id.
    static func check(_ id: String) throws {
        if let fault = fault(in: id) {
            throw ServerError.badRequest("The id is not valid: \(fault).")
        }
        guard id != DigestRoute.name else {
            throw ServerError.badRequest("The id is not valid: '\(DigestRoute.name)' is reserved.")
        }
    }
}

extension TableCall {
    /// The error for a row that was deleted.
    var tombstone: ServerError { generation == .classic ? .noSuchRow : .gone }
}
