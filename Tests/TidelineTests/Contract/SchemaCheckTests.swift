// SchemaCheckTests: an app learns at run time where its models and the server's tables differ.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct SchemaCheckTests {
    @Test("An app that matches the server has no differences, and requests the document once")
    func fits() async throws {
        let server = try await RuleScene.server()
        let tap = CountingTransport(server.transport)
        let device = try await Device(tap, tables: [Inspection.self, LocalOnlyTests.Draft.self])
        #expect(try await device.context.schemaDifferences() == [])
        try await device.client.syncTable(Inspection.self).pull(queryID: nil)
        #expect(try await device.context.schemaDifferences() == [])
        #expect(tap.count(of: "/$schema") == 1)
    }

    @Test("The differences contain missing columns, tables and rules")
    func differs() async throws {
        var table = try RuleScene.table()
        table.schema.columns.removeAll { $0.name == "rank" }
        table.schema.rules.unique = []
        let server = try await InProcessServer(tables: [table])
        let device = try await Device(server.transport, tables: [Inspection.self, Note.self])
        let found = try await device.context.schemaDifferences()
        #expect(
            found.map(\.description) == [
                "Inspection.rank: the server's table has no such column",
                "Inspection: only one side has the rule unique (number)",
                "Note: the server has no such table, or the caller may not read it",
            ]
        )
        #expect(found.map(\.column) == ["rank", nil, nil])
    }

    @Test("The differences contain the column, the table and the delete rule of a reference")
    func references() async throws {
        let fitting = try await Device(
            try await InProcessServer(tables: Field.tables()).transport,
            tables: Field.models
        )
        #expect(try await fitting.context.schemaDifferences() == [])
        var tables = try Field.tables()
        for place in tables.indices {
            switch tables[place].name {
            case "Job": tables[place].references = []
            case "Invoice": tables[place].references[0].onDelete = .cascade
            case "Note": tables[place].references[0].table = "Job"
            default: break
            }
        }
        let device = try await Device(
            try await InProcessServer(tables: tables).transport,
            tables: Field.models
        )
        #expect(
            try await device.context.schemaDifferences().map(\.description) == [
                "Invoice.jobID: app and server have different references",
                "Job.customerID: app and server have different references",
                "Note.customerID: app and server have different references",
            ]
        )
    }

    @Test("An enum of the app must have the same members as the server's column")
    func members() async throws {
        var table = try RuleScene.table()
        for (name, members) in [
            ("from", ["planned", "open", "done", "billed"]), ("to", ["planned", "done"]),
        ] {
            let place = try #require(table.schema.columns.firstIndex { $0.name == name })
            table.schema.columns[place].type = .enumeration(members)
        }
        table.schema.rules.comparisons.removeAll { $0.left == "from" }
        let server = try await InProcessServer(tables: [table])
        let device = try await Device(server.transport, tables: [Inspection.self])
        #expect(
            try await device.context.schemaDifferences().map(\.description) == [
                "Inspection.from: the app's enum has no case for the server's members 'billed'",
                "Inspection.to: the server rejects the cases 'open' of the app's enum",
                "Inspection: only one side has the rule from < to",
            ]
        )
    }

    @Test("The cases of an enum must have the same order as the server's members")
    func order() async throws {
        var table = try RuleScene.table()
        table.schema.rules.comparisons.removeAll { $0.left == "from" }
        for name in ["from", "to"] {
            let place = try #require(table.schema.columns.firstIndex { $0.name == name })
            let members =
                name == "from" ? ["done", "open", "planned"] : ["planned", "open", "done"]
            table.schema.columns[place].type = .enumeration(members)
        }
        let server = try await InProcessServer(tables: [table])
        let device = try await Device(server.transport, tables: [Inspection.self])
        let found = try await device.context.schemaDifferences().map(\.description)
        #expect(found.first?.contains("'done', 'open', 'planned'") == true)
        #expect(
            found.dropFirst() == ["Inspection: only one side has the rule from < to"]
        )
    }

    @Test(
        "Enums are ordered by their cases on the device, as on the server",
        arguments: [true, false]
    )
    func enumOrder(inMemory: Bool) async throws {
        let members = Work.State.allCases.map(\.rawValue)
        let columns = [
            ColumnDefinition("state", .enumeration(members)), ColumnDefinition("mark", .string),
            ColumnDefinition("kind", .string), ColumnDefinition("label", .string),
        ]
        let server = try await InProcessServer(tables: [TableDefinition("Task", columns: columns)])
        let store: any LocalStore =
            inMemory ? MemoryStore() : try SQLiteStore(path: ":memory:")
        let device = try await Device(server.transport, store: store, tables: [Work.self])
        #expect(try await device.context.schemaDifferences().isEmpty)
        let tasks = try device.client.syncTable(Work.self)
        for state in Work.State.allCases {
            try await tasks.insert(Work(id: state.rawValue, state: state, mark: .high))
        }
        #expect(try await device.push() == nil)
        let order: [SortTerm<Work>] = [.descending(\.state)]
        let remote = try await device.client.table(Work.self)
            .read(where: { $0.state > .open }, sortedBy: order)
        #expect(remote.map(\.id) == ["done", "begun"])
        let local = try await tasks.read(where: { $0.state > .open }, sortedBy: order)
        #expect(local.map(\.id) == ["done", "begun"])
        #expect(try await tasks.max(\.state) == .done)
        #expect(try await tasks.distinct(\.state) == [.open, .begun, .done])
        #expect(try await tasks.read(id: "open")?.mark == .high)
        #expect(try await tasks.read(where: { $0.kind == .hidden }).count == 3)
        #expect(try await tasks.read(where: { $0.label == Work.Label("any") }).count == 3)
        let byWord: [SortTerm<Work>] = [.ascending(\.state, .localized)]
        #expect(try await tasks.read(sortedBy: byWord).map(\.id) == ["begun", "done", "open"])
    }

    /// A record with an enum, with one whose encoding is not its raw value, and with types that have values
    /// that are not among their cases.
    private struct Work: SyncRecord {
        enum State: String, Codable, CaseIterable, Sendable, Comparable {
            case open, begun, done

            static func < (one: State, two: State) -> Bool {
                allCases.firstIndex(of: one) ?? 0 < allCases.firstIndex(of: two) ?? 0
            }
        }

        enum Mark: String, Codable, CaseIterable, Sendable {
            case low, high

            init(from decoder: any Decoder) throws {
                let text = try decoder.singleValueContainer().decode(String.self)
                self = Mark(rawValue: text.lowercased()) ?? .low
            }

            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                try container.encode(rawValue.uppercased())
            }
        }

        enum Kind: String, Codable, CaseIterable, Sendable {
            case work, hidden

            static let allCases = [Kind.work]
        }

        struct Label: RawRepresentable, Codable, CaseIterable, Sendable, Hashable {
            var rawValue: String

            init(rawValue: String) { self.rawValue = rawValue }

            init(_ text: String) { rawValue = text }

            static let allCases = [Label("none")]
        }

        static let tableName = "Task"
        var id = ""
        var state = State.open
        var mark = Mark.low
        var kind = Kind.hidden
        var label = Label("any")
    }

    @Test("A server without a schema document causes an error that says so")
    func otherServers() async throws {
        let transport = ScriptedTransport(otherwise: .json(404, "{}"), takesBatches: true)
        let device = try await RuleScene.device(transport)
        do {
            _ = try await device.context.schemaDifferences()
            Issue.record("nothing was thrown")
        } catch let error as SyncError {
            #expect(error.message.hasPrefix("The server has no schema document (404)"))
        }
    }
}

/// A transport that counts requests by their path.
private final class CountingTransport: Transport {
    private let inner: any Transport
    private let paths = Mutex<[String]>([])

    init(_ inner: any Transport) { self.inner = inner }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        paths.withLock { $0.append(request.url.path()) }
        return try await inner.send(request)
    }

    func count(of path: String) -> Int { paths.withLock { $0.count { $0.hasSuffix(path) } } }
}
