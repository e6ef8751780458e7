// CascadeDevice: a device that deletes parents, and with them the rows that refer to them.

import Foundation
import Tideline

struct Customer: SyncRecord {
    var id = ""
    var name = ""
}

struct Job: SyncRecord {
    static let references = [Reference(\Job.customerID, to: Customer.self, onDelete: .cascade)]
    var id = ""
    var customerID: Customer.ID?
}

struct Visit: SyncRecord {
    static let references = [
        Reference(\Visit.jobID, to: Job.self, onDelete: .cascade),
        Reference(\Visit.nextID, to: Visit.self, onDelete: .setNull),
    ]
    var id = ""
    var jobID: Job.ID?
    var nextID: Visit.ID?
}

/// A device with customers, their jobs and visits.
struct CascadeDevice {
    let client: SyncClient

    init(_ path: String, _ server: URL) async throws {
        client = SyncClient(endpoint: server)
        try await client.syncContext.initialize(
            store: try SQLiteStore(path: path),
            tables: [Customer.self, Job.self, Visit.self]
        )
    }

    /// Inserts customers, each with ten jobs that have one visit each.
    func fill(_ customers: Int) async throws {
        for customer in 0..<customers {
            try await client.syncContext.transaction { transaction in
                let id = "c\(customer)"
                try transaction.table(Customer.self).insert(Customer(id: id))
                for job in 0..<10 {
                    let name = "\(id)-\(job)"
                    try transaction.table(Job.self).insert(Job(id: name, customerID: id))
                    try transaction.table(Visit.self).insert(Visit(id: name, jobID: name))
                }
            }
        }
    }

    /// Deletes all customers, one after the other.
    func deleteAll() async throws {
        let customers = try client.syncTable(Customer.self)
        for id in try await customers.read().map(\.id).sorted() {
            try await customers.delete(id: id)
        }
    }
}
