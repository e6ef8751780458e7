// Firm: models that refer to each other, and the rows of a random firm.

import Foundation
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

/// The models of a firm with customers, their jobs, and the visits of the jobs.
///
/// Their references have no consequences, so that a test can lose parents.
enum Firm {
    enum Status: String, Codable, CaseIterable, Sendable { case open, planned, done }

    struct Customer: SyncRecord, Hashable {
        var id = ""
        var name = ""
        var city: String?
    }

    struct Job: SyncRecord, Hashable {
        static let references = [
            Reference(\Job.customerID, to: Customer.self, onDelete: .none),
            Reference(\Job.managerID, to: Person.self, onDelete: .none),
            Reference(\Job.workerID, to: Person.self, onDelete: .none),
        ]

        var id = ""
        var customerID: String?
        var managerID: String?
        var workerID: String?
        var title = ""
        var status = Status.open
        var rank = 5
        var due: Date?
    }

    struct Visit: SyncRecord, Hashable {
        static let references = [Reference(\Visit.jobID, to: Job.self, onDelete: .none)]

        var id = ""
        var jobID = ""
        var minutes = 0
        var isDone = false
    }

    struct Person: SyncRecord, Hashable {
        var id = ""
        var name = ""
    }

    static let models: [any SyncRecord.Type] = [
        Customer.self, Job.self, Visit.self, Person.self,
    ]

    static func device(_ store: any LocalStore) async throws -> Device {
        try await Device(ScriptedTransport(), store: store, tables: models)
    }

    /// Runs a test on a device with a store.
    static func withDevice(
        _ kind: StoreKind,
        _ body: (Device) async throws -> Void
    ) async throws {
        try await withTemporaryFile { path in
            try await body(try await device(try await kind.stores(in: path)("one")))
        }
    }

    /// Two customers in Kiel with three jobs and one in Bonn without any, and visits of the first job.
    static func fill(_ device: Device) async throws {
        try await device.context.transaction { transaction in
            try transaction.table(Customer.self).insert([
                Customer(id: "a", name: "Ahrens", city: "Kiel"),
                Customer(id: "b", name: "Behn", city: "Kiel"),
                Customer(id: "c", name: "Claus", city: "Bonn"),
            ])
            try transaction.table(Job.self).insert([
                Job(id: "1", customerID: "a", workerID: "p", title: "door", rank: 3),
                Job(id: "2", customerID: "a", title: "roof", status: .done, rank: 9),
                Job(id: "3", customerID: "b", title: "wall", rank: 1),
                Job(id: "4", title: "none"),
                Job(id: "5", customerID: "gone", title: "lost"),
            ])
            try transaction.table(Visit.self).insert([
                Visit(id: "v1", jobID: "1", minutes: 30, isDone: true),
                Visit(id: "v2", jobID: "1", minutes: 60), Visit(id: "v3", jobID: "3", minutes: 15),
            ])
        }
    }

    /// Stores the rows of a random firm, some of them without values and without their parents.
    static func fill(_ device: Device, _ random: inout SeededGenerator) async throws {
        func text(_ values: [String]) -> Value {
            .string(values.randomElement(using: &random) ?? "")
        }
        func maybe(_ value: Value) -> Value { random.chance(20) ? .null : value }
        let ids = (0..<7).map { "c\($0)" }
        let customers: [Row] = ids.dropLast().map { id in
            ["id": .string(id), "name": text(["x", "y"]), "city": maybe(text(["Kiel", "Bonn"]))]
        }
        let jobIDs = (0..<20).map { "j\($0)" }
        let jobs: [Row] = jobIDs.dropLast(2).map { id in
            let day = Date(timeIntervalSince1970: Double(random.below(4)) * 86_400)
            return [
                "id": .string(id), "customerID": maybe(text(ids)), "title": text(["a", "b", "c"]),
                "status": text(Status.allCases.map(\.rawValue)),
                "rank": maybe(.integer(Int64(random.below(8)))), "due": maybe(.date(day)),
            ]
        }
        let visits: [Row] = (0..<30).map { number in
            [
                "id": .string("v\(number)"), "jobID": text(jobIDs),
                "minutes": maybe(.integer(Int64(random.below(4)))),
                "isDone": .bool(random.chance(50)),
            ]
        }
        try await device.store.write { writer in
            try writer.put(customers, in: "Customer")
            try writer.put(jobs, in: "Job")
            try writer.put(visits, in: "Visit")
        }
    }
}
