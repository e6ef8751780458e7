// RejectionLog: counts the rejected requests of each caller, for one log line a minute and kind.

import Synchronization

/// A counter of rejected requests by caller, which decides when a log line is due.
package final class RejectionLog: Sendable {
    /// The reason for a rejection.
    package enum Kind: Hashable, Sendable, CaseIterable {
        case tokens
        case limits
    }

    /// The contents of a line: the number of requests since the last line, and the caller with the most of
    /// them.
    package struct Line: Hashable, Sendable {
        package var caller: String
        package var count: Int
        package var ofCaller: Int

        package init(caller: String, count: Int, ofCaller: Int) {
            self.caller = caller
            self.count = count
            self.ofCaller = ofCaller
        }
    }

    private struct State {
        var last: Int64?
        var count = 0
        var callers: [String: Int] = [:]
    }

    private let states = Mutex<[Kind: State]>([:])

    private static let interval: Int64 = 60_000_000
    /// The maximum number of callers that are counted separately.
    private static let callersMax = 1000

    package init() {}

    /// Counts a rejected request.
    ///
    /// - Parameters:
    ///   - kind: The reason for the rejection.
    ///   - caller: The user or address.
    ///   - now: Microseconds since 1970.
    /// - Returns: The line that is due; nil within a minute of the last one.
    package func note(_ kind: Kind, _ caller: String, now: Int64) -> Line? {
        states.withLock { states in
            var state = states[kind] ?? State()
            defer { states[kind] = state }
            state.count += 1
            if state.callers[caller] != nil || state.callers.count < Self.callersMax {
                state.callers[caller, default: 0] += 1
            }
            if let last = state.last, now >= last, now - last < Self.interval { return nil }
            let most = state.callers.max { ($0.value, $1.key) < ($1.value, $0.key) }
            let line = Line(
                caller: most?.key ?? caller,
                count: state.count,
                ofCaller: most?.value ?? 0
            )
            state = State(last: now)
            return line
        }
    }
}
