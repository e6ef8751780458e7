// LocalNameChangeTests: updates of an app after which tables and columns are synchronized that stayed on the device.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct LocalNameChangeTests {
    private typealias Draft = LocalOnlyTests.Draft

    /// The table of drafts in a version of the app that synchronizes it.
    private struct LaterDraft: SyncRecord, Hashable {
        var id = ""
        var text = ""
        var todo: String?
        static let tableName = "Draft"
    }

    /// The same with a stricter rule.
    private struct StrictDraft: SyncRecord, Hashable {
        var id = ""
        var text = ""
        var todo: String?
        static let tableName = "Draft"
        static let rules: [Rule<StrictDraft>] = [.maxLength(\.text, 4)]
    }

    private func makeDraftServer() async throws -> InProcessServer {
        try await InProcessServer(tables: [
            TableDefinition(
                "Draft",
                columns: [ColumnDefinition("text", .string), ColumnDefinition("todo", .string)]
            ),
            TableDefinition(
                "Todo",
                columns: [
                    ColumnDefinition("text", .string), ColumnDefinition("rank", .integer),
                    ColumnDefinition("note", .string), ColumnDefinition("isOpen", .boolean),
                ]
            ),
        ])
    }

    /// Runs `body` with a store in memory, and with one in a file at a path.
    private func eachStore(
        _ body: (_ store: any LocalStore, _ path: String) async throws -> Void
    ) async throws {
        try await body(MemoryStore(), "")
        try await withTemporaryFile { path in try await body(SQLiteStore(path: path), path) }
    }

    /// Closes a store, and returns the store of the next start of the app.
    private func reopened(_ store: any LocalStore, _ path: String) async throws -> any LocalStore {
        guard store is SQLiteStore else { return store }
        try await store.close()
        return try SQLiteStore(path: path)
    }

    // MARK: - Tables

    @Test(
        "The rows of a table that an update of the app synchronizes are kept and sent",
        arguments: ["all", nil]
    )
    func tables(queryID: String?) async throws {
        try await eachStore { store, path in
            let server = try await makeDraftServer()
            let before = try await Device(server.transport, store: store, tables: [Draft.self])
            try await before.client.syncTable(Draft.self)
                .insert([Draft(id: "a", text: "milk"), Draft(id: "b", text: "tea")])
            let device = try await Device(
                server.transport,
                store: reopened(store, path),
                tables: [LaterDraft.self]
            )
            let drafts = try device.client.syncTable(LaterDraft.self)
            #expect(try await device.queue() == ["insert a", "insert b"])
            try await drafts.pull(queryID: queryID)
            #expect(try await drafts.read().map(\.text).sorted() == ["milk", "tea"])
            #expect(try await device.push() == nil)
            try await drafts.pull(queryID: queryID)
            #expect(try await drafts.read().map(\.text).sorted() == ["milk", "tea"])
            let other = try await Device(server.transport, tables: [LaterDraft.self])
            try await other.client.syncTable(LaterDraft.self).pull(queryID: nil)
            #expect(try await other.rows("Draft").map(\.id).sorted() == ["a", "b"])
        }
    }

    @Test("A local table that a widget does not declare is still known to be local")
    func undeclared() async throws {
        try await eachStore { store, path in
            let server = try await makeDraftServer()
            let before = try await Device(server.transport, store: store, tables: [Draft.self])
            try await before.client.syncTable(Draft.self).insert(Draft(id: "a", text: "milk"))
            let widgetStore = try await reopened(store, path)
            _ = try await Device(server.transport, store: widgetStore, tables: [Todo.self])
            let device = try await Device(
                server.transport,
                store: reopened(widgetStore, path),
                tables: [LaterDraft.self]
            )
            #expect(try await device.queue() == ["insert a"])
        }
    }

    @Test("A row of a newly synchronized table that breaks a rule is parked with the rule")
    func brokenRule() async throws {
        try await eachStore { store, path in
            let server = try await makeDraftServer()
            let before = try await Device(server.transport, store: store, tables: [Draft.self])
            try await before.client.syncTable(Draft.self)
                .insert([Draft(id: "a", text: "green tea"), Draft(id: "b", text: "tea")])
            let device = try await Device(
                server.transport,
                store: reopened(store, path),
                tables: [StrictDraft.self]
            )
            #expect(try await device.queue() == ["insert a parked", "insert b"])
            let error = try #require(try await device.context.operationErrors().first)
            let rule = BrokenRule(table: "Draft", columns: ["text"], code: .maxLength)
            #expect(error.brokenRule == rule)
            #expect(error.message.contains("was not sent"))
            try await error.updateOperationAndRetry(with: StrictDraft(id: "a", text: "soy"))
            #expect(try await device.push() == nil)
            let other = try await Device(server.transport, tables: [LaterDraft.self])
            let drafts = try other.client.syncTable(LaterDraft.self)
            try await drafts.pull(queryID: nil)
            #expect(try await drafts.read().map(\.text).sorted() == ["soy", "tea"])
        }
    }
}
