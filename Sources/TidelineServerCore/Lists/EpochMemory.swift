// EpochMemory: the last epoch of the database that a read has returned.
//
// A database may be restored while its servers run. If the store has no other way to notice that, each
// read returns the epoch of the state that it was read from; the last one counts.

import Synchronization
import TidelineCore

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
        state.withLock { state in
            if let name = clock.epoch, !name.utf8.elementsEqual(state.name.utf8) {
                state = Epoch(name)
            }
            return state
        }
    }
}
