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
        let newest = try Query<Job>(where: { $0.status == .open })
            .sorted(by: .descending(\.openedAt))
            .limited(to: 3)
        let found = try reader.read(Query<Customer>(where: { $0.id == id }).including(newest)).first
        customer = found?.record
        openJobs = found?.related ?? []
        jobCounts = try reader.table(Job.self).count(by: \.status, where: { $0.customerID == id })
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
    /// The open jobs that are urgent, the oldest first: those of a city, or all.
    var urgentJobs: [Job]

    init(_ reader: SyncReader, day: DateInterval, city: String?) throws {
        let jobs = try Query<Job>().including(parent: Query<Customer>())
        let visits = try Query<Visit>(where: { $0.start >= day.start && $0.start < day.end })
            .sorted(by: .ascending(\.start))
            .including(parent: jobs)
        entries = try reader.read(visits).map {
            Entry(visit: $0.record, job: $0.related?.record, customer: $0.related?.related)
        }
        var urgent = try Query<Job>(where: { $0.status == .open && $0.tags.contains("urgent") })
        if let city {
            urgent = try urgent.filter { $0.hasParent(Customer.self) { $0.address.city == city } }
        }
        urgentJobs = try reader.read(urgent.sorted(by: .ascending(\.openedAt)))
    }
}
