// FieldScene: devices with a server of the tables of a field service, which refer to each other.

import Foundation
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

/// The models of the field service.
typealias Field = RelationModels

/// A server, and devices that have the same rows at first.
struct FieldScene {
    let server: InProcessServer
    let tap: BatchTap
    let device: Device
    let other: Device

    init(
        _ fates: [BatchTap.Fate] = [],
        store: any LocalStore = MemoryStore(),
        conflicts: ConflictPolicy = .fail,
        limits: SyncLimits = SyncLimits(),
        change: (inout TableDefinition) -> Void = { _ in }
    ) async throws {
        var tables = try Field.tables()
        for place in tables.indices { change(&tables[place]) }
        server = try await InProcessServer(
            tables: tables,
            environment: ServerEnvironment(
                now: { 1_800_000_000_000_000 },
                makeID: ServerEnvironment.live.makeID
            )
        )
        tap = BatchTap(server.transport, fates)
        device = try await Device(
            tap,
            store: store,
            conflicts: conflicts,
            limits: limits,
            tables: Field.models
        )
        other = try await Device(server.transport, tables: Field.models)
    }

    /// Stores customer `c` with the jobs `j` and `k`, three visits of `j` in a cycle, and a note on both devices.
    func fill() async throws {
        try await device.context.transaction { transaction in
            try transaction.table(Field.Customer.self).insert(Field.Customer(id: "c", name: "Kiel"))
            try transaction.table(Field.Job.self).insert([
                Field.Job(id: "j", title: "Boiler", customerID: "c"),
                Field.Job(id: "k", title: "Valve", customerID: "c"),
            ])
            try transaction.table(Field.Visit.self).insert([
                Field.Visit(id: "v3", jobID: "j"),
                Field.Visit(id: "v2", jobID: "j", nextID: "v3"),
                Field.Visit(id: "v1", jobID: "j", nextID: "v2"),
            ])
            try transaction.table(Field.Note.self).insert(
                Field.Note(id: "n", text: "Key at the neighbors", customerID: "c")
            )
        }
        try await device.context.push()
        try await pull(device)
        try await pull(other)
    }

    func pull(_ device: Device) async throws {
        for type in Field.models {
            try await device.client.syncTable(named: "\(type)").pull(queryID: "all")
        }
    }

    /// Returns the ids of all rows of a device, as `Job j k`.
    func contents(_ device: Device) async throws -> [String] {
        var result: [String] = []
        for type in Field.models {
            let ids = try await device.rows("\(type)").map(\.id).sorted()
            if !ids.isEmpty { result.append((["\(type)"] + ids).joined(separator: " ")) }
        }
        return result
    }

    /// Returns the ids of all rows of the server, in the same form.
    func serverContents() async throws -> [String] {
        var result: [String] = []
        for type in Field.models {
            let rows = try await other.client.table(named: "\(type)").read()
            let ids = rows.map(\.id).sorted()
            if !ids.isEmpty { result.append((["\(type)"] + ids).joined(separator: " ")) }
        }
        return result
    }
}

extension Device {
    /// Returns the records whose parents are missing.
    func missingParents() async throws -> [UnresolvedReference] {
        try await context.read { try $0.missingParents() }
    }
}
