// PushMachine: operations that wait for others which are later in the queue.

import Testing
import Tideline
import TidelineCore

@Suite struct PushWaitingTests {
    private let limits = SyncLimits()

    private func operation(_ id: Int64) -> QueuedOperation {
        var result = QueuedOperation(
            id: id,
            table: "T",
            itemID: "row \(id)",
            kind: .update,
            state: .attempted
        )
        result.frozen = sampleRequest
        return result
    }

    /// Returns the position after which an action requests a slice.
    private func position(_ action: PushMachine.Action) -> Int64? {
        if case .prepare(let slice) = action { slice.after } else { nil }
    }

    private func slice(_ operations: QueuedOperation..., isWaiting: Bool = false) -> PreparedSlice {
        var slice = PreparedSlice(after: operations.last?.id ?? 100)
        slice.operations = operations
        slice.isWaiting = isWaiting
        slice.isAtEnd = operations.isEmpty
        return slice
    }

    private func machine() -> PushMachine {
        PushMachine(limits: limits, budget: PushBudget(limits: limits))
    }

    private let done = PushReply.answer(PushAnswer(status: 200, item: PushOutcomeTests.row))

    @Test("An operation that waited for a later one is read again after its success")
    func anOperationThatWaitedForALaterOneIsReadAgain() throws {
        var machine = machine()
        _ = machine.start(lastID: 5)
        _ = machine.prepared(slice(operation(5), isWaiting: true))
        _ = machine.answered([done])
        #expect(position(machine.applied([.completed])) == 5)
        try #require(position(machine.prepared(slice())) == .min)
        #expect(machine.prepared(slice(operation(3))) == .send([operation(3)], inBatch: false))
        _ = machine.answered([done])
        #expect(position(machine.applied([.completed])) == 3)
        #expect(machine.prepared(slice()) == .finish(nil))
        #expect(machine.completed == 2)
    }

    /// It waits for the next push: the queue is not read endlessly.
    @Test("An operation that still waits when it is read again ends the push")
    func anOperationThatStillWaitsEndsThePush() throws {
        var machine = machine()
        _ = machine.start(lastID: 5)
        _ = machine.prepared(slice(operation(5), isWaiting: true))
        _ = machine.answered([done])
        _ = machine.applied([.completed])
        try #require(position(machine.prepared(slice())) == .min)
        var waiting = slice()
        waiting.isWaiting = true
        #expect(machine.prepared(waiting) == .finish(nil))
    }

    /// The row of a delete whose insert may have arrived must be read first.
    ///
    /// Otherwise the delete would be found a second time, and a row that the app has inserted again after it would
    /// overtake it.
    @Test("Follow-up reads precede the next slice, even if the batch is lost")
    func followUpReadsPrecedeTheNextSlice() throws {
        var delete = operation(2)
        delete.kind = .delete
        delete.outcomeUnknown = true
        delete.frozen?.ifMatch = nil
        try #require(delete.mustBeRead)
        var machine = machine()
        _ = machine.start(lastID: 5)
        let both = [operation(1), operation(3)]
        let sent = PushMachine.Action.send(both, inBatch: true)
        #expect(machine.prepared(slice(operation(1), delete, operation(3))) == sent)
        #expect(machine.lost(mayBeSmaller: true) == .read(delete, .row))
        let gone = PushAnswer(status: 404, lacksRow: true)
        guard case .apply(let decidedOperations) = machine.readAnswered(gone) else {
            Issue.record("no outcomes were stored")
            return
        }
        #expect(decidedOperations.map(\.operation.id) == [2])
        guard case .prepare(let next) = machine.applied([.completed]) else {
            Issue.record("read twice")
            return
        }
        #expect(next.first.first == 1)
    }

    @Test("A request that never gets through does not block a follow-up read")
    func followUpReadsAreMadeAlthoughAnotherRequestIsLost() throws {
        var delete = operation(2)
        delete.kind = .delete
        delete.outcomeUnknown = true
        delete.frozen?.ifMatch = nil
        var machine = machine()
        _ = machine.start(lastID: 2)
        var last = slice(operation(1), delete)
        last.isAtEnd = true
        #expect(machine.prepared(last) == .send([operation(1)], inBatch: false))
        #expect(machine.lost(mayBeSmaller: true) == .read(delete, .row))
        _ = machine.readAnswered(PushAnswer(status: 404, lacksRow: true))
        // Then the other operation is sent again, and ends the push when it is lost a second time.
        try #require(position(machine.applied([.completed])) == 2)
        try #require(machine.prepared(slice()) == .wait(limits.retryDelayFirst))
        try #require(position(machine.waited()) == .min)
        #expect(machine.prepared(slice(operation(1))) == .send([operation(1)], inBatch: false))
        #expect(machine.lost(mayBeSmaller: true) == .finish(.network))
    }
}
