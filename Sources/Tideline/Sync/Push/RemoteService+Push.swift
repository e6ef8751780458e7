// The requests of a push, and their answers as values.

import Foundation
import TidelineCore

/// What came back for a batch.
enum BatchReply: Sendable {
    case replies([PushReply])
    /// Something that is no answer to a batch.
    case refused(PushAnswer)
}

extension RemoteService {
    /// Sends a frozen operation; the same bytes every time.
    func send(_ operation: QueuedOperation, _ schema: TableSchema?) async throws -> PushAnswer {
        guard let frozen = operation.frozen else {
            preconditionFailure("only frozen ones are sent")
        }
        let url = try endpoint.url(
            operation.table,
            id: operation.kind == .insert ? nil : operation.itemID,
            query: frozen.query
        )
        return try await send(
            frozen.method,
            url,
            headers: OperationRequest.headers(frozen),
            body: frozen.body.map { Array($0.utf8) }
        ).pushAnswer(schema, id: operation.itemID)
    }

    /// Sends frozen operations in one request.
    func send(
        batch operations: [QueuedOperation],
        _ catalog: TableCatalog
    ) async throws
        -> BatchReply
    {
        let response = try await send(
            "POST",
            try endpoint.batchURL(),
            headers: ["Prefer": "continue-on-error"],
            body: PushBatch.body(operations, root: endpoint.rootPath)
        )
        guard let answers = PushBatch.answers(response, count: operations.count) else {
            return .refused(response.pushAnswer(nil, id: ""))
        }
        // One that is not answered was not come to: it is tried again.
        let missing = TransportResponse(status: 503)
        return .replies(
            zip(operations, answers).map { operation, answer in
                .answer(
                    (answer ?? missing)
                        .pushAnswer(catalog.schema(operation.table), id: operation.itemID)
                )
            }
        )
    }

    /// Asks for what an answer did not say.
    func look(
        _ look: PushLook,
        _ operation: QueuedOperation,
        _ schema: TableSchema?
    ) async throws -> PushAnswer {
        switch look {
        case .row, .written:
            let url = try endpoint.url(
                operation.table,
                id: operation.itemID,
                query: "?__includedeleted=true"
            )
            return try await send("GET", url).pushAnswer(schema, id: operation.itemID)
        case .table:
            let response = try await send(
                "GET",
                try endpoint.url(operation.table, query: "?$top=1")
            )
            var answer = response.pushAnswer(schema, id: operation.itemID)
            answer.isPage = response.status == 200 && PulledPage(response, schema: schema) != nil
            return answer
        }
    }
}

extension TransportResponse {
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
            wasRejectedAsRepeat: headers["Repeatability-Result"]?.lowercased() == "rejected",
            outline: item != nil && status < 300 ? nil : AnswerOutline(self)
        )
    }
}
