// AccountPhone: a phone of an account world, and whoever holds it: they edit, sync, sign out and in.

import Foundation
import Synchronization
import Tideline
import TidelineCore
import TidelineTestKit

final class AccountPhone: Sendable {
    private struct State {
        var generator: SeededGenerator
        var edits = 0
        /// The text that each row has last been given here, by its id.
        var texts: [String: String] = [:]
        /// Who used the phone and has not taken their rows along.
        var present: Set<String> = []
        var strangers: [String] = []
        var purged = 0
        var left = 0
        var ended = 0
    }

    private static let steps = 30
    private static let rowCount = 4

    let network: LossyNetwork
    private let name: String
    private let purges: Bool
    private let signIn = SignIn(nil)
    private let client: SyncClient
    private let store: any LocalStore
    private let time: VirtualTime
    private let state: Mutex<State>

    init(
        _ index: Int,
        _ gate: AccountGate,
        _ time: VirtualTime,
        seed: UInt64,
        purges: Bool
    ) async throws {
        let own = seed &* 31 &+ UInt64(index)
        name = "p\(index)"
        self.purges = purges
        self.time = time
        state = Mutex(State(generator: SeededGenerator(seed: own)))
        network = LossyNetwork(gate, time: time, seed: own, faults: .bad)
        store =
            own % 2 == 0
            ? MemoryStore() : try SQLiteStore(path: ":memory:", inline: true)
        var limits = SyncLimits()
        limits.pageRowsFirst = 1
        limits.pageRowsMax = 2
        // The network and the gate look into batches.
        limits.compressedBatchBytesMin = .max
        let numbers = SeededNumbers(seed: own)
        client = SyncClient(
            endpoint: Device.endpoint,
            transport: network,
            authentication: signIn,
            limits: limits,
            environment: SyncEnvironment(
                now: { time.date },
                makeID: { numbers.id() },
                fraction: { numbers.fraction() },
                sleep: { try await time.sleep($0) }
            )
        )
        try await client.syncContext.initialize(
            store: store,
            tables: [Todo.self],
            conflicts: .clientWins
        )
    }

    private func draw<Result>(_ body: (inout SeededGenerator) -> Result) -> Result {
        state.withLock { body(&$0.generator) }
    }

    private func wait(_ milliseconds: Int) async throws {
        try await time.sleep(.milliseconds(draw { Int.random(in: 1...milliseconds, using: &$0) }))
    }

    // MARK: - Whoever holds it

    func use() async throws {
        for _ in 0..<Self.steps {
            try await wait(3000)
            switch draw({ Int.random(in: 0..<100, using: &$0) }) {
            case ..<15: try await change()
            default: try await edit()
            }
            try await look()
        }
    }

    /// Somebody else takes the phone; who had it takes their rows along, or comes back for them.
    private func change() async throws {
        let former = signIn.accountID
        let next = draw { AccountWorld.accounts.randomElement(using: &$0) }
        guard former != next else { return }
        guard let former, draw({ $0.chance(50) }) else {
            state.withLock { $0.left += former == nil ? 0 : 1 }
            return enter(next)
        }
        // A sync that runs is to find nobody.
        signIn.change(to: nil)
        try await leave(former)
        state.withLock { $0.purged += 1 }
        enter(next)
    }

    private func enter(_ account: String?) {
        signIn.change(to: account)
        state.withLock { if let account { $0.present.insert(account) } }
    }

    private func leave(_ account: String) async throws {
        if purges { try await client.syncContext.purge(account: account, force: true) }
        state.withLock { state in
            state.present.remove(account)
            // What waited to be sent is dropped.
            state.texts = state.texts.filter { !$0.key.hasPrefix("by-\(account)-") }
        }
    }

    private func edit() async throws {
        guard let account = signIn.accountID else { return }
        let todos = try client.syncTable(Todo.self)
        let id = "by-\(account)-\(draw { Int.random(in: 0..<Self.rowCount, using: &$0) })"
        let text = state.withLock { state in
            state.edits += 1
            return "by-\(account)-\(name)-\(state.edits)"
        }
        do {
            if try await todos.read(id: id) == nil {
                try await todos.insert(Todo(id: id, text: text))
            } else if draw({ $0.chance(20) }) {
                try await todos.delete(id: id)
                return state.withLock { $0.texts[id] = nil }
            } else {
                try await todos.update(id: id) { $0.text = text }
            }
            state.withLock { $0.texts[id] = text }
        } catch let error as SyncError where [.alreadyExists, .notFound].contains(error.code) {
            // A pull came between the look at the row and the change.
        }
    }

    /// Rows of people who took theirs along are not here.
    private func look() async throws {
        let ids = try await client.syncTable(Todo.self).read().map(\.id)
        state.withLock { state in
            for id in ids where !state.present.contains(where: { id.hasPrefix("by-\($0)-") }) {
                state.strangers.append("\(id) on \(name)")
            }
        }
    }

    // MARK: - Sync

    func syncNowAndThen() async throws {
        for _ in 0..<Self.steps / 2 {
            try await wait(5000)
            try await sync()
        }
    }

    /// What fails fails, as in an app without network or without anybody.
    private func sync() async throws {
        do {
            try await client.syncContext.push()
        } catch {
            note(error)
        }
        do {
            try await client.syncTable(Todo.self).pull(queryID: "all")
        } catch {
            note(error)
        }
        try await settleErrors()
    }

    private func note(_ error: any Error) {
        let below = (error as? PushError)?.cause ?? error
        guard (below as? SyncError)?.code == .otherAccount else { return }
        state.withLock { $0.ended += 1 }
    }

    private func settleErrors() async throws {
        for error in try await client.syncContext.operationErrors() {
            do {
                try await error.cancelOperationAndDiscardItem()
                state.withLock { $0.texts[error.itemID] = nil }
            } catch is SyncError {
                // An edit released the operation meanwhile, or somebody else has the phone.
            }
        }
    }

    // MARK: - The end

    /// Sends what waits for an account.
    func settle(_ account: String) async throws {
        enter(account)
        for _ in 0..<4 where try await client.syncContext.pendingOperationCount > 0 {
            try await sync()
        }
    }

    /// Reads what the others have sent.
    func read(_ account: String) async throws {
        enter(account)
        // A first read that was interrupted ends at the state that it began with.
        for _ in 0..<2 { try await client.syncTable(Todo.self).pull(queryID: "all") }
    }

    func judge(
        _ account: String,
        _ truth: [Todo],
        _ gate: AccountGate,
        _ report: inout AccountWorld.Report
    ) async throws {
        let rows = try await client.syncTable(Todo.self).read(sortedBy: [.ascending(\.id)])
        let own = rows.filter { $0.id.hasPrefix("by-\(account)-") }
        if own != truth { report.wrong.append("\(name) has \(own), the server has \(truth)") }
        for (id, text) in state.withLock({ $0.texts }) where id.hasPrefix("by-\(account)-") {
            if !gate.had(text) { report.wrong.append("\(text) never came to the server") }
        }
        let waiting = try await store.read { try $0.rows(TableQuery(), in: "MS_TableOperations") }
        if !waiting.isEmpty { report.wrong.append("\(waiting.count) operations wait on \(name)") }
        // The others' rows stay until they leave, too.
        try await leave(account)
        let isHere = try await client.syncTable(Todo.self).read().contains {
            $0.id.hasPrefix("by-\(account)-")
        }
        if isHere, purges { report.wrong.append("\(account) left \(name), and a row stayed") }
    }

    func add(to report: inout AccountWorld.Report) {
        state.withLock { state in
            report.strangers += state.strangers
            report.purged += state.purged
            report.left += state.left
            report.ended += state.ended
        }
    }
}
