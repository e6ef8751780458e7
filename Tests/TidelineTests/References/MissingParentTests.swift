// Records whose parents are not on the device: stored, returned by queries, and found.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct MissingParentTests {
    @Test("A child without its parent is stored, and reported until the parent arrives")
    func orphans() async throws {
        let scene = try await FieldScene()
        try await scene.fill()
        let late = try await Device(scene.server.transport, tables: Field.models)
        try await late.client.syncTable(Field.Job.self).pull(queryID: "all")
        let jobs = try late.client.syncTable(Field.Job.self)
        try await jobs.insert(Field.Job(id: "own", customerID: "c"))
        try await jobs.insert(Field.Job(id: "free"))
        #expect(try await jobs.read(where: { $0.customerID == "c" }).count == 3)
        let missing = try await late.missingParents()
        #expect(missing.map(\.table) == ["Job"])
        #expect(missing.first?.column == "customerID")
        #expect(missing.first?.parentTable == "Customer")
        #expect(missing.first?.count == 3)
        #expect(missing.first?.ids == ["j", "k", "own"])
        try await late.client.syncTable(Field.Customer.self).pull(queryID: "all")
        #expect(try await late.missingParents().isEmpty)
        #expect(try await late.push() == nil)
    }

    @Test("All orphans are counted, and the first thousand IDs are reported")
    func many() async throws {
        try await withTemporaryFile { path in
            let scene = try await FieldScene(store: try SQLiteStore(path: path))
            let jobs = try scene.device.client.syncTable(Field.Job.self)
            try await scene.device.client.syncTable(Field.Customer.self)
                .insert(Field.Customer(id: "c1"))
            let rows = (0..<1600).map { Field.Job(id: "j\(10_000 + $0)", customerID: "c\($0 % 4)") }
            try await jobs.insert(rows)
            let missing = try #require(try await scene.device.missingParents().first)
            #expect(missing.count == 1200)
            #expect(missing.ids.count == 1000)
            #expect(missing.ids.prefix(3) == ["j10000", "j10002", "j10003"])
        }
    }

    @Test("Tables of parents are pulled before the tables of their children", arguments: [1, 3])
    func pullOrder(parallelPulls: Int) async throws {
        let transport = ScriptedTransport(otherwise: page([]))
        var limits = SyncLimits()
        limits.parallelPulls = parallelPulls
        // The deadline of the sync never comes.
        var environment = Waits().environment
        environment.sleep = { _ in
            for await _ in AsyncStream<Never>.makeStream().stream {}
            throw CancellationError()
        }
        let device = try await Device(
            transport,
            limits: limits,
            tables: Field.models.reversed(),
            environment: environment
        )
        try await device.client.syncOnce(deadline: .seconds(600))
        var tables: [String] = []
        for request in transport.sent {
            let path = request.target.split(separator: "?")[0]
            let table = String(path.split(separator: "/").last ?? "")
            if tables.last != table { tables.append(table) }
        }
        if parallelPulls == 1 {
            #expect(tables == ["Customer", "Job", "Invoice", "Note", "Visit"])
        }
        for (parent, child) in [("Customer", "Job"), ("Job", "Invoice"), ("Job", "Visit")] {
            let lastOfParent = try #require(tables.lastIndex(of: parent))
            let firstOfChild = try #require(tables.firstIndex(of: child))
            #expect(lastOfParent < firstOfChild, "\(tables)")
        }
    }
}
