// WorldDevice: a device of a world: a disk, a client that may be killed and started again, a user
// who edits, and a sync loop.

import Synchronization
import Tideline
import TidelineCore

final class WorldDevice: Sendable {
    /// What the user last did to a row.
    enum LastEdit: Sendable, Hashable {
        case text(String)
        case deleted
    }

    private struct State {
        var generator: SeededGenerator
        var lastEdits: [String: LastEdit] = [:]
        var lastRanks: [String: Int] = [:]
        var edits = 0
        var client: SyncClient?
    }

    let name: String
    let policy: ConflictPolicy
    private let pullsPart: Bool
    private let disk: any LocalStore
    private let network: any Transport
    private let environment: SyncEnvironment
    private let time: VirtualTime
    private let story: WorldStory?
    private let state: Mutex<State>

    init(
        name: String,
        policy: ConflictPolicy,
        pullsPart: Bool,
        disk: any LocalStore,
        network: any Transport,
        environment: SyncEnvironment,
        time: VirtualTime,
        seed: UInt64,
        story: WorldStory?
    ) {
        self.name = name
        self.policy = policy
        self.pullsPart = pullsPart
        self.disk = disk
        self.network = network
        self.environment = environment
        self.time = time
        self.story = story
        state = Mutex(State(generator: SeededGenerator(seed: seed)))
    }

    func draw<Result>(_ body: (inout SeededGenerator) -> Result) -> Result {
        state.withLock { body(&$0.generator) }
    }

    var edits: Int { state.withLock { $0.edits } }
    var lastEdits: [String: LastEdit] { state.withLock { $0.lastEdits } }
    var lastRanks: [String: Int] { state.withLock { $0.lastRanks } }

    /// Starts the app: a new client on the same disk.
    func start() async throws {
        story?.tell(name, "starts")
        // A few rows make several pages of growing size.
        var limits = SyncLimits()
        limits.pageRowsFirst = 2
        limits.pageRowsMax = 8
        let client = SyncClient(
            endpoint: World.endpoint,
            transport: network,
            limits: limits,
            environment: environment
        )
        try await client.syncContext.initialize(
            store: disk,
            tables: [WorldItem.self],
            conflicts: policy
        )
        state.withLock { $0.client = client }
    }

    func client() throws -> SyncClient {
        guard let client = state.withLock({ $0.client }) else {
            throw SyncError(.storeNotInitialized, "The device is not started.")
        }
        return client
    }

    // MARK: - The user

    func edit(_ ids: [String]) async throws {
        let id = ids[draw { Int.random(in: 0..<ids.count, using: &$0) }]
        let dice = draw { Int.random(in: 0..<100, using: &$0) }
        let text = state.withLock { state in
            state.edits += 1
            return "\(name)-\(state.edits)"
        }
        let todos = try client().syncTable(WorldItem.self)
        let stored = try await client().syncTable(named: WorldItem.tableName).read(id: id)
        switch (stored != nil, dice) {
        case (false, ..<70):
            story?.tell(name, "inserts \(id) with text \(text)")
            try await todos.insert(WorldItem(id: id, text: text))
            note(id, .text(text))
            noteRank(id, nil)
        case (false, _):
            break
        case (true, ..<15):
            story?.tell(name, "deletes \(id)")
            try await todos.delete(id: id)
            // A row that the server never gave may go without a word.
            note(id, stored?.version == nil ? nil : .deleted)
            noteRank(id, nil)
        case (true, ..<25):
            story?.tell(name, "toggles \(id)")
            try await todos.update(id: id) { $0.complete.toggle() }
        case (true, ..<45):
            let rank = edits * 10 + (Int(name.dropFirst()) ?? 0)
            story?.tell(name, "sets rank \(rank) of \(id)")
            try await todos.update(id: id) { $0.rank = rank }
            noteRank(id, rank)
        default:
            story?.tell(name, "sets text \(text) of \(id)")
            try await todos.update(id: id) { $0.text = text }
            note(id, .text(text))
        }
    }

    private func note(_ id: String, _ edit: LastEdit?) {
        state.withLock { $0.lastEdits[id] = edit }
    }

    private func noteRank(_ id: String, _ rank: Int?) {
        state.withLock { $0.lastRanks[id] = rank }
    }

    /// The app gave the row up in favour of the server's.
    private func forget(_ id: String) {
        note(id, nil)
        noteRank(id, nil)
    }

    // MARK: - Sync

    /// Pushes and pulls; what fails fails, as in an app without network.
    func sync() async throws {
        do {
            try await client().syncContext.push()
        } catch is PushError {
            try await settleErrors()
        }
        do {
            try await pull()
        } catch is SyncError {
            // Offline: the next round pulls.
        } catch is PushError {
            // The push inside the pull met the network or a rejection: the next round settles it.
        }
    }

    private func pull() async throws {
        let items = try client().syncTable(WorldItem.self)
        guard pullsPart else {
            try await items.pull(queryID: "world")
            return
        }
        try await items.pull(queryID: "open", where: { !$0.complete })
        try await items.pull(queryID: "high", where: { $0.rank >= Self.highRank })
    }

    private static let highRank = 60

    /// Whether a row of the server is to be here.
    func pulls(_ row: Row) -> Bool {
        guard pullsPart else { return true }
        if case .integer(let rank) = row["rank"], rank >= Self.highRank { return true }
        return row["complete"] == false
    }

    /// What an app does about rejected operations: sometimes mine, sometimes theirs.
    func settleErrors() async throws {
        for error in try await client().syncContext.operationErrors() {
            do {
                if draw({ $0.chance(50) }), let mine = error.item {
                    story?.tell(name, "retries \(error.itemID)")
                    try await error.updateOperationAndRetry(with: mine)
                } else {
                    story?.tell(name, "gives up \(error.itemID)")
                    try await error.cancelOperationAndDiscardItem()
                    forget(error.itemID)
                }
            } catch let failure as SyncError where failure.code == .notFound {
                // An edit of the row released the operation meanwhile.
            }
        }
    }

    func rows() async throws -> [Row] {
        var query = TableQuery()
        query.order = [SortKey(column: "id")]
        let wanted = query
        return try await disk.read { try $0.rows(wanted, in: WorldItem.tableName) }
    }
}
