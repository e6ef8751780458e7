// AnswerReservation: memory for single answers and for batches.
//
// A batch has one reservation for all its answers, a single write one for its row. A request that keeps memory while
// it waits for more could wait forever. So only a request without a reservation waits, and a batch that has built
// some of its answers skips the rest if there is too little memory for them.

import Synchronization

/// The memory reservation for the answer to one request while it is built.
package final class AnswerReservation: Sendable {
    private struct State {
        /// The bytes of the finished answers.
        var finishedBytes = 0
        /// The minimum reservation, for answers that are not built yet.
        var reserved = 0
        var share: MemoryReservation?
        /// The size of the reservation, in bytes.
        var size = 0
        /// The number of bytes to wait for.
        var wanted = 0
        var isShort = false

        mutating func giveBack() {
            share = nil
            size = 0
            reserved = 0
        }
    }

    private let memory: ResponseMemory
    private let state = Mutex(State())

    /// The reservation of the batch whose requests are being answered.
    @TaskLocal static var ofBatch: AnswerReservation?

    package init(in memory: ResponseMemory) {
        self.memory = memory
    }

    /// The reservation of memory; nil for small answers.
    var share: MemoryReservation? { state.withLock { $0.share } }

    /// The bytes of the finished answers.
    var finishedBytes: Int { state.withLock { $0.finishedBytes } }

    /// Whether a reservation has failed since a request last waited for memory.
    package var isShort: Bool { state.withLock { $0.isShort } }

    /// Whether the request may wait for memory, because its finished answers, if any, are small.
    var mayWait: Bool { state.withLock { $0.finishedBytes <= ResponseMemory.smallBytes } }

    /// Reserves memory for all answers together, if enough is free.
    package func take(total: Int) -> Bool { state.withLock { take(total, &$0) } }

    /// Reserves memory for an answer in addition to the finished ones, if enough is free.
    func take(additional bytes: Int) -> Bool {
        state.withLock { state in
            let total = state.finishedBytes.addingReportingOverflow(bytes)
            return take(total.overflow ? .max : total.partialValue, &state)
        }
    }

    private func take(_ total: Int, _ state: inout State) -> Bool {
        guard total > state.size else { return true }
        if let share = state.share {
            if share.grow(to: total) {
                state.size = total
                return true
            }
        } else if let share = memory.reserveNow(total) {
            state.share = share
            state.size = total
            return true
        }
        state.wanted = total
        state.isShort = true
        return false
    }

    /// Counts an answer that is being built, in addition to the finished ones, even beyond the limit.
    func count(additional bytes: Int) {
        state.withLock { state in
            let total = state.finishedBytes + bytes
            guard let share = state.share, total > state.size else { return }
            share.resize(to: total)
            state.size = total
        }
    }

    /// Records the size of the finished answers.
    func recordFinished(_ total: Int) {
        state.withLock { state in
            state.finishedBytes = total
            let needed = max(total, state.reserved)
            if let share = state.share {
                share.resize(to: needed)
                state.size = needed
            } else if needed > ResponseMemory.smallBytes {
                state.share = memory.count(needed)
                state.size = needed
            }
        }
    }

    /// Returns the memory that exceeds the finished answers.
    func giveBackRest() { recordFinished(finishedBytes) }

    /// Waits for the missing memory, without a reservation in the meantime.
    ///
    /// - Throws: The errors of ``ResponseMemory/reserve(_:)``.
    func wait() async throws {
        let wanted = state.withLock { state in
            state.giveBack()
            return state.wanted
        }
        try await wait(for: wanted)
    }

    /// Waits for the estimated size of answers that are not built yet.
    func reserve(_ bytes: Int) async throws {
        try await wait(for: bytes)
        state.withLock { $0.reserved = bytes }
    }

    private func wait(for bytes: Int) async throws {
        let share = try await memory.reserve(bytes)
        state.withLock { state in
            state.share = share
            state.size = bytes
            state.isShort = false
        }
    }
}
