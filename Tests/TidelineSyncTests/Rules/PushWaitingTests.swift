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
}
