// AccountWorld: phones that several people share, in simulated time, with a network that loses, duplicates and delays
// requests. The user of a phone signs out and in at any time, also during a sync.
//
// Each id and text names its owner. Data that reaches the server under another account's token is detected, and so is a
// row on a phone whose owner has left it.

import Foundation
import Synchronization
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

struct AccountWorld: Sendable {
    static let accounts = ["anna", "ben", "cleo"]
    private static let phoneCount = 3

    let seed: UInt64
    /// Whether people who leave a phone purge their rows, if they mean to.
    var purges = true

    struct Report: Sendable, Hashable {
        /// Data that was sent under another account's token, or returned to another account.
        var foreign: [String] = []
        /// Rows on a phone whose owner had left it.
        var strangers: [String] = []
        /// Edits that never reached the server, and phones that do not have the server's rows.
        var wrong: [String] = []
        /// How often people left a phone, with a purge of their rows and without one.
        var purged = 0
        var left = 0
        /// How often a push or a pull ended because another account had signed in.
        var ended = 0
        var requests = 0
    }

    /// Runs the simulation on the calling thread.
    func run() throws -> Report? {
        let time = VirtualTime()
        let world = self
        return try time.run { try await world.play(time) }
    }

    private func play(_ time: VirtualTime) async throws -> Report {
        let now: @Sendable () -> Int64 = { time.now }
        var table = TableDefinition(
            "Todo",
            columns: [
                ColumnDefinition("text", .string), ColumnDefinition("complete", .boolean),
                ColumnDefinition("rank", .integer),
            ]
        )
        table.owner = "userId"
        let server = try await InProcessServer(
            tables: [table],
            environment: ServerEnvironment(now: now, makeID: { "server-made" }),
            authenticator: Authenticator { (token, _) throws(TokenRejection) in
                let account = String(token.prefix { $0 != "-" })
                guard Self.accounts.contains(account) else { throw TokenRejection("Nobody.") }
                return CheckedToken(user: User(id: account))
            }
        )
        let gate = AccountGate(server.transport, seed: seed)
        var phones: [AccountPhone] = []
        for index in 0..<Self.phoneCount {
            phones.append(
                try await AccountPhone(index, gate, time, seed: seed, purges: purges)
            )
        }
        var tasks: [Task<Void, any Error>] = []
        for phone in phones {
            tasks.append(time.start { try await phone.use() })
            tasks.append(time.start { try await phone.syncNowAndThen() })
        }
        for task in tasks { try await task.value }
        gate.stopFaults()
        for phone in phones { phone.network.set(NetworkFaults()) }
        // Late duplicates are still on their way.
        try await time.sleep(.seconds(60))
        for account in Self.accounts {
            for phone in phones { try await phone.sendPending(account) }
            for phone in phones { try await phone.read(account) }
        }
        var report = Report()
        for account in Self.accounts {
            let client = SyncClient(
                endpoint: Device.endpoint,
                transport: server.transport,
                authentication: SignIn(account)
            )
            let serverRows = try await client.table(Todo.self).read(sortedBy: [.ascending(\.id)])
            for phone in phones { try await phone.check(account, serverRows, gate, &report) }
        }
        for phone in phones { phone.add(to: &report) }
        gate.add(to: &report)
        return report
    }
}

/// A transport in front of the server that checks under which token data is sent and returned.
final class AccountGate: Transport {
    private struct State {
        var generator: SeededGenerator
        var isFaulty = true
        var foreign: [String] = []
        var texts: Set<String> = []
        var requests = 0
    }

    private let inner: any Transport
    private let state: Mutex<State>

    init(_ inner: any Transport, seed: UInt64) {
        self.inner = inner
        state = Mutex(State(generator: SeededGenerator(seed: seed ^ 0x6761_7465)))
    }

    func stopFaults() { state.withLock { $0.isFaulty = false } }

    func had(_ text: String) -> Bool { state.withLock { $0.texts.contains(text) } }

    func add(to report: inout AccountWorld.Report) {
        state.withLock {
            report.foreign += $0.foreign
            report.requests = $0.requests
        }
    }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let token = request.headers["Authorization"]?.dropFirst("Bearer ".count) ?? ""
        let account = String(token.prefix { $0 != "-" })
        inspect(request.url.absoluteString, account)
        inspect(String(decoding: request.body ?? [], as: UTF8.self), account)
        let isExpired = state.withLock { state in
            state.requests += 1
            return state.isFaulty && state.generator.chance(5)
        }
        guard !isExpired else {
            return TransportResponse(status: 401, headers: ["WWW-Authenticate": "Bearer"])
        }
        let response = try await inner.send(request)
        inspect(String(decoding: response.body, as: UTF8.self), account)
        return response
    }

    /// Finds the words that name their owner.
    private func inspect(_ text: String, _ account: String) {
        let isPart: (Character) -> Bool = { $0.isLetter || $0.isNumber || $0 == "-" }
        let words = text.split { !isPart($0) }.filter { $0.hasPrefix("by-") }.map(String.init)
        state.withLock { state in
            for word in words {
                state.texts.insert(word)
                guard !word.hasPrefix("by-\(account)-") else { continue }
                state.foreign.append("\(word) under '\(account)'")
            }
        }
    }
}
