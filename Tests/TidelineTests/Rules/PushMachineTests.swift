// PushMachine: scripts of events, and the resulting actions; PushBudget; Backoff.

import Testing
import Tideline
import TidelineCore

@Suite struct PushMachineTests {
    private let row = PushOutcomeTests.row
    private let limits = SyncLimits()

    private func machine(batches: Bool = false) -> PushMachine {
        PushMachine(limits: limits, budget: PushBudget(limits: limits, usesBatches: batches))
    }

    private func operation(
        _ id: Int64,
        _ kind: OperationKind = .update,
        row: String? = nil
    ) -> QueuedOperation {
        var result = QueuedOperation(
            id: id,
            table: "T",
            itemID: row ?? "row \(id)",
            kind: kind,
            state: .attempted
        )
        result.frozen = sampleRequest
        return result
    }

    /// Returns the slice that an action requests.
    private func slice(_ action: PushMachine.Action) -> PushSlice? {
        if case .prepare(let slice) = action { slice } else { nil }
    }

    private func prepared(
        _ operations: QueuedOperation...,
        isAtEnd: Bool = false
    )
        -> PreparedSlice
    {
        var slice = PreparedSlice(after: operations.last?.id ?? 100)
        slice.operations = operations
        slice.isAtEnd = isAtEnd || operations.isEmpty
        return slice
    }

    private func decisions(_ action: PushMachine.Action) -> [ServerDecision] {
        if case .apply(let decidedOperations) = action {
            decidedOperations.map(\.decision)
        } else {
            []
        }
    }

    private var done: PushReply { .answer(PushAnswer(status: 200, item: row)) }
    private func failed(_ status: Int) -> PushReply { .answer(PushAnswer(status: status)) }

    @Test("A push of an empty queue ends at once") func anEmptyQueueEndsAtOnce() {
        var machine = machine()
        #expect(slice(machine.start(lastID: 0))?.after == .min)
        #expect(machine.prepared(prepared()) == .finish(nil))
        #expect(machine.completed == 0)
    }

    @Test("A push continues after accepted operations until the queue is empty")
    func acceptedOperationsContinueThePush() {
        var machine = machine()
        let (one, two) = (operation(3), operation(8, .delete))
        #expect(slice(machine.start(lastID: 8))?.rows == 1)
        #expect(machine.prepared(prepared(one)) == .send([one], inBatch: false))
        #expect(decisions(machine.answered([done])) == [.accepted(.row(row))])
        #expect(slice(machine.applied([.completed]))?.after == 3)
        _ = machine.prepared(prepared(two))
        let deleted = machine.answered([failed(204)])
        #expect(decisions(deleted) == [.accepted(.deleted(version: nil))])
        #expect(slice(machine.applied([.completed]))?.after == 8)
        #expect(machine.prepared(prepared()) == .finish(nil))
        #expect(machine.completed == 2)
    }

    @Test("Skipped operations count as completed") func skippedOperationsAreCounted() {
        var machine = machine()
        _ = machine.start(lastID: 9)
        var skipped = PreparedSlice(after: 5)
        skipped.skipped = 3
        #expect(slice(machine.prepared(skipped))?.after == 5)
        #expect(machine.completed == 3)
    }

    @Test("Several operations are sent as one batch, and a single operation is not")
    func severalOperationsAreOneBatchAndASingleOneIsNot() {
        var machine = machine(batches: true)
        let (one, two) = (operation(1), operation(2))
        #expect(slice(machine.start(lastID: 3))?.rows == limits.batchRowsFirst)
        #expect(machine.prepared(prepared(one, two)) == .send([one, two], inBatch: true))
        #expect(decisions(machine.answered([done, failed(422)])).count == 2)
        #expect(slice(machine.applied([.completed, .parked]))?.rows == limits.batchRowsMax)
        #expect(machine.prepared(prepared(one)) == .send([one], inBatch: false))
        #expect(machine.completed == 1)
    }

    @Test("A push retries 408, 429 and 503 responses with backoff, up to a limit")
    func requestsToABusyServerAreRetriedWithBackoff() {
        var machine = machine()
        let one = operation(1)
        _ = machine.start(lastID: 1)
        _ = machine.prepared(prepared(one, isAtEnd: true))
        for (status, wait) in [(503, 500), (429, 1000), (408, 2000)] {
            #expect(machine.answered([failed(status)]) == .wait(.milliseconds(wait)))
            #expect(slice(machine.waited())?.first == [1])
            #expect(machine.prepared(prepared(one)) == .send([one], inBatch: false))
        }
        #expect(machine.answered([failed(500)]) == .finish(.network))
        #expect(machine.rejection?.status == 500)
    }

    @Test("A push ends if the server asks for a longer wait than its limit")
    func aWaitLongerThanThePushEndsIt() {
        var machine = machine()
        _ = machine.start(lastID: 1)
        _ = machine.prepared(prepared(operation(1)))
        let answer = PushAnswer(status: 429, retryAfter: .seconds(9999))
        #expect(machine.answered([.answer(answer)]) == .finish(.network))
    }

    @Test("An operation that fails while others succeed is retried after them")
    func aFailingOperationIsSentAfterTheOthers() {
        var machine = machine(batches: true)
        let (one, two, three) = (operation(1), operation(2), operation(3))
        _ = machine.start(lastID: 3)
        _ = machine.prepared(prepared(one, two))
        _ = machine.answered([failed(500), done])
        let next = slice(machine.applied([.completed]))
        #expect(next?.first == [])
        #expect(next?.after == 2)
        #expect(next?.closed == [one.row])
        _ = machine.prepared(prepared(three, isAtEnd: true))
        _ = machine.answered([done])
        #expect(slice(machine.applied([.completed]))?.after == 3)
        #expect(machine.prepared(prepared()) == .wait(.milliseconds(500)))
        let again = slice(machine.waited())
        #expect(again?.first == [1])
        // Later operations of its row were skipped, so the machine searches for them again.
        #expect(again?.after == .min)
        _ = machine.prepared(prepared(one, isAtEnd: true))
        for wait in [1, 2] {
            #expect(machine.answered([failed(500)]) == .wait(.seconds(wait)))
            _ = machine.waited()
            _ = machine.prepared(prepared(one))
        }
        #expect(machine.answered([failed(500)]) == .finish(.network))
        #expect(machine.completed == 2)
    }

    /// The other operation shows whether the server is the cause.
    @Test("A push without progress tries one other operation and ends")
    func aPushWithoutProgressEnds() {
        var machine = machine()
        let (one, two) = (operation(1), operation(2))
        _ = machine.start(lastID: 2)
        for _ in 0..<3 {
            _ = machine.prepared(prepared(one))
            _ = machine.answered([failed(503)])
            _ = machine.waited()
        }
        _ = machine.prepared(prepared(one))
        #expect(slice(machine.answered([failed(503)]))?.after == 1)
        _ = machine.prepared(prepared(two))
        #expect(machine.answered([failed(503)]) == .finish(.network))
    }

    @Test("A released operation is retried once in a push") func aReleasedOperationIsRetriedOnce() {
        var machine = machine()
        let one = operation(4)
        _ = machine.start(lastID: 4)
        _ = machine.prepared(prepared(one))
        _ = machine.answered([failed(400)])
        #expect(slice(machine.applied([.released]))?.first == [4])
        _ = machine.prepared(prepared(one))
        _ = machine.answered([failed(400)])
        let next = slice(machine.applied([.released]))
        #expect(next?.first == [])
        #expect(next?.closed == [one.row])
    }

    @Test("Of the operations made during a push, one of each row is sent")
    func operationsMadeDuringThePushAreSentOnce() {
        var machine = machine()
        _ = machine.start(lastID: 4)
        _ = machine.prepared(prepared(operation(4, row: "a")))
        _ = machine.answered([done])
        #expect(slice(machine.applied([.completed]))?.closed == [])
        let later = operation(5, row: "a")
        _ = machine.prepared(prepared(later))
        _ = machine.answered([done])
        #expect(slice(machine.applied([.completed]))?.closed == [later.row])
    }

    @Test("An unknown outcome leads to a follow-up read")
    func anUnknownOutcomeLeadsToAFollowUpRead() {
        var machine = machine(batches: true)
        let (one, two, three) = (operation(1), operation(2, .delete), operation(3))
        _ = machine.start(lastID: 3)
        _ = machine.prepared(prepared(one, two, three))
        #expect(decisions(machine.answered([failed(204), failed(404), done])).count == 1)
        #expect(machine.applied([.completed]) == .read(one, .written))
        let found = machine.readAnswered(PushAnswer(status: 200, item: row))
        #expect(decisions(found) == [.accepted(.row(row))])
        #expect(machine.applied([.completed]) == .read(two, .gone))
        let gone = machine.readAnswered(PushAnswer(status: 404, isPage: true))
        #expect(decisions(gone) == [.conflict(.deleted(version: nil), wasRead: true)])
        #expect(slice(machine.applied([.completed]))?.after == 3)
        #expect(machine.completed == 3)
    }

    /// A 404 to the read of a row may be a gateway's.
    @Test("A follow-up read without a row is followed by a query of the table")
    func aFollowUpReadWithoutARowIsFollowedByAQueryOfTheTable() {
        let one = operation(1)
        var machine = machine(batches: false)
        _ = machine.start(lastID: 1)
        _ = machine.prepared(prepared(one))
        #expect(machine.answered([failed(204)]) == .read(one, .written))
        #expect(machine.readAnswered(PushAnswer(status: 404)) == .read(one, .gone))
        let found = machine.readAnswered(PushAnswer(status: 404, isPage: true))
        #expect(decisions(found) == [.conflict(.deleted(version: nil), wasRead: true)])
    }

    @Test("A delete of an insert with unknown outcome is preceded by a follow-up read")
    func aDeleteWithoutAVersionIsReadFirst() {
        var delete = operation(1, .delete)
        delete.frozen?.ifMatch = nil
        delete.outcomeUnknown = true
        var machine = machine(batches: true)
        _ = machine.start(lastID: 2)
        #expect(machine.prepared(prepared(delete)) == .read(delete, .row))
        let found = machine.readAnswered(PushAnswer(status: 410))
        #expect(decisions(found) == [.conflict(.deleted(version: nil), wasRead: true)])
    }

    @Test(
        "A server without batches gets single requests",
        arguments: [404, 405, 501, 400, 200, 403]
    )
    func aServerWithoutBatchesGetsSingleRequests(status: Int) {
        var machine = machine(batches: true)
        let (one, two) = (operation(1), operation(2))
        _ = machine.start(lastID: 2)
        _ = machine.prepared(prepared(one, two))
        let next = slice(machine.rejected(PushAnswer(status: status)))
        #expect(next?.first == [1])
        #expect(next?.rows == 1)
        #expect(!machine.budget.usesBatches)
        #expect(machine.prepared(prepared(one)) == .send([one], inBatch: false))
    }

    @Test("A batch that is too large is sent again with fewer operations")
    func aBatchThatIsTooLargeBecomesSmaller() {
        var machine = machine(batches: true)
        _ = machine.start(lastID: 2)
        _ = machine.prepared(prepared(operation(1), operation(2)))
        let next = slice(machine.rejected(PushAnswer(status: 413)))
        #expect(next?.rows == limits.batchRowsFirst / 4)
        #expect(next?.first == [1, 2])
        #expect(machine.budget.usesBatches)
    }

    @Test("A batch that ends at a failed operation shrinks to the part that was executed")
    func aBatchThatEndsEarlyBecomesSmaller() {
        var machine = machine(batches: true)
        _ = machine.start(lastID: 3)
        _ = machine.prepared(prepared(operation(1), operation(2), operation(3)))
        #expect(decisions(machine.answered([done, .skipped, .skipped])) == [.accepted(.row(row))])
        let next = slice(machine.applied([.completed]))
        #expect(next?.first == [2])
        #expect(next?.rows == 1)
    }

    @Test("A lost batch is sent again until a limit ends the push")
    func aLostBatchIsSentAgainWithFewerOperations() {
        var machine = machine(batches: true)
        let (one, two) = (operation(1), operation(2))
        _ = machine.start(lastID: 2)
        for _ in 0..<limits.lostBatchesMax {
            _ = machine.prepared(prepared(one, two))
            #expect(slice(machine.lost(mayBeSmaller: true))?.first == [1, 2])
        }
        _ = machine.prepared(prepared(one, two))
        #expect(machine.lost(mayBeSmaller: true) == .finish(.network))
    }

    @Test("A request that is lost alone does not block later operations")
    func anOperationThatIsLostAloneIsSentAfterTheOthers() {
        var machine = machine()
        let (one, two) = (operation(1), operation(2))
        _ = machine.start(lastID: 2)
        _ = machine.prepared(prepared(one))
        #expect(slice(machine.lost(mayBeSmaller: true))?.after == 1)
        _ = machine.prepared(prepared(two))
        #expect(decisions(machine.answered([done])) == [.accepted(.row(row))])
        _ = machine.applied([.completed])
        guard case .wait = machine.prepared(prepared()) else {
            Issue.record("it is not tried again")
            return
        }
        #expect(slice(machine.waited())?.first == [1])
        _ = machine.prepared(prepared(one, isAtEnd: true))
        #expect(machine.lost(mayBeSmaller: true) == .finish(.network))
        #expect(machine.completed == 1)
    }

    @Test("The second lost request ends a push without any success")
    func aLinkThatLosesEveryRequestEndsThePush() {
        var machine = machine()
        _ = machine.start(lastID: 3)
        _ = machine.prepared(prepared(operation(1)))
        _ = machine.lost(mayBeSmaller: true)
        _ = machine.prepared(prepared(operation(2)))
        #expect(machine.lost(mayBeSmaller: true) == .finish(.network))
    }

    @Test("A missing connection ends the push") func aMissingConnectionEndsThePush() {
        var machine = machine(batches: true)
        _ = machine.start(lastID: 2)
        _ = machine.prepared(prepared(operation(1), operation(2)))
        #expect(machine.lost(mayBeSmaller: false) == .finish(.network))
    }

    @Test("Responses are applied even if a parallel request was lost")
    func answersNextToALostRequestAreApplied() {
        var machine = machine()
        _ = machine.start(lastID: 2)
        _ = machine.prepared(prepared(operation(1), operation(2)))
        #expect(decisions(machine.answered([.lost, done])) == [.accepted(.row(row))])
        #expect(machine.applied([.completed]) == .finish(.network))
        #expect(machine.completed == 1)
    }

    @Test("A 401 ends the push after the other outcomes are applied")
    func unauthorizedEndsThePushAfterTheOthersAreApplied() {
        var machine = machine(batches: true)
        _ = machine.start(lastID: 2)
        _ = machine.prepared(prepared(operation(1), operation(2)))
        #expect(decisions(machine.answered([failed(401), done])).count == 1)
        #expect(machine.applied([.completed]) == .finish(.unauthorized))
    }

    @Test(
        "A network failure or a cancellation ends the push",
        arguments: [PushMachine.Stop.network, .cancelled]
    )
    func aMissingAnswerEndsThePush(stop: PushMachine.Stop) {
        var machine = machine()
        _ = machine.start(lastID: 1)
        _ = machine.prepared(prepared(operation(1)))
        #expect(machine.failed(stop) == .finish(stop))
    }

    // MARK: - Groups

    private func grouped(_ operation: QueuedOperation, _ group: String = "g") -> QueuedOperation {
        var result = operation
        result.group = group
        return result
    }

    private var stopped: PushReply {
        var answer = PushAnswer(status: 424)
        answer.isGroupFailed = true
        return .answer(answer)
    }

    @Test("Adjacent operations of one atomic group are one unit")
    func neighboursOfOneGroupAreOneUnit() {
        let operations = [
            operation(1), grouped(operation(2)), grouped(operation(3)),
            grouped(operation(4), "h"), operation(5), operation(6),
        ]
        #expect(PushGroups.units(of: operations) == [0..<1, 1..<3, 3..<4, 4..<5, 5..<6])
        #expect(!PushGroups.isOne(operations) && PushGroups.isOne(Array(operations[1...2])))
        #expect(!PushGroups.isOne([operations[1]]) && PushGroups.units(of: []).isEmpty)
    }

    @Test("Operations that were skipped because one of their group was rejected are sent again")
    func aRejectionOfOneOperationIncludesItsGroup() {
        var machine = machine(batches: true)
        let (one, two, three) = (grouped(operation(1)), grouped(operation(2)), operation(3))
        _ = machine.start(lastID: 3)
        _ = machine.prepared(prepared(one, two, three))
        #expect(decisions(machine.answered([stopped, failed(422), done])).count == 2)
        let again = slice(machine.applied([.parked, .completed]))
        #expect(again?.first == [1])
        #expect(again?.rejected == [1])
        #expect(again?.groups == .together)
    }

    @Test("An atomic group is retried as a whole") func aGroupIsRetriedAsOne() {
        var machine = machine(batches: true)
        let (one, two) = (grouped(operation(1)), grouped(operation(2)))
        _ = machine.start(lastID: 2)
        _ = machine.prepared(prepared(one, two, isAtEnd: true))
        #expect(machine.answered([stopped, failed(503)]) == .wait(.milliseconds(500)))
        #expect(slice(machine.waited())?.first == [1, 2])
    }

    @Test("A row that must be read first blocks its atomic group")
    func aGroupWaitsForARowThatIsRead() {
        var machine = machine(batches: true)
        var gone = grouped(operation(1, .delete))
        gone.outcomeUnknown = true
        gone.frozen?.ifMatch = nil
        let (two, three) = (grouped(operation(2)), operation(3))
        _ = machine.start(lastID: 3)
        #expect(machine.prepared(prepared(gone, two, three)) == .send([three], inBatch: false))
        _ = machine.answered([done])
        guard case .read(let read, .row) = machine.applied([.completed]) else {
            Issue.record("the row is not read")
            return
        }
        #expect(read.id == 1)
        _ = machine.readAnswered(PushAnswer(status: 200, item: row))
        #expect(slice(machine.applied([.resend]))?.first == [1, 2])
    }

    @Test("An atomic group with continuously edited rows is sent again once in a push")
    func anEditedGroupIsRetriedOnce() {
        var machine = machine(batches: true)
        let (one, two) = (grouped(operation(1)), grouped(operation(2)))
        _ = machine.start(lastID: 2)
        _ = machine.prepared(prepared(one, two))
        _ = machine.answered([failed(422), stopped])
        let second = slice(machine.applied([.released]))
        #expect(second?.first == [1, 2])
        #expect(second?.blockedRows == [])
        _ = machine.prepared(prepared(one, two))
        _ = machine.answered([failed(422), stopped])
        #expect(slice(machine.applied([.released]))?.blockedRows == [one.row])
    }

    @Test("The batch size grows after a success and shrinks after a failure")
    func theBudgetGrowsAndShrinks() {
        var limits = SyncLimits()
        limits.batchRowsFirst = 8
        limits.batchRowsMax = 20
        limits.batchBytesMax = 64 << 10
        limits.parallelOperations = 3
        var budget = PushBudget(limits: limits, usesBatches: true)
        var rows: [Int] = [budget.rows]
        for _ in 0..<3 {
            budget.succeeded()
            rows.append(budget.rows)
        }
        for _ in 0..<4 {
            budget.shrink()
            rows.append(budget.rows)
        }
        #expect(rows == [8, 16, 20, 20, 5, 1, 1, 1])
        #expect(budget.bytes == 16 << 10)
        budget.giveUpBatches(says: false)
        #expect(budget.rows == 3)
        #expect(!budget.usesBatches)
    }
}

@Suite struct BackoffTests {
    static let delays: [(Int, Duration?, Duration)] = [
        (1, nil, .milliseconds(500)),
        (2, nil, .seconds(1)),
        (3, nil, .seconds(2)),
        (7, nil, .seconds(30)),
        (1_000_000, nil, .seconds(30)),
        (1, .seconds(7), .seconds(7)),
        (1, .zero, .milliseconds(500)),
        (6, .seconds(7), .seconds(16)),
        (1, .seconds(86_400), .seconds(30)),
    ]

    @Test("The retry delay grows with each attempt, up to a limit", arguments: delays)
    func delaysGrow(attempt: Int, asked: Duration?, expected: Duration) {
        #expect(Backoff.delay(after: attempt, asked: asked, SyncLimits()) == expected)
    }

    @Test("Jitter only lengthens a delay") func jitterOnlyAdds() {
        #expect(Backoff.spread(.seconds(8), 0) == .seconds(8))
        #expect(Backoff.spread(.seconds(8), 0.5) == .seconds(9))
        #expect(Backoff.spread(.seconds(8), 1) == .seconds(10))
    }
}
