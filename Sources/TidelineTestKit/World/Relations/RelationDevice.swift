// RelationDevice: a device in a simulation of related rows, whose app can be killed and restarted.

import Foundation
import Tideline
import TidelineCore

/// A device with its stored content, its network, and the app that is currently running.
final class RelationDevice {
    let name: String
    let network: RelationNetwork
    private let policy: ConflictPolicy
    private let lostRows: LostRowPolicy
    private let environment: SyncEnvironment
    private(set) var store = KillableStore(MemoryStore())
    private(set) var client: SyncClient
    /// The values that the user set in the local column of jobs that are still on the device.
    var localValues: [String: Value] = [:]

    static let endpoint = URL(string: "http://localhost") ?? URL(filePath: "/")

    init(
        name: String,
        network: RelationNetwork,
        policy: ConflictPolicy,
        lostRows: LostRowPolicy,
        environment: SyncEnvironment
    ) {
        (self.name, self.network, self.policy) = (name, network, policy)
        (self.lostRows, self.environment) = (lostRows, environment)
        client = Self.client(network, environment)
    }

    private static func client(
        _ network: RelationNetwork,
        _ environment: SyncEnvironment
    ) -> SyncClient {
        SyncClient(
            endpoint: endpoint,
            generation: .datasync,
            transport: network,
            environment: environment
        )
    }

    var context: SyncContext { client.syncContext }

    /// Starts the app with the content that the previous run of the app stored.
    func start() async throws {
        store.kill()
        store = KillableStore(store.content)
        client = Self.client(network, environment)
        try await context.initialize(
            store: store,
            tables: RelationModels.models,
            conflicts: policy,
            lostRows: lostRows
        )
    }

    /// Returns the rows of a table, regardless of whether the app is running.
    func rows(_ table: String) async throws -> [Row] {
        try await store.content.read { try $0.rows(TableQuery(), in: table) }
    }

    func ids(_ table: String) async throws -> Set<String> { Set(try await rows(table).map(\.id)) }

    /// Forgets the local values of jobs that are no longer on the device.
    func forgetRemovedJobs() async throws {
        let ids = try await ids("Job")
        localValues = localValues.filter { ids.contains($0.key) }
    }

    /// Returns the jobs whose local values were lost or changed.
    func changedLocalValues() async throws -> [String] {
        try await rows("Job").compactMap { job in
            let stored = job[RelationModels.Job.localColumn]
            guard let value = localValues[job.id], stored != value else { return nil }
            return "\(job.id) has \(stored.map { "\($0)" } ?? "no value")"
        }
    }

    /// Returns the queued operations as text for a message.
    func queue() async throws -> [String] {
        try await context.pendingOperations().map { operation in
            let state = operation.isParked ? "parked" : operation.isAttempted ? "attempted" : ""
            return """
                \(name): \(operation.id) \(operation.kind) \(operation.table) \(operation.itemID) \
                \(operation.groupID?.prefix(8) ?? "-") \(state)
                """
        }
    }
}
