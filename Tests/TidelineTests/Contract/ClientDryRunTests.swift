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
        guard case .rejected(let rejection) = outcomes[4] else {
            Issue.record("\(outcomes[4])")
            return
        }
        #expect(rejection.statusCode == 409 && rejection.brokenRule?.code == .notUnique)
        #expect(rejection.message == "Member 'number': another row has the same value.")
        #expect(run.operations[0].values == ["minutes": 20])
        #expect(run.operations[3].values == nil && run.operations[3].kind == .delete)
        #expect(!run.isAccepted)
    }

    @Test("Each operation gets its outcome, and nothing changes on the device or the server")
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

    @Test("A queue of several batches is checked batch by batch")
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

    @Test("A transaction with a conflict is not executed, and operations that follow it wait")
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
        #expect(outcomes[0] == .notExecuted)
        guard case .conflict(.some) = outcomes[1] else {
            Issue.record("\(outcomes[1])")
            return
        }
        #expect(outcomes[2] == .waiting && outcomes[3] == .waiting)
        #expect(try await contents(device) == before)
    }

    /// The tables of `Field` in an app that does not declare their references.
    private enum Loose {
        struct Customer: SyncRecord {
            var id = ""
            var name = ""
        }

        struct Job: SyncRecord {
            var id = ""
            var title = ""
            var customerID: String?
        }

        struct Invoice: SyncRecord {
            var id = ""
            var jobID: String?
        }

        static let models: [any SyncRecord.Type] = [Customer.self, Job.self, Invoice.self]
    }

    private func small() -> SyncLimits {
        var limits = SyncLimits()
        limits.batchRowsMax = 2
        return limits
    }

    @Test("A rejection names the reference that it would break, in the server's words")
    func references() async throws {
        let server = try await InProcessServer(tables: Field.tables())
        let device = try await Device(server.transport, tables: Loose.models)
        let customers = try device.client.syncTable(Loose.Customer.self)
        let jobs = try device.client.syncTable(Loose.Job.self)
        let invoices = try device.client.syncTable(Loose.Invoice.self)
        try await jobs.insert(Loose.Job(id: "j"))
        try await invoices.insert(Loose.Invoice(id: "i", jobID: "j"))
        #expect(try await device.push() == nil)
        try await jobs.delete(id: "j")
        try await customers.insert(Loose.Customer(id: "c"))
        let run = try await device.context.dryRun()
        #expect(run.batches == 1 && run.operations.count == 2)
        guard case .rejected(let rejection) = run.operations[0].outcome else {
            Issue.record("\(run.operations[0].outcome)")
            return
        }
        #expect(rejection.statusCode == 409 && rejection.brokenRule == nil)
        #expect(
            rejection.brokenReference
                == BrokenReference(reason: .rowIsReferenced, column: "jobID", table: "Invoice")
        )
        #expect(!rejection.message.isEmpty)
        try await jobs.insert(Loose.Job(id: "k", customerID: "nobody"))
        let second = try await device.context.dryRun()
        guard case .rejected(let missing) = second.operations[2].outcome else {
            Issue.record("\(second.operations[2].outcome)")
            return
        }
        #expect(
            missing.brokenReference
                == BrokenReference(reason: .parentNotFound, column: "customerID", table: "Customer")
        )
        // The push meets what the dry run said.
        #expect(try await device.push()?.status == .operationErrors)
        let errors = try await device.context.operationErrors()
        #expect(errors.map(\.brokenReference) == [rejection, missing].map(\.brokenReference))
    }

    @Test(
        "An operation whose parent is inserted by an earlier batch waits, and the push accepts it",
        arguments: [true, false]
    )
    func parentInEarlierBatch(declares: Bool) async throws {
        let server = try await InProcessServer(tables: Field.tables())
        let models = declares ? Field.models : Loose.models
        let device = try await Device(server.transport, limits: small(), tables: models)
        let tables = ["Customer", "Job", "Invoice"]
        let rows: [(String, Row)] = [
            ("Customer", ["id": "c", "name": "Kiel"]), ("Customer", ["id": "d", "name": "Ulm"]),
            ("Job", ["id": "j", "title": "Boiler", "customerID": "c"]),
            ("Job", ["id": "k", "title": "Valve"]),
            ("Job", ["id": "l", "title": "Pump", "customerID": "gone"]),
        ]
        for (table, row) in rows {
            try await device.client.syncTable(named: table).insert(row)
        }
        let before = try await store(device, tables)
        let run = try await device.context.dryRun()
        #expect(run.operations.map(\.itemID) == ["c", "d", "j", "k", "l"])
        #expect(
            run.operations.prefix(4).map(\.outcome) == [.accepted, .accepted, .waiting, .accepted]
        )
        guard case .rejected(let rejection) = run.operations[4].outcome else {
            Issue.record("\(run.operations[4].outcome)")
            return
        }
        #expect(rejection.brokenReference?.reason == .parentNotFound)
        #expect(run.batches >= 2)
        #expect(try await store(device, tables) == before)
        for table in tables {
            let remote = SyncClient(endpoint: Device.endpoint, transport: server.transport)
            #expect(try await remote.table(named: table).read().isEmpty)
        }
        #expect(try await device.push()?.status == .operationErrors)
        #expect(try await device.context.operationErrors().map(\.itemID) == ["l"])
    }

    @Test("A child whose parent is rejected in the same batch waits, as in a push")
    func rejectedParent() async throws {
        var tables = try Field.tables()
        for place in tables.indices where tables[place].name == "Customer" {
            tables[place].schema.rules.unique = [["name"]]
        }
        let server = try await InProcessServer(tables: tables)
        let device = try await Device(server.transport, tables: Field.models)
        let customers = try device.client.syncTable(Field.Customer.self)
        try await customers.insert(Field.Customer(id: "c", name: "Kiel"))
        #expect(try await device.push() == nil)
        try await customers.insert(Field.Customer(id: "d", name: "Kiel"))
        try await device.client.syncTable(Field.Job.self)
            .insert(Field.Job(id: "j", title: "Boiler", customerID: "d"))
        let run = try await device.context.dryRun()
        #expect(run.operations.map(\.itemID) == ["d", "j"])
        guard case .rejected(let rejection) = run.operations[0].outcome else {
            Issue.record("\(run.operations[0].outcome)")
            return
        }
        #expect(rejection.brokenRule?.code == .notUnique)
        #expect(run.operations[1].outcome == .waiting)
        _ = try await device.push()
        #expect(try await device.context.operationErrors().map(\.itemID) == ["d"])
    }

    @Test("The delete of a row waits for the delete of rows that refer to it in an earlier batch")
    func childInEarlierBatch() async throws {
        let server = try await InProcessServer(tables: Field.tables())
        let device = try await Device(server.transport, limits: small(), tables: Loose.models)
        let customers = try device.client.syncTable(Loose.Customer.self)
        let jobs = try device.client.syncTable(Loose.Job.self)
        let invoices = try device.client.syncTable(Loose.Invoice.self)
        for id in ["j", "k", "l"] {
            try await jobs.insert(Loose.Job(id: id))
            try await invoices.insert(Loose.Invoice(id: "i" + id, jobID: id))
        }
        #expect(try await device.push() == nil)
        for type in Loose.models {
            try await device.client.syncTable(named: type.tableName).pull(queryID: "all")
        }
        try await invoices.delete(id: "ij")
        try await invoices.update(id: "ik") { $0.jobID = nil }
        try await customers.insert(Loose.Customer(id: "c"))
        for id in ["j", "k", "l"] { try await jobs.delete(id: id) }
        let run = try await device.context.dryRun()
        #expect(run.operations.map(\.itemID) == ["ij", "ik", "c", "j", "k", "l"])
        #expect(
            run.operations.prefix(5).map(\.outcome)
                == [.accepted, .accepted, .accepted, .waiting, .waiting]
        )
        guard case .rejected(let rejection) = run.operations[5].outcome else {
            Issue.record("\(run.operations[5].outcome)")
            return
        }
        #expect(rejection.brokenReference?.reason == .rowIsReferenced)
        #expect(try await device.push()?.status == .operationErrors)
        #expect(try await device.context.operationErrors().map(\.itemID) == ["l"])
    }

    /// The rows of some tables and everything else in the store, as text.
    private func store(_ device: Device, _ tables: [String]) async throws -> [String] {
        try await device.store.read { reader in
            let system = [
                "MS_TableOperations", "MS_TableOperationErrors", "MS_TableConfig",
                "MS_TableLostRows", "MS_TableOwnStates",
            ]
            return try (tables + system).flatMap { table in
                try reader.rows(TableQuery(), in: table)
                    .map { row in
                        table + " "
                            + row.map { "\($0.0)=\($0.1)" }.sorted().joined(separator: " ")
                    }
                    .sorted()
            }
        }
    }

    @Test("A long queue is read in parts up to the limit, and the result says if rows are left")
    func limit() async throws {
        for store: any LocalStore in [MemoryStore(), try SQLiteStore(path: ":memory:")] {
            let server = try await RuleScene.server()
            var limits = SyncLimits()
            limits.batchRowsMax = 4
            limits.dryRunRowsMax = 10
            let device = try await scene(server, store: store, limits: limits)
            let visits = try device.client.syncTable(Inspection.self)
            let ids = (0..<10).map { "n\($0)" }
            for id in ids { try await visits.insert(Inspection.valid(id)) }
            let whole = try await device.context.dryRun()
            #expect(whole.isComplete && whole.isAccepted && whole.batches == 3)
            #expect(whole.operations.map(\.itemID) == ids)
            try await visits.insert(Inspection.valid("n10"))
            let before = try await contents(device)
            let part = try await device.context.dryRun()
            #expect(!part.isComplete && !part.isAccepted && part.batches == 3)
            #expect(part.operations == whole.operations)
            #expect(try await contents(device) == before)
        }
    }

    @Test("A dry run ends with the batch that exceeds the limit of its bytes")
    func bytes() async throws {
        let server = try await RuleScene.server()
        var limits = SyncLimits()
        limits.batchRowsMax = 2
        limits.dryRunBytesMax = 1
        let device = try await scene(server, limits: limits)
        let visits = try device.client.syncTable(Inspection.self)
        for id in ["l", "m", "n"] { try await visits.insert(Inspection.valid(id)) }
        let run = try await device.context.dryRun()
        #expect(run.operations.map(\.itemID) == ["l", "m"] && !run.isComplete)
    }

    @Test("Local changes can be made between the parts of a dry run")
    func concurrent() async throws {
        let server = try await RuleScene.server()
        var limits = SyncLimits()
        limits.batchRowsMax = 1
        let tap = BatchTap(server.transport)
        let device = try await Device(tap, limits: limits, tables: [Inspection.self])
        let visits = try device.client.syncTable(Inspection.self)
        for id in ["l", "m"] { try await visits.insert(Inspection.valid(id)) }
        tap.add(.first { _ = try await visits.insert(Inspection.valid("n")) })
        let run = try await device.context.dryRun()
        // The insert did not wait for the end of the dry run, which has met it as well.
        #expect(run.operations.map(\.itemID) == ["l", "m", "n"])
        #expect(run.isAccepted && run.batches == 3)
        #expect(try await device.queue() == ["insert l", "insert m", "insert n"])
    }

    @Test("A transaction whose operations are in several parts is checked as a whole")
    func spreadTransaction() async throws {
        let server = try await RuleScene.server()
        var limits = SyncLimits()
        limits.batchRowsMax = 2
        let device = try await scene(server, limits: limits)
        try await device.context.transaction { transaction in
            let visits = try transaction.table(Inspection.self)
            for id in ["l", "m", "n"] { try visits.insert(Inspection.valid(id)) }
            try visits.update(id: "b") { $0.minutes = 21 }
            try visits.insert(Inspection.valid("o"))
        }
        try await device.client.syncTable(Inspection.self).update(id: "a") { $0.minutes = 20 }
        let run = try await device.context.dryRun()
        #expect(run.operations.map(\.itemID) == ["l", "m", "n", "b", "o", "a"])
        let outcomes = run.operations.map(\.outcome)
        guard case .conflict(.some) = outcomes[3] else {
            Issue.record("\(outcomes[3])")
            return
        }
        for place in [0, 1, 2, 4] { #expect(outcomes[place] == .notExecuted) }
        #expect(outcomes[5] == .accepted && run.operations[5].values == ["minutes": 20])
        #expect(run.batches == 2 && run.isComplete)
    }

    @Test("A dry run of an empty queue sends no request, and parked operations are reported")
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

    @Test("A server without dry runs executes nothing, and the error says so")
    func otherServers() async throws {
        let transport = ScriptedTransport(otherwise: .json(404, "{}"), takesBatches: true)
        let device = try await RuleScene.device(transport)
        try await device.client.syncTable(Inspection.self).insert(Inspection.valid())
        let before = try await contents(device)
        do {
            _ = try await device.context.dryRun()
            Issue.record("nothing was thrown")
        } catch let error as SyncError {
            #expect(
                error.message.hasPrefix("The server does not support dry runs (404)"),
                "\(error)"
            )
        }
        #expect(try await contents(device) == before)
    }
}
