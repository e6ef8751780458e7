// RelatedChangeTests: after random changes, observed values are those of a fresh read.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct RelatedChangeTests {
    typealias Customer = Firm.Customer
    typealias Job = Firm.Job
    typealias Visit = Firm.Visit
    typealias Person = Firm.Person

    /// The values of an observation, compared with those of fresh reads.
    private protocol Watched: Sendable {
        /// Reads the query again, and remembers the value as one that may be observed.
        func read() async throws
        /// Waits for the value that was read last, and compares those in between.
        func follow() async throws
        /// Ends the observation.
        func stop()
    }

    /// The values that an observation has emitted.
    private final class Seen<Value: Sendable>: Sendable {
        private let state = Mutex<[Value]>([])

        var values: [Value] { state.withLock { $0 } }

        func add(_ value: Value) { state.withLock { $0.append(value) } }
    }

    private final class Values<Value: Equatable & Sendable>: Watched {
        private let seen = Seen<Value>()
        /// The values that were read.
        private let states = Seen<Value>()
        /// The number of observed values that were compared, and the state of the last one.
        private let compared = Mutex((count: 0, state: 0))
        private let task: Task<Void, any Error>
        private let fresh: @Sendable () async throws -> Value

        init(
            _ values: some AsyncSequence<Value, any Error> & Sendable,
            _ fresh: @escaping @Sendable () async throws -> Value
        ) async throws {
            self.fresh = fresh
            let seen = self.seen
            task = Task { for try await value in values { seen.add(value) } }
            try await read()
            try await follow()
        }

        func read() async throws { states.add(try await fresh()) }

        func follow() async throws {
            try await until { self.seen.values.last == self.states.values.last }
            let (seen, states) = (self.seen.values, self.states.values)
            compared.withLock { compared in
                for value in seen[compared.count...] {
                    // The observation shows whole states, in their order.
                    let next = states[compared.state...].firstIndex(of: value)
                    #expect(next != nil)
                    compared = (compared.count + 1, next ?? compared.state)
                }
            }
        }

        func stop() { task.cancel() }
    }

    private static func watch<Related: IncludableQuery>(
        _ query: Related,
        _ context: SyncContext
    ) async throws -> any Watched where Related.Entry: Equatable {
        try await Values(context.observe(query)) { try await context.read(query) }
    }

    private static func watch<Record: SyncRecord & Equatable>(
        _ query: Query<Record>,
        _ table: SyncTable<Record>
    ) async throws -> any Watched {
        try await Values(table.observe(query)) { try await table.read(query).items }
    }

    private static func jobs(_ random: inout SeededGenerator) throws -> Query<Job> {
        let rank = random.below(6)
        let conditions: [RecordCondition<Job>] = [
            RecordCondition { _ in .always() }, RecordCondition { $0.status == .open },
            RecordCondition { $0.rank >= rank }, RecordCondition { $0.due == nil },
        ]
        let orders: [[SortTerm<Job>]] = [
            [], [.ascending(\.rank)], [.descending(\.rank)],
            [.descending(\.title), .ascending(\.due)], [.ascending(\.title, .localized)],
        ]
        var query = try Query(where: conditions[random.below(4)])
            .sorted(by: orders[random.below(orders.count)])
        if random.chance(50) { query.limit = random.below(4) }
        if random.chance(20) { query.offset = random.below(2) }
        return query
    }

    private static func queries(
        _ device: Device,
        _ random: inout SeededGenerator
    ) async throws -> [any Watched] {
        let context = device.context
        let done = try Query<Visit> { $0.isDone }.sorted(by: .descending(\.minutes))
        let cities: [RecordCondition<Customer>] = [
            RecordCondition { _ in .always() }, RecordCondition { $0.city == "Kiel" },
        ]
        var customers = try Query(where: cities[random.below(2)]).sorted(by: .ascending(\.name))
        if random.chance(40) { customers.limit = random.below(5) }
        let down = try customers.including(jobs(&random).including(done))
        var some = try Query<Job> { $0.rank > 2 }
        if random.chance(50) { some = Query() }
        let up = try Query<Visit> { $0.minutes > 0 }
            .including(parent: some.including(parent: Query(where: cities[random.below(2)])))
        let several = try jobs(&random)
            .including(parent: Query<Customer>())
            .including(Query<Visit>().limited(to: 2))
            .including(parent: Query<Person>(), on: \.workerID)
        let nested = try Query<Customer>()
            .including(jobs(&random).including(parent: Query<Person>(), on: \.managerID))
        // The parents decide which jobs there are, so that these are always read as a whole.
        let related = try Query<Customer>()
            .including(Query<Job> { $0.hasChild(Visit.self) { $0.isDone } })
        let table = try device.client.syncTable(Job.self)
        return [
            try await watch(down, context), try await watch(up, context),
            try await watch(several, context), try await watch(nested, context),
            try await watch(related, context), try await watch(jobs(&random), table),
            try await watch(jobs(&random), table), try await watch(jobs(&random), table),
        ]
    }

    private static func change(
        _ device: Device,
        _ random: inout SeededGenerator
    ) async throws {
        let seed = random.next()
        if random.chance(15) { return try await changeStore(device, seed) }
        try await device.context.transaction { transaction in
            var random = SeededGenerator(seed: seed)
            for _ in 0...random.below(3) { try Self.change(transaction, &random) }
        }
    }

    /// Stores rows without operations, as a pull does, some of them without values.
    private static func changeStore(_ device: Device, _ seed: UInt64) async throws {
        try await device.store.write { writer in
            var random = SeededGenerator(seed: seed)
            let (id, customer) = ("k\(random.below(5))", "c\(random.below(10))")
            let rank: Value = random.chance(50) ? .null : .integer(Int64(random.below(8)))
            let title: Value = random.chance(30) ? .null : .string("d")
            let city: Value = random.chance(50) ? .null : .string("Kiel")
            if random.chance(20) {
                _ = try writer.delete(ids: [.string(id)], in: "Job")
            } else {
                let row: Row = [
                    "id": .string(id), "customerID": .string(customer), "rank": rank,
                    "title": title, "status": "open",
                ]
                try writer.put([row], in: "Job")
            }
            if random.chance(20) {
                try writer.put([["id": "c9", "name": "y", "city": city]], in: "Customer")
            }
        }
    }

    private static func change(
        _ transaction: SyncTransaction,
        _ random: inout SeededGenerator
    ) throws {
        let customers = try transaction.table(Customer.self)
        let jobs = try transaction.table(Job.self)
        let visits = try transaction.table(Visit.self)
        let people = try transaction.table(Person.self)
        // The rows c9 and k0 to k4 are stored without operations.
        let (customer, job) = ("c\(random.below(9))", "j\(random.below(24))")
        let (visit, person) = ("v\(random.below(40))", "p\(random.below(3))")
        let (number, flag) = (random.below(8), random.chance(50))
        switch random.below(10) {
        case 0:
            if try customers.read(id: customer) == nil {
                try customers.insert(Customer(id: customer, name: "n\(number)", city: "Kiel"))
            } else {
                try customers.delete(id: customer)
            }
        case 1:
            guard try customers.read(id: customer) != nil else { return }
            try customers.update(id: customer) { record in
                record.name = "n\(number)"
                record.city = flag ? "Kiel" : nil
            }
        case 2:
            if try jobs.read(id: job) == nil {
                try jobs.insert(
                    Job(id: job, customerID: customer, title: "\(number)", rank: number)
                )
            } else {
                try jobs.delete(id: job)
            }
        case 3...5:
            guard try jobs.read(id: job) != nil else { return }
            try jobs.update(id: job) { record in
                switch number {
                case 0...2: record.customerID = flag ? customer : "c9"
                case 3: record.status = flag ? .open : .done
                case 4: record.due = flag ? nil : Date(timeIntervalSince1970: 86_400)
                case 5: record.workerID = flag ? person : nil
                case 6: record.managerID = person
                default: record.rank = random.below(8)
                }
            }
        case 6:
            if try visits.read(id: visit) == nil {
                try visits.insert(Visit(id: visit, jobID: job, minutes: number, isDone: flag))
            } else {
                try visits.delete(id: visit)
            }
        case 7, 8:
            guard try visits.read(id: visit) != nil else { return }
            try visits.update(id: visit) { record in
                if number < 3 { record.jobID = job }
                record.minutes = number
                record.isDone = flag
            }
        default:
            if try people.read(id: person) == nil {
                try people.insert(Person(id: person, name: "\(number)"))
            } else if flag {
                try people.update(id: person) { $0.name = "\(number)" }
            } else {
                try people.delete(id: person)
            }
        }
    }

    @Test(
        "After random changes, each observed value is that of a fresh read",
        arguments: StoreKind.allCases,
        TestScope.first(3, of: Array(1...12))
    )
    func changes(kind: StoreKind, seed: Int) async throws {
        try await Firm.withDevice(kind) { device in
            var random = SeededGenerator(seed: UInt64(seed))
            try await Firm.fill(device, &random)
            let watched = try await Self.queries(device, &random)
            for _ in 0..<40 {
                // An observation combines changes that follow each other at once.
                for _ in 0...(random.chance(30) ? random.below(4) : 0) {
                    try await Self.change(device, &random)
                    for one in watched { try await one.read() }
                }
                for one in watched { try await one.follow() }
            }
            for one in watched { one.stop() }
        }
    }

    @Test(
        "A commit of another store on the file makes an observation read everything",
        arguments: 1...8
    )
    func otherStores(seed: Int) async throws {
        try await withTemporaryFile { path in
            let here = try await Firm.device(try SQLiteStore(path: path))
            let there = try await Firm.device(try SQLiteStore(path: path))
            var random = SeededGenerator(seed: UInt64(seed))
            try await Firm.fill(here, &random)
            let watched = try await Self.queries(here, &random)
            for _ in 0..<20 {
                // Until the last change of this store, an observation may miss those of the other one.
                for _ in 0..<random.below(3) {
                    try await Self.change(there, &random)
                    for one in watched { try await one.read() }
                }
                try await Self.change(here, &random)
                for one in watched { try await one.read() }
                for one in watched { try await one.follow() }
            }
            for one in watched { one.stop() }
        }
    }
}
