// Worlds of devices that sync by themselves over a bad network, in front of servers of every
// generation: when the faults end, everybody holds what the server holds, without being asked.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit

struct AutomaticWorldTests {
    enum Kind: String, Sendable, CaseIterable {
        case ours
        case node
        case dotNet
    }

    @Test(arguments: Kind.allCases, 0..<10)
    func endsInAgreement(kind: Kind, seed: Int) throws {
        let time = VirtualTime()
        let seed = UInt64(seed)
        let isDone = try time.run {
            try await Self.play(kind, seed, time)
            return true
        }
        #expect(isDone == true, "everybody waits for ever")
    }

    private static func server(_ kind: Kind, _ time: VirtualTime) async throws -> any Transport {
        guard kind != .ours else {
            let columns = try RecordSchema.of(Todo.self).table.columns
            return try await InProcessServer(
                tables: [TableDefinition("Todo", columns: columns)],
                environment: ServerEnvironment(now: { time.now }, makeID: { "made" })
            ).transport
        }
        return OriginalServer(
            kind == .node ? .node : .dotNet,
            tables: [.init("Todo", columns: ClassicServerTests.columns)],
            endpoint: Device.endpoint,
            now: { time.date }
        )
    }

    private static func play(_ kind: Kind, _ seed: UInt64, _ time: VirtualTime) async throws {
        let server = try await server(kind, time)
        var policy = SyncPolicy()
        policy.interval = .seconds(30)
        var clients: [SyncClient] = []
        var networks: [LossyNetwork] = []
        var tasks: [Task<Void, any Error>] = []
        for index in 0..<3 {
            let own = seed &* 31 &+ UInt64(index)
            let network = LossyNetwork(server, time: time, seed: own, faults: .bad)
            let numbers = SeededNumbers(seed: own)
            let client = SyncClient(
                endpoint: Device.endpoint,
                transport: network,
                environment: SyncEnvironment(
                    now: { time.date },
                    makeID: { numbers.id() },
                    fraction: { numbers.fraction() },
                    sleep: { try await time.sleep($0) }
                )
            )
            try await client.syncContext.initialize(
                store: MemoryStore(),
                tables: [Todo.self],
                conflicts: index == 1 ? .serverWins : .clientWins
            )
            let running = policy
            tasks.append(time.start { try await client.runSyncing(running) })
            clients.append(client)
            networks.append(network)
        }
        var users: [Task<Void, any Error>] = []
        for (index, client) in clients.enumerated() {
            users.append(time.start { try await use(client, seed &* 97 &+ UInt64(index), time) })
        }
        for user in users { try await user.value }
        for network in networks { network.set(NetworkFaults()) }
        try await time.sleep(.seconds(600))
        for client in clients { try await settleErrors(of: client) }
        try await time.sleep(.seconds(600))
        try await judge(clients)
        for task in tasks { task.cancel() }
    }

    /// A user who never presses a button to sync.
    private static func use(_ client: SyncClient, _ seed: UInt64, _ time: VirtualTime) async throws
    {
        var dice = SeededGenerator(seed: seed)
        let todos = try client.syncTable(Todo.self)
        for step in 0..<25 {
            try await time.sleep(.milliseconds(Int.random(in: 1...3000, using: &dice)))
            let id = "row-\(Int.random(in: 0..<6, using: &dice))"
            do {
                if try await todos.read(id: id) == nil {
                    try await todos.insert(Todo(id: id, text: "\(seed)-\(step)"))
                } else if dice.chance(20) {
                    try await todos.delete(id: id)
                } else {
                    try await todos.update(id: id) { $0.text = "\(seed)-\(step)" }
                }
            } catch let error as SyncError
                where error.code == .alreadyExists || error.code == .notFound
            {
                // A pull came between the look and the change.
            }
        }
    }

    /// What the network refused as a server would is the app's to decide: here it is sent again.
    private static func settleErrors(of client: SyncClient) async throws {
        for error in try await client.syncContext.operationErrors() {
            if let mine = error.item {
                try await error.updateOperationAndRetry(with: mine)
            } else {
                try await error.cancelOperationAndDiscardItem()
            }
        }
    }

    private static func judge(_ clients: [SyncClient]) async throws {
        let server = try await clients[0].table(Todo.self).read()
        let expected = server.map { "\($0.id) \($0.text)" }.sorted()
        for client in clients {
            let rows = try await client.syncTable(Todo.self).read()
            #expect(rows.map { "\($0.id) \($0.text)" }.sorted() == expected)
            #expect(try await client.syncContext.pendingOperations() == [])
            #expect(try await client.syncContext.operationErrors().map(\.message) == [])
        }
    }
}
