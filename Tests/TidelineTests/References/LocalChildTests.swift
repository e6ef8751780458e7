// Records that stay on the device and refer to synchronized ones, when the server deletes a parent.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct LocalChildTests {
    /// A draft, which is deleted with its job.
    struct Draft: SyncRecord, Hashable {
        static let isLocalOnly = true
        static let references = [
            Reference(\Draft.jobID, to: Field.Job.self, onDelete: .cascade)
        ]
        var id = ""
        var jobID: String?
    }

    /// A page of a draft, which is deleted with the draft.
    struct Page: SyncRecord, Hashable {
        static let isLocalOnly = true
        static let references = [Reference(\Page.draftID, to: Draft.self, onDelete: .cascade)]
        var id = ""
        var draftID: String?
    }

    /// A bookmark, which loses its job.
    struct Bookmark: SyncRecord, Hashable {
        static let isLocalOnly = true
        static let references = [
            Reference(\Bookmark.jobID, to: Field.Job.self, onDelete: .setNull)
        ]
        var id = ""
        var name = ""
        var jobID: String?
    }

    /// A receipt, which stays without its job.
    struct Receipt: SyncRecord, Hashable {
        static let isLocalOnly = true
        static let references = [Reference(\Receipt.jobID, to: Field.Job.self)]
        var id = ""
        var jobID: String?
    }

    private static let models: [any SyncRecord.Type] =
        Field.models + [Draft.self, Page.self, Bookmark.self, Receipt.self]

    private struct Scene {
        let field: FieldScene
        let device: Device

        init(
            _ store: any LocalStore = MemoryStore(),
            conflicts: ConflictPolicy = .fail
        ) async throws {
            field = try await FieldScene()
            try await field.fill()
            device = try await Device(
                field.tap,
                store: store,
                conflicts: conflicts,
                tables: LocalChildTests.models
            )
            try await field.pull(device)
            try await device.context.transaction { transaction in
                for job in ["j", "k"] {
                    try transaction.table(Draft.self).insert(Draft(id: "d-\(job)", jobID: job))
                    try transaction.table(Page.self)
                        .insert((0..<600).map { Page(id: "p-\(job)-\($0)", draftID: "d-\(job)") })
                    try transaction.table(Bookmark.self)
                        .insert(Bookmark(id: "b-\(job)", name: "Bookmark", jobID: job))
                    try transaction.table(Receipt.self).insert(Receipt(id: "r-\(job)", jobID: job))
                }
            }
        }

        /// Deletes job `j` on the other device, and pushes the delete.
        func deleteElsewhere() async throws {
            try await field.other.client.syncTable(Field.Job.self).delete(id: "j")
            #expect(try await field.other.push() == nil)
        }

        /// The records of the local tables, as `d-j`, the number of pages of `j`, `b-j j`, and `r-j`.
        func local() async throws -> [String] { try await Self.local(device) }

        static func local(_ device: Device) async throws -> [String] {
            try await device.context.read { reader in
                let drafts = try reader.table(Draft.self).read()
                let pages = try reader.table(Page.self).count { $0.draftID == "d-j" }
                let others = try reader.table(Page.self).count { $0.draftID == "d-k" }
                let bookmarks = try reader.table(Bookmark.self).read()
                let receipts = try reader.table(Receipt.self).read()
                return drafts.map(\.id) + ["\(pages) \(others)"]
                    + bookmarks.map { "\($0.id) \($0.name) \($0.jobID ?? "nil")" }
                    + receipts.map(\.id)
            }
        }

        static let all = [
            "d-j", "d-k", "600 600", "b-j Bookmark j", "b-k Bookmark k", "r-j", "r-k",
        ]
        static let followed = [
            "d-k", "0 600", "b-j Bookmark nil", "b-k Bookmark k", "r-j", "r-k",
        ]
    }

    @Test("Local records are deleted with their parent in the transaction of the pull")
    func pulled() async throws {
        let stores: [any LocalStore] = [MemoryStore(), try SQLiteStore(path: ":memory:")]
        for store in stores {
            let scene = try await Scene(store)
            #expect(try await scene.local() == Scene.all)
            let states = scene.device.context.observe { reader in
                try [
                    reader.table(Field.Job.self).count(Query()),
                    reader.table(Draft.self).count(Query()),
                    reader.table(Page.self).count(Query()),
                ]
            }
            var seen: [[Int]] = []
            for try await state in states {
                seen.append(state)
                if seen.count == 2 { break }
                try await scene.deleteElsewhere()
                try await scene.device.client.syncTable(Field.Job.self).pull(queryID: "all")
            }
            #expect(seen == [[2, 2, 1200], [1, 1, 600]])
            #expect(try await scene.local() == Scene.followed)
            #expect(try await scene.device.queue().isEmpty)
            // Only the receipt, whose rule would have prevented a local delete, has lost its parent.
            let missing = try await scene.device.missingParents().filter { $0.table == "Receipt" }
            #expect(missing.map(\.ids) == [["r-j"]])
        }
    }

    @Test("A process that ends during a pull keeps a parent with its local records, or neither")
    func killed() async throws {
        var states: Set<[String]> = []
        for count in 0..<8 {
            let inner = MemoryStore()
            let store = TroubledStore(inner)
            let scene = try await Scene(store)
            try await scene.deleteElsewhere()
            store.kill(after: count)
            _ = try? await scene.device.client.syncTable(Field.Job.self).pull(queryID: "all")
            let again = try await Device(scene.field.tap, store: inner, tables: Self.models)
            let (local, jobs) = (try await Scene.local(again), try await again.rows("Job"))
            #expect(local == (jobs.map(\.id).contains("j") ? Scene.all : Scene.followed))
            states.insert(local)
        }
        #expect(states == [Scene.all, Scene.followed])
    }

    @Test("A verification deletes local records only with a parent that the server deleted")
    func verified() async throws {
        let scene = try await Scene()
        let jobs = try scene.device.client.syncTable(Field.Job.self)
        try await jobs.pull(queryID: "boilers", where: { $0.title == "Boiler" })
        try await jobs.purge()
        try await jobs.pull(queryID: "boilers", where: { $0.title == "Boiler" })
        #expect(try await scene.local() == Scene.all)
        // The job no longer matches the query, but still exists.
        try await scene.field.other.client.syncTable(Field.Job.self).update(id: "j") {
            $0.title = "Valve"
        }
        #expect(try await scene.field.other.push() == nil)
        let left = try await jobs.verify(queryID: "boilers", repair: true)
        #expect(left.surplus == 1 && left.repaired == 1)
        #expect(try await jobs.read(id: "j") == nil)
        #expect(try await scene.local() == Scene.all)
        try await jobs.pull(queryID: "all")
        try await scene.deleteElsewhere()
        let deleted = try await jobs.verify(queryID: "all", repair: true)
        #expect(deleted.surplus == 1 && deleted.repaired == 1)
        #expect(try await scene.local() == Scene.followed)
    }

    @Test("Local records are deleted with their parent if the server wins a conflict")
    func conflict() async throws {
        let scene = try await Scene(conflicts: .serverWins)
        try await scene.device.client.syncTable(Field.Job.self).update(id: "j") {
            $0.title = "Pump"
        }
        try await scene.deleteElsewhere()
        #expect(try await scene.local() == Scene.all)
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.local() == Scene.followed)
    }

    @Test("Local records are deleted with a parent whose edit the app discards")
    func discarded() async throws {
        let scene = try await Scene()
        try await scene.device.client.syncTable(Field.Job.self).update(id: "j") {
            $0.title = "Pump"
        }
        try await scene.deleteElsewhere()
        _ = try await scene.device.push()
        let errors = try await scene.device.context.operationErrors()
        #expect(errors.count == 1)
        try await errors[0].cancelOperationAndDiscardItem()
        #expect(try await scene.local() == Scene.followed)
    }
}
