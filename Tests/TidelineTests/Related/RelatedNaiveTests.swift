// RelatedNaiveTests: random queries of related records on random rows have the results of loops in Swift.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct RelatedNaiveTests {
    typealias Customer = Firm.Customer
    typealias Job = Firm.Job
    typealias Visit = Firm.Visit

    /// All records, in the order of their ids.
    private struct Records {
        var customers: [Customer]
        var jobs: [Job]
        var visits: [Visit]

        init(_ reader: SyncReader) throws {
            customers = try reader.table(Customer.self).read()
            jobs = try reader.table(Job.self).read()
            visits = try reader.table(Visit.self).read()
        }
    }

    /// A condition as a query evaluates it, and as Swift does.
    private struct Choice<Record: SyncRecord> {
        var condition: RecordCondition<Record>
        var holds: (Record, Records) -> Bool

        init(
            _ condition: (Columns<Record>) throws -> Condition,
            _ holds: @escaping (Record, Records) -> Bool
        ) {
            self.condition = RecordCondition(condition)
            self.holds = holds
        }
    }

    private static func customers(_ random: inout SeededGenerator) -> Choice<Customer> {
        let rank = random.below(8)
        switch random.below(4) {
        case 0: return Choice({ _ in .always() }, { _, _ in true })
        case 1: return Choice({ $0.city == "Kiel" }, { customer, _ in customer.city == "Kiel" })
        case 2:
            return Choice(
                { $0.hasChild(Job.self) { $0.rank > rank } },
                { customer, all in
                    all.jobs.contains { $0.customerID == customer.id && $0.rank > rank }
                }
            )
        default:
            return Choice(
                { !$0.hasChild(Job.self) { $0.hasChild(Visit.self) { $0.isDone } } },
                { customer, all in
                    !all.jobs.filter { $0.customerID == customer.id }.contains { job in
                        all.visits.contains { $0.jobID == job.id && $0.isDone }
                    }
                }
            )
        }
    }

    private static func jobs(_ random: inout SeededGenerator) -> Choice<Job> {
        let (rank, minutes) = (random.below(8), random.below(4))
        switch random.below(6) {
        case 0: return Choice({ _ in .always() }, { _, _ in true })
        case 1: return Choice({ $0.status == .open }, { job, _ in job.status == .open })
        case 2: return Choice({ $0.rank >= rank }, { job, _ in job.rank >= rank })
        case 3: return Choice({ $0.due == nil }, { job, _ in job.due == nil })
        case 4:
            return Choice(
                { $0.hasParent(Customer.self) { $0.city != "Kiel" } || $0.rank < 2 },
                { job, all in
                    if job.rank < 2 { return true }
                    return all.customers.contains { $0.id == job.customerID && $0.city != "Kiel" }
                }
            )
        default:
            return Choice(
                { !$0.hasChild(Visit.self) { $0.minutes <= minutes } },
                { job, all in
                    !all.visits.contains { $0.jobID == job.id && $0.minutes <= minutes }
                }
            )
        }
    }

    /// An order as a query has it, and as a comparison.
    private static func order(
        _ random: inout SeededGenerator
    ) -> (terms: [SortTerm<Job>], precedes: (Job, Job) -> Bool) {
        func less<Key: Comparable>(_ one: Key, _ two: Key, _ ids: (String, String)) -> Bool {
            one == two ? ids.0 < ids.1 : one < two
        }
        switch random.below(4) {
        case 0: return ([], { $0.id < $1.id })
        case 1: return ([.ascending(\.rank)], { less($0.rank, $1.rank, ($0.id, $1.id)) })
        case 2: return ([.descending(\.rank)], { less(-$0.rank, -$1.rank, ($0.id, $1.id)) })
        default:
            let early = Date.distantPast
            return (
                [.descending(\.title), .ascending(\.due)],
                { one, two in
                    if one.title != two.title { return one.title > two.title }
                    return less(one.due ?? early, two.due ?? early, (one.id, two.id))
                }
            )
        }
    }

    private static func check(_ device: Device, _ random: inout SeededGenerator) async throws {
        let (customers, jobs) = (customers(&random), jobs(&random))
        let order = order(&random)
        let offset = random.below(2)
        let limit = random.chance(50) ? random.below(4) : nil
        var jobQuery = try Query(where: jobs.condition).sorted(by: order.terms)
        (jobQuery.limit, jobQuery.offset) = (limit, offset)
        let done = try Query<Visit> { $0.isDone }
        let down = try Query(where: customers.condition).including(jobQuery.including(done))
        let some = try Query(where: jobs.condition)
        let up = try Query<Visit> { $0.minutes > 0 }
            .including(parent: some.including(parent: Query(where: customers.condition)))
        let (all, foundDown, foundUp) = try await device.context.read { reader in
            (try Records(reader), try reader.read(down), try reader.read(up))
        }
        let wantedDown = all.customers.filter { customers.holds($0, all) }.map { customer in
            let own = all.jobs
                .filter { $0.customerID == customer.id && jobs.holds($0, all) }
                .sorted(by: order.precedes)
                .dropFirst(offset)
            let window = own.prefix(limit ?? own.count)
            return WithRelated(
                customer,
                window.map { job in
                    WithRelated(job, all.visits.filter { $0.jobID == job.id && $0.isDone })
                }
            )
        }
        let wantedUp = all.visits.filter { $0.minutes > 0 }.map { visit in
            let job = all.jobs.first { $0.id == visit.jobID && jobs.holds($0, all) }
            return WithRelated(
                visit,
                job.map { job in
                    WithRelated(
                        job,
                        all.customers.first { $0.id == job.customerID && customers.holds($0, all) }
                    )
                }
            )
        }
        #expect(foundDown == wantedDown)
        #expect(foundUp == wantedUp)
    }

    @Test(
        "Queries for related records have the same results as loops over all records",
        arguments: StoreKind.allCases,
        1...25
    )
    func queries(kind: StoreKind, seed: Int) async throws {
        try await Firm.withDevice(kind) { device in
            var random = SeededGenerator(seed: UInt64(seed))
            try await Firm.fill(device, &random)
            for _ in 0..<6 { try await Self.check(device, &random) }
        }
    }
}
