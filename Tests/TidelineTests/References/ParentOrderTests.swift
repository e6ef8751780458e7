// The order of a push: operations on a row after the insert of its parent, wherever the two are in the queue.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct ParentOrderTests {
    @Test("A row in the queue that gets a new parent is sent after it")
    func movedInQueue() async throws {
        let scene = try await FieldScene()
        try await scene.fill()
        let jobs = try scene.device.client.syncTable(Field.Job.self)
        try await jobs.insert(Field.Job(id: "x", title: "Pump", customerID: "c"))
        try await scene.device.client.syncTable(Field.Visit.self)
            .insert(Field.Visit(id: "w", jobID: "x"))
        try await scene.device.client.syncTable(Field.Customer.self)
            .insert(Field.Customer(id: "d"))
        try await jobs.update(id: "x") { $0.customerID = "d" }
        #expect(try await scene.device.queue() == ["insert x", "insert w", "insert d"])
        #expect(try await scene.device.push() == nil)
        let contents = try await scene.serverContents()
        #expect(contents.prefix(3) == ["Customer c d", "Job j k x", "Visit v1 v2 v3 w"])
    }

    @Test("A row that moves to a new parent is not deleted with its old parent")
    func leavesDeleted() async throws {
        let scene = try await FieldScene()
        try await scene.fill()
        let jobs = try scene.device.client.syncTable(Field.Job.self)
        let customers = try scene.device.client.syncTable(Field.Customer.self)
        try await jobs.update(id: "k") { $0.title = "Valve, leaking" }
        try await customers.insert(Field.Customer(id: "d"))
        try await jobs.update(id: "k") { $0.customerID = "d" }
        try await customers.delete(id: "c")
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.serverContents() == ["Customer d", "Job k", "Note n"])
        try await scene.pull(scene.other)
        #expect(try await scene.other.missingParents().isEmpty)
    }

    @Test("A transaction that inserts a child before its parent is accepted")
    func withinTransaction() async throws {
        let scene = try await FieldScene()
        try await scene.device.context.transaction { transaction in
            try transaction.table(Field.Visit.self).insert(Field.Visit(id: "v", jobID: "j"))
            try transaction.table(Field.Job.self).insert(Field.Job(id: "j", customerID: "c"))
            try transaction.table(Field.Customer.self).insert(Field.Customer(id: "c"))
        }
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.serverContents() == ["Customer c", "Job j", "Visit v"])
    }

    /// A network that loses all writes while `losesWrites` is true.
    private final class LossyNetwork: Transport {
        let inner: any Transport
        let losesWrites = Mutex(false)

        init(_ inner: any Transport) { self.inner = inner }

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            if request.method != "GET", losesWrites.withLock({ $0 }) {
                throw TransportError(.connectionLost, "lost", outcomeIsUnknown: true)
            }
            return try await inner.send(request)
        }
    }

    @Test("A parent that was deleted and inserted again is not inserted before its delete is sent")
    func deletedParent() async throws {
        let server = try await InProcessServer(tables: Field.tables())
        let network = LossyNetwork(server.transport)
        let device = try await Device(network, conflicts: .clientWins, tables: Field.models)
        let jobs = try device.client.syncTable(Field.Job.self)
        let visits = try device.client.syncTable(Field.Visit.self)
        try await jobs.insert(Field.Job(id: "k", title: "first"))
        #expect(try await device.push() == nil)
        // The visit waits for a parent that is parked.
        try await jobs.insert(Field.Job(id: "j", customerID: "gone"))
        try await visits.insert(Field.Visit(id: "v", jobID: "j"))
        #expect(try await device.push()?.status == .operationErrors)
        try await jobs.delete(id: "k")
        network.losesWrites.withLock { $0 = true }
        #expect(try await device.push()?.status == .networkFailure)
        network.losesWrites.withLock { $0 = false }
        try await jobs.insert(Field.Job(id: "k", title: "again"))
        try await visits.update(id: "v") { $0.jobID = "k" }
        #expect(try await device.push()?.status == .operationErrors)
        let other = try await Device(server.transport, tables: Field.models)
        #expect(try await other.client.table(Field.Job.self).read(id: "k")?.title == "again")
        #expect(try await other.client.table(Field.Visit.self).read(id: "v")?.jobID == "k")
        #expect(try await jobs.read(id: "k")?.title == "again")
    }

    @Test("A chain of rows that was inserted with the children first is sent in one batch")
    func chain() async throws {
        let scene = try await FieldScene()
        let visits = try scene.device.client.syncTable(Field.Visit.self)
        let ids = (100..<160).map { "v\($0)" }
        for (place, id) in ids.enumerated() {
            let next = place + 1 < ids.count ? ids[place + 1] : nil
            try await visits.insert(Field.Visit(id: id, nextID: next))
        }
        #expect(try await scene.device.push() == nil)
        #expect(scene.tap.bodies.count == 1 && scene.tap.singles.isEmpty)
        let sent = ids.joined(separator: " ")
        #expect(try await scene.serverContents() == ["Visit \(sent)"])
    }

    @Test("Many inserts that refer to each other in a ring are sent together")
    func ring() async throws {
        let scene = try await FieldScene()
        let visits = try scene.device.client.syncTable(Field.Visit.self)
        let ids = (100..<300).map { "v\($0)" }
        for (place, id) in ids.enumerated() {
            try await visits.insert(Field.Visit(id: id, nextID: ids[(place + 1) % ids.count]))
        }
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.device.queue() == [])
        #expect(scene.tap.bodies.count == 1 && scene.tap.singles.isEmpty)
    }

    @Test(
        "A parent is not inserted before the change that frees its unique value",
        arguments: [OperationKind.update, .delete]
    )
    func uniqueValueOfParent(kind: OperationKind) async throws {
        let server = try await InProcessServer(tables: Field.tables())
        let device = try await Device(server.transport, tables: Field.models)
        let jobs = try device.client.syncTable(Field.Job.self)
        let visits = try device.client.syncTable(Field.Visit.self)
        var first = Field.Job(id: "x")
        first.number = "J-1"
        try await jobs.insert(first)
        try await visits.insert(Field.Visit(id: "v"))
        #expect(try await device.push() == nil)

        try await visits.update(id: "v") { $0.nextID = "v" }
        if kind == .delete {
            try await jobs.delete(id: "x")
        } else {
            try await jobs.update(id: "x") { $0.number = "J-2" }
        }
        var second = Field.Job(id: "p")
        second.number = "J-1"
        try await jobs.insert(second)
        try await visits.update(id: "v") { $0.jobID = "p" }
        #expect(try await device.queue() == ["update v", "\(kind) x", "insert p"])
        #expect(try await device.push() == nil)
        #expect(try await device.queue() == [])
        let there = try await device.client.table(Field.Job.self).read(id: "p")
        #expect(there?.number == "J-1")
    }

    @Test(
        "A child waits for its rejected parent, and is sent when the app resolves the error"
    )
    func waitsForRejected() async throws {
        let scene = try await FieldScene()
        try await scene.device.client.syncTable(Field.Job.self)
            .insert(Field.Job(id: "j", customerID: "gone"))
        try await scene.device.client.syncTable(Field.Visit.self)
            .insert(Field.Visit(id: "v", jobID: "j"))
        try await scene.device.context.transaction { transaction in
            try transaction.table(Field.Invoice.self).insert(Field.Invoice(id: "i", jobID: "j"))
            try transaction.table(Field.Note.self).insert(Field.Note(id: "n"))
        }
        try await scene.device.client.syncTable(Field.Customer.self)
            .insert(Field.Customer(id: "c"))
        let error = try #require(try await scene.device.push()?.errors.first)
        #expect(try await scene.device.context.operationErrors().map(\.itemID) == ["j"])
        #expect(try await scene.serverContents() == ["Customer c"])
        let sent = scene.tap.bodies.count + scene.tap.singles.count
        #expect(try await scene.device.push()?.errors.count == 1)
        #expect(scene.tap.bodies.count + scene.tap.singles.count == sent)
        try await error.moveToParent("c")
        #expect(try await scene.device.push() == nil)
        #expect(
            try await scene.serverContents() == [
                "Customer c", "Job j", "Visit v", "Invoice i", "Note n",
            ]
        )
    }

    @Test("Transactions that insert parents of each other's rows are sent together")
    func withEachOther() async throws {
        let scene = try await FieldScene()
        let context = scene.device.context
        try await context.transaction { transaction in
            try transaction.table(Field.Visit.self).insert(Field.Visit(id: "v"))
            try transaction.table(Field.Job.self).insert(Field.Job(id: "j"))
        }
        try await context.transaction { transaction in
            try transaction.table(Field.Invoice.self).insert(Field.Invoice(id: "i", jobID: "j"))
            try transaction.table(Field.Customer.self).insert(Field.Customer(id: "c"))
        }
        try await scene.device.client.syncTable(Field.Job.self)
            .insert(Field.Job(id: "k", customerID: "c"))
        // The first transaction now needs the last job, which needs the second one, which needs the first one.
        try await scene.device.client.syncTable(Field.Visit.self).update(id: "v") { $0.jobID = "k" }
        #expect(try await scene.device.push() == nil)
        let contents = try await scene.serverContents()
        #expect(contents == ["Customer c", "Job j k", "Visit v", "Invoice i"])
        #expect(Set(scene.tap.groups.first ?? []).count == 1)
    }

    @Test("Inserts that refer to each other are accepted")
    func cycle() async throws {
        let scene = try await FieldScene()
        let visits = try scene.device.client.syncTable(Field.Visit.self)
        try await visits.insert(Field.Visit(id: "a", nextID: "b"))
        try await visits.insert(Field.Visit(id: "b", nextID: "a"))
        try await visits.insert(Field.Visit(id: "own", nextID: "own"))
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.device.context.operationErrors().isEmpty)
        try await visits.update(id: "a") { $0.nextID = "own" }
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.serverContents() == ["Visit a b own"])
    }
}
