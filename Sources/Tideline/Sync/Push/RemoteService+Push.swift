// RemoteService+Push: the requests of a push, whose responses are returned as values.

import Foundation
import TidelineCore

/// The reply to a batch request.
enum BatchReply: Sendable {
    case replies([PushReply])
    /// A response that is not a batch response.
    case rejected(PushAnswer)
}

extension RemoteService {
    /// Sends the frozen bytes of an operation, which are the same in each attempt.
    ///
    /// A classic server undeletes a row without changing it; a further request sends the new
    /// values.
    func send(_ operation: QueuedOperation, _ schema: TableSchema?) async throws -> PushAnswer {
        guard let frozen = operation.frozen else {
            preconditionFailure("only frozen ones are sent")
        }
        let answer = try await send { dialect in
            let undeletes = operation.revives && dialect == .classic
            return Request(
                method: undeletes ? "POST" : frozen.method,
                url: try endpoint.url(
                    operation.table,
                    id: operation.kind == .insert ? nil : operation.itemID,
                    query: undeletes ? "" : frozen.query
                ),
                headers: OperationRequest.headers(frozen),
                body: undeletes
                    ? nil : OperationRequest.body(frozen, dialect).map { Array($0.utf8) },
                hasVersionInBody: dialect == .classic && frozen.method == "PATCH"
            )
        }
        var result = pushAnswer(answer.response, schema, id: operation.itemID)
        result.dialect = answer.dialect
        result.isUndeleteOnly = operation.revives && answer.dialect == .classic
        return result
    }

    /// Sends frozen operations in one request.
    func send(
        batch operations: [QueuedOperation],
        _ catalog: TableCatalog
    ) async throws
        -> BatchReply
    {
        // A server of another generation responds with a rejection, and single requests follow.
        let (response, _) = try await plainly(
            Request(
                method: "POST",
                url: try endpoint.batchURL(),
                headers: ["Prefer": "continue-on-error"],
                body: PushBatch.body(operations, root: endpoint.rootPath),
                isCompressible: true
            ),
            .datasync
        )
        guard let answers = PushBatch.answers(response, count: operations.count) else {
            return .rejected(pushAnswer(response, nil, id: ""))
        }
        signs.learn(.batches)
        note(answers.compactMap { $0 }.filter { !$0.isBeyondBatch }, sentAt: busy.number)
        // A request of the batch without a response was not executed, so it is retried.
        let missing = TransportResponse(status: 503)
        return .replies(
            zip(operations, answers).map { operation, answer in
                let inner = answer ?? missing
                let schema = catalog.schema(operation.table)
                var answer = pushAnswer(inner, schema, id: operation.itemID)
                answer.schema = response.headers[SharedSchema.field]
                answer.epoch = response.headers["Tideline-Epoch"]
                if inner.isBeyondBatch { return .notReached(answer) }
                return inner.isSkipped ? .skipped : .answer(answer)
            }
        )
    }

    /// Reads a list of a table to find out whether the server is an original one.
    ///
    /// A Tideline server identifies itself in the response, or sends a delta link.
    func isOriginal(_ table: String) async throws -> Bool {
        if signs.known.contains(.zumoVersion) { return true }
        guard signs.known.isDisjoint(with: [.tideline, .epoch, .batches]) else { return false }
        let (response, _) = try await plainly(
            .page(try endpoint.url(table, query: "?$top=1"), rows: 1, tracksChanges: true),
            .datasync
        )
        if AnswerProof.namesOriginalServer(response.headers) { return true }
        guard response.status == 200, signs.known.isDisjoint(with: [.tideline, .epoch]),
            let page = PulledPage(response, schema: nil)
        else { return false }
        return !page.tracksChanges && page.deltaLink == nil
    }

    /// Makes a follow-up read.
    func followUp(
        _ read: FollowUpRead,
        _ operation: QueuedOperation,
        _ schema: TableSchema?
    ) async throws -> PushAnswer {
        let (table, id) = (operation.table, operation.itemID)
        if dialect == .classic || read == .gone { return try await row(id, among: table, schema) }
        return try await row(id, in: table, schema)
    }

    /// Reads a row, whether it is deleted or not.
    ///
    /// Only a Tideline server returns deleted rows to clients of both generations.
    func row(_ id: String, in table: String, _ schema: TableSchema?) async throws -> PushAnswer {
        let answer = try await send { _ in
            let url = try endpoint.url(table, id: id, query: "?__includedeleted=true")
            return Request(method: "GET", url: url)
        }
        return pushAnswer(answer.response, schema, id: id)
    }

    /// Reads a row, whether it is deleted or not, with a request for a list.
    ///
    /// A request for the single row would also return 404 if the table is missing, and the original
    /// Node server does not return tombstones to such a request.
    ///
    /// - Returns: The response, converted to the form of a response to a read of a single row.
    private func row(
        _ id: String,
        among table: String,
        _ schema: TableSchema?
    ) async throws -> PushAnswer {
        var query = TableQuery(filter: .equal(SystemColumn.id, .string(id)))
        query.includesDeleted = true
        let response = try await send { [query] dialect in
            let text = try query.wireText(schema, dialect)
            return Request(method: "GET", url: try endpoint.url(table, query: "?" + text))
        }.response
        var answer = pushAnswer(response, schema, id: id)
        answer.dialect = dialect
        guard response.status == 200 else {
            // Every response of a classic server concerns the table.
            if dialect == .classic, answer.isProven { answer.lacksTable = response.status == 404 }
            return answer
        }
        guard let page = PulledPage(response, schema: schema),
            AnswerProof.isServersPage(
                headers: response.headers,
                hasRows: page.hasServersRow,
                signs: signs.known
            )
        else { return answer }
        let row = page.rows.first { ItemKey($0.id) == ItemKey(id) }
        return PushAnswer(status: row == nil ? 404 : 200, item: row, isPage: true)
    }

    private func pushAnswer(
        _ response: TransportResponse,
        _ schema: TableSchema?,
        id: String
    ) -> PushAnswer {
        response.pushAnswer(schema, id: id, at: serverTime)
    }
}

extension TransportResponse {
    /// Whether the request was not executed because the responses of its batch became too large.
    var isBeyondBatch: Bool {
        status == 503 && RowText.row(body, nil)?["code"] == "batchAnswersTooLarge"
    }

    /// Whether the request was not executed because an earlier request of its batch failed.
    ///
    /// The server stops at the failed request if a proxy dropped `Prefer: continue-on-error`.
    var isSkipped: Bool { status == 424 && code == "notProcessed" }

    /// Creates the push answer; `id` is the id of the row that was sent, and a body with another
    /// row is not a response to it.
    func pushAnswer(
        _ schema: TableSchema?,
        id: String,
        at serverTime: Date
    ) -> PushAnswer {
        let item = item(schema).flatMap { ItemKey($0.id) == ItemKey(id) ? $0 : nil }
        let code = item == nil ? code : nil
        // If the path is wrong, the response does not come from a table. The same is true for a
        // page of another server.
        let isElsewhere = item != nil || code == "noSuchPath"
        var answer = PushAnswer(
            status: status,
            item: item,
            retryAfter: retryAfter(at: serverTime),
            message: isElsewhere ? nil : problem,
            lacksTable: code == "noSuchTable",
            lacksRow: code == "noSuchRow" || code == "rowDeleted",
            hasBodyWithoutRow: item == nil && !body.isEmpty,
            wasRejectedAsRepeat: headers["Repeatability-Result"]?.lowercased() == "rejected",
            outline: item != nil && status < 300 ? nil : AnswerOutline(self)
        )
        answer.violation = violation(code)
        answer.isOfOtherRequest = status == 400 && code == "repeatabilityMismatch"
        answer.isProven =
            item?.version != nil || AnswerProof.isServers(self) || AnswerProof.wantsSignIn(self)
        answer.reference = item == nil && answer.isProven ? BrokenReference(self) : nil
        answer.isGroupFailed = status == 424 && code == "groupFailed"
        answer.rejectsForm = isSkipped || status == 415 && code == "notJSON"
        answer.schema = headers[SharedSchema.field]
        answer.epoch = headers["Tideline-Epoch"]
        answer.wasAcceptedAsRequest = headers["Repeatability-Result"]?.lowercased() == "accepted"
        answer.isResolved = headers["Tideline-Conflict"] != nil
        answer.isBareTombstone = headers["Tideline-Tombstone"] == "bare"
        return answer
    }

    /// Returns the rule because of which the row is rejected; nil if the code does not belong to a
    /// rule.
    func violation(_ code: String?) -> RuleViolation? {
        guard let code = code.flatMap(RuleViolation.Code.init), AnswerProof.isServers(self) else {
            return nil
        }
        let list = RowText.row(body, nil)?["columns"]
        guard case .json(let json)? = list,
            let columns = try? JSONDecoder().decode([String].self, from: Data(json.text.utf8))
        else { return nil }
        return RuleViolation(code, columns, problem ?? "")
    }
}
