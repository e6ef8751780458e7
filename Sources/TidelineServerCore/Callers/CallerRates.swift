// CallerRates: rate limits. Pure, except for a lock around its state.
//
// Each caller has three accounts, which fill with time up to ten seconds' worth. A request is admitted
// while none of them is in debt, and is charged its full cost: a large batch is not rejected forever,
// and the requests after it wait until its cost is paid off.

import Synchronization
import TidelineCore

/// The request rates of each caller, with their limits.
package final class CallerRates: Sendable {
    /// The quantities that are counted.
    package struct Cost: Hashable, Sendable {
        package var requests = 0
        package var writes = 0
        package var bytes = 0

        package init(requests: Int = 0, writes: Int = 0, bytes: Int = 0) {
            self.requests = requests
            self.writes = writes
            self.bytes = bytes
        }

        fileprivate var parts: [Int] { [requests, writes, bytes] }
    }

    /// The rejection of a request, with the time until the next attempt and the exceeded limit.
    package struct Rejection: Hashable, Sendable {
        package var seconds: Int
        /// The configuration key of the limit.
        package var limit: String
    }

    private struct Account {
        /// The balance of each account, which may be negative.
        var left: [Double]
        /// The time of these balances, in microseconds.
        var since: Int64
    }

    /// The size of an account, in seconds at its rate.
    private static let burstSeconds = 10.0

    /// The maximum number of callers in memory; the one seen least recently is removed first.
    private static let callersMax = 10_000

    /// The rate of each account per second; 0 for no limit.
    private let rates: [Double]
    /// The configuration keys of the accounts.
    private static let limits = ["callerRequests", "callerWrites", "callerBytes"]
    private let accounts = Mutex(GenerationCache<String, Account>(countMax: callersMax))

    /// Creates the rates; nil if none is limited.
    package init?(_ limits: ServerLimits) {
        rates = [limits.callerRequests, limits.callerWrites, limits.callerBytes].map(Double.init)
        guard rates.contains(where: { $0 > 0 }) else { return nil }
    }

    /// Admits a request and charges it.
    ///
    /// - Parameters:
    ///   - cost: The part of the cost that is already known.
    ///   - caller: The caller's name; requests with the same name share the accounts.
    ///   - now: The time in microseconds.
    /// - Returns: When to retry, in seconds, and the exceeded limit; nil if the request is admitted.
    package func take(_ cost: Cost, of caller: String, now: Int64) -> Rejection? {
        accounts.withLock { accounts in
            var account = current(accounts.value(caller), now)
            let waits = rates.indices.map { place in
                let (rate, left) = (rates[place], account.left[place])
                return rate > 0 && left <= 0 ? (1 - left) / rate : 0
            }
            if let place = waits.indices.max(by: { waits[$0] < waits[$1] }), waits[place] > 0 {
                accounts.put(account, for: caller)
                let seconds = max(1, Int(min(waits[place], Self.waitMax).rounded(.up)))
                return Rejection(seconds: seconds, limit: "limits." + Self.limits[place])
            }
            pay(cost, &account)
            accounts.put(account, for: caller)
            return nil
        }
    }

    /// Charges the actual cost of a request that was already admitted.
    package func charge(_ cost: Cost, of caller: String, now: Int64) {
        accounts.withLock { accounts in
            var account = current(accounts.value(caller), now)
            pay(cost, &account)
            accounts.put(account, for: caller)
        }
    }

    /// The longest time until a retry.
    private static let waitMax = 3600.0

    private func current(_ known: Account?, _ now: Int64) -> Account {
        guard var account = known else {
            return Account(left: rates.map { $0 * Self.burstSeconds }, since: now)
        }
        // A clock that steps back adds nothing.
        let seconds = Double(max(0, now - account.since)) / 1_000_000
        for place in rates.indices {
            let most = rates[place] * Self.burstSeconds
            account.left[place] = min(most, account.left[place] + rates[place] * seconds)
        }
        account.since = now
        return account
    }

    private func pay(_ cost: Cost, _ account: inout Account) {
        for (place, part) in cost.parts.enumerated() where rates[place] > 0 {
            account.left[place] -= Double(part)
        }
    }
}
