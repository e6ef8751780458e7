// Local deletes of rows that other rows refer to: restricted, with their children, or with null instead of them.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct LocalDeleteTests {
    @Test(
        "A delete of a parent deletes its children first, in one group, and clears references"
    )
    func cascade() async throws {
        let scene = try await FieldScene()
        try await scene.fill()
        try await scene.device.client.syncTable(Field.Customer.self).delete(id: "c")
        #expect(try await scene.contents(scene.device) == ["Note n"])
        let note = try await scene.device.client.syncTable(Field.Note.self).read(id: "n")
        #expect(note?.customerID == nil)
        let operations = try await scene.device.context.pendingOperations()
        #expect(
            operations.map { "\($0.kind) \($0.itemID)" } == [
                "update n", "delete v1", "delete v2", "delete v3", "delete k", "delete j",
                "delete c",
            ]
        )
        #expect(Set(operations.map(\.groupID)).count == 1)
        #expect(operations[0].groupID != nil)
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.serverContents() == ["Note n"])
        try await scene.pull(scene.other)
        #expect(try await scene.contents(scene.other) == ["Note n"])
        #expect(try await scene.other.missingParents().isEmpty)
    }

    @Test("A reference with the rule restrict on any level prevents the delete of a row")
    func restrict() async throws {
        let scene = try await FieldScene()
        try await scene.fill()
        try await scene.device.client.syncTable(Field.Invoice.self)
            .insert(Field.Invoice(id: "i", jobID: "j"))
        let before = try await scene.contents(scene.device)
        let error = await #expect(throws: SyncError.self) {
            try await scene.device.client.syncTable(Field.Customer.self).delete(id: "c")
        }
        #expect(error?.code == .rowIsReferenced)
        #expect(error?.message.contains("'Invoice'") == true)
        #expect(error?.message.contains("'jobID'") == true)
        #expect(
            error?.brokenReference
                == BrokenReference(reason: .rowIsReferenced, column: "jobID", table: "Invoice")
        )
        #expect(try await scene.contents(scene.device) == before)
        #expect(try await scene.device.queue() == ["insert i"])
        // A transaction that catches the error keeps its other changes.
        try await scene.device.context.transaction { transaction in
            let jobs = try transaction.table(Field.Job.self)
            #expect(throws: SyncError.self) { try jobs.delete(id: "j") }
            try jobs.delete(where: { $0.id == "k" })
        }
        #expect(try await scene.device.queue() == ["insert i", "delete k"])
        // After the invoice, the customer can be deleted.
        try await scene.device.context.transaction { transaction in
            try transaction.table(Field.Invoice.self).delete(id: "i")
            try transaction.table(Field.Customer.self).delete(Field.Customer(id: "c"))
        }
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.serverContents() == ["Note n"])
    }

    @Test("Children that were never sent are removed from the queue with their parent")
    func unsent() async throws {
        let scene = try await FieldScene()
        try await scene.device.client.syncTable(Field.Customer.self)
            .insert(Field.Customer(id: "c"))
        try await scene.device.client.syncTable(Field.Job.self)
            .insert(Field.Job(id: "j", customerID: "c"))
        try await scene.device.client.syncTable(Field.Customer.self).delete(id: "c")
        #expect(try await scene.device.queue().isEmpty)
        #expect(try await scene.contents(scene.device).isEmpty)
    }

    @Test(
        "A parent that was changed before its children is deleted after them",
        arguments: StoreKind.allCases
    )
    func changedBefore(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let scene = try await FieldScene(store: try await kind.stores(in: path)("one"))
            try await scene.fill()
            try await scene.device.client.syncTable(Field.Customer.self).update(id: "c") {
                $0.name = "Lübeck"
            }
            try await scene.device.client.syncTable(Field.Customer.self).delete(id: "c")
            #expect(try await scene.device.queue().last == "delete c")
            #expect(try await scene.device.push() == nil)
            #expect(try await scene.serverContents() == ["Note n"])
        }
    }

    @Test("Rows that refer to each other in a cycle are deleted together")
    func cycle() async throws {
        let scene = try await FieldScene()
        try await scene.device.context.transaction { transaction in
            let nodes = try transaction.table(named: "Visit")
            try nodes.insert(["id": "a", "nextID": "b"])
            try nodes.insert(["id": "b", "nextID": "a"])
            try nodes.insert(["id": "c", "nextID": "c"])
        }
        let visits = try scene.device.client.syncTable(Field.Visit.self)
        try await visits.delete(id: "a")
        #expect(try await visits.read(id: "b")?.nextID == nil)
        try await visits.delete(id: "c")
        #expect(try await scene.contents(scene.device) == ["Visit b"])
    }

    @Test("A delete of more rows than the limit changes nothing, and the error names the limit")
    func limit() async throws {
        var limits = SyncLimits()
        limits.cascadeRowsMax = 5
        let scene = try await FieldScene(limits: limits)
        try await scene.fill()
        let error = await #expect(throws: SyncError.self) {
            try await scene.device.client.syncTable(Field.Customer.self).delete(id: "c")
        }
        #expect(error?.code == .transactionTooLarge)
        #expect(error?.message.contains("SyncLimits.cascadeRowsMax") == true)
        #expect(try await scene.device.queue().isEmpty)
        try await scene.device.client.syncTable(Field.Job.self).delete(id: "j")
        #expect(try await scene.device.queue().count == 4)
    }

    @Test(
        "A delete with too many rows for one group sends children before their parents, and loses nothing",
        arguments: [BatchTap.Fate.deliver, .dropRequest, .dropAnswer]
    )
    func withoutGroup(fate: BatchTap.Fate) async throws {
        var limits = SyncLimits()
        // As many rows as refer to the customer.
        limits.transactionRowsMax = 7
        limits.batchRowsFirst = 3
        limits.batchRowsMax = 3
        let scene = try await FieldScene(limits: limits)
        try await scene.fill()
        try await scene.device.client.syncTable(Field.Job.self)
            .insert(Field.Job(id: "l", customerID: "c"))
        #expect(try await scene.device.push() == nil)
        let batches = scene.tap.bodies.count
        scene.tap.add(fate)
        try await scene.device.client.syncTable(Field.Customer.self).delete(id: "c")
        let operations = try await scene.device.context.pendingOperations()
        #expect(operations.count == 8)
        #expect(operations.allSatisfy { $0.groupID == nil })
        let queued = operations.map(\.itemID)
        for (child, parent) in [
            ("v1", "j"), ("v2", "j"), ("v3", "j"), ("j", "c"), ("k", "c"), ("l", "c"),
        ] {
            let place = try #require(queued.firstIndex(of: child))
            #expect(queued[place...].contains(parent), "\(queued)")
        }
        #expect(try await scene.device.push() == nil)
        if case .deliver = fate {
            #expect(itemIDs(scene.tap.bodies.dropFirst(batches)) == queued)
        }
        #expect(try await scene.device.queue().isEmpty)
        #expect(try await scene.contents(scene.device) == ["Note n"])
        #expect(try await scene.serverContents() == ["Note n"])
        try await scene.pull(scene.other)
        #expect(try await scene.contents(scene.other) == ["Note n"])
        let note = try await scene.other.client.syncTable(Field.Note.self).read(id: "n")
        #expect(note?.text == "Key at the neighbors" && note?.customerID == nil)
    }

    @Test("The group of a delete leaves out rejected operations of other rows if it is too large")
    func withRejectedOperations() async throws {
        var limits = SyncLimits()
        limits.transactionRowsMax = 8
        let scene = try await FieldScene(limits: limits)
        try await scene.fill()
        try await scene.other.client.syncTable(Field.Visit.self).update(id: "v1") {
            $0.nextID = nil
        }
        #expect(try await scene.other.push() == nil)
        try await scene.device.context.transaction { transaction in
            try transaction.table(Field.Visit.self).update(id: "v1") { $0.nextID = "v3" }
            try transaction.table(Field.Note.self)
                .insert([Field.Note(id: "x"), Field.Note(id: "y")])
        }
        #expect(try await scene.device.push()?.errors.count == 3)
        try await scene.device.client.syncTable(Field.Customer.self).delete(id: "c")
        let groups = try await scene.device.groups().map { $0.sorted() }
        #expect(groups == [["c", "j", "k", "n", "v1", "v2", "v3"], ["x", "y"]])
        #expect(try await scene.device.context.pendingOperations().allSatisfy { $0.groupID != nil })
    }

    /// Returns the ids of the rows in the requests of batches, in order.
    private func itemIDs(_ bodies: ArraySlice<String>) -> [String] {
        bodies.flatMap { body -> [String] in
            let json = try? JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any]
            let requests = json?["requests"] as? [[String: Any]] ?? []
            return requests.map { request in
                let url = request["url"] as? String ?? ""
                return String(url.split(separator: "/").last ?? "")
            }
        }
    }

    @Test("An observer sees the delete of a parent and its children as one change")
    func observed() async throws {
        let scene = try await FieldScene()
        try await scene.fill()
        let counts = scene.device.context.observe { reader in
            try [
                reader.table(Field.Customer.self).count(Query()),
                reader.table(Field.Job.self).count(Query()),
                reader.table(Field.Visit.self).count(Query()),
            ]
        }
        var seen: [[Int]] = []
        for try await count in counts {
            seen.append(count)
            if seen.count == 2 { break }
            try await scene.device.client.syncTable(Field.Customer.self).delete(id: "c")
        }
        #expect(seen == [[1, 2, 3], [0, 0, 0]])
    }

    @Test("A process that ends during the delete of a parent leaves all rows or none")
    func killed() async throws {
        try await withTemporaryFile { path in
            let store = TroubledStore(try SQLiteStore(path: path))
            let scene = try await FieldScene(store: store)
            try await scene.fill()
            let before = try await scene.contents(scene.device)
            let customers = try scene.device.client.syncTable(Field.Customer.self)
            store.add(.rollBack)
            #expect(await code { try await customers.delete(id: "c") } == .storeFailure)
            #expect(try await scene.contents(scene.device) == before)
            #expect(try await scene.device.queue().isEmpty)
            store.add(.runTwice)
            store.kill(after: 1)
            try await customers.delete(id: "c")
            #expect(await code { try await customers.insert(Field.Customer()) } == .storeFailure)
            let again = try await Device(
                scene.tap,
                store: try SQLiteStore(path: path),
                tables: Field.models
            )
            #expect(try await scene.contents(again) == ["Note n"])
            #expect(try await again.queue().count == 7)
            #expect(try await again.push() == nil)
            #expect(try await scene.serverContents() == ["Note n"])
        }
    }
}
