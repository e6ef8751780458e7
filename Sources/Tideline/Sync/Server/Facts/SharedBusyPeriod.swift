// SharedBusyPeriod: the wait that the server of one endpoint asked for, for all requests of a client.

import Foundation
import Synchronization
import TidelineCore

final class SharedBusyPeriod: Sendable {
    fileprivate struct State {
        var period: BusyPeriod?
        /// Counts the periods: the response to a request that was sent before a period does not end it.
        var number = 0
        /// The period that the store contains.
        var stored: BusyPeriod?
    }

    /// A change to store: a period, or none.
    struct Change: Sendable {
        var period: BusyPeriod?
    }

    private let state = Mutex(State())
    private let hub = ChangeHub<Set<String>>()

    /// The last period that no successful response has ended, even if its time is over.
    var period: BusyPeriod? { state.withLock { $0.period } }

    /// The count that a request notes before it is sent.
    var number: Int { state.withLock { $0.number } }

    /// Takes the period from the store.
    func recall(_ period: BusyPeriod?) {
        update { state in
            state.stored = period
            guard state.period == nil, let period else { return false }
            state.change(to: period)
            return true
        }
    }

    /// Starts a period; `number` was the count when the request whose response asked for it was sent.
    func begin(_ period: BusyPeriod, sentAt number: Int) {
        update { state in
            // If the responses crossed each other, the longer wait counts.
            if number != state.number, let known = state.period {
                let left = known.remaining(at: period.received, uptime: period.uptime)
                guard left < period.length else { return false }
            }
            state.change(to: period)
            return true
        }
    }

    /// Ends the period: a request that was sent when the count was `number` was successful.
    func end(sentAt number: Int) {
        update { state in
            guard state.period != nil, state.number == number else { return false }
            state.change(to: nil)
            return true
        }
    }

    /// Notifies listeners if `body` changes the period.
    private func update(_ body: (inout State) -> Bool) {
        if state.withLock({ body(&$0) }) { hub.publish([]) }
    }

    /// The change that is not in the store yet; nil if there is none.
    var unstored: Change? {
        state.withLock { $0.period == $0.stored ? nil : Change(period: $0.period) }
    }

    func markStored(_ change: Change) { state.withLock { $0.stored = change.period } }

    /// Yields at each change of the period.
    func changes() -> AsyncStream<Set<String>> { hub.stream() }
}

extension SharedBusyPeriod.State {
    fileprivate mutating func change(to period: BusyPeriod?) {
        self.period = period
        number += 1
    }
}
