// TableRoutes: the verbs on tables and rows; those that read: request -> store -> answer.

import TidelineCore

/// The context of a table request, without its body.
///
/// A class, because it is passed along with its write many times, which would copy all its fields.
final class TableCall: Sendable {
    let request: ServerRequest
    /// The user who sent it; nil for a caller without a token.
    let user: User?
    let head: RequestHead
    let parameters: QueryParameters
    let generation: Generation
    let includesDeleted: Bool
    /// The moment of the request, in microseconds since 1970.
    let now: Int64
    /// Whether it came through the dashboard.
    let isDashboard: Bool

    /// Whether it changes nothing.
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

    /// Among whom this one takes turns.
    var caller: ReadCaller {
        if let user { return .user(user.id) }
        return request.address.isEmpty
            ? .nobody : .address(CallerNetwork.name(of: request.address))
    }
}

extension TableService {
    /// Answers a request on a table, or with an id on a row of it.
    func answer(
        _ call: TableCall,
        table name: String,
        id: String? = nil
    ) async throws -> ServerResponse {
        if !call.isRead, id != Self.digestName { return try await write(call, table: name, id: id) }
        try await lookUp(name)
        if let id, id == Self.digestName { return try await digest(call, name) }
        if let id { try Self.check(id: id) }
        try checkPermission(call, name, isRow: id != nil)
        guard let id else { return try await list(call, name) }
        return try await read(call, try table(named: name), id)
    }

    static func check(id: String) throws {
        if let fault = ItemID.fault(in: id) {
            throw ServerError.badRequest("The id cannot be used: \(fault).")
        }
        guard id != digestName else {
            throw ServerError.badRequest("The id cannot be used: '\(digestName)' is no row.")
        }
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
        let view = try await view(of: table, for: call.user, at: call.now)
        try await beforeRead(call, table, id)
        let answer = try await makeRowAnswer {
            try await store.read(id, view: view, in: table, room: $0)
        } _: {
            try self.answer(call, conditions, $0)
        }
        await afterRead(call, table, id, rows: answer.status == 304 ? 0 : 1)
        return answer
    }

    private func answer(
        _ call: TableCall,
        _ conditions: Preconditions,
        _ row: StoredRow?
    ) throws -> ServerResponse {
        guard let row else { throw ServerError.noSuchRow }
        if row.state.isDeleted && !call.includesDeleted { throw tombstone(call) }
        let result = conditions.evaluate(
            version: row.state.version,
            updatedAt: row.state.updatedAt,
            isRead: true
        )
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
