// ServerPhase: whether the server still takes requests, for its load balancers.

import Synchronization

package final class ServerPhase: Sendable {
    private let stops = Atomic<Bool>(false)

    var isDraining: Bool { stops.load(ordering: .relaxed) }

    func beginDrain() { stops.store(true, ordering: .relaxed) }
}

extension TableService {
    /// Rejects with 503 when a write would not be accepted.
    func checkReady() async throws {
        if phase.isDraining { throw ServerError.stopping }
        try await store.checkWritable()
    }
}
