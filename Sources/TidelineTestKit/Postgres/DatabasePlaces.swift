// DatabasePlaces: limits how many servers on the shared cluster tests have at a time.
//
// Tests run all at once, and each server on PostgreSQL has its own connections: without a limit the
// cluster runs out of them as soon as tests wait for each other's processor time.

import Synchronization

/// The places of all tests of this process.
package final class DatabasePlaces: Sendable {
    /// A place, returned when its last reference is gone.
    package final class Place: Sendable {
        private let places: DatabasePlaces

        fileprivate init(_ places: DatabasePlaces) { self.places = places }

        deinit { places.giveBack() }
    }

    private struct State {
        var free: Int
        var tickets = 0
        /// The number of times that a test has continued.
        var moves = 0
        var waiting: [(ticket: Int, turn: CheckedContinuation<Void, Never>)] = []
    }

    package static let shared = DatabasePlaces(30)

    /// Tests that have a place and need another one must not wait forever: if no test has continued
    /// for this long, one of them does.
    private static let patience = Duration.seconds(20)

    private let state: Mutex<State>

    package init(_ count: Int) { state = Mutex(State(free: count)) }

    /// Waits for a place.
    package func take() async -> Place {
        let ticket = state.withLock { state in
            state.tickets += 1
            return state.tickets
        }
        let impatience = Task {
            while true {
                let moves = state.withLock { $0.moves }
                try await Task.sleep(for: Self.patience)
                goOn(ticket, since: moves)
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
        return Place(self)
    }

    /// One more than there are.
    private func goOn(_ ticket: Int, since moves: Int) {
        let turn = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard state.moves == moves,
                let place = state.waiting.firstIndex(where: { $0.ticket == ticket })
            else { return nil }
            state.free -= 1
            state.moves += 1
            return state.waiting.remove(at: place).turn
        }
        turn?.resume()
    }

    private func giveBack() {
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
