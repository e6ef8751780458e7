// PushMachine: operations that wait for others which stand later in the queue.

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

    /// The place after which a slice is looked for.
    private func place(_ action: PushMachine.Action) -> Int64? {
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

    private let done = PushReply.answer(PushAnswer(status: 200, item: PushVerdictTests.row))

    /// What was passed over is looked at again at the end, since something has moved.
    @Test func whatWaitedForALaterOneIsLookedAtAgain() throws {
        var machine = machine()
        _ = machine.start(lastID: 5)
        _ = machine.prepared(slice(operation(5), isWaiting: true))
        _ = machine.answered([done])
        #expect(place(machine.settled([.completed])) == 5)
        try #require(place(machine.prepared(slice())) == .min)
        #expect(machine.prepared(slice(operation(3))) == .send([operation(3)], inBatch: false))
        _ = machine.answered([done])
        #expect(place(machine.settled([.completed])) == 3)
        #expect(machine.prepared(slice()) == .finish(nil))
        #expect(machine.completed == 2)
    }

    /// Where nothing moves it waits for the next push: the queue is not read without end.
    @Test func whatWaitsInVainEndsThePush() throws {
        var machine = machine()
        _ = machine.start(lastID: 5)
        _ = machine.prepared(slice(operation(5), isWaiting: true))
        _ = machine.answered([done])
        _ = machine.settled([.completed])
        try #require(place(machine.prepared(slice())) == .min)
        var waiting = slice()
        waiting.isWaiting = true
        #expect(machine.prepared(waiting) == .finish(nil))
    }

    /// The delete of an insert that may have arrived is read before more is taken from the queue, also
    /// where the batch beside it is lost: it would be met a second time, and what the app has made
    /// anew behind it would pass it.
    @Test func whatHasToBeReadIsReadBeforeTheNextSlice() throws {
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
        #expect(machine.lost(mayBeSmaller: true) == .look(delete, .row))
        let gone = PushAnswer(status: 404, lacksRow: true)
        guard case .settle(let settlings) = machine.looked(gone) else {
            Issue.record("nothing to settle")
            return
        }
        #expect(settlings.map(\.operation.id) == [2])
        guard case .prepare(let next) = machine.settled([.completed]) else {
            Issue.record("read twice")
            return
        }
        #expect(next.first.first == 1)
    }

    /// A request that never gets through the link holds up nothing that is to be read.
    @Test func whatHasToBeReadIsReadThoughTheOtherIsLost() throws {
        var delete = operation(2)
        delete.kind = .delete
        delete.outcomeUnknown = true
        delete.frozen?.ifMatch = nil
        var machine = machine()
        _ = machine.start(lastID: 2)
        var last = slice(operation(1), delete)
        last.isAtEnd = true
        #expect(machine.prepared(last) == .send([operation(1)], inBatch: false))
        #expect(machine.lost(mayBeSmaller: true) == .look(delete, .row))
        _ = machine.looked(PushAnswer(status: 404, lacksRow: true))
        // Then the other one has its turn again, and ends the push when it is lost once more.
        try #require(place(machine.settled([.completed])) == 2)
        try #require(machine.prepared(slice()) == .wait(limits.retryDelayFirst))
        try #require(place(machine.waited()) == .min)
        #expect(machine.prepared(slice(operation(1))) == .send([operation(1)], inBatch: false))
        #expect(machine.lost(mayBeSmaller: true) == .finish(.network))
    }
}
