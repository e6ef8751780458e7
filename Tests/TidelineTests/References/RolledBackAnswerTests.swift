// Transactions that the server rolls back: what its responses say about the rows of the transaction is not stored.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct RolledBackAnswerTests {
    /// A device that has the customers, the visits and the notes, but not the jobs between them.
    private func withoutJobs(
        _ scene: FieldScene,
        _ conflicts: ConflictPolicy = .fail
    ) async throws -> (Device, BatchTap) {
        let tap = BatchTap(scene.server.transport)
        let device = try await Device(tap, conflicts: conflicts, tables: Field.models)
        for table in ["Customer", "Visit", "Note"] {
            try await device.client.syncTable(named: table).pull(queryID: "all")
        }
        return (device, tap)
    }

    @Test("A delete that the server rolled back does not count as a deleted row")
    func deletedWithin() async throws {
        let scene = try await FieldScene()
        try await scene.fill()
        let all = try await scene.serverContents()
        let (device, _) = try await withoutJobs(scene)
        try await device.context.transaction { transaction in
            try transaction.table(Field.Customer.self).delete(id: "c")
            try transaction.table(Field.Visit.self).update(id: "v3") { $0.nextID = "v1" }
        }
        _ = try await device.push()
        #expect(try await scene.serverContents() == all)
        let errors = try await device.context.operationErrors()
        let error = try #require(errors.first { $0.itemID == "v3" })
        #expect(error.serverCopy != .deleted)
        #expect(error.message.contains("because a delete in the same transaction changes"))
        #expect(errors.filter(\.isConsequence).map(\.itemID) == ["n", "c"])
        for error in errors { try? await error.cancelOperationAndDiscardItem() }
        #expect(try await device.queue().isEmpty)
        try await scene.pull(device)
        #expect(try await scene.contents(device) == all)
    }

    @Test("A version that existed only within the transaction is not stored")
    func versionWithin() async throws {
        let scene = try await FieldScene()
        try await scene.fill()
        let customers = try scene.other.client.syncTable(Field.Customer.self)
        try await customers.insert(Field.Customer(id: "d"))
        let notes = try scene.other.client.syncTable(Field.Note.self)
        try await notes.update(id: "n") { $0.customerID = "d" }
        #expect(try await scene.other.push() == nil)
        let (device, tap) = try await withoutJobs(scene, .serverWins)
        try await notes.update(id: "n") { $0.customerID = "c" }
        #expect(try await scene.other.push() == nil)
        try await device.context.transaction { transaction in
            try transaction.table(Field.Customer.self).delete(id: "c")
            try transaction.table(Field.Note.self).update(id: "n") { $0.text = "Key is lost" }
        }
        // The delete is rejected when it is sent again.
        let other = scene.other
        tap.add(
            .deliver,
            .first {
                try await other.client.syncTable(Field.Invoice.self)
                    .insert(Field.Invoice(id: "i", jobID: "k"))
                _ = try await other.push()
            }
        )
        _ = try await device.push()
        let note = try #require(try await device.rows("Note").first)
        let truth = try await other.client.table(named: "Note").read(id: "n")
        #expect(note["customerID"] == "c")
        #expect(note["version"] == truth?["version"])
    }

    @Test("The deletes of a transaction are sent by their tables, children first")
    func orderOfTables() async throws {
        let scene = try await FieldScene()
        try await scene.fill()
        let (device, tap) = try await withoutJobs(scene)
        try await device.context.transaction { transaction in
            try transaction.table(Field.Customer.self).delete(id: "c")
            try transaction.table(Field.Visit.self).delete(id: "v1")
        }
        #expect(try await device.push() == nil)
        #expect(tap.bodies.count == 1)
        #expect(try await scene.serverContents() == ["Note n"])
    }

    @Test("A success is ignored if another operation of its transaction is rejected")
    func success() async throws {
        let scene = try await FieldScene()
        try await scene.device.context.transaction { transaction in
            try transaction.table(Field.Customer.self).insert(Field.Customer(id: "c", name: "Kiel"))
            try transaction.table(Field.Job.self).insert(Field.Job(id: "j", customerID: "gone"))
        }
        let answer = """
            {"responses":[{"id":"1","status":201,"body":{"id":"c","name":"Kiel","version":"v1",\
            "createdAt":"\(timestamp(1))","updatedAt":"\(timestamp(1))","deleted":false}},\
            {"id":"2","status":409,"body":{"title":"Conflict","status":409,"code":"parentNotFound",\
            "column":"customerID","table":"Customer"}}]}
            """
        scene.tap.add(.say(answer) {})
        _ = try await scene.device.push()
        let queue = try await scene.device.queue()
        #expect(queue == ["insert c attempted parked", "insert j attempted parked"])
        #expect(try await scene.device.rows("Customer").first?["version"]?.text == nil)
        let errors = try await scene.device.context.operationErrors()
        let error = try #require(errors.first { $0.brokenReference != nil })
        try await error.moveToParent("c")
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.serverContents() == ["Customer c", "Job j"])
    }
}
