// SharedSigns: the signs that one client has seen of the server of its endpoint, for all requests.

import Foundation
import Synchronization
import TidelineCore

final class SharedSigns: Sendable {
    private struct State {
        var known: ServerSigns = []
        /// The signs that the store holds.
        var stored: ServerSigns = []
        /// Until when the server is not asked to take a batch.
        var batchesRefused: Date?
        /// Whether the server was seen to get `If-Match`.
        var passesConditions = false
        /// Whether a 401 came that did not prove to be the server's, and a new token did not help.
        var hasRenewedInVain = false
    }

    private let state = Mutex(State())

    var known: ServerSigns { state.withLock { $0.known } }

    /// Adds the signs that the store holds.
    func recall(_ signs: ServerSigns, batchesRefused: Date?) {
        state.withLock { state in
            state.stored = signs
            state.known.formUnion(signs)
            state.batchesRefused = batchesRefused
        }
    }

    /// The signs that were learned and are not in the store yet; nil if there are none.
    var unstored: ServerSigns? { state.withLock { $0.known == $0.stored ? nil : $0.known } }

    func markStored(_ signs: ServerSigns) { state.withLock { $0.stored = signs } }

    func learn(_ signs: ServerSigns) {
        guard !signs.isEmpty else { return }
        state.withLock { $0.known.formUnion(signs) }
    }

    /// Whether a request may go in a batch.
    ///
    /// A clock that was wrong when the refusal was noted does not keep batches away for longer than
    /// `retryTime`.
    func mayBatch(at now: Date, retryTime: Duration) -> Bool {
        state.withLock { state in
            guard let until = state.batchesRefused else { return true }
            let seconds = Double(retryTime.components.seconds)
            return !(now...now.addingTimeInterval(seconds)).contains(until)
        }
    }

    func refuseBatches(until: Date) { state.withLock { $0.batchesRefused = until } }

    /// Whether the server was seen to get `If-Match`: nothing in between drops it.
    var passesConditions: Bool { state.withLock { $0.passesConditions } }

    func notePassesConditions() { state.withLock { $0.passesConditions = true } }

    /// Whether a 401 that does not prove to be the server's is worth a new token.
    var mayRenew: Bool { state.withLock { !$0.hasRenewedInVain } }

    func note(isRenewedInVain: Bool) { state.withLock { $0.hasRenewedInVain = isRenewedInVain } }
}
