// EpochMemory: the name of the state of the database, as far as reads have told.
//
// A database may be restored while its servers run. What is read brings the name of the state that it
// was read from, where the database knows no other way to tell; the last one that came holds.

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

    /// Takes what a read has brought; returns the state that it was read from.
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
