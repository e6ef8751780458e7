// AnswerRoom: what the answer to one request holds of the memory for answers while it is made.
//
// A batch has one for all its answers, a write by itself one for its row. Whoever holds room and
// waits for more could wait for ever: so only who holds none waits, and a batch that has made some of
// its answers leaves the rest when there is no room for them.

import Synchronization

package final class AnswerRoom: Sendable {
    private struct State {
        /// The bytes of the answers that are made.
        var settled = 0
        /// What is held at least, for answers that are to come.
        var reserved = 0
        var share: AnswerShare?
        /// The bytes of the share.
        var held = 0
        /// What to wait for.
        var wanted = 0
        var isLacking = false

        mutating func giveBack() {
            share = nil
            held = 0
            reserved = 0
        }
    }

    private let memory: AnswerMemory
    private let state = Mutex(State())

    /// The room of the batch whose requests are being answered.
    @TaskLocal static var ofBatch: AnswerRoom?

    package init(in memory: AnswerMemory) {
        self.memory = memory
    }

    /// What is held; nil for small answers.
    var share: AnswerShare? { state.withLock { $0.share } }

    /// The bytes of the answers that are made.
    var settled: Int { state.withLock { $0.settled } }

    /// Whether room was lacking since somebody last waited for it.
    package var isLacking: Bool { state.withLock { $0.isLacking } }

    /// Whether it may wait: the answers that are made, if any, are small.
    var mayWait: Bool { state.withLock { $0.settled <= AnswerMemory.smallBytes } }

    /// Room for all answers together, when there is some now.
    package func take(total: Int) -> Bool { state.withLock { take(total, &$0) } }

    /// Room for an answer beside those that are made, when there is some now.
    func take(beside bytes: Int) -> Bool {
        state.withLock { state in
            let total = state.settled.addingReportingOverflow(bytes)
            return take(total.overflow ? .max : total.partialValue, &state)
        }
    }

    private func take(_ total: Int, _ state: inout State) -> Bool {
        guard total > state.held else { return true }
        if let share = state.share {
            if share.grow(to: total) {
                state.held = total
                return true
            }
        } else if let share = memory.roomNow(for: total) {
            state.share = share
            state.held = total
            return true
        }
        state.wanted = total
        state.isLacking = true
        return false
    }

    /// Counts an answer that is under way, beside those that are made, whether there is room or not.
    func count(beside bytes: Int) {
        state.withLock { state in
            let total = state.settled + bytes
            guard let share = state.share, total > state.held else { return }
            share.resize(to: total)
            state.held = total
        }
    }

    /// So many bytes of answers are made.
    func settle(_ total: Int) {
        state.withLock { state in
            state.settled = total
            let needed = max(total, state.reserved)
            if let share = state.share {
                share.resize(to: needed)
                state.held = needed
            } else if needed > AnswerMemory.smallBytes {
                state.share = memory.count(needed)
                state.held = needed
            }
        }
    }

    /// Gives back what is held beside the answers that are made.
    func giveBackRest() { settle(settled) }

    /// Waits for the room that was lacking, and holds none meanwhile.
    ///
    /// - Throws: As ``AnswerMemory/room(for:)``.
    func wait() async throws {
        let wanted = state.withLock { state in
            state.giveBack()
            return state.wanted
        }
        try await wait(for: wanted)
    }

    /// Waits for what answers that are to come likely have.
    func reserve(_ bytes: Int) async throws {
        try await wait(for: bytes)
        state.withLock { $0.reserved = bytes }
    }

    private func wait(for bytes: Int) async throws {
        let share = try await memory.room(for: bytes)
        state.withLock { state in
            state.share = share
            state.held = bytes
            state.isLacking = false
        }
    }
}
