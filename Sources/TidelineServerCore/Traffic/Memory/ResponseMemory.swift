// ResponseMemory: the bytes of all answers that are built and not yet taken by their callers.
//
// An answer counts from the moment its building begins until the system has its last byte, on all event loops
// together. If too little memory is left, the building of a large answer waits. No caller is rejected because others
// are slow, as long as the event loops disconnect callers that do not read. Only the large answer of an endpoint that
// reads is rejected: it is already built, and keeping many such answers would take the memory that is bounded here.
// Memory that becomes free goes in turns to the oldest and to the newest waiter: otherwise a caller that reads would
// wait until all earlier callers that do not read are disconnected.

import Synchronization

package final class ResponseMemory: Sendable {
    /// Smaller answers do not wait for memory: there is at most one for each connection, and the system takes it at
    /// once.
    package static let smallBytes = 64 << 10

    private struct Waiter {
        var id: UInt64
        var bytes: Int
        var continuation: CheckedContinuation<AnswerShare?, Never>
    }

    private struct State {
        var held = 0
        /// The waiting requests in the order of their arrival.
        var waiters: [Waiter] = []
        /// Whether the newest waiter is next.
        var isTurnOfLast = false
        var nextID: UInt64 = 0
    }

    private let bytesMax: Int
    private let state = Mutex(State())

    package init(bytesMax: Int = 64 << 20) {
        self.bytesMax = bytesMax
    }

    /// How many bytes are reserved.
    package var held: Int { state.withLock { $0.held } }

    /// How many requests wait for memory.
    package var waiting: Int { state.withLock { $0.waiters.count } }

    /// Whether memory is so short that slow readers must be disconnected.
    package var isShort: Bool { state.withLock { $0.held >= bytesMax / 2 || !$0.waiters.isEmpty } }

    /// Whether a request waits for memory.
    package var isWanted: Bool { state.withLock { !$0.waiters.isEmpty } }

    /// The most requests that wait for memory; more are rejected.
    private static let waitersMax = 1000

    /// Waits until there is memory for an answer of about this many bytes, and reserves it.
    ///
    /// - Throws: ``ServerError/answerMemoryFull`` if too many requests wait, and `CancellationError` if the caller's
    ///   time is over.
    package func reserve(_ bytes: Int) async throws -> AnswerShare {
        if let share = reserveNow(bytes) { return share }
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
            // There may be enough memory for the waiters after this one.
            change(by: 0)
        }
        if let share { return share }
        try Task.checkCancellation()
        throw ServerError.answerMemoryFull
    }

    private func enqueue(_ waiter: Waiter) {
        let (isRefused, share) = state.withLock { state -> (Bool, AnswerShare?) in
            // A caller that is cancelled later finds its waiter here.
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

    /// Reserves memory for an answer that is already built, if enough is free.
    ///
    /// An answer that is larger than the limit is accepted if no other one is reserved.
    package func reserveNow(_ bytes: Int) -> AnswerShare? {
        let isReserved = state.withLock { state in
            guard state.waiters.isEmpty, fits(bytes, state) else { return false }
            state.held += bytes
            return true
        }
        return isReserved ? AnswerShare(self, bytes) : nil
    }

    /// Reserves the bytes even if they exceed the limit.
    package func count(_ bytes: Int) -> AnswerShare {
        state.withLock { $0.held += bytes }
        return AnswerShare(self, bytes)
    }

    /// Enlarges a reservation if there is free memory.
    ///
    /// It does not wait for the waiters' turns, because the reservation is returned when its answer is built.
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

    /// Changes the number of reserved bytes, and gives memory that became free to the waiters.
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

/// A share of the memory for answers, which is returned with its last reference.
package final class AnswerShare: Sendable {
    package let memory: ResponseMemory
    private let bytes: Atomic<Int>

    fileprivate init(_ memory: ResponseMemory, _ bytes: Int) {
        self.memory = memory
        self.bytes = Atomic(bytes)
    }

    deinit { memory.change(by: -bytes.load(ordering: .relaxed)) }

    /// Enlarges the share if there is enough memory.
    ///
    /// Must not run while another thread resizes it.
    func grow(to count: Int) -> Bool {
        let before = bytes.load(ordering: .relaxed)
        guard memory.grow(by: count - before, from: before) else { return false }
        bytes.store(count, ordering: .relaxed)
        return true
    }

    /// Sets the size of the reservation.
    package func resize(to count: Int) {
        let before = bytes.exchange(count, ordering: .relaxed)
        if before != count { memory.change(by: count - before) }
    }
}
