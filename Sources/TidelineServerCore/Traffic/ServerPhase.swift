// ServerPhase: whether the server still takes requests, for those who send them to it.

import Synchronization

package final class ServerPhase: Sendable {
    private let stops = Atomic<Bool>(false)

    var isDraining: Bool { stops.load(ordering: .relaxed) }

    func beginDrain() { stops.store(true, ordering: .relaxed) }
}

extension TableService {
    /// Refuses with 503 when a write would not be taken.
    func checkReady() async throws {
        if phase.isDraining { throw ServerError.stopping }
        try await store.checkWritable()
    }
}
