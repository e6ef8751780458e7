// RemoteService: requests to the server's tables, and their answers as values.

import Foundation
import TidelineCore

struct RemoteService: Sendable {
    let endpoint: TableEndpoint
    let transport: any Transport
    let environment: SyncEnvironment
    let limits: SyncLimits
    let generation: SharedGeneration

    /// What the next request is written in.
    var dialect: ServerDialect { generation.dialect }

    /// A request before it is written in the words of a generation.
    struct Request: Sendable {
        var method: String
        var url: URL
        var headers: HTTPFields = [:]
        var body: [UInt8]?

        /// One page of a list, of so many rows where the server lets the client choose.
        static func page(_ url: URL, rows: Int) -> Request {
            Request(method: "GET", url: url, headers: ["Prefer": "odata.maxpagesize=\(rows)"])
        }
    }

    /// An answer, and what its request was written in.
    struct Answer: Sendable {
        var response: TransportResponse
        var dialect: ServerDialect
    }

    /// Sends a request, and again in the other dialect when the server turns out to be of another
    /// generation and did nothing with it.
    func send(
        _ make: @Sendable (ServerDialect) throws -> Request
    ) async throws -> Answer {
        var attempt = 1
        while true {
            let dialect = dialect
            let (response, isToRepeat) = try await once(try make(dialect), dialect)
            // Once for what was remembered wrongly, once for the version that is refused.
            guard isToRepeat, attempt < 3 else {
                return Answer(response: response, dialect: dialect)
            }
            attempt += 1
        }
    }

    /// Sends a request as it is, and learns from the answer.
    ///
    /// - Returns: The answer, and whether the request is to be asked anew in the other dialect.
    func once(
        _ call: Request,
        _ dialect: ServerDialect
    ) async throws -> (TransportResponse, isToRepeat: Bool) {
        var fields = call.headers
        fields["ZUMO-API-VERSION"] = dialect.protocolVersion
        fields["Accept"] = "application/json"
        if call.body != nil { fields["Content-Type"] = "application/json" }
        let response = try await carry(
            TransportRequest(
                method: call.method,
                url: call.url,
                headers: fields,
                body: call.body,
                timeout: limits.requestTimeMax
            )
        )
        return (response, generation.hear(AnswerSigns(response), asked: dialect))
    }

    private func carry(_ request: TransportRequest) async throws -> TransportResponse {
        do {
            return try await transport.send(request)
        } catch let error as TransportError {
            throw error
        } catch let error as CancellationError {
            throw error
        } catch {
            // An app's own transport may throw what it likes: no answer came all the same.
            throw TransportError(
                .failed,
                "The transport failed.",
                outcomeIsUnknown: true,
                cause: error
            )
        }
    }

    /// Sends a frozen operation; the same bytes every time.
    ///
    /// A classic server brings a tombstone back as it was; its new values are sent after that.
    func send(_ operation: QueuedOperation, _ schema: TableSchema?) async throws -> PushAnswer {
        guard let frozen = operation.frozen else {
            preconditionFailure("only frozen ones are sent")
        }
        let answer = try await send { dialect in
            let undeletes = operation.revives && dialect == .classic
            var headers = HTTPFields()
            headers["If-Match"] = frozen.ifMatch
            return Request(
                method: undeletes ? "POST" : frozen.method,
                url: try endpoint.url(
                    operation.table,
                    id: operation.kind == .insert ? nil : operation.itemID,
                    query: undeletes ? "" : frozen.query
                ),
                headers: headers,
                body: undeletes ? nil : frozen.body.map { Array($0.utf8) }
            )
        }
        var result = answer.response.pushAnswer(schema, id: operation.itemID)
        result.dialect = answer.dialect
        result.isUndeleteOnly = operation.revives && answer.dialect == .classic
        return result
    }

    /// Looks up one row, deleted or not, by a list: a single read of it would be 404 also where
    /// the table is missing, and the original Node server shows no tombstone there.
    func look(
        up id: String,
        in table: String,
        _ schema: TableSchema?
    ) async throws -> RowLookup {
        var query = TableQuery(filter: .equal(SystemColumn.id, .string(id)))
        query.includesDeleted = true
        let answer = try await send { [query] dialect in
            let text = try query.wireText(schema, dialect)
            return Request(method: "GET", url: try endpoint.url(table, query: "?" + text))
        }
        guard answer.response.status == 200,
            let page = PulledPage(answer.response, schema: schema)
        else { return .failed(answer.response.pushAnswer(schema, id: id)) }
        let row = page.rows.first { ItemKey($0.id) == ItemKey(id) }
        return row.map { .found(ServerState($0)) } ?? .absent
    }
}

extension TransportResponse {
    /// The row in the body: a JSON object with an `id`; its version comes from the ETag at need.
    func item(_ schema: TableSchema?) -> Row? {
        guard var row = RowText.row(body, schema), row["id"]?.text?.isEmpty == false else {
            return nil
        }
        if row.version == nil, let tag = headers["ETag"], !tag.hasPrefix("W/") {
            let inner = tag.trimmingCharacters(in: CharacterSet(charactersIn: "\""))
            row["version"] = .string(inner.replacingOccurrences(of: "\\\"", with: "\""))
        }
        return row
    }

    /// The text of an error body, in the forms of all generations.
    var problem: String? {
        guard let row = RowText.row(body, nil) else { return nil }
        for name in ["error", "detail", "description", "message", "title"] {
            if let text = row[name]?.text { return String(text.prefix(Self.problemMax)) }
        }
        return nil
    }

    /// What a server of ours says is not there, where that is no row.
    private var code: String? { status == 404 ? RowText.row(body, nil)?["code"]?.text : nil }

    /// How much of an error text is told: it is for people, and goes into durable errors.
    private static let problemMax = 1000

    /// `Retry-After` in seconds; a date is not read, the own delay serves then.
    var retryAfter: Duration? {
        headers["Retry-After"].flatMap { Int($0) }.map { .seconds(max(0, $0)) }
    }

    /// `id` is the row's that was sent: another row in the body is no answer to it.
    func pushAnswer(_ schema: TableSchema?, id: String) -> PushAnswer {
        let item = item(schema).flatMap { ItemKey($0.id) == ItemKey(id) ? $0 : nil }
        let code = item == nil ? code : nil
        // With a wrong path nothing is an answer of a table, as with a page of somebody else.
        let isElsewhere = item != nil || code == "noSuchPath"
        return PushAnswer(
            status: status,
            item: item,
            retryAfter: retryAfter,
            message: isElsewhere ? nil : problem,
            lacksTable: code == "noSuchTable",
            hasForeignBody: item == nil && !body.isEmpty,
            outline: item != nil && status < 300 ? nil : AnswerOutline(self)
        )
    }
}
