// ServerPhase: whether the server still accepts requests, for its load balancers.

import Synchronization

package final class ServerPhase: Sendable {
    private let stops = Atomic<Bool>(false)

    var isDraining: Bool { stops.load(ordering: .relaxed) }

    func beginDrain() { stops.store(true, ordering: .relaxed) }
}
