// SharedBusyPeriod: the wait that a server asked for, shared by all requests.

import Foundation
import Synchronization
import TidelineCore

/// The wait that the server of an endpoint asked for, shared by all requests of a client.
final class SharedBusyPeriod: Sendable {
    fileprivate struct State {
        var period: BusyPeriod?
        /// The number of periods so far.
        ///
        /// If a request was sent before a period began, its response does not end the period.
        var number = 0
        /// The period in the store.
        var stored: BusyPeriod?
    }

    /// A change that has to be stored: a period, or none.
    struct Change: Sendable {
        var period: BusyPeriod?
    }

    private let state = Mutex(State())
    private let hub = ChangeHub<Set<String>>()

    /// The last period, even if it is over; nil if there was none, or if a successful response
    /// ended it.
    var period: BusyPeriod? { state.withLock { $0.period } }

    /// The number of periods, which is recorded before a request is sent.
    var number: Int { state.withLock { $0.number } }

    /// Sets the period that was read from the store.
    func recall(_ period: BusyPeriod?) {
        update { state in
            state.stored = period
            guard state.period == nil, let period else { return false }
            state.change(to: period)
            return true
        }
    }

    /// Starts a period; `number` is the number of periods when the request was sent.
    func begin(_ period: BusyPeriod, sentAt number: Int) {
        update { state in
            // If responses to concurrent requests ask for waits, the longer wait is used.
            if number != state.number, let known = state.period {
                let left = known.remaining(at: period.received, uptime: period.uptime)
                guard left < period.length else { return false }
            }
            state.change(to: period)
            return true
        }
    }

    /// Ends the period after a successful response; `number` is the number of periods when the
    /// request was sent.
    func end(sentAt number: Int) {
        update { state in
            guard state.period != nil, state.number == number else { return false }
            state.change(to: nil)
            return true
        }
    }

    /// Notifies listeners if `body` changed the period.
    private func update(_ body: (inout State) -> Bool) {
        if state.withLock({ body(&$0) }) { hub.publish([]) }
    }

    /// The change that has not been stored yet; nil if there is none.
    var unstored: Change? {
        state.withLock { $0.period == $0.stored ? nil : Change(period: $0.period) }
    }

    func noteStored(_ change: Change) { state.withLock { $0.stored = change.period } }

    /// Returns a stream that emits a value each time the period changes.
    func changes() -> AsyncStream<Set<String>> { hub.stream() }
}

extension SharedBusyPeriod.State {
    fileprivate mutating func change(to period: BusyPeriod?) {
        self.period = period
        number += 1
    }
}
