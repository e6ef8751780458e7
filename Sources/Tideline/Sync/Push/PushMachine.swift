// PushMachine: what to do next while the queue is sent to the server.
//
// Pure: no clock, no socket, no database. Events go in, one action comes out:
//
//     start() -> { skipped(_:) | prepared(_:) -> { answered(_:) | lookedUp(_:) | waited() }*
//                  -> settled() }* -> .finish
//
// `failed(_:)` ends it from anywhere.
//
// One operation at a time, in the order of the queue. The table is in docs/SYNC.md.

package import TidelineCore

/// An answer of the server to one operation, as far as push looks at it.
package struct PushAnswer: Sendable, Hashable {
    package var status: Int
    /// The row in the body, when the body is a JSON object with an id.
    package var item: Row?
    /// What `Retry-After` asks for.
    package var retryAfter: Duration?
    /// The text of a problem body.
    package var message: String?
    /// Whether the table is not there, or not at this path: nothing is said about the row.
    package var lacksTable: Bool
    /// Whether there is a body without a row: a portal's page, or a text.
    package var hasForeignBody: Bool
    /// What it was, for a message.
    package var outline: AnswerOutline?
    /// What the request was written in.
    package var dialect = ServerDialect.datasync
    /// Whether the request only brought a tombstone back, without new values.
    package var isUndeleteOnly = false

    package init(
        status: Int,
        item: Row? = nil,
        retryAfter: Duration? = nil,
        message: String? = nil,
        lacksTable: Bool = false,
        hasForeignBody: Bool = false,
        outline: AnswerOutline? = nil
    ) {
        self.status = status
        self.item = item
        self.retryAfter = retryAfter
        self.message = message
        self.lacksTable = lacksTable
        self.hasForeignBody = hasForeignBody
        self.outline = outline
    }

    package enum Verdict: Sendable, Hashable {
        case accepted(ServerState)
        /// Another state than the operation was based on.
        case conflict(ServerState)
        case rejected
        case retry
        case unauthorized
        /// The tombstone is a row again, with the values that it had.
        case undeleted(ServerState)
        /// The answer does not tell the state of the row: it is to be looked up.
        case unclear
    }

    package func verdict(for kind: OperationKind) -> Verdict {
        switch status {
        case 200..<300:
            // A success whose body is no row may be a portal's page: its outcome is unknown.
            if kind == .delete, !hasForeignBody {
                return .accepted(.deleted(version: item?.version))
            }
            if isUndeleteOnly { return item.map { .undeleted(ServerState($0)) } ?? .retry }
            return kind == .delete ? .retry : item.map { .accepted(ServerState($0)) } ?? .retry
        case 401:
            return .unauthorized
        case 404, 410:
            // A proxy's page, while the server behind it is away.
            if hasForeignBody, message == nil { return .retry }
            if lacksTable { return .rejected }
            // The words of a classic server are the same for a row and for a table.
            if dialect == .classic, kind != .insert { return .unclear }
            switch kind {
            case .delete: return .accepted(.deleted(version: nil))
            case .update: return goneVerdict
            // Nothing can be gone that is not there yet: the table is missing.
            case .insert: return .rejected
            }
        case 409, 412:
            // A row without a version is what was sent, and not the server's.
            guard let item else { return dialect == .classic ? .unclear : .rejected }
            return item.version == nil ? .unclear : .conflict(ServerState(item))
        case 408, 429, 500...:
            return .retry
        case 400..<500:
            return .rejected
        default:
            return .retry
        }
    }

    private var goneVerdict: Verdict {
        .conflict(item.map { ServerState($0) } ?? .deleted(version: nil))
    }
}

package struct PushMachine: Sendable {
    /// Why a push ended before the end of the queue.
    package enum Stop: Sendable, Hashable {
        case network
        case unauthorized
        case cancelled
    }

    package enum Action: Sendable, Hashable {
        /// Freeze the first operation behind this id that is not parked.
        case prepare(after: Int64)
        case send(QueuedOperation)
        /// Look the row up: the answer did not tell its state.
        case lookUp(QueuedOperation)
        case wait(Duration)
        case accept(QueuedOperation, ServerState)
        case settleConflict(QueuedOperation, ServerState, status: Int, isFirstAttempt: Bool)
        /// The tombstone is a row again: the operation goes out on top of it.
        case sendOnTop(QueuedOperation, ServerState)
        case park(QueuedOperation, PushAnswer)
        /// nil: the end of the queue.
        case finish(Stop?)
    }

    private enum State: Sendable {
        case idle
        case preparing
        case sending(QueuedOperation, attempt: Int, isFirst: Bool)
        case lookingUp(QueuedOperation, PushAnswer, attempt: Int, isFirst: Bool)
        case waiting(QueuedOperation, attempt: Int)
        case settling(QueuedOperation)
        case finished
    }

    private let limits: SyncLimits
    private var state = State.idle
    /// How many operations the server accepted.
    package private(set) var completed = 0
    /// The answer that ended the push, where one came.
    package private(set) var refusal: PushAnswer?

    package init(limits: SyncLimits) {
        self.limits = limits
    }

    package mutating func start() -> Action {
        state = .preparing
        return .prepare(after: 0)
    }

    /// The next operation is frozen, in this push or in an earlier one; nil: there is none.
    package mutating func prepared(_ operation: QueuedOperation?, frozenNow: Bool) -> Action {
        guard case .preparing = state else {
            preconditionFailure("prepared(_:) while not preparing")
        }
        guard let operation else {
            state = .finished
            return .finish(nil)
        }
        state = .sending(operation, attempt: 1, isFirst: frozenNow)
        return .send(operation)
    }

    /// An update that changes nothing was taken out of the queue without a request.
    package mutating func skipped(_ id: Int64) -> Action {
        completed += 1
        state = .preparing
        return .prepare(after: id)
    }

    package mutating func answered(_ answer: PushAnswer) -> Action {
        guard case .sending(let operation, let attempt, let isFirst) = state else {
            preconditionFailure("answered(_:) with nothing in flight")
        }
        let verdict = answer.verdict(for: operation.kind)
        if verdict == .unclear {
            state = .lookingUp(operation, answer, attempt: attempt, isFirst: isFirst)
            return .lookUp(operation)
        }
        return act(on: verdict, operation, answer, attempt: attempt, isFirst: isFirst)
    }

    /// The row was looked up.
    package mutating func lookedUp(_ row: RowLookup) -> Action {
        guard case .lookingUp(let operation, let answer, let attempt, let isFirst) = state else {
            preconditionFailure("lookedUp(_:) with nothing looked up")
        }
        let verdict = row.verdict(operation, after: answer)
        return act(on: verdict, operation, answer, attempt: attempt, isFirst: isFirst)
    }

    private mutating func act(
        on verdict: PushAnswer.Verdict,
        _ operation: QueuedOperation,
        _ answer: PushAnswer,
        attempt: Int,
        isFirst: Bool
    ) -> Action {
        switch verdict {
        case .accepted(let server):
            completed += 1
            state = .settling(operation)
            return .accept(operation, server)
        case .conflict(let server):
            state = .settling(operation)
            return .settleConflict(
                operation,
                server,
                status: answer.status,
                isFirstAttempt: isFirst
            )
        case .undeleted(let server):
            state = .settling(operation)
            return .sendOnTop(operation, server)
        case .rejected:
            state = .settling(operation)
            return .park(operation, answer)
        case .unauthorized:
            state = .finished
            return .finish(.unauthorized)
        case .retry, .unclear:
            guard attempt < limits.attemptsMax, !Backoff.isTooLong(answer.retryAfter, limits) else {
                state = .finished
                refusal = answer
                return .finish(.network)
            }
            state = .waiting(operation, attempt: attempt)
            return .wait(Backoff.delay(after: attempt, asked: answer.retryAfter, limits))
        }
    }

    package mutating func waited() -> Action {
        guard case .waiting(let operation, let attempt) = state else {
            preconditionFailure("waited() while not waiting")
        }
        state = .sending(operation, attempt: attempt + 1, isFirst: false)
        return .send(operation)
    }

    /// No answer came: the operation stays frozen, and the next push sends the same bytes.
    package mutating func failed(_ stop: Stop) -> Action {
        state = .finished
        return .finish(stop)
    }

    /// The store has taken the outcome in.
    ///
    /// `again`: the same place of the queue is to be sent.
    package mutating func settled(again: Bool, asCompleted: Bool = false) -> Action {
        guard case .settling(let operation) = state else {
            preconditionFailure("settled() with nothing to settle")
        }
        if asCompleted { completed += 1 }
        state = .preparing
        return .prepare(after: again ? operation.id - 1 : operation.id)
    }
}

/// How long to wait between attempts.
package enum Backoff {
    package static func delay(
        after attempt: Int,
        asked: Duration?,
        _ limits: SyncLimits
    ) -> Duration {
        let own = limits.retryDelayFirst * (1 << min(attempt - 1, 16))
        return min(max(own, asked ?? .zero), limits.retryDelayMax)
    }

    /// Whether the server asks for a longer wait than a push or pull lasts: then it ends.
    package static func isTooLong(_ asked: Duration?, _ limits: SyncLimits) -> Bool {
        asked.map { $0 > limits.retryDelayMax } ?? false
    }

    /// Up to a quarter longer, so that devices which failed together do not return together.
    ///
    /// Never shorter: the server may have asked for the delay.
    package static func spread(_ delay: Duration, _ fraction: Double) -> Duration {
        delay * (1 + fraction / 4)
    }
}
