// SharedBusyPeriod: the wait that a server asked for.

import Foundation
import Synchronization
import TidelineCore

/// The wait that the server of an endpoint asked for, shared by all requests of a client.
final class SharedBusyPeriod: Sendable {
    fileprivate struct State {
        var period: BusyPeriod?
        /// The number of periods so far.
        ///
        /// The response to a request that was sent before a period does not end it.
        var number = 0
        /// The period in the store.
        var stored: BusyPeriod?
    }

    /// A change to be stored: a period, or none.
    struct Change: Sendable {
        var period: BusyPeriod?
    }

    private let state = Mutex(State())
    private let hub = ChangeHub<Set<String>>()

    /// The last period, even if its time is over; nil if there was none, or if a successful response has ended it.
    var period: BusyPeriod? { state.withLock { $0.period } }

    /// The number of periods, which a request records before it is sent.
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
            // If responses crossed, the longer wait is used.
            if number != state.number, let known = state.period {
                let left = known.remaining(at: period.received, uptime: period.uptime)
                guard left < period.length else { return false }
            }
            state.change(to: period)
            return true
        }
    }

    /// Ends the period after a success of a request that was sent when there were `number` periods.
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

    /// The change that has not been stored yet; nil if there is none.
    var unstored: Change? {
        state.withLock { $0.period == $0.stored ? nil : Change(period: $0.period) }
    }

    func noteStored(_ change: Change) { state.withLock { $0.stored = change.period } }

    /// Emits a value at each change of the period.
    func changes() -> AsyncStream<Set<String>> { hub.stream() }
}

extension SharedBusyPeriod.State {
    fileprivate mutating func change(to period: BusyPeriod?) {
        self.period = period
        number += 1
    }
}
