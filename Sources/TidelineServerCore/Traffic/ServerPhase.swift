// ServerPhase: running, or draining.

import Synchronization

/// A flag that shows load balancers whether the server still accepts requests.
package final class ServerPhase: Sendable {
    private let stops = Atomic<Bool>(false)

    var isDraining: Bool { stops.load(ordering: .relaxed) }

    func beginDrain() { stops.store(true, ordering: .relaxed) }
}
