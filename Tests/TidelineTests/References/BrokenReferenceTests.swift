// Operations that the server rejects because of a reference: what the app learns, and what it can do.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct BrokenReferenceTests {
    /// A device inserts job `x` of customer `c`, which another device has deleted.
    private func orphaned(
        pulls: Bool = false,
        change: (inout TableDefinition) -> Void = { _ in }
    ) async throws -> (FieldScene, TableOperationError) {
        let scene = try await FieldScene(change: change)
        try await scene.fill()
        try await scene.other.client.syncTable(Field.Customer.self).delete(id: "c")
        try await scene.other.client.syncTable(Field.Customer.self)
            .insert(Field.Customer(id: "d", name: "Lübeck"))
        #expect(try await scene.other.push() == nil)
        try await scene.device.client.syncTable(Field.Job.self)
            .insert(Field.Job(id: "x", title: "Pump", customerID: "c"))
        if pulls { try await scene.pull(scene.device) }
        _ = try await scene.device.push()
        let errors = try await scene.device.context.operationErrors()
        #expect(errors.count == 1)
        return (scene, try #require(errors.first))
    }

    @Test("A child of a deleted parent is parked with its values, even after a restart")
    func parked() async throws {
        let (scene, error) = try await orphaned()
        let expected = BrokenReference(
            reason: .parentNotFound,
            column: "customerID",
            table: "Customer"
        )
        #expect(error.brokenReference == expected)
        #expect(error.statusCode == 409)
        #expect(try error.item?.decode(Field.Job.self).title == "Pump")
        #expect(error.message.contains("'customerID' names a row of table 'Customer'"))
        #expect(error.canRetry)
        try await scene.pull(scene.device)
        #expect(try await scene.contents(scene.device) == ["Customer d", "Job x", "Note n"])
        #expect(try await scene.device.missingParents().map(\.ids) == [["x"]])
        let again = try await Device(scene.tap, store: scene.device.store, tables: Field.models)
        let stored = try await again.context.operationErrors()
        #expect(stored.map(\.brokenReference) == [expected])
        // It is not sent again without an action of the app.
        let sent = scene.tap.bodies.count + scene.tap.singles.count
        _ = try await again.push()
        #expect(scene.tap.bodies.count + scene.tap.singles.count == sent)
    }

    @Test(
        "An orphan's parent is restored from this device or from the server",
        arguments: [false, true]
    )
    func restored(afterPull: Bool) async throws {
        let (scene, error) = try await orphaned(pulls: afterPull)
        if afterPull { try await scene.pull(scene.device) }
        try await error.restoreParent()
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.serverContents() == ["Customer c d", "Job x", "Note n"])
        let customer = try await scene.other.client.table(Field.Customer.self).read(id: "c")
        #expect(customer?.name == "Kiel")
        try await scene.pull(scene.device)
        #expect(try await scene.device.missingParents().isEmpty)
        #expect(await code { try await error.restoreParent() } == .notFound)
    }

    @Test(
        "A parent that this device has edited is restored with the edit",
        arguments: [false, true]
    )
    func restoredEdit(isGiven: Bool) async throws {
        let scene = try await FieldScene()
        try await scene.fill()
        try await scene.other.client.syncTable(Field.Customer.self).delete(id: "c")
        #expect(try await scene.other.push() == nil)
        try await scene.device.client.syncTable(Field.Customer.self).update(id: "c") {
            $0.name = "Kiel-Ost"
        }
        try await scene.device.client.syncTable(Field.Job.self)
            .insert(Field.Job(id: "x", title: "Pump", customerID: "c"))
        _ = try await scene.device.push()
        let errors = try await scene.device.context.operationErrors()
        #expect(errors.map(\.itemID) == ["c", "x"])
        let error = try #require(errors.last)
        #expect(error.brokenReference?.reason == .parentNotFound)
        if isGiven {
            try await error.restoreParent(with: Field.Customer(id: "c", name: "New"))
        } else {
            try await error.restoreParent()
        }
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.device.context.operationErrors().isEmpty)
        let customer = try await scene.other.client.table(Field.Customer.self).read(id: "c")
        #expect(customer?.name == (isGiven ? "New" : "Kiel-Ost"))
        let job = try await scene.other.client.table(Field.Job.self).read(id: "x")
        #expect(job?.title == "Pump")
    }

    @Test("A parent whose values are not stored anywhere is not restored without values")
    func bare() async throws {
        let (scene, error) = try await orphaned(pulls: true) { table in
            if table.name == "Customer" { table.tombstones = .bare }
        }
        try await scene.pull(scene.device)
        let rejection = await #expect(throws: SyncError.self) { try await error.restoreParent() }
        #expect(rejection?.code == .notFound)
        #expect(rejection?.message.contains("Use restoreParent(with:)") == true)
        #expect(try await scene.device.context.operationErrors().map(\.itemID) == ["x"])
        try await error.restoreParent(with: Field.Customer(name: "New"))
        #expect(try await scene.device.push() == nil)
        let customer = try await scene.other.client.table(Field.Customer.self).read(id: "c")
        #expect(customer?.name == "New")
    }

    @Test(
        "A parent that exists on the server again is not inserted, and can be deleted later",
        arguments: [false, true]
    )
    func restoredElsewhere(pulls: Bool) async throws {
        let (scene, error) = try await orphaned()
        try await scene.other.client.syncTable(Field.Customer.self)
            .insert(Field.Customer(id: "c", name: "Flensburg"))
        #expect(try await scene.other.push() == nil)
        if pulls { try await scene.pull(scene.device) }
        try await error.restoreParent()
        #expect(try await scene.device.context.pendingOperations().map(\.itemID) == ["x"])
        guard pulls else {
            #expect(try await scene.device.push() == nil)
            let customer = try await scene.other.client.table(Field.Customer.self).read(id: "c")
            return #expect(customer?.name == "Flensburg")
        }
        try await scene.device.client.syncTable(Field.Customer.self).delete(id: "c")
        #expect(try await scene.device.push() == nil)
        let customers = try await scene.other.client.table(Field.Customer.self).read()
        #expect(customers.map(\.id) == ["d"])
    }

    @Test("A record of another table is not inserted as the parent")
    func wrongTable() async throws {
        let (scene, error) = try await orphaned()
        let rejection = await #expect(throws: SyncError.self) {
            try await error.restoreParent(with: Field.Note(text: "no customer"))
        }
        #expect(rejection?.code == .rowDoesNotFit)
        #expect(rejection?.message.contains("belongs to table 'Note'") == true)
        #expect(try await scene.device.context.operationErrors().map(\.itemID) == ["x"])
    }

    @Test("A parent that the row does not name cannot be restored")
    func unnamed() async throws {
        let scene = try await FieldScene()
        try await scene.fill()
        try await scene.device.client.syncTable(Field.Job.self)
            .insert(Field.Job(id: "x", title: "Pump", customerID: ""))
        _ = try await scene.device.push()
        let error = try #require(try await scene.device.context.operationErrors().first)
        #expect(error.brokenReference?.reason == .parentNotFound)
        let customers = try scene.device.client.syncTable(Field.Customer.self)
        let before = try await customers.count()
        for given in [Field.Customer(name: "New"), nil] {
            let rejection = await #expect(throws: SyncError.self) {
                if let given {
                    try await error.restoreParent(with: given)
                } else {
                    try await error.restoreParent()
                }
            }
            #expect(rejection?.message.contains("is not a valid id") == true)
        }
        #expect(try await customers.count() == before)
        try await error.moveToParent("c")
        #expect(try await scene.device.push() == nil)
    }

    @Test("An orphan's parent is inserted with the values that the app passes")
    func restoredWith() async throws {
        let (scene, error) = try await orphaned()
        try await error.restoreParent(with: Field.Customer(id: "other", name: "New"))
        #expect(try await scene.device.push() == nil)
        let customer = try await scene.other.client.table(Field.Customer.self).read(id: "c")
        #expect(customer?.name == "New")
    }

    @Test("An orphan is moved to another parent, or to none", arguments: ["d", nil])
    func moved(parent: String?) async throws {
        let (scene, error) = try await orphaned()
        try await error.moveToParent(parent)
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.serverContents() == ["Customer d", "Job x", "Note n"])
        let job = try await scene.other.client.table(Field.Job.self).read(id: "x")
        #expect(job?.customerID == parent)
        #expect(job?.title == "Pump")
    }

    private struct Shelf: SyncRecord {
        var id = ""
    }

    private struct Book: SyncRecord {
        static let references = [Reference(\Book.shelfID, to: Shelf.self)]
        var id = ""
        var shelfID = ""
    }

    @Test("The reference of an orphan cannot be cleared if it is not optional")
    func movedToNone() async throws {
        let models: [any SyncRecord.Type] = [Shelf.self, Book.self]
        let tables = try models.map { try RecordSchema.of($0).table }
        let server = try await InProcessServer(
            tables: tables.map {
                TableDefinition($0.name, columns: $0.columns, references: $0.references)
            }
        )
        let device = try await Device(server.transport, tables: models)
        try await device.client.syncTable(Book.self).insert(Book(id: "b", shelfID: "gone"))
        let error = try #require(try await device.push()?.errors.first)
        let rejection = try #require(
            await #expect(throws: SyncError.self) { try await error.moveToParent(nil) }
        )
        #expect(rejection.code == .rowDoesNotFit)
        #expect(rejection.message.contains("must have a parent"))
        try await device.client.syncTable(Shelf.self).insert(Shelf(id: "s"))
        try await error.moveToParent("s")
        #expect(try await device.push() == nil)
    }

    private struct Loan: SyncRecord {
        static let references = [Reference(\Loan.shelfID, to: Shelf.self)]
        static let rules: [Rule<Loan>] = [.required(\.shelfID)]
        var id = ""
        var shelfID: Shelf.ID?
    }

    @Test("The required reference of an orphan cannot be cleared, and its error remains")
    func requiredParent() async throws {
        let models: [any SyncRecord.Type] = [Shelf.self, Loan.self]
        let tables = try models.map { try RecordSchema.of($0).table }
        let server = try await InProcessServer(
            tables: tables.map {
                TableDefinition($0.name, columns: $0.columns, references: $0.references)
            }
        )
        let device = try await Device(server.transport, tables: models)
        try await device.client.syncTable(Loan.self).insert(Loan(id: "l", shelfID: "gone"))
        let error = try #require(try await device.push()?.errors.first)
        let rejection = try #require(
            await #expect(throws: SyncError.self) { try await error.moveToParent(nil) }
        )
        #expect(rejection.code == .ruleBroken && rejection.brokenRule?.code == .required)
        #expect(try await device.context.operationErrors().map(\.id) == [error.id])
        #expect(try await device.client.syncTable(Loan.self).read(id: "l")?.shelfID == "gone")
        try await device.client.syncTable(Shelf.self).insert(Shelf(id: "s"))
        try await error.moveToParent("s")
        #expect(try await device.push() == nil)
    }

    @Test("An orphan is discarded")
    func discarded() async throws {
        let (scene, error) = try await orphaned()
        try await error.cancelOperationAndDiscardItem()
        #expect(try await scene.device.push() == nil)
        try await scene.pull(scene.device)
        #expect(try await scene.contents(scene.device) == ["Customer d", "Note n"])
    }

    @Test("A row that moves to a deleted parent is parked, and can be discarded")
    func movedToMissing() async throws {
        let (scene, first) = try await orphaned()
        try await first.moveToParent("d")
        #expect(try await scene.device.push() == nil)
        try await scene.device.client.syncTable(Field.Job.self).update(id: "x") {
            $0.customerID = "none"
        }
        _ = try await scene.device.push()
        let error = try #require(try await scene.device.context.operationErrors().first)
        #expect(error.kind == .update)
        #expect(error.brokenReference?.reason == .parentNotFound)
        #expect(await code { try await error.restoreParent() } == .notFound)
        try await error.cancelOperationAndDiscardItem()
        let job = try await scene.device.client.syncTable(Field.Job.self).read(id: "x")
        #expect(job?.customerID == "d")
    }

    /// The device deletes customer `c` with all its rows; another device has written an invoice for one of its jobs.
    private func referenced() async throws -> FieldScene {
        let scene = try await FieldScene()
        try await scene.fill()
        try await scene.other.client.syncTable(Field.Invoice.self)
            .insert(Field.Invoice(id: "i", jobID: "j"))
        #expect(try await scene.other.push() == nil)
        try await scene.device.client.syncTable(Field.Customer.self).delete(id: "c")
        _ = try await scene.device.push()
        return scene
    }

    private static let all = [
        "Customer c", "Job j k", "Visit v1 v2 v3", "Invoice i", "Note n",
    ]

    @Test("A discarded delete of a parent restores its children, too")
    func discardedDelete() async throws {
        let scene = try await referenced()
        let errors = try await scene.device.context.operationErrors()
        #expect(errors.count == 7)
        let error = try #require(errors.first { $0.brokenReference != nil })
        #expect(error.brokenReference?.reason == .rowIsReferenced)
        #expect(error.brokenReference?.table == "Invoice")
        #expect(error.brokenReference?.column == "jobID")
        #expect(try await scene.serverContents() == Self.all)
        try await error.cancelOperationAndDiscardItem()
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.serverContents() == Self.all)
        try await scene.pull(scene.device)
        #expect(try await scene.contents(scene.device) == Self.all)
        let note = try await scene.device.client.syncTable(Field.Note.self).read(id: "n")
        #expect(note?.customerID == "c")
    }

    @Test("A rejected delete of a parent is sent again after the cause is gone")
    func retriedDelete() async throws {
        let scene = try await referenced()
        let errors = try await scene.device.context.operationErrors()
        let error = try #require(errors.first { $0.brokenReference != nil })
        try await scene.other.client.syncTable(Field.Invoice.self).delete(id: "i")
        #expect(try await scene.other.push() == nil)
        try await error.retry()
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.serverContents() == ["Note n"])
    }

    @Test(
        "A pending change of a row that the server deleted with its parent is a conflict"
    )
    func changedAndDeleted() async throws {
        let scene = try await FieldScene()
        try await scene.fill()
        try await scene.device.client.syncTable(Field.Job.self).update(id: "j") {
            $0.title = "Boiler, urgent"
        }
        try await scene.other.client.syncTable(Field.Customer.self).delete(id: "c")
        #expect(try await scene.other.push() == nil)
        _ = try await scene.device.push()
        try await scene.pull(scene.device)
        let error = try #require(try await scene.device.context.operationErrors().first)
        #expect(error.itemID == "j")
        #expect(error.serverCopy == .deleted)
        #expect(try error.item?.decode(Field.Job.self).title == "Boiler, urgent")
        #expect(try await scene.contents(scene.device) == ["Job j", "Note n"])
    }

    @Test("An error of a remote table has the reference that prevents the write")
    func remote() async throws {
        let scene = try await FieldScene()
        try await scene.fill()
        let jobs = scene.device.client.table(Field.Job.self)
        let orphan = Field.Job(id: "x", title: "Pump", customerID: "none")
        let missing = await #expect(throws: SyncError.self) { try await jobs.insert(orphan) }
        #expect(missing?.code == .conflict && missing?.statusCode == 409)
        #expect(missing?.serverItem == nil)
        #expect(
            missing?.brokenReference
                == BrokenReference(reason: .parentNotFound, column: "customerID", table: "Customer")
        )
        #expect(
            missing?.message == """
                The server rejected the request to table 'Job' (409): Member 'customerID' names a row of table \
                'Customer' that does not exist. Insert or restore that row first, or name another one.
                """
        )
        let invoice = Field.Invoice(id: "i", jobID: "k")
        try await scene.device.client.table(Field.Invoice.self).insert(invoice)
        let restricted = await #expect(throws: SyncError.self) { try await jobs.delete(id: "k") }
        #expect(restricted?.code == .rowIsReferenced && restricted?.statusCode == 409)
        #expect(
            restricted?.brokenReference
                == BrokenReference(reason: .rowIsReferenced, column: "jobID", table: "Invoice")
        )
    }
}
