// DatabaseSlots: limits the number of servers that tests run on the shared cluster at a time.
//
// Tests run in parallel, and each server on PostgreSQL has its own connections. Without a limit,
// the cluster would run out of connections when tests have to wait for processor time.

import Synchronization

/// A limit on the number of servers that the tests of this process run at a time.
package final class DatabaseSlots: Sendable {
    /// A slot, which becomes free when its last reference is released.
    package final class Slot: Sendable {
        private let slots: DatabaseSlots

        fileprivate init(_ slots: DatabaseSlots) { self.slots = slots }

        deinit { slots.release() }
    }

    private struct State {
        var free: Int
        var tickets = 0
        /// The number of times that a waiting test has continued.
        var moves = 0
        var waiting: [(ticket: Int, turn: CheckedContinuation<Void, Never>)] = []
    }

    package static let shared = DatabaseSlots(30)

    /// The time after which a waiting test continues without a free slot if no other test has
    /// continued.
    ///
    /// Otherwise, tests that have a slot and need another one could wait for each other forever.
    private static let patience = Duration.seconds(20)

    private let state: Mutex<State>

    package init(_ count: Int) { state = Mutex(State(free: count)) }

    /// Waits for a slot.
    package func take() async -> Slot {
        let ticket = state.withLock { state in
            state.tickets += 1
            return state.tickets
        }
        let impatience = Task {
            while true {
                let moves = state.withLock { $0.moves }
                try await Task.sleep(for: Self.patience)
                resumeWithoutFreeSlot(ticket, since: moves)
            }
        }
        await withCheckedContinuation { turn in
            let isFree = state.withLock { state in
                if state.free > 0 {
                    state.free -= 1
                    state.moves += 1
                    return true
                }
                state.waiting.append((ticket, turn))
                return false
            }
            if isFree { turn.resume() }
        }
        impatience.cancel()
        return Slot(self)
    }

    /// Gives a waiting test a slot beyond the limit, unless another test has continued since
    /// `moves` was read.
    private func resumeWithoutFreeSlot(_ ticket: Int, since moves: Int) {
        let turn = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard state.moves == moves,
                let index = state.waiting.firstIndex(where: { $0.ticket == ticket })
            else { return nil }
            state.free -= 1
            state.moves += 1
            return state.waiting.remove(at: index).turn
        }
        turn?.resume()
    }

    private func release() {
        let turn = state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.moves += 1
            guard state.free >= 0, !state.waiting.isEmpty else {
                state.free += 1
                return nil
            }
            return state.waiting.removeFirst().turn
        }
        turn?.resume()
    }
}
