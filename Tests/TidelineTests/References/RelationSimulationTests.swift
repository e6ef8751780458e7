// Devices that insert, move and delete related rows while the network loses requests and answers: afterwards no
// device has an orphan, all devices agree, and no row is lost without an error or a delete.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct RelationSimulationTests {
    /// The seeds of a run: those from `TIDELINE_SEED` on, `TIDELINE_SEEDS` of them, or a few.
    private static var seeds: [UInt64] {
        let environment = ProcessInfo.processInfo.environment
        let first = environment["TIDELINE_SEED"].flatMap(UInt64.init)
        let count = environment["TIDELINE_SEEDS"].flatMap(UInt64.init)
        if first == nil, count == nil { return Array(1...60) + known }
        return Array((first ?? 1)..<((first ?? 1) + (count ?? 1)))
    }

    /// Seeds in which operations once waited for each other, or a parent was deleted before its child.
    private static let known: [UInt64] = [271, 495, 5305]

    @Test("After quiescence no device has an orphan, and no child is lost without an error")
    func relations() async throws {
        for seed in Self.seeds {
            do {
                try await RelationWorld(seed: seed).run()
            } catch {
                Issue.record("seed \(seed): \(error)")
            }
        }
    }
}

/// A run of three devices and a server.
private struct RelationWorld {
    struct Violation: Error { let text: String }

    private final class State {
        var random: SeededGenerator
        /// The visits that users inserted, and those that a user deleted, directly or with a parent, or discarded.
        var inserted: Set<String> = []
        var gone: Set<String> = []
        var number = 0

        init(_ seed: UInt64) { random = SeededGenerator(seed: seed) }

        func id(_ prefix: String) -> String {
            number += 1
            return "\(prefix)\(number)"
        }
    }

    private let seed: UInt64

    init(seed: UInt64) { self.seed = seed }

    func run() async throws {
        let state = State(seed)
        let scene = try await FieldScene()
        var devices: [(device: Device, tap: BatchTap)] = []
        for number in 0..<3 {
            let tap = BatchTap(scene.server.transport)
            let ids = SeededNumbers(seed: seed &* 31 &+ UInt64(number))
            let environment = SyncEnvironment(
                now: { Date(timeIntervalSince1970: 1_800_000_000) },
                makeID: { ids.id() },
                fraction: { 0 },
                sleep: { _ in try Task.checkCancellation() }
            )
            let policies: [ConflictPolicy] = [.fail, .merge, .clientWins]
            let device = try await Device(
                tap,
                conflicts: policies[number],
                tables: Field.models,
                environment: environment
            )
            devices.append((device, tap))
        }
        for _ in 0..<40 {
            let (device, tap) = state.random.pick(devices)
            try await step(device, tap, state)
        }
        try await syncUntilIdle(devices.map(\.device), state)
        try await check(devices.map(\.device), scene, state)
    }

    private func step(_ device: Device, _ tap: BatchTap, _ state: State) async throws {
        switch state.random.below(12) {
        case 0, 1:
            if state.random.chance(20) { tap.add(.dropRequest) }
            if state.random.chance(20) { tap.add(.dropAnswer) }
            _ = try await device.push()
        case 2: try await pull(device)
        case 3: if state.random.chance(50) { try await resolve(device, state) }
        default:
            do {
                try await edit(device, state)
            } catch let error as SyncError
                where error.code == .rowIsReferenced || error.code == .notFound
            {
                return
            }
        }
    }

    private func any(_ table: String, _ device: Device, _ state: State) async throws -> String? {
        let ids = try await device.rows(table).map(\.id).sorted()
        return ids.isEmpty ? nil : state.random.pick(ids)
    }

    private func edit(_ device: Device, _ state: State) async throws {
        let customers = try device.client.syncTable(Field.Customer.self)
        let jobs = try device.client.syncTable(Field.Job.self)
        let visits = try device.client.syncTable(Field.Visit.self)
        let invoices = try device.client.syncTable(Field.Invoice.self)
        let customer = try await any("Customer", device, state)
        let job = try await any("Job", device, state)
        let visit = try await any("Visit", device, state)
        switch state.random.below(11) {
        case 0: try await customers.insert(Field.Customer(id: state.id("c")))
        case 1, 2: try await jobs.insert(Field.Job(id: state.id("j"), customerID: customer))
        case 3, 4:
            let id = state.id("v")
            state.inserted.insert(id)
            try await visits.insert(Field.Visit(id: id, jobID: job, nextID: visit))
        case 5: try await invoices.insert(Field.Invoice(id: state.id("i"), jobID: job))
        case 6:
            guard let job else { return }
            try await jobs.update(id: job) { $0.customerID = customer }
        case 7:
            guard let visit else { return }
            let next = try await any("Visit", device, state)
            try await visits.update(id: visit) {
                $0.jobID = job
                $0.nextID = next
            }
        case 8:
            let new = state.id("c")
            try await device.context.transaction { transaction in
                if let job {
                    try transaction.table(Field.Job.self).update(id: job) { $0.customerID = new }
                }
                try transaction.table(Field.Customer.self).insert(Field.Customer(id: new))
            }
        default:
            let before = Set(try await device.rows("Visit").map(\.id))
            if let customer, state.random.chance(40) {
                try await customers.delete(id: customer)
            } else if let job, state.random.chance(60) {
                try await jobs.delete(id: job)
            } else if let visit, state.random.chance(50) {
                try await visits.delete(id: visit)
            } else if let invoice = try await any("Invoice", device, state) {
                try await invoices.delete(id: invoice)
            }
            state.gone.formUnion(before.subtracting(try await device.rows("Visit").map(\.id)))
        }
    }

    /// Resolves the errors of a device by the actions that its user chooses.
    private func resolve(_ device: Device, _ state: State) async throws {
        for error in try await device.context.operationErrors() {
            do {
                try await resolve(error, device, state)
            } catch let failure as SyncError where failure.code == .notFound {
                // Another error of the group resolved it, or the parent's values are not known.
                try? await discard(error, state)
            }
        }
    }

    private func discard(_ error: TableOperationError, _ state: State) async throws {
        if error.table == "Visit" { state.gone.insert(error.itemID) }
        try await error.cancelOperationAndDiscardItem()
    }

    private func resolve(
        _ error: TableOperationError,
        _ device: Device,
        _ state: State
    ) async throws {
        guard error.brokenReference?.reason == .parentNotFound else {
            return try await discard(error, state)
        }
        switch state.random.below(4) {
        case 0: try await error.restoreParent()
        case 1: try await error.moveToParent(nil)
        case 2:
            let table = error.brokenReference?.table ?? ""
            try await error.moveToParent(try await any(table, device, state))
        default: try await discard(error, state)
        }
    }

    private func pull(_ device: Device) async throws {
        for type in Field.models {
            _ = try? await device.client.syncTable(named: "\(type)").pull(queryID: "all")
        }
    }

    /// Syncs without faults until nothing is pending.
    private func syncUntilIdle(_ devices: [Device], _ state: State) async throws {
        for round in 0..<20 {
            for device in devices {
                _ = try await device.push()
                try await pull(device)
                if round < 12 {
                    try await resolve(device, state)
                } else {
                    // Restored parents could go on forever.
                    for error in try await device.context.operationErrors() {
                        try? await discard(error, state)
                    }
                }
            }
            var pending = 0
            for device in devices { pending += try await device.context.pendingOperationCount }
            guard pending == 0 else { continue }
            for device in devices { try await pull(device) }
            return
        }
        var left: [String] = []
        for (number, device) in devices.enumerated() {
            for operation in try await device.context.pendingOperations() {
                left.append(
                    """
                    device \(number): \(operation.id) \(operation.kind) \(operation.table) \(operation.itemID) \
                    group \(operation.groupID ?? "-") \
                    \(operation.isParked ? "parked" : operation.isAttempted ? "attempted" : "pending")
                    """
                )
            }
        }
        throw Violation(text: "operations are pending: \(left)")
    }

    private func check(_ devices: [Device], _ scene: FieldScene, _ state: State) async throws {
        let truth = try await scene.serverContents()
        for (number, device) in devices.enumerated() {
            let missing = try await device.missingParents()
            guard missing.isEmpty else {
                throw Violation(text: "device \(number) has orphans: \(missing)")
            }
            let own = try await scene.contents(device)
            guard own == truth else {
                throw Violation(text: "device \(number) has \(own), the server \(truth)")
            }
        }
        let visits = Set(truth.flatMap { $0.split(separator: " ").map(String.init) })
        let lost = state.inserted.subtracting(visits).subtracting(state.gone)
        // A visit that is not known to a device is deleted with its parent by the server.
        var query = Query<Row>()
        query.includesDeleted = true
        let all = try await scene.other.client.table(named: "Visit").read(query)
        let deleted = Set(all.items.filter { $0[SystemColumn.deleted] == true }.map(\.id))
        guard lost.isSubset(of: deleted) else {
            throw Violation(text: "lost: \(lost.subtracting(deleted).sorted())")
        }
    }
}
