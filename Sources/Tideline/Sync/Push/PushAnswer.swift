// PushAnswer: the server's response to one operation, and its meaning.
//
// Pure; the table is in docs/sync.md.

package import TidelineCore

/// The parts of a server's response to one operation that a push uses.
package struct PushAnswer: Sendable, Hashable {
    package var status: Int
    /// The row in the body, if the body is a JSON object with an id.
    package var item: Row?
    /// The wait that `Retry-After` asks for.
    package var retryAfter: Duration?
    /// The text of a problem body.
    package var message: String?
    /// The rule because of which the server rejects the row.
    package var violation: RuleViolation?
    /// Whether the table does not exist at this path, so that the response does not concern the
    /// row.
    package var lacksTable: Bool
    /// Whether the response says that the row does not exist or was deleted.
    package var lacksRow: Bool
    /// Whether the response has a body that is not a row, such as the page of a captive portal.
    package var hasBodyWithoutRow: Bool
    /// Whether the server has received the request before and no longer knows the outcome.
    package var wasRejectedAsRepeat: Bool
    /// Whether another request used the same id before, because a copy of the store sent the
    /// operation in another form.
    package var isOfOtherRequest = false
    /// Whether the server recognizes repeated requests, and this is its response to the request
    /// with this id.
    ///
    /// If such a response rejects an operation, the operation was never executed.
    package var wasAcceptedAsRequest = false
    /// Whether the server resolved a conflict, in which case it may have dropped the operation.
    package var isResolved = false
    /// Whether the row was read separately, because the response had none.
    package var wasReadLater = false
    /// Whether the row in a successful response may have values of another writer.
    package var mayHaveOtherWrites: Bool { isResolved || wasReadLater }
    /// Whether the response is proven to come from the server (AnswerProof).
    ///
    /// The proof is a row with its version, a problem body, or a header field that only servers of
    /// tables send.
    package var isProven = true
    /// Whether the operation was not executed because another one of its group was rejected.
    package var isGroupFailed = false
    /// Whether the server rejected the form of the request, not its contents, because a proxy
    /// dropped a header field.
    package var rejectsForm = false
    /// Whether the body is a page of rows.
    package var isPage: Bool
    /// The outline of the response, for an error message.
    package var outline: AnswerOutline?
    /// The dialect of the request.
    package var dialect = ServerDialect.datasync
    /// The `Tideline-Schema` of the server that sent the response.
    package var schema: String?
    /// The epoch of the database before the request was executed (`Tideline-Epoch`).
    package var epoch: String?
    /// The reference that the operation would break on the server.
    package var reference: BrokenReference?
    /// Whether the row is deleted and the server has erased its values.
    package var isBareTombstone = false
    /// Whether the request only undeleted a row, without setting new values.
    package var isUndeleteOnly = false
    /// Whether the response shows a state that the server may have rolled back with the operation's
    /// group.
    package var isOfUndoneState = false

    package init(
        status: Int,
        item: Row? = nil,
        retryAfter: Duration? = nil,
        message: String? = nil,
        lacksTable: Bool = false,
        lacksRow: Bool = false,
        hasBodyWithoutRow: Bool = false,
        wasRejectedAsRepeat: Bool = false,
        isPage: Bool = false,
        outline: AnswerOutline? = nil
    ) {
        self.status = status
        self.item = item
        self.retryAfter = retryAfter
        self.message = message
        self.lacksTable = lacksTable
        self.lacksRow = lacksRow
        self.hasBodyWithoutRow = hasBodyWithoutRow
        self.wasRejectedAsRepeat = wasRejectedAsRepeat
        self.isPage = isPage
        self.outline = outline
    }

    /// Whether the server reports that it failed to process the request, without asking for a wait.
    var isFailureOfTheServer: Bool {
        isProven && status >= 500 && status != 503 && retryAfter == nil
    }

    /// The same response without its row, because the server may have rolled back the state that it
    /// shows.
    var ofUndoneState: PushAnswer {
        var answer = self
        answer.item = nil
        answer.isOfUndoneState = true
        return answer
    }

    /// Whether it is certain that a 404 or 410 refers to the row.
    fileprivate var isOfTheRow: Bool {
        status == 410 && isProven || item != nil || lacksRow || isPage
    }

    /// Whether a proxy or firewall rejected this request but may accept others, for example because
    /// it rejects certain text.
    ///
    /// A busy or failing server responds with other statuses, and rejects the next request as well.
    package var isRejectedByProxy: Bool {
        guard !isProven else { return false }
        return switch status {
        case 408, 429, 500, 502...: false
        default: true
        }
    }

    /// Returns the meaning of a response; `namesRequests` is true if the server sends
    /// `Repeatability-Result` for every write.
    package func outcome(
        of operation: QueuedOperation,
        namesRequests: Bool = false
    ) -> PushOutcome {
        let kind = operation.kind
        switch status {
        case 200..<300:
            // A successful response whose body is not a row may come from a captive portal, so the
            // outcome is unknown.
            if hasBodyWithoutRow { return .retry }
            if kind == .delete {
                // A successful response without a body may come from a proxy.
                let isWord = namesRequests ? wasAcceptedAsRequest : isProven
                if item == nil, !isWord { return .read(.gone) }
                return .accepted(.deleted(version: item?.version))
            }
            if isUndeleteOnly { return item.map { .undeleted(ServerState($0)) } ?? .retry }
            guard let item else {
                return status == 204 ? .read(isProven ? .written : .row) : .retry
            }
            return item.isWhole(for: operation)
                ? .accepted(ServerState(item)) : .read(.written)
        case 401:
            return isProven ? .unauthorized : .retry
        case 404, 410:
            // A proxy may respond like this while the server is down.
            if !isProven, hasBodyWithoutRow || kind == .insert { return .retry }
            if hasBodyWithoutRow, message == nil { return .retry }
            if lacksTable { return .rejected }
            // A classic server uses the same text for a missing row and a missing table, and a 404
            // may come from a gateway that does not know the path.
            if dialect == .datasync, !isOfTheRow { return .read(.gone) }
            // An insert has no row that could be missing, so the table is missing.
            if kind == .insert { return .rejected }
            if dialect == .classic { return .read(.gone) }
            if kind == .delete { return .accepted(.deleted(version: nil)) }
            return .conflict(item.map { ServerState($0) } ?? .deleted(version: nil), wasRead: false)
        case 412 where wasRejectedAsRepeat, 400 where isOfOtherRequest:
            return .read(.row)
        case 300..<500 where !isProven:
            return .retry
        case 409 where reference != nil:
            return .rejected
        case 409, 412:
            guard let item else { return dialect == .classic ? .read(.unclear) : .rejected }
            return showsOtherState(item, than: operation)
                ? .conflict(ServerState(item), wasRead: false) : .read(.unclear)
        case 408, 429, 500...:
            return .retry
        case 400..<500 where rejectsForm:
            return .retry
        case 400..<500:
            return .rejected
        default:
            return .retry
        }
    }
}

extension PushAnswer {
    /// Returns whether a rejection contains the complete row in a state that the operation was not
    /// based on.
    ///
    /// A row without a version is the row that was sent, not the server's row. A row that lacks
    /// columns must not replace the local row. A row with the expected version is no reason for a
    /// rejection.
    private func showsOtherState(_ item: Row, than operation: QueuedOperation) -> Bool {
        guard let version = item.version else { return false }
        return OperationRequest.quoted(version) != operation.frozen?.ifMatch
            && (item[SystemColumn.deleted] == true || item.isWhole(for: operation))
    }
}

/// A follow-up read, which is needed if a response does not show the outcome of an operation.
package enum FollowUpRead: Sendable, Hashable {
    /// Reads the row that the server reported as written.
    case written
    /// Reads the row, to find out whether the operation arrived.
    case row
    /// Reads the row with a request for a list of its table, because a response said that the row
    /// or table is missing.
    case gone
    /// Reads the row, because a response that reported a conflict did not contain its state.
    case unclear
    /// Reads the row, because the state in a rejection may have been rolled back with the
    /// operation's group.
    case undone

    /// Returns the meaning of the response to this read.
    package func outcome(of operation: QueuedOperation, _ answer: PushAnswer) -> PushOutcome {
        if answer.status == 401 { return answer.isProven ? .unauthorized : .retry }
        if self == .undone { return outcomeOfUndone(operation, answer) }
        if let item = answer.item, [200, 404, 410].contains(answer.status) {
            let state = ServerState(item)
            if state.row != nil, item.version == nil, !item.isWhole(for: operation) {
                return .retry
            }
            let isOld = item.version.map(OperationRequest.quoted) == operation.frozen?.ifMatch
            // The row is in the expected state, so the response did not come from the table.
            if self == .gone, isOld, item[SystemColumn.deleted] != true { return .retry }
            // If the server has no versions, the row that was inserted is the row that exists.
            let isWritten = !isOld || item.version == nil && operation.kind == .insert
            return self == .written && isWritten
                ? .accepted(state) : .conflict(state, wasRead: true)
        }
        if self == .gone || self == .unclear,
            answer.lacksTable || answer.status == 403 && answer.isProven
        {
            return .rejected
        }
        guard answer.status == 404 || answer.status == 410, !answer.lacksTable,
            !answer.hasBodyWithoutRow || answer.isProven && answer.message != nil
        else { return .retry }
        // If the response is not proven to be the server's, the row is read from a list of the
        // table.
        if !answer.isProven { return self == .gone ? .retry : .read(.gone) }
        // The server has no row with which the operation could be in conflict.
        if self == .unclear { return .rejected }
        if answer.isOfTheRow { return .conflict(.deleted(version: nil), wasRead: true) }
        return self == .gone ? .retry : .read(.gone)
    }

    /// Returns the meaning of the row's state, as it is without the changes of the operation's
    /// group.
    ///
    /// If the row is in the state that the operation expects, another operation of the group caused
    /// the rejection, and would cause it again in each attempt.
    private func outcomeOfUndone(
        _ operation: QueuedOperation,
        _ answer: PushAnswer
    ) -> PushOutcome {
        if let item = answer.item, [200, 404, 410].contains(answer.status) {
            guard let version = item.version else { return .retry }
            let isExpected = OperationRequest.quoted(version) == operation.frozen?.ifMatch
            let isDeleted = item[SystemColumn.deleted] == true
            return isExpected && isDeleted == operation.revives
                ? .rejected : .conflict(ServerState(item), wasRead: false)
        }
        if answer.lacksTable || answer.status == 403 && answer.isProven { return .rejected }
        guard [404, 410].contains(answer.status), answer.isProven, answer.isOfTheRow else {
            return .retry
        }
        return operation.kind == .insert
            ? .rejected : .conflict(.deleted(version: nil), wasRead: false)
    }
}

extension Row {
    /// Returns whether a row in a response is complete, so that it may replace the local row.
    ///
    /// A complete row has every column that has a value in the row that was sent.
    fileprivate func isWhole(for operation: QueuedOperation) -> Bool {
        RowMerge.payload(operation.frozen?.sentRow ?? Row())
            .allSatisfy { name, value in value.isNull || self[name] != nil }
    }
}

/// The reply to one operation.
package enum PushReply: Sendable, Hashable {
    case answer(PushAnswer)
    /// The responses to earlier operations filled the batch, so the server did not execute this
    /// operation.
    case notReached(PushAnswer)
    /// The batch ended at an earlier operation that failed, so the server did not execute this
    /// operation.
    case skipped
    /// Another operation of the group was rejected, so the server did not execute this operation.
    ///
    /// The response to the other operation applies.
    case withGroup
    /// No response arrived.
    case lost

    var isNotReached: Bool { if case .notReached = self { true } else { false } }
}

/// An operation, and the outcome that is to be stored.
package struct DecidedOperation: Sendable, Hashable {
    package var operation: QueuedOperation
    package var decision: ServerDecision
    package var answer: PushAnswer

    package init(_ operation: QueuedOperation, _ decision: ServerDecision, _ answer: PushAnswer) {
        self.operation = operation
        self.decision = decision
        self.answer = answer
    }
}
