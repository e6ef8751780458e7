// Screens: what the screens show, each read from several tables in one state.

import Foundation
import Tideline

/// The content of the screen of a customer.
nonisolated struct CustomerScreen: Equatable {
    /// The customer; nil if the device does not have them.
    var customer: Customer?
    /// The newest open jobs, at most three.
    var openJobs: [Job]
    var jobCounts: [Job.Status: Int]

    init(_ reader: SyncReader, customer id: Customer.ID) throws {
        let jobs = try reader.table(Job.self)
        customer = try reader.table(Customer.self).read(id: id)
        openJobs = try jobs.read(
            where: { $0.customerID == id && $0.status == .open },
            sortedBy: [.descending(\.openedAt)],
            limit: 3
        )
        jobCounts = try jobs.count(by: \.status, where: { $0.customerID == id })
    }
}

/// The content of the screen of a job.
nonisolated struct JobScreen: Equatable {
    var job: Job?
    var customer: Customer?
    var visits: [Visit]
    var parts: [Part]
    var minutes: Int

    init(_ reader: SyncReader, job id: Job.ID) throws {
        let visitTable = try reader.table(Visit.self)
        job = try reader.table(Job.self).read(id: id)
        customer = try job.flatMap { try reader.table(Customer.self).read(id: $0.customerID) }
        visits = try visitTable.read(where: { $0.jobID == id }, sortedBy: [.ascending(\.start)])
        minutes = try visitTable.sum(\.minutes, where: { $0.jobID == id })
        parts = try reader.table(Part.self)
            .read(where: { $0.jobID == id }, sortedBy: [.ascending(\.name, .localized)])
    }

    /// The price of all parts.
    var cents: Int { parts.reduce(0) { $0 + $1.quantity * $1.cents } }
}

/// The content of the screen of a day.
nonisolated struct DayScreen: Equatable {
    /// A visit with the job and the customer that it is for.
    struct Entry: Identifiable, Equatable {
        var visit: Visit
        var job: Job?
        var customer: Customer?
        var id: Visit.ID { visit.id }
    }

    /// The visits that begin on the day, in their order.
    var entries: [Entry]
    /// All open jobs that are urgent, the oldest first.
    var urgentJobs: [Job]

    init(_ reader: SyncReader, day: DateInterval) throws {
        let jobs = try reader.table(Job.self)
        let customers = try reader.table(Customer.self)
        let visits = try reader.table(Visit.self).read(
            where: { $0.start >= day.start && $0.start < day.end },
            sortedBy: [.ascending(\.start)]
        )
        entries = try visits.map { visit in
            let job = try jobs.read(id: visit.jobID)
            let customer = try job.flatMap { try customers.read(id: $0.customerID) }
            return Entry(visit: visit, job: job, customer: customer)
        }
        urgentJobs = try jobs.read(
            where: { $0.status == .open && $0.tags.contains("urgent") },
            sortedBy: [.ascending(\.openedAt)]
        )
    }
}
