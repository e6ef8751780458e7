// Rows that refer to each other: a customer with its main contact, and places in a cycle.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct MutualReferenceTests {
    private struct Customer: SyncRecord {
        static let references = [
            Reference(\Customer.mainID, to: Contact.self, onDelete: .setNull)
        ]
        var id = ""
        var mainID: String?
        var updatedAt: Date?
    }

    private struct Contact: SyncRecord {
        static let references = [
            Reference(\Contact.customerID, to: Customer.self, onDelete: .cascade)
        ]
        var id = ""
        var customerID: String?
        var updatedAt: Date?
    }

    private struct Place: SyncRecord {
        static let references = [Reference(\Place.inID, to: Place.self, onDelete: .cascade)]
        var id = ""
        var inID: String?
        var updatedAt: Date?
    }

    private static let models: [any SyncRecord.Type] = [Customer.self, Contact.self, Place.self]

    /// A server and two devices.
    private struct Scene {
        let device: Device
        let other: Device

        init() async throws {
            func table(_ name: String, _ reference: TableReference) -> TableDefinition {
                TableDefinition(
                    name,
                    columns: [ColumnDefinition(reference.column, .string)],
                    references: [reference]
                )
            }
            let server = try await InProcessServer(tables: [
                table("Customer", TableReference("mainID", to: "Contact", onDelete: .setNull)),
                table("Contact", TableReference("customerID", to: "Customer", onDelete: .cascade)),
                table("Place", TableReference("inID", to: "Place", onDelete: .cascade)),
            ])
            device = try await Device(server.transport, tables: models)
            other = try await Device(server.transport, tables: models)
        }

        /// Returns the rows of the other device after a pull, each as `id>parent`.
        func pulled(_ table: String, _ column: String) async throws -> [String] {
            try await other.client.syncTable(named: table).pull(queryID: "all")
            return try await other.rows(table).map { row in
                row.id + ">" + (row[column]?.text ?? "")
            }.sorted()
        }
    }

    /// A way in which the app makes its changes.
    enum Way: CaseIterable {
        case oneByOne
        case inTransaction
        case inTransactions
    }

    @Test("Rows that refer to each other are inserted and deleted", arguments: Way.allCases)
    func customers(_ way: Way) async throws {
        let scene = try await Scene()
        let client = scene.device.client
        let (customers, contacts) = (
            try client.syncTable(Customer.self), try client.syncTable(Contact.self)
        )
        switch way {
        case .oneByOne:
            try await customers.insert(Customer(id: "c"))
            try await contacts.insert(Contact(id: "k", customerID: "c"))
            try await contacts.insert(Contact(id: "l", customerID: "c"))
            try await customers.update(id: "c") { $0.mainID = "k" }
        case .inTransaction:
            try await scene.device.context.transaction { transaction in
                try transaction.table(Customer.self).insert(Customer(id: "c", mainID: "k"))
                for id in ["k", "l"] {
                    try transaction.table(Contact.self).insert(Contact(id: id, customerID: "c"))
                }
            }
        case .inTransactions:
            try await scene.device.context.transaction { transaction in
                try transaction.table(Contact.self).insert(Contact(id: "k", customerID: "c"))
                try transaction.table(Place.self).insert(Place(id: "p"))
            }
            try await scene.device.context.transaction { transaction in
                try transaction.table(Contact.self).insert(Contact(id: "l", customerID: "c"))
                try transaction.table(Customer.self).insert(Customer(id: "c", mainID: "k"))
            }
        }
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.pulled("Customer", "mainID") == ["c>k"])
        #expect(try await scene.pulled("Contact", "customerID") == ["k>c", "l>c"])
        for table in ["Customer", "Contact"] {
            try await client.syncTable(named: table).pull(queryID: "all")
        }
        try await customers.delete(id: "c")
        #expect(try await contacts.count() == 0)
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.device.context.operationErrors().isEmpty)
        #expect(try await scene.pulled("Customer", "mainID").isEmpty)
        #expect(try await scene.pulled("Contact", "customerID").isEmpty)
    }

    @Test("Rows in a cycle are inserted and deleted", arguments: ["p1", "p2", "p3"])
    func places(deleted: String) async throws {
        let scene = try await Scene()
        let places = try scene.device.client.syncTable(Place.self)
        for (id, parent) in [("p1", "p2"), ("p2", "p3"), ("p3", "p1"), ("q", "p1")] {
            try await places.insert(Place(id: id, inID: parent))
        }
        #expect(try await scene.device.push() == nil)
        let all = ["p1>p2", "p2>p3", "p3>p1", "q>p1"]
        #expect(try await scene.pulled("Place", "inID") == all)
        try await places.delete(id: deleted)
        #expect(try await places.count() == 0)
        #expect(try await scene.device.push() == nil)
        #expect(try await scene.pulled("Place", "inID").isEmpty)
    }

    @Test("A delete of a row that another device changed is a conflict")
    func conflict() async throws {
        let scene = try await Scene()
        let client = scene.device.client
        try await scene.device.context.transaction { transaction in
            try transaction.table(Customer.self).insert(Customer(id: "c", mainID: "k"))
            try transaction.table(Contact.self).insert(Contact(id: "k", customerID: "c"))
        }
        try await scene.device.context.push()
        #expect(try await scene.pulled("Customer", "mainID") == ["c>k"])
        try await scene.other.client.syncTable(Customer.self).update(id: "c") { $0.mainID = nil }
        #expect(try await scene.other.push() == nil)
        try await client.syncTable(Customer.self).delete(id: "c")
        #expect(try await scene.device.push()?.status == .operationErrors)
        let errors = try await scene.device.context.operationErrors()
        #expect(errors.contains { $0.itemID == "c" && $0.statusCode == 412 })
        #expect(try await scene.pulled("Contact", "customerID") == ["k>c"])
    }
}
