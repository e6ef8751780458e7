// AccountPhone: a phone of an account world, and its user, who edits, syncs, and signs out and in.

import Foundation
import Synchronization
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

final class AccountPhone: Sendable {
    private struct State {
        var generator: SeededGenerator
        var edits = 0
        /// The last text that this phone wrote to each row, by the row's id.
        var texts: [String: String] = [:]
        /// The accounts that used the phone and whose rows have not been purged.
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
        // The network and the gate read the contents of batches.
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

    // MARK: - The user

    func use() async throws {
        for _ in 0..<Self.steps {
            try await wait(3000)
            switch draw({ Int.random(in: 0..<100, using: &$0) }) {
            case ..<15: try await changeUser()
            default: try await edit()
            }
            try await checkVisibleRows()
        }
    }

    /// Another person takes the phone; the former user purges their rows, or returns for them later.
    private func changeUser() async throws {
        let former = signIn.accountID
        let next = draw { AccountWorld.accounts.randomElement(using: &$0) }
        guard former != next else { return }
        guard let former, draw({ $0.chance(50) }) else {
            state.withLock { $0.left += former == nil ? 0 : 1 }
            return enter(next)
        }
        // A sync that is running finds no account.
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
            // Operations that were not sent yet are dropped.
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
            // A pull stored a page between the read of the row and the change.
        }
    }

    /// Checks that no row of an account that purged its rows is here.
    private func checkVisibleRows() async throws {
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

    /// Ignores failures, as an app does without a network or an account.
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
        try await discardErrors()
    }

    private func note(_ error: any Error) {
        let below = (error as? PushError)?.cause ?? error
        guard (below as? SyncError)?.code == .otherAccount else { return }
        state.withLock { $0.ended += 1 }
    }

    private func discardErrors() async throws {
        for error in try await client.syncContext.operationErrors() {
            do {
                try await error.cancelOperationAndDiscardItem()
                state.withLock { $0.texts[error.itemID] = nil }
            } catch is SyncError {
                // An edit has released the operation, or another person has the phone.
            }
        }
    }

    // MARK: - The end

    /// Sends the pending operations of an account.
    func sendPending(_ account: String) async throws {
        enter(account)
        for _ in 0..<4 where try await client.syncContext.pendingOperationCount > 0 {
            try await sync()
        }
    }

    /// Reads the rows that the other phones have sent.
    func read(_ account: String) async throws {
        enter(account)
        // An interrupted first read ends at the state that it started with.
        for _ in 0..<2 { try await client.syncTable(Todo.self).pull(queryID: "all") }
    }

    func check(
        _ account: String,
        _ serverRows: [Todo],
        _ gate: AccountGate,
        _ report: inout AccountWorld.Report
    ) async throws {
        let rows = try await client.syncTable(Todo.self).read(sortedBy: [.ascending(\.id)])
        let own = rows.filter { $0.id.hasPrefix("by-\(account)-") }
        if own != serverRows {
            report.wrong.append("\(name) has \(own), the server has \(serverRows)")
        }
        for (id, text) in state.withLock({ $0.texts }) where id.hasPrefix("by-\(account)-") {
            if !gate.had(text) { report.wrong.append("\(text) never came to the server") }
        }
        let waiting = try await store.read { try $0.rows(TableQuery(), in: "MS_TableOperations") }
        if !waiting.isEmpty { report.wrong.append("\(waiting.count) operations wait on \(name)") }
        // The rows of the other accounts stay until they leave, too.
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
