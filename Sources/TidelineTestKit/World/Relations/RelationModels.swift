// RelationModels: the tables of a field service app, which refer to each other, for tests and
// simulations.

package import Tideline
import TidelineCore
package import TidelineServerCore

/// The models of a field service app.
package enum RelationModels {
    package struct Customer: SyncRecord, Hashable {
        package var id: String
        package var name: String

        package init() { self.init(id: "") }

        package init(id: String = "", name: String = "") {
            (self.id, self.name) = (id, name)
        }
    }

    package struct Job: SyncRecord, Hashable {
        package static let references = [
            Reference(\Job.customerID, to: Customer.self, onDelete: .cascade)
        ]
        package static let rules: [Rule<Job>] = [
            .pattern(\.number, "J-[0-9]{1,3}"), .unique(\.number),
            .compare(\.start, .lessOrEqual, \.end),
        ]
        package static let localColumns: [PropertyPath<Job>] = [\.isOpen]
        /// The name of the column that stays on the device.
        static let localColumn = "isOpen"
        package var id: String
        package var title: String
        package var customerID: Customer.ID?
        package var number: String?
        package var start: Int?
        package var end: Int?
        /// Whether the user has opened the job on this device.
        package var isOpen: Bool?

        package init() { self.init(id: "") }

        package init(id: String = "", title: String = "", customerID: Customer.ID? = nil) {
            (self.id, self.title, self.customerID) = (id, title, customerID)
        }
    }

    package struct Visit: SyncRecord, Hashable {
        package static let references = [
            Reference(\Visit.jobID, to: Job.self, onDelete: .cascade),
            Reference(\Visit.nextID, to: Visit.self, onDelete: .setNull),
        ]
        package var id: String
        package var jobID: Job.ID?
        package var nextID: Visit.ID?

        package init() { self.init(id: "") }

        package init(id: String = "", jobID: Job.ID? = nil, nextID: Visit.ID? = nil) {
            (self.id, self.jobID, self.nextID) = (id, jobID, nextID)
        }
    }

    package struct Invoice: SyncRecord, Hashable {
        package static let references = [Reference(\Invoice.jobID, to: Job.self)]
        package var id: String
        package var jobID: Job.ID?

        package init() { self.init(id: "") }

        package init(id: String = "", jobID: Job.ID? = nil) {
            (self.id, self.jobID) = (id, jobID)
        }
    }

    package struct Note: SyncRecord, Hashable {
        package static let references = [
            Reference(\Note.customerID, to: Customer.self, onDelete: .setNull)
        ]
        package var id: String
        package var text: String
        package var customerID: Customer.ID?

        package init() { self.init(id: "") }

        package init(id: String = "", text: String = "", customerID: Customer.ID? = nil) {
            (self.id, self.text, self.customerID) = (id, text, customerID)
        }
    }

    package static let models: [any SyncRecord.Type] = [
        Customer.self, Job.self, Visit.self, Invoice.self, Note.self,
    ]

    /// Returns the server's tables, including the references that the models declare.
    package static func tables() throws -> [TableDefinition] {
        try models.map { type in
            let table = try RecordSchema.of(type).table
            return TableDefinition(
                table.name,
                columns: table.synced.columns,
                references: table.references,
                rules: table.rules
            )
        }
    }
}
