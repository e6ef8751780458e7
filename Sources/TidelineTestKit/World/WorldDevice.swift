// WorldDevice: a device of a world: a disk, a client that may be killed and started again, and a user
// who edits.

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
        /// Rows that were edited last while an operation of theirs was on its way.
        var inFlight: Set<String> = []
        var edits = 0
        var client: SyncClient?
        /// The sync that runs by itself.
        var running: Task<Void, any Error>?
    }

    let name: String
    let policy: ConflictPolicy
    let pullsPart: Bool
    /// Whether it syncs without being asked.
    let syncsItself: Bool
    private let disk: any LocalStore
    private let network: any Transport
    private let environment: SyncEnvironment
    private let time: VirtualTime
    let story: WorldStory?
    private let state: Mutex<State>

    init(
        name: String,
        policy: ConflictPolicy,
        pullsPart: Bool,
        syncsItself: Bool,
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
        self.syncsItself = syncsItself
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
    var inFlight: Set<String> { state.withLock { $0.inFlight } }

    /// Starts the app anew, a client on the same disk; one that ran is killed.
    func start() async throws {
        try await stop()
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
        guard syncsItself else { return }
        let policy = try Self.policy(pullsPart: pullsPart)
        let running = time.start { try await client.runSyncing(policy) }
        state.withLock { $0.running = running }
    }

    /// Ends the sync that runs by itself.
    func stop() async throws {
        let running = state.withLock { state in
            defer { state.running = nil }
            return state.running
        }
        running?.cancel()
        _ = try? await running?.value
    }

    func client() throws -> SyncClient {
        guard let client = state.withLock({ $0.client }) else {
            throw SyncError(.storeNotInitialized, "The device is not started.")
        }
        return client
    }

    // MARK: - The user

    func edit(_ ids: [String]) async throws {
        do {
            try await editOne(of: ids)
        } catch let error as SyncError
            where error.code == .alreadyExists || error.code == .notFound
        {
            // A pull came between the look at the row and the change.
        }
    }

    private func editOne(of ids: [String]) async throws {
        let id = ids[draw { Int.random(in: 0..<ids.count, using: &$0) }]
        let dice = draw { Int.random(in: 0..<100, using: &$0) }
        let text = state.withLock { state in
            state.edits += 1
            return "\(name)-\(state.edits)"
        }
        let todos = try client().syncTable(WorldItem.self)
        try await noteFlight(of: id)
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

    private func noteFlight(of id: String) async throws {
        let isInFlight = try await client().syncContext.pendingOperations().contains {
            $0.itemID == id && $0.isAttempted && !$0.isParked
        }
        state.withLock { state in
            if isInFlight { state.inFlight.insert(id) } else { state.inFlight.remove(id) }
        }
    }

    /// The app gave the row up in favour of the server's.
    func forget(_ id: String) {
        note(id, nil)
        noteRank(id, nil)
    }

    // MARK: - The disk

    func rows() async throws -> [Row] {
        var query = TableQuery()
        query.order = [SortKey(column: "id")]
        let wanted = query
        return try await disk.read { try $0.rows(wanted, in: WorldItem.tableName) }
    }
    /// Rows whose entry in the queue does not fit them: a deleted one that is there, or another
    /// one that is not.
    func tornRows() async throws -> [String] {
        var query = TableQuery()
        query.order = [SortKey(column: "id")]
        let ordered = query
        return try await disk.read { reader in
            var kinds: [String: Int64] = [:]
            for entry in try reader.rows(ordered, in: "MS_TableOperations") {
                guard let id = entry["itemId"]?.text, case .integer(let kind) = entry["kind"]
                else { continue }
                kinds[id] = kind
            }
            let delete = Int64(OperationKind.delete.rawValue)
            return try kinds.filter { id, kind in
                let row = try reader.row(id: .string(id), in: WorldItem.tableName)
                return (row != nil) == (kind == delete)
            }
            .keys.sorted()
        }
    }
}
