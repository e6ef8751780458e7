// WorldServer: starts the server of a simulation.

import Tideline
import TidelineCore
import TidelineServerCore

/// The server of a simulation: Tideline's server, or an imitation of an original server.
struct WorldServer: Sendable {
    let kind: WorldPlan.Server
    let transport: any Transport
    /// Faults of the server itself.
    let faults: ServerFaults
    /// The database, if it can be restored from a backup.
    let database: WorldDatabase?

    /// Whether the server is Tideline's, which supports repeats, deltas, and events, unlike the
    /// original servers.
    var isOurs: Bool { kind == .tideline }

    init(
        _ kind: WorldPlan.Server,
        _ time: VirtualTime,
        _ store: World.Store?,
        isRestorable: Bool = false
    ) async throws {
        self.kind = kind
        let now: @Sendable () -> Int64 = { time.now }
        let transport: any Transport
        var database: WorldDatabase?
        switch kind {
        case .tideline where isRestorable:
            let restorable = try await WorldDatabase(time) { try await Self.ours(now, $0) }
            database = restorable
            transport = restorable
        case .tideline: transport = try await Self.ours(now, try store?(now)).transport
        case .node: transport = Self.original(.node, time)
        case .dotNet: transport = Self.original(.dotNet, time)
        }
        self.database = database
        faults = ServerFaults(transport, now: now)
        self.transport = faults
    }

    private static func ours(
        _ now: @escaping @Sendable () -> Int64,
        _ store: (any TableStore)?
    ) async throws -> InProcessServer {
        try await InProcessServer(
            tables: [
                TableDefinition(
                    WorldItem.tableName,
                    columns: try RecordSchema.of(WorldItem.self).table.columns
                )
            ],
            environment: ServerEnvironment(now: now, makeID: { "server-made" }),
            store: store
        )
    }

    private static func original(
        _ flavor: OriginalServer.Flavor,
        _ time: VirtualTime
    ) -> OriginalServer {
        let columns: [String: OriginalServer.ColumnType] = [
            "text": .string, "complete": .boolean, "rank": .number,
        ]
        return OriginalServer(
            flavor,
            tables: [.init(WorldItem.tableName, columns: columns)],
            endpoint: World.endpoint,
            now: { time.date },
            makeID: { "server-made" }
        )
    }
}
