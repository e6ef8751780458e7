// CallerRates: the request rates of each caller. Pure except for a lock around its memory.
//
// Each caller has three accounts, which fill with time up to ten seconds' worth. A request is admitted
// while none of them is in debt, and is charged its full cost: a large batch is not rejected forever,
// and the requests after it wait until its cost is paid off.

import Synchronization
import TidelineCore

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

    /// When to retry, and the part whose rate was exceeded.
    package struct Refusal: Hashable, Sendable {
        package var seconds: Int
        /// The key of the configuration.
        package var limit: String
    }

    private struct Account {
        /// Of each part; below zero is debt.
        var left: [Double]
        /// When they were that, in microseconds.
        var since: Int64
    }

    /// The size of an account, in seconds of its rate.
    private static let burstSeconds = 10.0

    /// The most callers that are remembered; the one that was not seen for longest is forgotten first.
    private static let callersMax = 10_000

    /// The rate of each part in a second; 0 for no limit.
    private let rates: [Double]
    /// The keys of the parts.
    private static let limits = ["callerRequests", "callerWrites", "callerBytes"]
    private let accounts = Mutex(GenerationCache<String, Account>(countMax: callersMax))

    /// Nil when nothing is bounded.
    package init?(_ limits: ServerLimits) {
        rates = [limits.callerRequests, limits.callerWrites, limits.callerBytes].map(Double.init)
        guard rates.contains(where: { $0 > 0 }) else { return nil }
    }

    /// Admits a request and charges it.
    ///
    /// - Parameters:
    ///   - cost: The known part of its cost.
    ///   - caller: The caller's name; all requests with this name share the accounts.
    ///   - now: The time in microseconds.
    /// - Returns: After how many seconds to retry; nil if it is admitted.
    package func take(_ cost: Cost, of caller: String, now: Int64) -> Refusal? {
        accounts.withLock { accounts in
            var account = current(accounts.value(caller), now)
            let waits = rates.indices.map { place in
                let (rate, left) = (rates[place], account.left[place])
                return rate > 0 && left <= 0 ? (1 - left) / rate : 0
            }
            if let place = waits.indices.max(by: { waits[$0] < waits[$1] }), waits[place] > 0 {
                accounts.put(account, for: caller)
                let seconds = max(1, Int(min(waits[place], Self.waitMax).rounded(.up)))
                return Refusal(seconds: seconds, limit: "limits." + Self.limits[place])
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
        // A clock that steps back gives nothing.
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

extension TableService {
    /// Returns the sender of the request and admits it; a request with a rejected token counts for its address.
    func admit(_ request: ServerRequest) async throws -> User? {
        let user = try await countedUser(of: request)
        try checkRate(request, user)
        return user
    }

    /// Returns the sender of a request that is admitted in any case; a rejected token was work and counts.
    func countedUser(of request: ServerRequest) async throws -> User? {
        do {
            return try await user(of: request)
        } catch {
            try checkRate(request, nil)
            throw error
        }
    }

    /// Rejects with 429 the requests of a caller who has asked for too much.
    func checkRate(_ request: ServerRequest, _ user: User?) throws {
        guard let rates else { return }
        let isWrite = request.method != "GET" && request.path != Self.batchPath
        let cost = CallerRates.Cost(
            requests: 1,
            writes: isWrite ? 1 : 0,
            bytes: request.body.count
        )
        let now = settings.environment.now()
        guard let refusal = rates.take(cost, of: Self.callerName(request, user), now: now) else {
            return
        }
        settings.traffic.tooMany.add()
        noteRefusal(.limits, Self.callerName(request, user))
        throw ServerError.askedForTooMuch(refusal)
    }

    /// Counts the requests of a batch, which was admitted as one request, and the bytes that it has beyond
    /// those that were sent.
    func charge(
        requests: Int = 1,
        writes: Int = 0,
        bytes: Int = 0,
        of request: ServerRequest,
        _ user: User?
    ) {
        guard let rates else { return }
        let cost = CallerRates.Cost(requests: max(0, requests - 1), writes: writes, bytes: bytes)
        rates.charge(cost, of: Self.callerName(request, user), now: settings.environment.now())
    }

    static let batchPath = "/$batch"

    /// A user, or without a token a network.
    static func callerName(_ request: ServerRequest, _ user: User?) -> String {
        user.map { "user " + $0.id } ?? "address " + CallerNetwork.name(of: request.address)
    }
}
