// References that models declare: what the store and the schema document know of them.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct ReferenceDeclarationTests {
    @Test("The references of a model are those of its table")
    func declared() throws {
        let visits = try RecordSchema.of(Field.Visit.self).table
        #expect(
            visits.references == [
                TableReference("jobID", to: "Job", onDelete: .cascade),
                TableReference("nextID", to: "Visit", onDelete: .setNull),
            ]
        )
        let invoices = try RecordSchema.of(Field.Invoice.self).table
        #expect(invoices.references == [TableReference("jobID", to: "Job", onDelete: .restrict)])
        #expect(try RecordSchema.of(Field.Customer.self).table.references.isEmpty)
    }

    @Test("A reference that only the app declares is a difference of the schema documents")
    func document() throws {
        let app = try SchemaDocument(of: Field.models)
        #expect(
            app.json.contains(#""customerID": {"table":"Customer","onDelete":"cascade"}"#)
        )
        var tables = try Field.tables()
        func differences() -> [String] {
            let server = SchemaDocument(tables.map { SchemaDocument.Table($0) })
            return app.differences(from: server).map { "\($0.table) \($0.column ?? "")" }
        }
        #expect(differences().isEmpty)
        tables[1].references = []
        #expect(differences() == ["Job customerID"])
    }

    private struct Counted: SyncRecord {
        static let references = [Reference(\Counted.count, to: Todo.self)]
        var id = ""
        var count = 0
    }

    private struct Required: SyncRecord {
        static let references = [Reference(\Required.todo, to: Todo.self, onDelete: .setNull)]
        var id = ""
        var todo = ""
    }

    private struct Twice: SyncRecord {
        static let references = [
            Reference(\Twice.todo, to: Todo.self), Reference(\Twice.todo, to: Field.Job.self),
        ]
        var id = ""
        var todo = ""
    }

    private struct Demanding: SyncRecord {
        static let references = [Reference(\Demanding.todo, to: Todo.self, onDelete: .setNull)]
        static let rules: [Rule<Demanding>] = [.required(\.todo)]
        var id = ""
        var todo: String?
    }

    private struct Draft: SyncRecord {
        static let isLocalOnly = true
        static let references = [Reference(\Draft.next, to: Draft.self, onDelete: .setNull)]
        var id = ""
        var next: String?
    }

    private struct Sent: SyncRecord {
        static let references = [Reference(\Sent.draft, to: Draft.self, onDelete: .none)]
        var id = ""
        var draft: String?
    }

    private struct Pinned: SyncRecord {
        static let references = [Reference(\Pinned.todo, to: Todo.self)]
        static let localColumns: [any PartialKeyPath<Pinned> & Sendable] = [\.todo]
        var id = ""
        var todo: String?
    }

    @Test("A reference that no value can satisfy is rejected with a remedy")
    func wrongModels() throws {
        let remedies: [(any SyncRecord.Type, String)] = [
            (Counted.self, "Name a property of type String."),
            (Required.self, "Make the property optional"),
            (Twice.self, "Remove one from 'references'."),
            (Demanding.self, "Remove the rule, or choose another 'onDelete'."),
            (Sent.self, "Make this table 'isLocalOnly' as well"),
            (Pinned.self, "Remove it from 'localColumns' or from 'references'."),
        ]
        for (type, remedy) in remedies {
            let error = #expect(throws: SyncError.self) { try RecordSchema.of(type) }
            #expect(error?.code == .invalidModel)
            #expect(error?.message.contains(remedy) == true)
        }
    }

    @Test("A local table may declare references to local tables")
    func localTable() throws {
        let drafts = try RecordSchema.of(Draft.self).table
        #expect(drafts.references == [TableReference("next", to: "Draft", onDelete: .setNull)])
    }

    @Test("A store is not opened for tables whose references contradict each other")
    func wrongTables() async throws {
        let todos = TableSchema(name: "Todo", columns: [ColumnDefinition("text", .string)])
        var jobs = TableSchema(name: "Job", columns: [ColumnDefinition("todo", .string)])
        jobs.references = [TableReference("todo", to: "todo", onDelete: .setNull)]
        var (required, local, column) = (jobs, todos, jobs)
        required.columns[0].rules.isRequired = true
        local.isLocalOnly = true
        column.localColumns = ["todo"]
        for tables in [[todos, required], [local, jobs], [todos, column]] {
            let error = await #expect(throws: SyncError.self) {
                _ = try await Device(ScriptedTransport(), tables: [], schemas: tables)
            }
            #expect(error?.code == .invalidModel)
            #expect(error?.message.contains("references of table 'Job'") == true)
        }
        local.isLocalOnly = false
        _ = try await Device(ScriptedTransport(), tables: [], schemas: [local, jobs])
    }

    @Test("The rows of a parent are found by an index of the store")
    func indexes() async throws {
        try await withTemporaryFile { path in
            let store = try SQLiteStore(path: path)
            _ = try await Device(ScriptedTransport(), store: store, tables: Field.models)
            let database = try Database(path: path)
            let columns = [("Visit", "jobID"), ("Visit", "nextID"), ("Job", "customerID")]
            for (table, column) in columns {
                let plan = try database.prepare(
                    "EXPLAIN QUERY PLAN SELECT id FROM \(table) WHERE \(column) = 'a'"
                )
                #expect(try plan.step())
                #expect(plan.text(3).contains("tideline.\(table).\(column)"))
                plan.reset()
            }
        }
    }
}
