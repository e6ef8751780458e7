// FieldScene: the models of a field service, which refer to each other, and devices with a server of these tables.

import Foundation
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

/// The models of `FieldService`.
enum Field {
    struct Customer: SyncRecord, Hashable {
        var id = ""
        var name = ""
    }

    struct Job: SyncRecord, Hashable {
        static let references = [
            Reference(\Job.customerID, to: Customer.self, onDelete: .cascade)
        ]
        var id = ""
        var title = ""
        var customerID: Customer.ID?
    }

    struct Visit: SyncRecord, Hashable {
        static let references = [
            Reference(\Visit.jobID, to: Job.self, onDelete: .cascade),
            Reference(\Visit.nextID, to: Visit.self, onDelete: .setNull),
        ]
        var id = ""
        var jobID: Job.ID?
        var nextID: Visit.ID?
    }

    struct Invoice: SyncRecord, Hashable {
        static let references = [Reference(\Invoice.jobID, to: Job.self)]
        var id = ""
        var jobID: Job.ID?
    }

    struct Note: SyncRecord, Hashable {
        static let references = [
            Reference(\Note.customerID, to: Customer.self, onDelete: .setNull)
        ]
        var id = ""
        var text = ""
        var customerID: Customer.ID?
    }

    static let models: [any SyncRecord.Type] = [
        Customer.self, Job.self, Visit.self, Invoice.self, Note.self,
    ]

    /// The server's tables, with the references of the models.
    static func tables() throws -> [TableDefinition] {
        try models.map { type in
            let table = try RecordSchema.of(type).table
            return TableDefinition(
                table.name,
                columns: table.columns,
                references: table.references
            )
        }
    }
}
