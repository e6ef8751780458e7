// ResponseMemory: memory for responses.
//
// A response counts from the start of its encoding until the operating system has accepted its last byte, across all
// event loops. A large response waits before it is encoded if too little memory is free. Slow callers do not cause
// rejections, as long as the event loops disconnect callers that do not read. The exception is a large response of an
// endpoint that reads: it is already encoded, so waiting would not save memory, and it is rejected. Freed memory goes
// alternately to the oldest and to the newest waiter. Otherwise a caller that reads would wait until all earlier
// callers that do not read are disconnected.

import Synchronization

/// A limit of the memory of responses that are being built or sent.
package final class ResponseMemory: Sendable {
    /// The size below which answers do not wait for memory.
    ///
    /// There is at most one answer for each connection, and the system accepts a small one immediately.
    package static let smallBytes = 64 << 10

    private struct Waiter {
        var id: UInt64
        var bytes: Int
        var continuation: CheckedContinuation<MemoryReservation?, Never>
    }

    private struct State {
        var reservedBytes = 0
        /// The waiting requests, in the order of their arrival.
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

    /// The number of reserved bytes.
    package var reservedBytes: Int { state.withLock { $0.reservedBytes } }

    /// The number of requests that wait for memory.
    package var waiting: Int { state.withLock { $0.waiters.count } }

    /// Whether memory is so short that slow readers must be disconnected.
    package var isShort: Bool {
        state.withLock { $0.reservedBytes >= bytesMax / 2 || !$0.waiters.isEmpty }
    }

    /// Whether any request waits for memory.
    package var isWanted: Bool { state.withLock { !$0.waiters.isEmpty } }

    /// The maximum number of requests that wait for memory; more are rejected.
    private static let waitersMax = 1000

    /// Waits until there is memory for an answer of about this many bytes, and reserves it.
    ///
    /// - Throws: ``ServerError/answerMemoryFull`` if too many requests wait, and `CancellationError` if the
    ///   caller's time limit is reached.
    package func reserve(_ bytes: Int) async throws -> MemoryReservation {
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
        let (isRejected, share) = state.withLock { state -> (Bool, MemoryReservation?) in
            // A caller that is cancelled later finds its waiter here.
            if Task.isCancelled || state.waiters.count >= Self.waitersMax { return (true, nil) }
            guard !state.waiters.isEmpty || !fits(waiter.bytes, state) else {
                state.reservedBytes += waiter.bytes
                return (false, MemoryReservation(self, waiter.bytes))
            }
            state.waiters.append(waiter)
            return (false, nil)
        }
        if isRejected || share != nil { waiter.continuation.resume(returning: share) }
    }

    /// Reserves memory for an answer that is already built, if enough is free.
    ///
    /// An answer above the limit is accepted if nothing else is reserved.
    package func reserveNow(_ bytes: Int) -> MemoryReservation? {
        let isReserved = state.withLock { state in
            guard state.waiters.isEmpty, fits(bytes, state) else { return false }
            state.reservedBytes += bytes
            return true
        }
        return isReserved ? MemoryReservation(self, bytes) : nil
    }

    /// Reserves the bytes even if they exceed the limit.
    package func count(_ bytes: Int) -> MemoryReservation {
        state.withLock { $0.reservedBytes += bytes }
        return MemoryReservation(self, bytes)
    }

    /// Enlarges a reservation if there is free memory.
    ///
    /// It does not wait for the waiting requests, because they get the memory when this answer is finished.
    fileprivate func grow(by bytes: Int, from before: Int) -> Bool {
        state.withLock { state in
            guard state.reservedBytes == before || state.reservedBytes + bytes <= bytesMax else {
                return false
            }
            state.reservedBytes += bytes
            return true
        }
    }

    private func fits(_ bytes: Int, _ state: State) -> Bool {
        state.reservedBytes == 0 || state.reservedBytes + bytes <= bytesMax
    }

    /// Changes the number of reserved bytes, and assigns freed memory to the waiting requests.
    fileprivate func change(by bytes: Int) {
        let ready = state.withLock { state in
            state.reservedBytes += bytes
            var ready: [Waiter] = []
            while let waiter = state.isTurnOfLast ? state.waiters.last : state.waiters.first,
                fits(waiter.bytes, state)
            {
                state.reservedBytes += waiter.bytes
                state.waiters.remove(at: state.isTurnOfLast ? state.waiters.count - 1 : 0)
                state.isTurnOfLast.toggle()
                ready.append(waiter)
            }
            return ready
        }
        for waiter in ready {
            waiter.continuation.resume(returning: MemoryReservation(self, waiter.bytes))
        }
    }
}

/// A reservation of memory for an answer, which is released with the last reference.
package final class MemoryReservation: Sendable {
    package let memory: ResponseMemory
    private let bytes: Atomic<Int>

    fileprivate init(_ memory: ResponseMemory, _ bytes: Int) {
        self.memory = memory
        self.bytes = Atomic(bytes)
    }

    deinit { memory.change(by: -bytes.load(ordering: .relaxed)) }

    /// Enlarges the reservation if there is enough memory.
    ///
    /// It must not be called while another thread resizes the reservation.
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
