// WorldServer: the server of a world: ours, or an imitation of one of the original ones.

import Tideline
import TidelineCore
import TidelineServerCore

struct WorldServer: Sendable {
    let kind: WorldPlan.Server
    let transport: any Transport

    /// Whether it has what the original servers lack: repeats, changes, events.
    var isOurs: Bool { kind == .tideline }

    init(_ kind: WorldPlan.Server, _ time: VirtualTime, _ store: World.Store?) async throws {
        self.kind = kind
        let now: @Sendable () -> Int64 = { time.now }
        switch kind {
        case .tideline:
            transport = try await InProcessServer(
                tables: [
                    TableDefinition(
                        WorldItem.tableName,
                        columns: try RecordSchema.of(WorldItem.self).table.columns
                    )
                ],
                environment: ServerEnvironment(now: now, makeID: { "server-made" }),
                store: try store?(now)
            ).transport
        case .node: transport = Self.original(.node, time)
        case .dotNet: transport = Self.original(.dotNet, time)
        }
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
