// RelationWorld: a simulation of devices that insert, move, and delete related rows. In the
// meantime, the network fails, apps are killed between transactions, tables are purged, and the
// server is restored from a backup. At the end, the faults stop and all devices sync. Then no
// device has an orphan, all rows are the same everywhere, and no row is lost without an error or a
// delete. With rules, users also set columns of jobs, sometimes to values that break a rule, and
// edit rows during pushes and pulls. In this mode, no operation is parked because of a rule that
// the device can check, and jobs keep the values of a column that stays on the device.

import Foundation
import Tideline
import TidelineCore
import TidelineServerCore

/// A simulation of related rows, drawn from a seed.
///
/// ```swift
/// try RelationWorld(seed: 7).run()
/// ```
package struct RelationWorld: Sendable {
    private let seed: UInt64
    private let hasRules: Bool

    /// Creates a simulation; if `hasRules` is true, users also set columns of jobs that are subject
    /// to rules, and edit rows during pushes and pulls.
    package init(seed: UInt64, hasRules: Bool = false) {
        (self.seed, self.hasRules) = (seed, hasRules)
    }

    /// Runs the simulation on the calling thread.
    ///
    /// - Throws: ``WorldViolation`` with the seed and the events if a guarantee is broken.
    package func run() throws {
        let time = VirtualTime()
        let ended = try time.run { [seed, hasRules] in
            try await RelationRun(seed, time, hasRules: hasRules).run()
            return true
        }
        guard ended != nil else {
            throw WorldViolation(seed: seed, relations: "liveness", "all tasks wait forever")
        }
    }
}

extension WorldViolation {
    fileprivate init(seed: UInt64, relations guarantee: String, _ detail: String) {
        self.init(seed: seed, guarantee: guarantee, detail: detail)
        suite = "RelationWorldTests"
    }
}

/// A run of the simulation of related rows, with its devices, server and random numbers.
private final class RelationRun {
    private let seed: UInt64
    private let time: VirtualTime
    private var random: SeededGenerator
    /// A separate generator for local columns, so that earlier seeds still produce the same edits.
    private var localRandom: SeededGenerator
    private let server: any Transport
    /// The database of a server that can be restored from a backup.
    private let database: WorldDatabase?
    private var devices: [RelationDevice] = []
    /// The ids that users have chosen, by table.
    private var ids: [String: [String]] = [:]
    private var number = 0
    /// The visits that users inserted, and the visits that a user deleted (directly or with a
    /// parent), discarded, or purged.
    private var inserted: Set<String> = []
    private var gone: Set<String> = []
    /// The visits that the devices had at the time of the restore.
    private var beforeRestore: Set<String> = []
    /// Whether a device discards rows that a restored server lost.
    private let discardsLostRows: Bool
    /// Whether users set columns of jobs that are subject to rules, and edit rows during pushes and
    /// pulls.
    private let hasRules: Bool
    private var story: [String] = []

    /// The references of the tables, each as a column and the parent's table.
    private static let references: [String: [(column: String, parent: String)]] = [
        "Job": [("customerID", "Customer")],
        "Visit": [("jobID", "Job"), ("nextID", "Visit")],
        "Invoice": [("jobID", "Job")],
        "Note": [("customerID", "Customer")],
    ]
    private static let tables = ["Customer", "Job", "Visit", "Invoice", "Note"]

    init(_ seed: UInt64, _ time: VirtualTime, hasRules: Bool) async throws {
        (self.seed, self.time, self.hasRules) = (seed, time, hasRules)
        random = SeededGenerator(seed: seed)
        localRandom = SeededGenerator(seed: ~seed)
        if random.chance(15) {
            let restorable = try await WorldDatabase(time) { try await Self.server(time, $0) }
            (database, server) = (restorable, restorable)
        } else {
            (database, server) = (nil, try await Self.server(time, nil).transport)
        }
        discardsLostRows = random.chance(30)
        let lostRows: [LostRowPolicy] =
            discardsLostRows ? LostRowPolicy.allCases : [.ask, .sendAgain]
        let policies: [ConflictPolicy] = [.fail, .merge, .clientWins, .serverWins]
        let sleep: @Sendable () async throws -> Void = {
            if hasRules { try await time.sleep(.milliseconds(2)) }
        }
        for number in 0..<3 {
            let seed = seed &* 31 &+ UInt64(number)
            let numbers = SeededNumbers(seed: seed)
            let device = RelationDevice(
                name: "d\(number)",
                network: RelationNetwork(server, seed: seed, delay: sleep),
                policy: random.pick(policies),
                lostRows: random.pick(lostRows),
                environment: SyncEnvironment(
                    now: { time.date },
                    makeID: { numbers.id() },
                    fraction: { numbers.fraction() },
                    sleep: { try await time.sleep($0) }
                )
            )
            try await device.start()
            devices.append(device)
        }
    }

    private static func server(
        _ time: VirtualTime,
        _ store: (any TableStore)?
    ) async throws -> InProcessServer {
        try await InProcessServer(
            tables: RelationModels.tables(),
            environment: ServerEnvironment(now: { time.now }, makeID: { "server-made" }),
            store: store
        )
    }

    func run() async throws {
        do {
            let steps = random.pick([30, 50, 80])
            let backup = random.below(steps)
            let restore = backup + random.below(steps - backup)
            for number in 0..<steps {
                try await step(random.pick(devices))
                try await time.sleep(.milliseconds(10))
                if let database, number == backup {
                    story.append("the server is backed up")
                    try database.backUp()
                }
                if let database, number == restore {
                    story.append("the server is restored")
                    for device in devices {
                        beforeRestore.formUnion(try await device.ids("Visit"))
                    }
                    try await database.restore()
                }
            }
            try await syncUntilIdle()
            try await check()
        } catch var violation as WorldViolation {
            violation.story = story
            throw violation
        }
    }

    private func violation(_ guarantee: String, _ detail: String) -> WorldViolation {
        WorldViolation(seed: seed, relations: guarantee, detail)
    }

    // MARK: - Steps

    private func step(_ device: RelationDevice) async throws {
        if random.chance(10) {
            device.store.kill(afterWrites: random.below(6), storesLast: random.chance(50))
        }
        switch random.below(16) {
        case 0, 1, 2: try await push(device)
        case 3, 4: try await pull(device)
        case 5: if random.chance(50) { try await resolve(device) }
        case 6: if random.chance(30) { try await purge(device) }
        case 7: if random.chance(30) { try await verify(device) }
        default: try await edit(device)
        }
        if device.store.isKilled || random.chance(3) {
            story.append("\(device.name) starts again")
            try await device.start()
        }
        try await checkLocalValues(device)
    }

    /// Checks that the jobs that are still on a device have kept the values of their local column.
    private func checkLocalValues(_ device: RelationDevice) async throws {
        guard hasRules else { return }
        try await device.forgetRemovedJobs()
        let changed = try await device.changedLocalValues()
        guard changed.isEmpty else {
            throw violation("local columns", "\(device.name): \(changed)")
        }
    }

    private func push(_ device: RelationDevice) async throws {
        story.append("\(device.name) pushes")
        do {
            try await perform(device) { [context = device.context] in try await context.push() }
        } catch let error as PushError {
            if error.status == .storeFailure, !device.store.isKilled {
                throw violation("push", "\(error)")
            }
        }
    }

    private func pull(_ device: RelationDevice) async throws {
        story.append("\(device.name) pulls")
        for table in Self.tables {
            do {
                let synced = try device.client.syncTable(named: table)
                try await perform(device) { _ = try await synced.pull(queryID: "all") }
            } catch let error as SyncError where error.code == .storeFailure {
                if !device.store.isKilled { throw violation("pull", "\(error)") }
            } catch {
                // The network failed.
            }
        }
    }

    /// Pushes or pulls; with rules, users may edit rows at the same time.
    private func perform(
        _ device: RelationDevice,
        _ sync: @escaping @Sendable () async throws -> Void
    ) async throws {
        guard hasRules, random.chance(40) else { return try await sync() }
        let task = time.start { try await sync() }
        try await time.sleep(.milliseconds(random.below(12)))
        do {
            try await edit(device)
        } catch {
            task.cancel()
            throw error
        }
        try await task.value
    }

    private func verify(_ device: RelationDevice) async throws {
        let table = random.pick(Self.tables)
        story.append("\(device.name) verifies and repairs \(table)")
        do {
            let synced = try device.client.syncTable(named: table)
            _ = try await synced.verify(queryID: "all", repair: true)
        } catch let error as SyncError
            where error.code != .storeFailure || device.store.isKilled
        {
            story.append("\(device.name) cannot verify \(table): \(error.code)")
        }
    }

    private func purge(_ device: RelationDevice) async throws {
        let table = random.pick(Self.tables)
        let visits = try await device.ids("Visit")
        let isForced = random.chance(30)
        let pending = (try? await device.context.pendingOperations()) ?? []
        do {
            try await device.client.syncTable(named: table).purge(force: isForced)
            // The device may not know yet that the server lost rows, so the purge may remove them.
            if database != nil, table == "Visit" { gone.formUnion(visits) }
        } catch let error as SyncError
            where error.code == .pendingOperations || device.store.isKilled
        {
            // A purge without force keeps unsent rows. The app may be killed after the purge.
            if database != nil, table == "Visit", device.store.isKilled { gone.formUnion(visits) }
        }
        story.append("\(device.name) purges \(table)\(isForced ? " with its operations" : "")")
        if isForced, table == "Visit" {
            gone.formUnion(pending.filter { $0.table == table }.map(\.itemID))
        }
    }

    // MARK: - Edits

    private func edit(_ device: RelationDevice) async throws {
        var edits: [RelationEdit] = []
        for _ in 0..<(random.chance(30) ? 2 + random.below(3) : 1) {
            if let edit = try await draw(device) { edits.append(edit) }
        }
        guard !edits.isEmpty else { return }
        let before = try await device.ids("Visit")
        do {
            if edits.count == 1, random.chance(80) {
                try await edits[0].make(device.client)
            } else {
                try await device.context.transaction { [edits] transaction in
                    for edit in edits { try edit.make(transaction) }
                }
            }
            story.append("\(device.name): \(edits.map(\.description).joined(separator: ", "))")
            for edit in edits { edit.record(in: &device.localValues, isCertain: true) }
            // A job that was deleted with its customer may come back without its local values.
            try await device.forgetRemovedJobs()
        } catch let error as SyncError
            where [.rowIsReferenced, .notFound, .alreadyExists].contains(error.code)
            || error.code == .ruleBroken && hasRules || device.store.isKilled
        {
            story.append("\(device.name) cannot: \(edits), \(error.code)")
            if device.store.isKilled {
                for edit in edits { edit.record(in: &device.localValues, isCertain: false) }
            }
        }
        let after = try await device.ids("Visit")
        gone.formUnion(before.subtracting(after))
        for case .insert("Visit", let id, _) in edits where after.contains(id) {
            inserted.insert(id)
            gone.remove(id)
        }
    }

    private func draw(_ device: RelationDevice) async throws -> RelationEdit? {
        if hasRules, random.chance(40), let id = try await local("Job", device) {
            var values = RelationRules.values(&random)
            if localRandom.chance(30) {
                values[RelationModels.Job.localColumn] = .bool(localRandom.chance(50))
            }
            return .setJob(id: id, values: values)
        }
        let table = random.pick(["Customer", "Job", "Job", "Visit", "Visit", "Invoice", "Note"])
        var parents: [String: String?] = [:]
        for (column, parent) in Self.references[table] ?? [] {
            parents.updateValue(try await pick(parent, device), forKey: column)
        }
        switch random.below(10) {
        case 0..<5:
            return .insert(table: table, id: newID(table), parents: parents)
        case 5, 6:
            guard !parents.isEmpty, let id = try await local(table, device) else { return nil }
            return .move(table: table, id: id, parents: parents)
        default:
            guard let id = try await local(table, device) else { return nil }
            return .delete(table: table, id: id)
        }
    }

    private func newID(_ table: String) -> String {
        // An id that was used before may belong to a deleted row.
        if let known = ids[table], random.chance(5) { return random.pick(known) }
        number += 1
        let id = "\(table.lowercased().prefix(1))\(number)"
        ids[table, default: []].append(id)
        return id
    }

    private func local(_ table: String, _ device: RelationDevice) async throws -> String? {
        let ids = try await device.ids(table).sorted()
        return ids.isEmpty ? nil : random.pick(ids)
    }

    /// Returns the id of a parent: usually one that the device has, sometimes none, and sometimes
    /// any known id.
    private func pick(_ table: String, _ device: RelationDevice) async throws -> String? {
        if random.chance(5) { return nil }
        if let known = ids[table], random.chance(8) { return random.pick(known) }
        return try await local(table, device)
    }

    // MARK: - Errors

    private func resolve(_ device: RelationDevice, onlyDiscards: Bool = false) async throws {
        for row in (try? await device.context.lostRows()) ?? [] {
            let isSent = !onlyDiscards && random.chance(50)
            story.append("\(device.name) \(isSent ? "sends" : "discards") lost \(row.id)")
            if isSent {
                try? await row.sendAgain()
            } else {
                let isDiscarded = (try? await row.discard()) != nil
                // An app that was killed may already have discarded the row.
                guard row.table == "Visit", isDiscarded || device.store.isKilled else { continue }
                gone.insert(row.itemID)
            }
        }
        // A discarded job may come back with a pull, without its local values.
        if hasRules { try await device.forgetRemovedJobs() }
        let errors = (try? await device.context.operationErrors()) ?? []
        for error in errors {
            do {
                if onlyDiscards {
                    try await discard(error, device)
                } else {
                    try await resolve(error, device)
                }
            } catch let failure as SyncError where failure.code == .notFound {
                // Another error of the group has resolved this error, or the parent's values are
                // not known.
                try? await discard(error, device)
            } catch let failure as SyncError {
                // The server cannot be reached to get the values of a parent.
                story.append("\(device.name) cannot resolve \(error.itemID): \(failure.code)")
            }
            // One action may remove a job that the next action restores, without its local values.
            if hasRules { try await device.forgetRemovedJobs() }
        }
    }

    private func discard(_ error: TableOperationError, _ device: RelationDevice) async throws {
        story.append("\(device.name) discards \(error.kind) \(error.table) \(error.itemID)")
        if error.table == "Visit" { gone.insert(error.itemID) }
        try await error.cancelOperationAndDiscardItem()
    }

    private func resolve(_ error: TableOperationError, _ device: RelationDevice) async throws {
        let what = "\(device.name) resolves \(error.kind) \(error.table) \(error.itemID)"
        if let rule = error.brokenRule {
            guard rule.code == .notUnique else {
                throw violation("rules", "\(what): a rule that the device knew, \(rule)")
            }
            guard var item = error.item, random.chance(70) else {
                return try await discard(error, device)
            }
            item["number"] = RelationRules.number(&random)
            story.append("\(what): gives it the number \(item["number"]?.text ?? "null")")
            return try await error.updateOperationAndRetry(with: item)
        }
        guard let reference = error.brokenReference else {
            guard random.chance(50) else { return try await discard(error, device) }
            story.append("\(what) (\(error.statusCode ?? 0)) by a retry")
            if let item = error.item, error.serverItem != nil, random.chance(50) {
                return try await error.updateOperationAndRetry(with: item)
            }
            return try await error.retry()
        }
        guard reference.reason == .parentNotFound else {
            guard random.chance(30) else { return try await discard(error, device) }
            story.append("\(what) (\(reference.reason)) by a retry")
            return try await error.retry()
        }
        switch random.below(4) {
        case 0:
            story.append("\(what): restores \(reference.table)")
            try await error.restoreParent()
        case 1:
            story.append("\(what): moves it to no parent")
            try await error.moveToParent(nil)
        case 2:
            let parent = try await local(reference.table, device)
            story.append("\(what): moves it to \(parent ?? "no parent")")
            try await error.moveToParent(parent)
        default: try await discard(error, device)
        }
    }

    // MARK: - The end

    /// Syncs without faults until nothing is pending.
    private func syncUntilIdle() async throws {
        story.append("no faults from here on")
        for device in devices {
            device.network.endFaults()
            try await device.start()
        }
        for round in 0..<Self.roundsMax {
            for device in devices {
                try await pushAtEnd(device)
                try await checkLocalValues(device)
                try await pullAtEnd(device)
                try await checkLocalValues(device)
                // Restoring parents could go on forever, so later rounds only discard.
                try await resolve(device, onlyDiscards: round >= Self.roundsMax / 2)
            }
            guard try await pendingCount() == 0 else { continue }
            for device in devices { try await pullAtEnd(device) }
            // A pull may be the first to detect rows that a restored server lost, or may queue them
            // again.
            guard try await pendingCount() == 0 else { continue }
            for device in devices { try await pullAtEnd(device) }
            return
        }
        var left: [String] = []
        for device in devices { left += try await device.queue() }
        throw violation("liveness", "operations are pending:\n  \(left.joined(separator: "\n  "))")
    }

    private static let roundsMax = 24

    private func pendingCount() async throws -> Int {
        var count = 0
        for device in devices {
            count += try await device.context.pendingOperationCount
            count += try await device.context.lostRowCount
        }
        return count
    }

    private func pushAtEnd(_ device: RelationDevice) async throws {
        story.append("\(device.name) pushes")
        do {
            try await device.context.push()
        } catch let error as PushError where error.status == .operationErrors {
            // The next step resolves the errors.
        } catch {
            throw violation("push", "\(device.name): \(error)")
        }
    }

    private func pullAtEnd(_ device: RelationDevice) async throws {
        story.append("\(device.name) pulls")
        for table in Self.tables {
            do {
                _ = try await device.client.syncTable(named: table).pull(queryID: "all")
            } catch {
                throw violation("pull", "\(device.name), \(table): \(error)")
            }
        }
    }

    private func check() async throws {
        let client = SyncClient(
            endpoint: RelationDevice.endpoint,
            generation: .datasync,
            transport: server
        )
        var truth: [String: [Row]] = [:]
        var deleted: Set<String> = []
        for table in Self.tables {
            var query = Query<Row>()
            query.includesDeleted = true
            let rows = try await client.table(named: table).read(query).items
            let live = rows.filter { $0[SystemColumn.deleted] != true }
            truth[table] = live
            if table == "Visit" {
                deleted = Set(rows.map(\.id)).subtracting(live.map(\.id))
            }
        }
        for device in devices {
            let missing = try await device.context.read { try $0.missingParents() }
            guard missing.isEmpty else {
                throw violation("no orphans", "\(device.name): \(missing)")
            }
            try await checkLocalValues(device)
            for fault in RelationRules.faults(in: try await device.rows("Job")) {
                throw violation("rules", "\(device.name): \(fault)")
            }
            for table in Self.tables {
                let own = Self.texts(try await device.rows(table), table)
                let theirs = Self.texts(truth[table] ?? [], table)
                guard own == theirs else {
                    throw violation(
                        "convergence",
                        "\(device.name), \(table): \(own) instead of \(theirs)"
                    )
                }
            }
        }
        if database != nil, discardsLostRows { return }
        let expected = database == nil ? inserted : beforeRestore
        let lost = expected.subtracting((truth["Visit"] ?? []).map(\.id)).subtracting(gone)
        guard lost.isSubset(of: deleted) else {
            throw violation("no lost rows", "\(lost.subtracting(deleted).sorted())")
        }
    }

    /// Returns the rows with their versions and references as text, in order.
    private static func texts(_ rows: [Row], _ table: String) -> [String] {
        rows.map { row in
            let columns = ["version"] + (references[table] ?? []).map(\.column)
            return ([row.id] + columns.map { "\($0)=\(row[$0]?.text ?? "null")" })
                .joined(separator: " ")
        }
        .sorted()
    }
}
