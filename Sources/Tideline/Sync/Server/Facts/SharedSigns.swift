// SharedSigns: the signs by which a client recognizes its server.

import Foundation
import Synchronization
import TidelineCore

/// The signs that the server's responses have shown so far, shared by all requests of a client.
final class SharedSigns: Sendable {
    private struct State {
        var known: ServerSigns = []
        /// The signs that are in the local store.
        var stored: ServerSigns = []
        /// The time before which no batch is sent to the server.
        var batchesRejected: Date?
        /// Whether a response has shown that `If-Match` reaches the server.
        var passesConditions = false
        /// Whether a new token did not help after a 401 that is not proven to come from the server.
        var hasRenewedInVain = false
    }

    private let state = Mutex(State())

    var known: ServerSigns { state.withLock { $0.known } }

    /// Adds the signs that were read from the store.
    func recall(_ signs: ServerSigns, batchesRejected: Date?) {
        state.withLock { state in
            state.stored = signs
            state.known.formUnion(signs)
            state.batchesRejected = batchesRejected
        }
    }

    /// The signs that have not been stored yet; nil if there are none.
    var unstored: ServerSigns? { state.withLock { $0.known == $0.stored ? nil : $0.known } }

    func noteStored(_ signs: ServerSigns) { state.withLock { $0.stored = signs } }

    func learn(_ signs: ServerSigns) {
        guard !signs.isEmpty else { return }
        state.withLock { $0.known.formUnion(signs) }
    }

    /// Returns whether a request may be sent in a batch.
    ///
    /// Batches are avoided for at most `retryTime`, even if the wall clock was wrong when a
    /// rejection was recorded.
    func mayBatch(at now: Date, retryTime: Duration) -> Bool {
        state.withLock { state in
            guard let until = state.batchesRejected else { return true }
            let seconds = Double(retryTime.components.seconds)
            return !(now...now.addingTimeInterval(seconds)).contains(until)
        }
    }

    func rejectBatches(until: Date) { state.withLock { $0.batchesRejected = until } }

    /// Whether a response has shown that `If-Match` reaches the server, so that no proxy drops it.
    var passesConditions: Bool { state.withLock { $0.passesConditions } }

    func notePassesConditions() { state.withLock { $0.passesConditions = true } }

    /// Whether to request a new token after a 401 that is not proven to come from the server.
    var mayRenew: Bool { state.withLock { !$0.hasRenewedInVain } }

    func note(isRenewedInVain: Bool) { state.withLock { $0.hasRenewedInVain = isRenewedInVain } }
}
