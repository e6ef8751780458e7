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
