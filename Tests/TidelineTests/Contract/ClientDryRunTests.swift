// ClientDryRunTests: a dry run says what each operation would meet, and changes nothing on either side.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct ClientDryRunTests {
    /// Everything that a store has, as text.
    private func contents(_ device: Device) async throws -> [String] {
        try await device.store.read { reader in
            let tables = [
                "Inspection", "MS_TableOperations", "MS_TableOperationErrors", "MS_TableConfig",
                "MS_TableLostRows", "MS_TableOwnStates",
            ]
            return try tables.flatMap { table in
                try reader.rows(TableQuery(), in: table).map { row in
                    let members = row.map { "\($0.0)=\($0.1)" }.sorted()
                    return table + " " + members.joined(separator: " ")
                }
                .sorted()
            }
        }
    }

    /// Everything that a server shows: the rows with their versions and tombstones.
    private func contents(_ server: InProcessServer) async throws -> String {
        let response = try await server.transport.send(
            TransportRequest(
                method: "GET",
                url: Device.endpoint.appending(path: "tables/Inspection")
                    .appending(queryItems: [
                        URLQueryItem(name: "__includedeleted", value: "true"),
                        URLQueryItem(name: "$orderby", value: "id"),
                    ]),
                headers: ["ZUMO-API-VERSION": "3.0.0"]
            )
        )
        return String(decoding: response.body, as: UTF8.self)
    }

    /// Two devices with rows `a` to `d`, of which the first one changed `b` and deleted `c`.
    private func scene(
        _ server: InProcessServer,
        store: any LocalStore = MemoryStore(),
        limits: SyncLimits = SyncLimits()
    ) async throws -> Device {
        let other = try await RuleScene.device(server.transport)
        let device = try await Device(
            server.transport,
            store: store,
            limits: limits,
            tables: [Inspection.self]
        )
        let theirs = try other.client.syncTable(Inspection.self)
        try await theirs.insert(["a", "b", "c", "d"].map { Inspection.valid($0) })
        #expect(try await other.push() == nil)
        try await device.client.syncTable(Inspection.self).pull(queryID: "all")
        try await theirs.update(id: "b") { $0.minutes = 11 }
        try await theirs.delete(id: "c")
        #expect(try await other.push() == nil)
        return device
    }

    private func change(_ device: Device) async throws {
        let visits = try device.client.syncTable(Inspection.self)
        try await visits.update(id: "a") { $0.minutes = 20 }
        try await visits.update(id: "b") { $0.minutes = 21 }
        try await visits.update(id: "c") { $0.minutes = 22 }
        try await visits.delete(id: "d")
        var same = Inspection.valid("e")
        same.number = "a"
        try await visits.insert(same)
        try await visits.insert(Inspection.valid("f"))
    }

    private func check(_ run: DryRun) throws {
        #expect(run.operations.map(\.itemID) == ["a", "b", "c", "d", "e", "f"])
        let outcomes = run.operations.map(\.outcome)
        #expect(outcomes[0] == .accepted && outcomes[3] == .accepted && outcomes[5] == .accepted)
        guard case .conflict(let server?) = outcomes[1] else {
            Issue.record("\(outcomes[1])")
            return
        }
        #expect(server["minutes"] == 11 && server.version != nil)
        #expect(outcomes[2] == .conflict(nil))
        guard case .rejected(let refusal) = outcomes[4] else {
            Issue.record("\(outcomes[4])")
            return
        }
        #expect(refusal.statusCode == 409 && refusal.brokenRule?.code == .notUnique)
        #expect(refusal.message == "Member 'number': another row has the same value.")
        #expect(run.operations[0].values == ["minutes": 20])
        #expect(run.operations[3].values == nil && run.operations[3].kind == .delete)
        #expect(!run.isAccepted)
    }

    @Test("each operation gets its outcome, and nothing changes on the device or the server")
    func outcomes() async throws {
        for store: any LocalStore in [MemoryStore(), try SQLiteStore(path: ":memory:")] {
            let server = try await RuleScene.server()
            let device = try await scene(server, store: store)
            try await change(device)
            let (before, rows) = (try await contents(device), try await contents(server))
            let events = device.context.events
            let run = try await device.context.dryRun()
            try check(run)
            #expect(run.batches == 1)
            #expect(try await contents(device) == before)
            #expect(try await contents(server) == rows)
            // The push meets what the dry run said.
            #expect(try await device.push()?.status == .operationErrors)
            #expect(
                try await device.context.operationErrors().map(\.itemID).sorted() == [
                    "b", "c", "e",
                ]
            )
            // The first event is that of the push.
            for await event in events {
                #expect(event.kind == .pushStarted)
                break
            }
        }
    }

    @Test("a queue of several batches is checked batch by batch")
    func batches() async throws {
        let server = try await RuleScene.server()
        var limits = SyncLimits()
        limits.batchRowsMax = 2
        let device = try await scene(server, limits: limits)
        try await change(device)
        let (before, rows) = (try await contents(device), try await contents(server))
        let run = try await device.context.dryRun()
        try check(run)
        #expect(run.batches == 3)
        #expect(try await contents(device) == before)
        #expect(try await contents(server) == rows)
    }

    @Test("a transaction stops as a whole, and operations that follow it wait")
    func transactions() async throws {
        let server = try await RuleScene.server()
        let device = try await scene(server)
        try await device.context.transaction { transaction in
            let visits = try transaction.table(Inspection.self)
            try visits.update(id: "a") { $0.minutes = 20 }
            try visits.update(id: "b") { $0.minutes = 21 }
        }
        try await device.context.transaction { transaction in
            try transaction.table(Inspection.self).update(id: "a") { $0.rank = 2 }
            try transaction.table(Inspection.self).update(id: "d") { $0.rank = 2 }
        }
        let before = try await contents(device)
        let run = try await device.context.dryRun()
        #expect(run.operations.map(\.itemID) == ["a", "b", "a", "d"])
        let outcomes = run.operations.map(\.outcome)
        #expect(outcomes[0] == .stoppedWithTransaction)
        guard case .conflict(.some) = outcomes[1] else {
            Issue.record("\(outcomes[1])")
            return
        }
        #expect(outcomes[2] == .waits && outcomes[3] == .waits)
        #expect(try await contents(device) == before)
    }

    @Test("an empty queue needs no request, and parked operations are named")
    func parked() async throws {
        let server = try await RuleScene.server()
        let device = try await scene(server)
        #expect(try await device.context.dryRun() == DryRun())
        var same = Inspection.valid("e")
        same.number = "a"
        try await device.client.syncTable(Inspection.self).insert(same)
        #expect(try await device.push()?.status == .operationErrors)
        let run = try await device.context.dryRun()
        #expect(run.operations.map(\.outcome) == [.parked] && run.batches == 0)
    }

    @Test("a server without dry runs gets nothing executed, and the error says so")
    func otherServers() async throws {
        let transport = ScriptedTransport(otherwise: .json(404, "{}"), takesBatches: true)
        let device = try await RuleScene.device(transport)
        try await device.client.syncTable(Inspection.self).insert(Inspection.valid())
        let before = try await contents(device)
        do {
            _ = try await device.context.dryRun()
            Issue.record("nothing was thrown")
        } catch let error as SyncError {
            #expect(error.message.hasPrefix("The server has no dry runs (404)"), "\(error)")
        }
        #expect(try await contents(device) == before)
    }
}
