// RenamedColumnTests: an old and a new version of an app share a table whose column was renamed, and lose nothing.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct RenamedColumnTests {
    /// The model of the old version.
    private struct OldTask: SyncRecord, Hashable {
        static let tableName = "Task"
        var id = ""
        var title = ""
        var rank = 0
    }

    /// The model of the new version.
    private struct NewTask: SyncRecord, Hashable {
        static let tableName = "Task"
        var id = ""
        var name = ""
        var rank = 0
    }

    /// The model of the old version, if the column may be null.
    private struct OldOptional: SyncRecord, Hashable {
        static let tableName = "Task"
        var id = ""
        var title: String?
        var rank = 0
    }

    /// The model of the new version, if the column may be null.
    private struct NewOptional: SyncRecord, Hashable {
        static let tableName = "Task"
        var id = ""
        var name: String?
        var rank = 0
    }

    private static func table(
        _ name: String,
        nullable: Bool = false,
        aliases: [String: String] = [:]
    ) -> TableDefinition {
        TableDefinition(
            "Task",
            columns: [
                ColumnDefinition(name, .string, nullable: nullable),
                ColumnDefinition("rank", .integer, nullable: false),
            ],
            aliases: aliases
        )
    }

    private static let renamed = table("name", aliases: ["title": "name"])
    private static let optional = table("name", nullable: true, aliases: ["title": "name"])

    private func server(_ table: TableDefinition, _ path: String) async throws -> InProcessServer {
        var options = SQLiteTableStore.Options()
        options.inline = true
        return try await InProcessServer(
            tables: [table],
            environment: .live,
            store: try SQLiteTableStore(path: path, options: options)
        )
    }

    private func old(_ server: InProcessServer, _ store: any LocalStore) async throws -> Device {
        try await Device(server.transport, store: store, conflicts: .merge, tables: [OldTask.self])
    }

    private func new(_ server: InProcessServer, _ store: any LocalStore) async throws -> Device {
        try await Device(server.transport, store: store, conflicts: .merge, tables: [NewTask.self])
    }

    private func rename(_ path: String) throws {
        _ = try DatabaseMaintenance(path: path).migrate(
            [Self.renamed],
            isComplete: true,
            now: ServerEnvironment.live.now
        )
    }

    @Test("Both versions of the app read and write the column, before and after its rename")
    func bothVersions() async throws {
        try await withTemporaryFile { path in
            let oldStore = MemoryStore()
            do {
                let device = try await old(try await server(Self.table("title"), path), oldStore)
                let tasks = try device.client.syncTable(OldTask.self)
                try await tasks.insert([
                    OldTask(id: "a", title: "one", rank: 1),
                    OldTask(id: "b", title: "two", rank: 2),
                ])
                #expect(try await device.push() == nil)
                try await tasks.pull(queryID: "all")
                // Edited offline, and sent after the rename.
                try await tasks.update(id: "a") { $0.title = "one, edited" }
            }
            try rename(path)
            let server = try await server(Self.renamed, path)
            let first = try await old(server, oldStore)
            let second = try await new(server, MemoryStore())
            let olds = try first.client.syncTable(OldTask.self)
            let news = try second.client.syncTable(NewTask.self)
            #expect(try await first.push() == nil)
            try await news.pull(queryID: "all")
            #expect(try await news.read(id: "a") == NewTask(id: "a", name: "one, edited", rank: 1))
            #expect(try await news.read(id: "b") == NewTask(id: "b", name: "two", rank: 2))

            try await news.update(id: "b") { $0.name = "two, edited" }
            try await news.insert(NewTask(id: "c", name: "three", rank: 3))
            #expect(try await second.push() == nil)
            try await olds.pull(queryID: "all")
            #expect(try await olds.read(id: "b") == OldTask(id: "b", title: "two, edited", rank: 2))
            #expect(try await olds.read(id: "c") == OldTask(id: "c", title: "three", rank: 3))

            // Both devices change one row: the columns merge, and both devices get the result.
            try await olds.update(id: "c") { $0.title = "three, old" }
            try await news.update(id: "c") { $0.rank = 30 }
            #expect(try await first.push() == nil)
            #expect(try await second.push() == nil)
            try await olds.pull(queryID: "all")
            try await news.pull(queryID: "all")
            #expect(try await olds.read(id: "c") == OldTask(id: "c", title: "three, old", rank: 30))
            #expect(try await news.read(id: "c") == NewTask(id: "c", name: "three, old", rank: 30))
            #expect(try await olds.verify(queryID: "all").isEqual)
            #expect(try await news.verify(queryID: "all").isEqual)
            // Filters go to the server under the name that the app knows.
            try await olds.pull(queryID: "t", where: { $0.title == "three, old" })
            try await news.pull(queryID: "t", where: { $0.name == "three, old" })
            #expect(try await olds.verify(queryID: "t").isEqual)
            #expect(try await news.verify(queryID: "t").isEqual)
        }
    }

    @Test(
        "The new version of the app opens the store of the old version with all values"
    )
    func update() async throws {
        try await withTemporaryFile { path in
            let store = MemoryStore()
            let server = try await server(Self.renamed, path)
            do {
                let device = try await old(server, store)
                let tasks = try device.client.syncTable(OldTask.self)
                try await tasks.insert(OldTask(id: "a", title: "one", rank: 1))
                #expect(try await device.push() == nil)
                try await tasks.pull(queryID: "all")
            }
            let device = try await new(server, store)
            let tasks = try device.client.syncTable(NewTask.self)
            // Without a request: the row came with both names.
            #expect(try await tasks.read(id: "a") == NewTask(id: "a", name: "one", rank: 1))
            try await tasks.update(id: "a") { $0.name = "two" }
            #expect(try await device.push() == nil)
            try await tasks.delete(id: "a")
            #expect(try await device.push() == nil)
            try await tasks.insert(NewTask(id: "a", name: "three", rank: 3))
            _ = try await device.push()
            let other = try await old(server, MemoryStore())
            let olds = try other.client.syncTable(OldTask.self)
            try await olds.pull(queryID: "all")
            #expect(try await olds.read(id: "a")?.title == "three")
        }
    }

    private static let policies: [ConflictPolicy] = [.fail, .merge, .clientWins, .serverWins]

    @Test(
        "An edit of both versions of the app before a push has the newer value",
        arguments: policies
    )
    func editedByBothVersions(_ policy: ConflictPolicy) async throws {
        try await withTemporaryFile { path in
            let store = MemoryStore()
            let server = try await server(Self.renamed, path)
            do {
                let device = try await old(server, store)
                let tasks = try device.client.syncTable(OldTask.self)
                try await tasks.insert(OldTask(id: "a", title: "one", rank: 1))
                #expect(try await device.push() == nil)
                try await tasks.pull(queryID: "all")
                try await tasks.update(id: "a") { $0.title = "old" }
                try await tasks.insert(OldTask(id: "b", title: "old", rank: 2))
            }
            let device = try await Device(
                server.transport,
                store: store,
                conflicts: policy,
                tables: [NewTask.self]
            )
            let tasks = try device.client.syncTable(NewTask.self)
            for id in ["a", "b"] { try await tasks.update(id: id) { $0.name = "new" } }
            #expect(try await device.push() == nil)
            try await tasks.pull(queryID: "all")
            #expect(try await tasks.read(id: "a") == NewTask(id: "a", name: "new", rank: 1))
            #expect(try await tasks.read(id: "b") == NewTask(id: "b", name: "new", rank: 2))
        }
    }

    /// A server that rejects every write.
    private struct RejectedWrites: Transport {
        let inner: any Transport

        func send(_ request: TransportRequest) async throws -> TransportResponse {
            guard request.method == "GET" else {
                return TransportResponse(status: 403, headers: ["Tideline-Schema": "1"])
            }
            return try await inner.send(request)
        }

        func stream(_ request: TransportRequest) async throws -> TransportStream {
            try await inner.stream(request)
        }
    }

    @Test("A row with a rejected edit has the renamed column after the edit is discarded")
    func rejectedEdit() async throws {
        try await withTemporaryFile { path in
            let store = MemoryStore()
            do {
                let server = try await server(Self.table("title"), path)
                let device = try await old(server, store)
                let tasks = try device.client.syncTable(OldTask.self)
                try await tasks.insert(OldTask(id: "a", title: "one", rank: 1))
                #expect(try await device.push() == nil)
                try await tasks.pull(queryID: "all")
                let rejecting = try await Device(
                    RejectedWrites(inner: server.transport),
                    store: store,
                    tables: [OldTask.self]
                )
                try await rejecting.client.syncTable(OldTask.self).update(id: "a") {
                    $0.title = "one, edited"
                }
                #expect(try await rejecting.push()?.status == .operationErrors)
            }
            try rename(path)
            let device = try await Device(
                RejectedWrites(inner: try await server(Self.renamed, path).transport),
                store: store,
                tables: [NewTask.self]
            )
            let tasks = try device.client.syncTable(NewTask.self)
            // The row has the same version as before, and another column.
            try await tasks.pull(queryID: "again")
            let error = try #require(try await device.context.operationErrors().first)
            try await error.cancelOperationAndDiscardItem()
            #expect(try await tasks.read() == [NewTask(id: "a", name: "one", rank: 1)])
        }
    }

    /// The value of another device, the one that the new version sets, and the result.
    private static let conflicts: [(String, String?, String)] = [
        ("new", "new", "new"), ("other", "new", "new"), ("other", nil, "old"),
    ]

    @Test(
        "If the client wins a conflict, the row has the last value that was set on the device",
        arguments: conflicts
    )
    func bothDevicesSetTheValue(theirs: String, mine: String?, result: String) async throws {
        try await withTemporaryFile { path in
            let store = MemoryStore()
            let server = try await server(Self.renamed, path)
            do {
                let device = try await old(server, store)
                let tasks = try device.client.syncTable(OldTask.self)
                try await tasks.insert(OldTask(id: "a", title: "one", rank: 1))
                #expect(try await device.push() == nil)
                try await tasks.pull(queryID: "all")
                try await tasks.update(id: "a") { $0.title = "old" }
            }
            let other = try await new(server, MemoryStore())
            let others = try other.client.syncTable(NewTask.self)
            try await others.pull(queryID: "all")
            try await others.update(id: "a") { $0.name = theirs }
            #expect(try await other.push() == nil)
            let device = try await Device(
                server.transport,
                store: store,
                conflicts: .clientWins,
                tables: [NewTask.self]
            )
            let tasks = try device.client.syncTable(NewTask.self)
            if let mine { try await tasks.update(id: "a") { $0.name = mine } }
            #expect(try await device.push() == nil)
            for table in [tasks, others] {
                try await table.pull(queryID: "all")
                #expect(try await table.read(id: "a") == NewTask(id: "a", name: result, rank: 1))
            }
        }
    }

    /// The value that the new version sets; nil if it sets none.
    private static let edits: [String?] = [nil, "new"]

    @Test(
        "A row that the old version deleted and inserted again has the last value that was set",
        arguments: policies,
        edits
    )
    func replacedByOldVersion(_ policy: ConflictPolicy, _ edit: String?) async throws {
        try await withTemporaryFile { path in
            let server = try await server(Self.optional, path)
            do {
                let device = try await Device(
                    server.transport,
                    store: SQLiteStore(path: path + "-device"),
                    tables: [OldOptional.self]
                )
                let tasks = try device.client.syncTable(OldOptional.self)
                try await tasks.insert([
                    OldOptional(id: "a", title: "one", rank: 1),
                    OldOptional(id: "b", title: "two", rank: 2),
                ])
                #expect(try await device.push() == nil)
                try await tasks.pull(queryID: "all")
                for id in ["a", "b"] { try await tasks.delete(id: id) }
                try await tasks.insert([
                    OldOptional(id: "a", title: "again", rank: 3),
                    OldOptional(id: "b", title: "two", rank: 4),
                ])
            }
            let device = try await Device(
                server.transport,
                store: SQLiteStore(path: path + "-device"),
                conflicts: policy,
                tables: [NewOptional.self]
            )
            let tasks = try device.client.syncTable(NewOptional.self)
            if let edit {
                for id in ["a", "b"] { try await tasks.update(id: id) { $0.name = edit } }
            }
            #expect(try await device.push() == nil)
            try await tasks.pull(queryID: "all")
            let first = NewOptional(id: "a", name: edit ?? "again", rank: 3)
            #expect(try await tasks.read(id: "a") == first)
            let second = NewOptional(id: "b", name: edit ?? "two", rank: 4)
            #expect(try await tasks.read(id: "b") == second)
        }
    }

    @Test(
        "A row that the old version inserted with the id of a tombstone has the last value",
        arguments: policies,
        edits
    )
    func insertedInPlaceOfTombstone(_ policy: ConflictPolicy, _ edit: String?) async throws {
        try await withTemporaryFile { path in
            let server = try await server(Self.optional, path)
            do {
                let device = try await Device(
                    server.transport,
                    store: SQLiteStore(path: path + "-device"),
                    tables: [OldOptional.self]
                )
                let tasks = try device.client.syncTable(OldOptional.self)
                try await tasks.insert(OldOptional(id: "a", title: "one", rank: 1))
                #expect(try await device.push() == nil)
                try await tasks.delete(id: "a")
                #expect(try await device.push() == nil)
                try await tasks.insert(OldOptional(id: "a", title: "again", rank: 2))
            }
            let device = try await Device(
                server.transport,
                store: SQLiteStore(path: path + "-device"),
                conflicts: policy,
                tables: [NewOptional.self]
            )
            let tasks = try device.client.syncTable(NewOptional.self)
            if let edit { try await tasks.update(id: "a") { $0.name = edit } }
            #expect(try await device.push() == nil)
            try await tasks.pull(queryID: "all")
            let row = NewOptional(id: "a", name: edit ?? "again", rank: 2)
            #expect(try await tasks.read(id: "a") == row)
        }
    }
}
