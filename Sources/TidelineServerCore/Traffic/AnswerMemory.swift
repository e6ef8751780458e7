// AnswerMemory: the bytes of all answers that were made and not yet taken by their callers.
//
// An answer counts from the moment its making begins until the last of it is with the system, on
// all event loops together. Where there is no room, the making of a large answer waits: nobody is
// refused for the slowness of others, as long as the event loops cut those who do not read. But the
// large answer of an endpoint that reads is refused: it is made already, and to keep many that wait
// would take the memory that is bounded here. Room that becomes free goes by turns to who waits the
// longest and to who came last: else somebody who reads would wait until all are cut that came
// before and do not.

import Synchronization

package final class AnswerMemory: Sendable {
    /// Smaller answers do not wait for room: there are as many of them as connections at most, and
    /// the system takes them at once.
    package static let smallBytes = 64 << 10

    private struct Waiter {
        var id: UInt64
        var bytes: Int
        var continuation: CheckedContinuation<AnswerShare?, Never>
    }

    private struct State {
        var held = 0
        /// In the order of their coming.
        var waiters: [Waiter] = []
        /// Whether it is the turn of who came last.
        var isTurnOfLast = false
        var nextID: UInt64 = 0
    }

    private let bytesMax: Int
    private let state = Mutex(State())

    package init(bytesMax: Int = 64 << 20) {
        self.bytesMax = bytesMax
    }

    /// How many bytes are held now.
    package var held: Int { state.withLock { $0.held } }

    /// How many wait for room.
    package var waiting: Int { state.withLock { $0.waiters.count } }

    /// Whether so much is held that those who do not read have to go.
    package var isShort: Bool { state.withLock { $0.held >= bytesMax / 2 || !$0.waiters.isEmpty } }

    /// Whether somebody waits for room.
    package var isWanted: Bool { state.withLock { !$0.waiters.isEmpty } }

    /// The most that wait for room; more are refused.
    private static let waitersMax = 1000

    /// Room for an answer of about so many bytes, when there is some.
    ///
    /// - Throws: ``ServerError/noRoomForAnswers`` when too many wait, `CancellationError` when the
    ///   caller's time is over.
    package func room(for bytes: Int) async throws -> AnswerShare {
        if let share = roomNow(for: bytes) { return share }
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        let share = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                enqueue(Waiter(id: id, bytes: bytes, continuation: continuation))
            }
        } onCancel: {
            let waiter = state.withLock { state in
                state.waiters.firstIndex { $0.id == id }.map { state.waiters.remove(at: $0) }
            }
            guard let waiter else { return }
            waiter.continuation.resume(returning: nil)
            // There may be room for those behind it.
            change(by: 0)
        }
        if let share { return share }
        try Task.checkCancellation()
        throw ServerError.noRoomForAnswers
    }

    private func enqueue(_ waiter: Waiter) {
        let (isRefused, share) = state.withLock { state -> (Bool, AnswerShare?) in
            // Who is cancelled later finds the waiter here.
            if Task.isCancelled || state.waiters.count >= Self.waitersMax { return (true, nil) }
            guard !state.waiters.isEmpty || !fits(waiter.bytes, state) else {
                state.held += waiter.bytes
                return (false, AnswerShare(self, waiter.bytes))
            }
            state.waiters.append(waiter)
            return (false, nil)
        }
        if isRefused || share != nil { waiter.continuation.resume(returning: share) }
    }

    /// Room for an answer that is made already, when there is some.
    ///
    /// An answer that is larger than all the room there is gets it alone.
    package func roomNow(for bytes: Int) -> AnswerShare? {
        let hasRoom = state.withLock { state in
            guard state.waiters.isEmpty, fits(bytes, state) else { return false }
            state.held += bytes
            return true
        }
        return hasRoom ? AnswerShare(self, bytes) : nil
    }

    /// Counts what is held whether there is room or not.
    package func count(_ bytes: Int) -> AnswerShare {
        state.withLock { $0.held += bytes }
        return AnswerShare(self, bytes)
    }

    /// More room for an answer that has some, when it is free; those who wait do not go before it, as
    /// what it holds comes back when it is made.
    fileprivate func grow(by bytes: Int, from before: Int) -> Bool {
        state.withLock { state in
            guard state.held == before || state.held + bytes <= bytesMax else { return false }
            state.held += bytes
            return true
        }
    }

    private func fits(_ bytes: Int, _ state: State) -> Bool {
        state.held == 0 || state.held + bytes <= bytesMax
    }

    /// Changes what is held, and gives room that became free to those who wait.
    fileprivate func change(by bytes: Int) {
        let ready = state.withLock { state in
            state.held += bytes
            var ready: [Waiter] = []
            while let waiter = state.isTurnOfLast ? state.waiters.last : state.waiters.first,
                fits(waiter.bytes, state)
            {
                state.held += waiter.bytes
                state.waiters.remove(at: state.isTurnOfLast ? state.waiters.count - 1 : 0)
                state.isTurnOfLast.toggle()
                ready.append(waiter)
            }
            return ready
        }
        for waiter in ready {
            waiter.continuation.resume(returning: AnswerShare(self, waiter.bytes))
        }
    }
}

/// What one answer holds of the memory for answers; given back when nobody has it any more.
package final class AnswerShare: Sendable {
    package let memory: AnswerMemory
    private let bytes: Atomic<Int>

    fileprivate init(_ memory: AnswerMemory, _ bytes: Int) {
        self.memory = memory
        self.bytes = Atomic(bytes)
    }

    deinit { memory.change(by: -bytes.load(ordering: .relaxed)) }

    /// Makes it larger, where there is room.
    ///
    /// Not while somebody else resizes it.
    func grow(to count: Int) -> Bool {
        let before = bytes.load(ordering: .relaxed)
        guard memory.grow(by: count - before, from: before) else { return false }
        bytes.store(count, ordering: .relaxed)
        return true
    }

    /// From now on it is so many bytes.
    package func resize(to count: Int) {
        let before = bytes.exchange(count, ordering: .relaxed)
        if before != count { memory.change(by: count - before) }
    }
}
