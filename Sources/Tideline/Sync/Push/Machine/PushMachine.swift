// PushMachine: decides how a push sends the queue.
//
// Pure: no clock, no socket, no database. Events go in, one action comes out:
//
//     start(lastID:) -> { prepared(_:) -> [ answered(_:) | rejected(_:) | lost(mayBeSmaller:) ]
//                         | readAnswered(_:) | applied(_:) | waited() }* -> .finish
//
// `failed(_:)` ends the push in any state. The queue is sent in slices: as a batch if the server
// accepts batches, otherwise with one operation in each request. The transition table is in
// docs/sync.md.

import TidelineCore

/// The state machine of a push, which decides what to send or read next.
package struct PushMachine: Sendable {
    private let limits: SyncLimits
    private var state = State.idle
    /// The maximum size of the next slice, and whether it is sent as a batch.
    package private(set) var budget: PushBudget
    /// The number of operations that the server accepted.
    package private(set) var completed = 0
    /// The last response because of which an operation was resent.
    package private(set) var rejection: PushAnswer?
    /// The response that rejected the token.
    package private(set) var unauthorizedAnswer: PushAnswer?

    /// The reason why the push ends after the current responses have been handled.
    private var stop: Stop?
    private var order = PushOrder()
    private var round = PushRound()
    private var failures = PushFailures()

    /// A failed operation and the last response to it.
    package typealias Failure = (operation: QueuedOperation, answer: PushAnswer)
    /// The failed operations whose responses do not concern other requests, in the order of the
    /// queue.
    ///
    /// A 5xx may mean that the whole server is down, with or without `Retry-After`. It concerns
    /// only the row if the server accepted other operations in the same push. Original servers send
    /// some 500 responses that do not prove that they come from the server; the pull shows whether
    /// such a server works.
    package var failing: [Failure] {
        failures.all.filter { _, answer in
            answer.isFailureOfTheServer || answer.isRejectedByProxy || answer.status == 500
                || completed > 0
        }
    }
    /// The operations that the server itself failed to process.
    package var failuresOfRows: [Failure] {
        failing.filter { $0.answer.isProven && $0.answer.status >= 500 }
    }
    /// The operations that the next push sends last.
    package var lastOfNextPush: [QueuedOperation] { failures.lastOfNextPush }

    package init(limits: SyncLimits, budget: PushBudget) {
        self.limits = limits
        self.budget = budget
    }

    /// Starts the push.
    ///
    /// `lastID` is the id of the last operation in the queue at the start. `blocked` has the rows
    /// with an operation that cannot be decoded. `behind` has the operations that a proxy rejected
    /// in the last push.
    package mutating func start(
        lastID: Int64,
        blocked: Set<RowKey> = [],
        behind: [QueuedOperation] = []
    ) -> Action {
        order = PushOrder(lastID: lastID, blocked: blocked, behind: behind)
        failures = PushFailures(rejectedBefore: behind)
        return next()
    }

    // MARK: - Slices

    private mutating func next() -> Action {
        if let stop { return finish(stop) }
        // A later operation of such a row must not be sent before it, and the row must not be read
        // twice.
        if !round.reads.isEmpty { return proceed() }
        if order.isPassDone {
            guard order.behind.isEmpty else { return retryBehind() }
            guard order.readAgainIfSkipped() else {
                return finish(failures.isPartlyRejected ? .network : nil)
            }
        }
        let slice = order.slice(budget)
        state = .preparing(slice)
        return .prepare(slice)
    }

    private mutating func finish(_ stop: Stop?) -> Action {
        state = .finished
        return .finish(stop)
    }

    /// Handles a slice of operations that were frozen in this push or in an earlier one.
    package mutating func prepared(_ slice: PreparedSlice) -> Action {
        guard case .preparing(let asked) = state else {
            preconditionFailure("prepared(_:) while not preparing")
        }
        completed += slice.skipped
        order.take(slice, for: asked)
        let unread = slice.operations.filter(\.mustBeRead)
        round.reads += unread.map { ($0, .row) }
        // The group of such an operation is sent after the operation's outcome is known.
        let waiting = budget.groups == .split ? [] : Set(unread.compactMap(\.group))
        var operations: [QueuedOperation] = []
        for operation in slice.operations where !operation.mustBeRead {
            if let group = operation.group, waiting.contains(group) {
                order.sendLater(operation)
            } else {
                operations.append(operation)
            }
        }
        guard !operations.isEmpty else { return next() }
        let inBatch = operations.count > 1 && (budget.usesBatches || isOneGroup(operations))
        state = .sending(operations, inBatch: inBatch)
        return .send(operations, inBatch: inBatch)
    }

    private func isOneGroup(_ operations: [QueuedOperation]) -> Bool {
        budget.groups != .split && PushGroups.isOne(operations)
    }

    // MARK: - Responses

    /// Handles the server's response: one reply for each operation, in the same order.
    package mutating func answered(_ replies: [PushReply]) -> Action {
        guard case .sending(let operations, let inBatch) = state else {
            preconditionFailure("answered(_:) with nothing in flight")
        }
        precondition(replies.count == operations.count, "one reply for each operation")
        let replies = inBatch ? PushGroups.replies(replies, to: operations) : replies
        if inBatch, let answer = answerBeyondBatch(replies, to: operations) {
            return apply(operations.map { DecidedOperation($0, .rejected, answer) })
        }
        var decidedOperations: [DecidedOperation] = []
        var notReached: [Int64] = []
        var skipped: [Int64] = []
        // If the server executes no operation at all, the request counts as failed.
        let isPartly = replies.contains { if case .answer = $0 { true } else { false } }
        for (place, (operation, reply)) in zip(operations, replies).enumerated() {
            switch reply {
            case .lost:
                stop = stop ?? .network
            case .notReached where isPartly:
                notReached.append(operation.id)
            case .withGroup:
                order.sendLater(operation)
            case .skipped where isPartly:
                skipped.append(operation.id)
            case .skipped:
                stop = stop ?? .network
            case .answer(let answer), .notReached(let answer):
                let mayBeUndone = inBatch && PushGroups.mayChange(rowAt: place, of: operations)
                evaluate(operation, answer, mayBeUndone: mayBeUndone, &decidedOperations)
            }
        }
        if !isPartly, PushGroups.hasAny(operations), replies.contains(where: \.isNotReached) {
            budget.shrink()
        } else if notReached.isEmpty, skipped.isEmpty {
            budget.succeeded(inBatch: inBatch)
        } else {
            budget.shrink(to: operations.count - notReached.count - skipped.count)
            order.sendAgain(skipped + notReached, areRejected: true)
        }
        return apply(decidedOperations)
    }

    /// Returns the response to a single group if the group's responses were too large in every
    /// attempt.
    ///
    /// Another attempt would not help, and other operations must not wait for the group.
    private mutating func answerBeyondBatch(
        _ replies: [PushReply],
        to operations: [QueuedOperation]
    ) -> PushAnswer? {
        guard isOneGroup(operations), case .notReached(let answer) = replies[0] else { return nil }
        return failures.noteTooLarge(operations[0]) < limits.attemptsMax ? nil : answer
    }

    /// Returns whether a group has to wait because a response does not show whether the server
    /// accepts batches.
    ///
    /// Another request is sent to identify the server.
    package func mustKnowServer(after answer: PushAnswer) -> Bool {
        guard case .sending(let operations, true) = state, isOneGroup(operations) else {
            return false
        }
        return !answer.isProven && [404, 405, 501].contains(answer.status)
            && !budget.hasTakenBatch && !budget.namesRequests && !budget.isOfOriginalServer
    }

    /// Handles a response that is not a batch response.
    ///
    /// - Parameters:
    ///   - answer: The response to the request.
    ///   - isOriginalServer: Whether this is proven to be an original server, which does not accept
    ///     batches.
    /// - Returns: The next action.
    package mutating func rejected(
        _ answer: PushAnswer,
        isOriginalServer: Bool = false
    ) -> Action {
        if isOriginalServer { budget.learnOriginalServer() }
        guard case .sending(let operations, true) = state else {
            preconditionFailure("rejected(_:) without a batch in flight")
        }
        switch answer.status {
        case 413 where isOneGroup(operations) && answer.isProven:
            return apply(operations.map { DecidedOperation($0, .rejected, answer) })
        case 413 where !isOneGroup(operations):
            budget.shrink()
            return resend(operations, areRejected: answer.isProven)
        case 401 where answer.isProven:
            stop = .unauthorized
            unauthorizedAnswer = answer
            return next()
        case 300..<402 where budget.hasTakenBatch && !answer.isProven:
            return notTaken(operations, answer)
        case _ where answer.rejectsForm && answer.isProven:
            round.failures = operations.map { ($0, answer) }
            return handleFailures(mayPass: isOneGroup(operations))
        case 401, 408, 429, 300..<400, 500, 502...:
            // A proxy may reject certain text in the bodies, so the next attempt has fewer
            // operations.
            if answer.status >= 500, !answer.isProven,
                failures.hasTried(operations)
            {
                budget.halve(operations.count)
            }
            round.failures = operations.map { ($0, answer) }
            return handleFailures(mayPass: isOneGroup(operations))
        default:
            return notTaken(operations, answer)
        }
    }

    /// Handles a response that shows that the server does not accept batches, or that it rejected
    /// this batch.
    private mutating func notTaken(
        _ operations: [QueuedOperation],
        _ answer: PushAnswer
    ) -> Action {
        let isUnknown =
            [404, 405, 501].contains(answer.status) || answer.status == 403 && answer.isProven
        let isRejection = answer.status == 501 || (400..<500).contains(answer.status)
        // Any other response may come from a gateway in front of a server that accepts batches.
        let isServers = answer.isProven || budget.isOfOriginalServer
        if isOneGroup(operations), !isUnknown || budget.hasTakenBatch || !isServers {
            // The group cannot be split. If batches worked before, this response does not come from
            // the server.
            if isRejection, answer.isProven, ![404, 405, 501].contains(answer.status) {
                return apply(operations.map { DecidedOperation($0, .rejected, answer) })
            }
            round.failures = operations.map { ($0, answer) }
            return handleFailures()
        }
        if budget.hasTakenBatch || budget.namesRequests && !isUnknown, !answer.isProven {
            // A proxy or firewall rejected the batch, possibly because of certain text in it.
            guard operations.count > 1 else {
                round.failures = operations.map { ($0, answer) }
                return handleFailures()
            }
            budget.halve(operations.count)
            return resend(operations)
        }
        budget.giveUpBatches(says: isUnknown && !budget.hasTakenBatch && isServers)
        // A response that is not a batch response does not show whether the operations were
        // executed.
        return resend(operations, areRejected: isRejection && (isUnknown || answer.isProven))
    }

    /// Handles a request without a response; the operations stay frozen, and the next attempt sends
    /// the same bytes.
    ///
    /// `mayBeSmaller` is true if the request may have reached the server, so that a smaller request
    /// may succeed.
    package mutating func lost(mayBeSmaller: Bool) -> Action {
        guard case .sending(let operations, let inBatch) = state else { return failed(.network) }
        if operations.count == 1 || isOneGroup(operations), mayBeSmaller {
            return lostAlone(operations)
        }
        guard inBatch else { return failed(.network) }
        budget.shrink()
        let lostBatches = failures.noteLostBatch()
        guard mayBeSmaller, lostBatches <= limits.lostBatchesMax else { return failed(.network) }
        return resend(operations)
    }

    /// Moves an operation or group whose request was lost to the end of the push.
    ///
    /// The next request shows whether the server can be reached. If it is lost as well, the push
    /// ends.
    private mutating func lostAlone(_ operations: [QueuedOperation]) -> Action {
        guard !failures.hasTried(operations), !failures.isProbing, hasMore else {
            return failed(.network)
        }
        failures.beginProbe(operations)
        order.moveBehind(operations)
        return next()
    }

    private mutating func resend(
        _ operations: [QueuedOperation],
        areRejected: Bool = false
    ) -> Action {
        order.sendAgain(operations.map(\.id), areRejected: areRejected)
        return next()
    }

    /// Determines what a response means.
    ///
    /// `mayBeUndone` is true if the server may have rolled back the state that a rejection shows.
    private mutating func evaluate(
        _ operation: QueuedOperation,
        _ answer: PushAnswer,
        mayBeUndone: Bool,
        _ decidedOperations: inout [DecidedOperation]
    ) {
        budget.note(answer)
        switch answer.outcome(of: operation, namesRequests: budget.namesRequests) {
        case .decided(let decision)
        where mayBeUndone && answer.status >= 400 && decision.showsState:
            round.reads.append((operation, .undone))
            round.unclear[operation.id] = answer.ofUndoneState
        case .decided(let decision):
            decidedOperations.append(DecidedOperation(operation, decision, answer))
        case .read(let read):
            round.reads.append((operation, read))
            round.unclear[operation.id] = answer
        case .unauthorized:
            stop = .unauthorized
            unauthorizedAnswer = answer
        case .retry:
            round.failures.append((operation, answer))
        }
    }

    private mutating func apply(_ decidedOperations: [DecidedOperation]) -> Action {
        guard !decidedOperations.isEmpty else { return proceed() }
        state = .applying(decidedOperations)
        return .apply(decidedOperations)
    }

    /// Continues after outcomes were stored; `unblocked` has the operations of other groups that
    /// followed an accepted operation on the same row.
    package mutating func applied(
        _ results: [SettlementResult],
        unblocked: [Int64] = []
    ) -> Action {
        guard case .applying(let decidedOperations) = state else {
            preconditionFailure("applied(_:) was called, but no outcomes were being stored")
        }
        var again: [Int64] = []
        var hasMoved = false
        for (decided, result) in zip(decidedOperations, results) {
            if result == .untouched {
                // This counts as a failure, because a proxy may respond in the same way every time.
                round.failures.append((decided.operation, decided.answer))
                continue
            }
            hasMoved = true
            failures.remove(decided.operation)
            switch result {
            case .completed: completed += 1
            case .resend: again.append(decided.operation.id)
            case .released: order.sendAgainAfterEdit(decided.operation, &again)
            case .waiting: order.waitForOtherOperations()
            case .parked, .dropped, .gone, .asked, .untouched: break
            }
        }
        if hasMoved { round.hasMoved = true }
        order.continueAfterApplying(again: again, unblocked: unblocked, hasMoved: hasMoved)
        return proceed()
    }

    /// Handles the response to a follow-up read.
    package mutating func readAnswered(_ answer: PushAnswer) -> Action {
        guard case .reading(let operation, let read) = state else {
            preconditionFailure("readAnswered(_:) with no read in flight")
        }
        // An error of the operation contains the response to the operation itself, not to the read.
        var reported = round.unclear.removeValue(forKey: operation.id) ?? answer
        switch read.outcome(of: operation, answer) {
        case .decided(let decision):
            if case .accepted = decision { reported.wasReadLater = true }
            return apply([DecidedOperation(operation, decision, reported)])
        case .read(let next):
            round.reads.insert((operation, next), at: 0)
            round.unclear[operation.id] = reported
        case .unauthorized:
            stop = .unauthorized
            unauthorizedAnswer = answer
        case .retry:
            // The row that was read does not reveal what sent the response.
            round.failures.append((operation, answer.outline == nil ? reported : answer))
        }
        return proceed()
    }

    private mutating func proceed() -> Action {
        if !round.reads.isEmpty {
            let (operation, read) = round.reads.removeFirst()
            state = .reading(operation, read)
            return .read(operation, read)
        }
        return handleFailures()
    }

    // MARK: - Failures

    /// Moves failed operations to the end of the push.
    ///
    /// If no operation was completed, the push waits and retries, up to ``SyncLimits/attemptsMax``
    /// attempts.
    private mutating func handleFailures(mayPass: Bool = true) -> Action {
        defer { round.end() }
        if round.hasMoved { failures.endProbe() }
        let failed = round.failures.map(\.operation)
        guard let last = round.failures.last, stop == nil else { return next() }
        failures.note(round.failures)
        rejection = last.answer
        let asked =
            round.failures.filter { $0.operation.failedPushes == 0 }
            .compactMap(\.answer.retryAfter).max()
        if Backoff.isTooLong(asked, limits) {
            // The next push sends other operations first, to find out whether the server works.
            failures.noteRejectedByProxy(failed)
            return finish(.network)
        }
        if mayPass, let action = moveRejectedBehind(failed) { return action }
        if round.hasMoved {
            order.moveBehind(failed)
            return next()
        }
        let tries = failures.tries(failed)
        if tries < limits.attemptsMax, !failures.isProbing {
            order.sendAgain(failed.map(\.id))
            state = .waiting
            return .wait(Backoff.delay(after: tries, asked: asked, limits))
        }
        guard !failures.isProbing, hasMore else { return finish(.network) }
        failures.beginProbe()
        order.moveBehind(failed)
        return next()
    }

    /// Moves operations that a proxy rejected to the end of the push, without waiting.
    ///
    /// The proxy rejects some of their contents, and may accept the other operations. If it rejects
    /// an operation a second time, the operation is left to the next push.
    ///
    /// - Returns: The next action; nil if no other operations are left. The push then waits and
    ///   retries these operations.
    private mutating func moveRejectedBehind(_ operations: [QueuedOperation]) -> Action? {
        guard round.failures.allSatisfy(\.answer.isRejectedByProxy) else { return nil }
        let areKnown = failures.noteRejectedByProxy(operations)
        failures.countRejectedInRow(operations.count)
        guard failures.rejectedInRow < Self.rejectedInRowMax else { return finish(.network) }
        if areKnown {
            order.close(operations.map(\.row))
            failures.leaveRejected()
            return next()
        }
        guard hasMore else { return nil }
        order.moveBehind(operations)
        return next()
    }

    /// The number of consecutive operations that a proxy may reject before the push ends.
    ///
    /// A proxy that rejects everything should not receive a request for each operation.
    private static let rejectedInRowMax = 16

    private mutating func retryBehind() -> Action {
        let tries = failures.tries(order.behind)
        guard tries < limits.attemptsMax else { return finish(.network) }
        order.sendBehind()
        state = .waiting
        return .wait(Backoff.delay(after: max(1, tries), asked: nil, limits))
    }

    /// Whether there are operations left other than the ones that just failed.
    private var hasMore: Bool { !order.isPassDone || !round.reads.isEmpty }

    package mutating func waited() -> Action {
        guard case .waiting = state else { preconditionFailure("waited() while not waiting") }
        return next()
    }

    /// Ends the push because no response arrived or the task was cancelled.
    package mutating func failed(_ stop: Stop) -> Action {
        state = .finished
        return .finish(stop)
    }
}
