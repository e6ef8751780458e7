// WorldDevice: simulates a device.

import Foundation
import Synchronization
import Tideline
import TidelineCore

/// A simulated device with a disk, a client that can be killed and restarted, and a user who edits
/// rows.
final class WorldDevice: Sendable {
    /// The last edit of a row by the user.
    enum LastEdit: Sendable, Hashable {
        case text(String)
        case deleted
    }

    private struct State {
        var generator: SeededGenerator
        var lastEdits: [String: LastEdit] = [:]
        var lastRanks: [String: Int] = [:]
        /// Rows whose last edit happened while one of their operations was in flight.
        var inFlight: Set<String> = []
        var edits = 0
        var client: SyncClient?
        /// The task of automatic sync.
        var running: Task<Void, any Error>?
        /// Copies of rows that a screen shows, by row id.
        var copies: [String: any WorldRecord] = [:]
        var copying: SeededGenerator
        /// The states whose records have already changed the text of their row.
        var textsSet: Set<String> = []
        /// The running app's connection to the network.
        var line: WorldLine?
        /// The number of times that the app was started.
        var starts = 0
        /// A description of an operation that was parked although the server had not rejected it.
        var wronglyParked: String?
        /// Whether another device received a copy of this device's file.
        var wasCopied = false
        /// The device whose file was copied; set on both devices.
        var copiedFrom: String?
        var lost = LostRowCheck()
        /// A restore of the server that happened while the app was not running.
        var missedRestore: ServerRecorder.Restore?
    }

    let name: String
    let policy: ConflictPolicy
    let pullsPart: Bool
    /// Whether the device uses automatic sync.
    let syncsItself: Bool
    let disk: WorldDisk
    private let copies: WorldPlan.Copies?
    private let nests: Bool
    let transacts: Bool
    /// The statuses with which the server rejects operations in this simulation.
    let rejections: Set<Int>
    /// The policy for rows that a restored server lost.
    let lostRows: LostRowPolicy
    let signIn: WorldSignIn?
    private let network: any Transport
    let recorder: ServerRecorder
    var transactions: WorldTransactions { recorder.transactions }
    private let environment: SyncEnvironment
    private let time: VirtualTime
    let story: WorldStory?
    private let state: Mutex<State>

    init(
        name: String,
        policy: ConflictPolicy,
        pullsPart: Bool,
        syncsItself: Bool,
        disk: WorldDisk,
        copies: WorldPlan.Copies?,
        nests: Bool,
        transacts: Bool,
        rejections: Set<Int>,
        lostRows: LostRowPolicy,
        signIn: WorldSignIn?,
        network: any Transport,
        recorder: ServerRecorder,
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
        self.copies = copies
        self.nests = nests
        self.transacts = transacts
        self.rejections = rejections
        self.lostRows = lostRows
        self.signIn = signIn
        self.network = network
        self.recorder = recorder
        self.environment = environment
        self.time = time
        self.story = story
        state = Mutex(
            State(
                generator: SeededGenerator(seed: seed),
                copying: SeededGenerator(seed: seed ^ 0x636F_7079)
            )
        )
    }

    func draw<Result>(_ body: (inout SeededGenerator) -> Result) -> Result {
        state.withLock { body(&$0.generator) }
    }

    var edits: Int { state.withLock { $0.edits } }
    var lastEdits: [String: LastEdit] { state.withLock { $0.lastEdits } }
    var lastRanks: [String: Int] { state.withLock { $0.lastRanks } }
    var inFlight: Set<String> { state.withLock { $0.inFlight } }
    var isStarted: Bool { state.withLock { $0.client != nil } }
    var wasCopied: Bool { state.withLock { $0.wasCopied } }
    var wronglyParked: String? { state.withLock { $0.wronglyParked } }
    /// Rows that the restored server lost and that disappeared or were not reported to the user.
    var silentlyLost: Set<String> {
        let changed = recorder.changedSinceRestore
        return state.withLock { $0.lost.silentlyLost(changed: changed) }
    }

    /// Starts the app with a new client on the same disk; kills the app first if it is running.
    func start() async throws {
        try await kill()
        story?.add(name, "starts")
        // Uses small pages, so that a few rows fill several pages of growing size.
        var limits = SyncLimits()
        limits.pageRowsFirst = 2
        limits.pageRowsMax = 8
        // Disables compression, because the simulated network reads and changes batches.
        limits.compressedBatchBytesMin = .max
        let line = WorldLine(network)
        let client = SyncClient(
            endpoint: World.endpoint,
            transport: line,
            authentication: signIn,
            limits: limits,
            environment: environment
        )
        let store = try disk.store()
        try await whileUnlocked {
            try await client.syncContext.initialize(
                store: store,
                tables: [self.model],
                conflicts: self.policy,
                lostRows: self.lostRows
            )
        }
        if let restore = state.withLock({ $0.missedRestore }) { try await noteLost(restore) }
        state.withLock { state in
            state.missedRestore = nil
            state.client = client
            state.line = line
            state.copies = [:]
            state.starts += 1
        }
        guard syncsItself else { return }
        let policy = try Self.policy(pullsPart: pullsPart)
        let running = time.start { try await client.runSyncing(policy) }
        state.withLock { $0.running = running }
    }

    /// Runs a task once the phone is unlocked.
    private func whileUnlocked(_ body: () async throws -> Void) async throws {
        while true {
            do {
                return try await body()
            } catch let error as SyncError where error.code == .storeUnavailable {
                try await time.sleep(.milliseconds(500))
            }
        }
    }

    /// Locks or unlocks the phone; the store cannot be used while it is locked.
    func setLocked(_ isLocked: Bool) {
        story?.add(name, isLocked ? "is locked" : "is unlocked")
        disk.setLocked(isLocked)
    }

    private var model: any WorldRecord.Type {
        switch copies {
        case .timed: WorldTimedItem.self
        case .versioned: WorldVersionedItem.self
        case nil: WorldItem.self
        }
    }

    /// Ends the app.
    ///
    /// If the device has a file, the app ends immediately: the file is copied in its current state.
    /// Later writes of the ended app affect neither the copy nor the network.
    func kill() async throws {
        let (client, line) = state.withLock { ($0.client, $0.line) }
        if client != nil, disk.isFile {
            try disk.copy()
            line?.cut()
            // The killed app is still running, but no device uses it.
            state.withLock { $0.client = nil }
        }
        try await stop()
    }

    /// Stops automatic sync.
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
        let id = ids[draw { Int.random(in: 0..<ids.count, using: &$0) }]
        let starts = state.withLock { $0.starts }
        var edited = [id]
        defer { touch(edited) }
        do {
            if transacts, let others = otherRowsToEdit(with: id, among: ids) {
                edited += others
                try await editTogether(edited)
            } else {
                try await edit(id)
            }
        } catch let error as SyncError
            where error.code == .alreadyExists || error.code == .notFound
        {
            // A pull took place after the row was read and before it was changed.
        } catch let error as SyncError where error.code == .storeNotInitialized {
            // The app was killed.
        } catch let error as SyncError where error.code == .storeUnavailable {
            // The phone is locked, so the app shows an error.
        }
        // If the app was killed in the meantime, it may or may not have stored the edit.
        guard state.withLock({ $0.starts != starts || $0.client == nil }) else { return }
        for id in edited { forget(id) }
        resolved(edited)
    }

    /// Returns the text for the next edit.
    func nextText() -> String {
        state.withLock { state in
            state.edits += 1
            return "\(name)-\(state.edits)"
        }
    }

    private func edit(_ id: String) async throws {
        let dice = draw { Int.random(in: 0..<100, using: &$0) }
        let text = nextText()
        let client = try client()
        let todos = try client.syncTable(WorldItem.self)
        try await noteFlight(of: id, client)
        transactions.changed(id, by: name)
        let stored = try await client.syncTable(named: WorldItem.tableName).read(id: id)
        if stored == nil { noteVanished(id) }
        let fault = try await WorldRules.attempt(id, exists: stored != nil, in: todos, turn: edits)
        if let fault { noteParked(fault) }
        switch (stored != nil, dice) {
        case (false, ..<70):
            story?.add(name, "inserts \(id) with text \(text)")
            // The user closes a screen that shows the row in its state before the delete.
            state.withLock { $0.copies[id] = nil }
            try await todos.insert(WorldItem(id: id, text: text))
            keepInserted(id, text)
            note(id, .text(text))
            noteRank(id, nil)
        case (false, _):
            break
        case (true, ..<15):
            story?.add(name, "deletes \(id)")
            let lost = try await client.syncContext.lostRows().first { $0.itemID == id }
            let isInsert = try await client.syncContext.pendingOperations().contains {
                $0.itemID == id && $0.kind == .insert && !$0.isAttempted && !$0.isParked
            }
            recorder.deletes(id, by: name)
            try await todos.delete(id: id)
            // A row that the server never had, or that the server lost, may disappear silently.
            let isOnServer =
                stored?.version != nil && !isInsert && lost.map { $0.serverItem != nil } ?? true
            note(id, isOnServer ? .deleted : nil)
            noteRank(id, nil)
        case (true, ..<25):
            try await editOtherColumns(id, todos)
        case (true, ..<45):
            let rank = edits * Self.rankStep + (Int(name.dropFirst()) ?? 0)
            story?.add(name, "sets rank \(rank) of \(id)")
            if try await editsCopy(of: id, over: stored, client, { $0.rank = rank }) { break }
            try await todos.update(id: id) { $0.rank = rank }
            noteRank(id, rank)
        default:
            story?.add(name, "sets text \(text) of \(id)")
            if try await editsCopy(of: id, over: stored, client, { $0.text = text }) { break }
            try await todos.update(id: id) { $0.text = text }
            note(id, .text(text))
        }
        if stored != nil { resolved([id]) }
    }

    /// The distance between two ranks of one device; the last digit of a rank is the device's
    /// index.
    static let rankStep = 10

    /// Changes columns that only the final comparison checks.
    private func editOtherColumns(_ id: String, _ todos: SyncTable<WorldItem>) async throws {
        let depth = nests ? copyDraw { Int.random(in: 1...64, using: &$0) } : nil
        guard let depth else {
            story?.add(name, "toggles \(id)")
            try await todos.update(id: id) { $0.complete.toggle() }
            return
        }
        story?.add(name, "nests \(depth) levels in \(id)")
        try await todos.update(id: id) { $0.nested = WorldNest(depth: depth) }
    }

    private func copyDraw<Result>(_ body: (inout SeededGenerator) -> Result) -> Result {
        state.withLock { body(&$0.copying) }
    }

    /// Keeps a copy of an inserted record, which names no state, for a later edit.
    private func keepInserted(_ id: String, _ text: String) {
        guard let copies, copyDraw({ $0.chance(50) }) else { return }
        let record: any WorldRecord =
            switch copies {
            case .timed: WorldTimedItem(id: id, text: text)
            case .versioned: WorldVersionedItem(id: id, text: text)
            }
        state.withLock { $0.copies[id] = record }
    }

    /// Changes and stores a copy that was read earlier; returns false if the user edits the current
    /// row instead.
    private func editsCopy(
        of id: String,
        over current: Row?,
        _ client: SyncClient,
        _ change: (inout any WorldRecord) -> Void
    ) async throws -> Bool {
        switch copies {
        case nil: false
        case .timed:
            try await editsCopy(
                of: id,
                over: current,
                try client.syncTable(WorldTimedItem.self),
                change
            )
        case .versioned:
            try await editsCopy(
                of: id,
                over: current,
                try client.syncTable(WorldVersionedItem.self),
                change
            )
        }
    }

    private func editsCopy<Record: WorldRecord>(
        of id: String,
        over current: Row?,
        _ table: SyncTable<Record>,
        _ change: (inout any WorldRecord) -> Void
    ) async throws -> Bool {
        // From time to time, a list reloads all of its rows.
        if copyDraw({ $0.chance(30) }) {
            for record in try await table.read() {
                let isKept = copyDraw { $0.chance(50) }
                state.withLock { state in
                    if !isKept || state.copies[record.id] == nil {
                        state.copies[record.id] = record
                    }
                }
            }
        }
        guard copyDraw({ $0.chance(70) }), var copy = state.withLock({ $0.copies[id] }) else {
            return false
        }
        story?.add(name, "edits a copy with text \(copy.text), rank \(copy.rank ?? -1)")
        let text = copy.text
        change(&copy)
        guard let record = copy as? Record else { return false }
        // This is recorded before the update, because a device with automatic sync may send the
        // update immediately.
        let before = try current?.decode(Record.self)
        let isNoted =
            copy.text == text && mayKeepText(of: record, over: before)
            && recorder.keeps(text, of: id, by: name)
        var isKept = false
        defer { if isNoted, !isKept { recorder.drops(text, of: id, by: name) } }
        let stored = try await table.update(record)
        isKept = stored.text == text
        if stored.text != before?.text {
            state.withLock { _ = $0.textsSet.insert(Self.stateKey(of: record)) }
        }
        let goesOn = copyDraw { $0.chance(50) }
        state.withLock { $0.copies[id] = goesOn ? record : stored }
        // If the copy was older than this device's last edit, the copy has replaced that edit.
        note(id, isOwn(stored.text) ? .text(stored.text) : nil)
        noteRank(id, stored.rank.flatMap { $0 % Self.rankStep == Int(name.dropFirst()) ? $0 : nil })
        return true
    }

    /// Returns whether the text of a record may replace a later text of the same user.
    ///
    /// A record that was read after an unsent update names the state before the update, so its text
    /// counts as an edit. See "Updates of older records" in docs/local-rows.md.
    private func mayKeepText<Record: WorldRecord>(
        of record: Record,
        over current: Record?
    ) -> Bool {
        guard let current, current.text != record.text, isOwn(current.text), isOwn(record.text)
        else { return false }
        // The update has not been pushed yet, an earlier record with the same state changed the
        // text, or the record was read after an unsent update.
        return current.state == record.state
            || state.withLock { $0.textsSet.contains(Self.stateKey(of: record)) }
            || recorder.hadOtherText(than: record.text, record.id, in: record.state, name)
    }

    /// Returns a key for the id of a record and the state that the record names.
    private static func stateKey(of record: some WorldRecord) -> String {
        "\(record.id) \(record.state ?? "")"
    }

    /// Returns whether this device's user wrote a text.
    private func isOwn(_ text: String) -> Bool { text.hasPrefix(name + "-") }

    func note(_ id: String, _ edit: LastEdit?) {
        state.withLock { $0.lastEdits[id] = edit }
    }

    func noteRank(_ id: String, _ rank: Int?) {
        state.withLock { $0.lastRanks[id] = rank }
    }

    func noteFlight(of id: String, _ client: SyncClient) async throws {
        let isInFlight = try await client.syncContext.pendingOperations().contains {
            $0.itemID == id && $0.isAttempted && !$0.isParked
        }
        state.withLock { state in
            if isInFlight { state.inFlight.insert(id) } else { state.inFlight.remove(id) }
        }
    }

    /// Records that the app discarded its changes to a row in favor of the server's row.
    func forget(_ id: String) {
        transactions.giveUp(id, by: name)
        note(id, nil)
        noteRank(id, nil)
    }

    /// Records that the file was replaced with an older file, which lacks the user's later changes.
    func forgetAll() {
        transactions.giveUpAll(by: name)
        state.withLock { state in
            state.lastEdits = [:]
            state.lastRanks = [:]
            state.copies = [:]
            state.lost = LostRowCheck()
        }
    }

    /// Records that the user resolved or changed rows in the file, so the rows do not have to match
    /// the server's earlier rows.
    func resolved(_ ids: [String]) { state.withLock { $0.lost.resolved(ids) } }

    /// Records that the file does not have a row; if the restored server lost the row, only a later
    /// change may remove it.
    func noteVanished(_ id: String) {
        let changed = recorder.changedSinceRestore
        state.withLock { $0.lost.isMissing(id, changed: changed) }
    }

    /// Records that the user changed, or tried to change, rows.
    func touch(_ ids: [String]) {
        guard let source = state.withLock({ $0.copiedFrom }) else { return }
        for id in ids { transactions.changed(id, copiedFrom: source) }
    }

    /// Records which rows in the file a restored server has lost.
    ///
    /// If the app is not running, its file is read at the next start.
    func noteRestore(_ restore: ServerRecorder.Restore) async throws {
        if isStarted {
            try await noteLost(restore)
        } else {
            // A response that was in flight does not reach the next run of the app.
            state.withLock { state in
                state.missedRestore = restore
                state.missedRestore?.removals = PageRemovals()
            }
        }
    }

    /// Records which rows in the file were lost.
    ///
    /// A row is not lost if the server has an older version of it with the same values. A page that
    /// was in flight may still remove a row.
    private func noteLost(_ restore: ServerRecorder.Restore) async throws {
        let removed = restore.removals[name]
        guard lostRows != .discard else { return }
        let operations = try await disk.plainStore().read { reader in
            try reader.rows(TableQuery(), in: "MS_TableOperations").compactMap {
                $0["itemId"]?.text
            }
        }
        let read = try await queriesRead()
        let lost = try await rows().filter { row in
            // A response from before the restore may remove a row that matches no query. A query
            // that has never been read to the end has no member rows yet.
            let item = try row.decode(WorldItem.self)
            guard !queries(matching: try Row(item)).isDisjoint(with: read),
                !restore.items.contains(item)
            else { return false }
            let version = row.version.flatMap { Data(base64Encoded: $0) }.map(Array.init) ?? []
            guard !version.isEmpty, !operations.contains(row.id), !removed.contains(row.id)
            else { return false }
            return restore.versions[row.id].map { $0.isOlder(than: version) } ?? true
        }
        state.withLock { $0.lost.restored(without: Set(lost.map(\.id))) }
    }

    /// Records an operation that is parked although the server never rejects operations in this
    /// way.
    func noteParked(_ text: String) {
        state.withLock { $0.wronglyParked = $0.wronglyParked ?? text }
    }

    // MARK: - The disk

    /// Gives another device a copy of the killed app's file.
    func copyFile(to other: WorldDevice) throws {
        // If the other device has waited too long, it already has its own file.
        guard try disk.copyFile(to: other.disk) else { return }
        story?.add(name, "is copied to \(other.name)")
        state.withLock { state in
            state.wasCopied = true
            state.copiedFrom = name
        }
        other.state.withLock { $0.copiedFrom = name }
        transactions.copied(from: name)
        recorder.copied(from: name, to: other.name)
    }

    /// Backs up the killed app's file, or restores the most recent backup.
    func restoreOrBackUp() throws {
        guard disk.isFile else { return }
        if draw({ $0.chance(40) }), try disk.restoreBackup() {
            story?.add(name, "is restored from its last backup")
            forgetAll()
        } else if draw({ $0.chance(60) }) {
            try disk.backUp()
        }
    }

    func rows() async throws -> [Row] {
        var query = TableQuery()
        query.order = [SortKey(column: "id")]
        let wanted = query
        return try await disk.plainStore().read { try $0.rows(wanted, in: WorldItem.tableName) }
    }

    /// Returns the rows that contradict their queued operation: a deleted row that exists, or any
    /// other row that is missing.
    func tornRows() async throws -> [String] {
        var query = TableQuery()
        query.order = [SortKey(column: "id")]
        let ordered = query
        return try await disk.plainStore().read { reader in
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
