// CallerRates: how much each caller may ask for in a second. Pure but for a lock around its memory.
//
// Each caller has three accounts, which fill with time up to ten seconds' worth. A request is let in
// while none of them is in debt, and is charged whatever it costs: so a large batch is not refused for
// ever, and what comes behind it waits for as long as it was worth.

import Synchronization
import TidelineCore

package final class CallerRates: Sendable {
    /// What is counted.
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

    /// When to come again, and what asked for it.
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

    /// So many seconds' worth may be saved up.
    private static let burstSeconds = 10.0

    /// The most callers that are remembered; who was not seen for longest is forgotten first.
    private static let callersMax = 10_000

    /// What each part may have in a second; 0 for no bound.
    private let rates: [Double]
    /// The keys of the parts.
    private static let limits = ["callerRequests", "callerWrites", "callerBytes"]
    private let accounts = Mutex(GenerationCache<String, Account>(countMax: callersMax))

    /// Nil when nothing is bounded.
    package init?(_ limits: ServerLimits) {
        rates = [limits.callerRequests, limits.callerWrites, limits.callerBytes].map(Double.init)
        guard rates.contains(where: { $0 > 0 }) else { return nil }
    }

    /// Lets a request in and charges it.
    ///
    /// - Parameters:
    ///   - cost: What is known of its cost.
    ///   - caller: Who it is; all with this name share the accounts.
    ///   - now: The time in microseconds.
    /// - Returns: After how many seconds to come again; nil when it is let in.
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

    /// Charges what a request proved to cost, which is let in already.
    package func charge(_ cost: Cost, of caller: String, now: Int64) {
        accounts.withLock { accounts in
            var account = current(accounts.value(caller), now)
            pay(cost, &account)
            accounts.put(account, for: caller)
        }
    }

    /// Nobody is sent away for longer.
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
    /// Who sends the request, and lets it in; one with a token that is refused counts for its address.
    func admit(_ request: ServerRequest) async throws -> User? {
        let user = try await countedUser(of: request)
        try checkRate(request, user)
        return user
    }

    /// Who sends a request that is let in anyway; a token that is refused was work and counts.
    func countedUser(of request: ServerRequest) async throws -> User? {
        do {
            return try await user(of: request)
        } catch {
            try checkRate(request, nil)
            throw error
        }
    }

    /// Refuses with 429 what comes from a caller who has asked for too much.
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

    /// Counts the requests of a batch, which was let in as one, and what it has beyond the bytes that
    /// were sent.
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
