// EpochMemory: detects restores of the database.
//
// A database may be restored while its servers run. Each read returns the epoch of the state that it was read from, and
// the store reports the epoch on each new connection to the primary.

import Synchronization
import TidelineCore

/// The last epoch of the database that a read returned or the store reported.
package final class EpochMemory: Sendable {
    package struct Epoch: Hashable, Sendable {
        package let name: String
        package let fingerprint: Fingerprint

        init(_ name: String) {
            self.name = name
            fingerprint = Fingerprint([name])
        }
    }

    private let state: Mutex<Epoch>

    package init(_ name: String) {
        state = Mutex(Epoch(name))
    }

    package var current: Epoch { state.withLock { $0 } }

    /// Records the epoch of a read; returns the current epoch.
    @discardableResult
    package func learn(_ clock: TableClock) -> Epoch {
        guard let name = clock.epoch else { return current }
        return learn(name)
    }

    /// Records the epoch with this name; returns the current epoch.
    @discardableResult
    package func learn(_ name: String) -> Epoch {
        state.withLock { state in
            if !name.utf8.elementsEqual(state.name.utf8) { state = Epoch(name) }
            return state
        }
    }
}
