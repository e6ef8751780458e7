// RelatedObserveTests: observed records with related ones, and which changes reach them.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct RelatedObserveTests {
    typealias Customer = Firm.Customer
    typealias Job = Firm.Job
    typealias Visit = Firm.Visit

    @Test(
        "A value shows each change of the records and their children",
        arguments: StoreKind.allCases
    )
    func changes(kind: StoreKind) async throws {
        try await Firm.withDevice(kind) { device in
            try await Firm.fill(device)
            let open = try Query<Job> { $0.status == .open }.sorted(by: .ascending(\.rank)).limited(
                to: 2
            )
            let query = try Query<Customer> { $0.city == "Kiel" }.including(open)
            let (customers, jobs) = (
                try device.client.syncTable(Customer.self), try device.client.syncTable(Job.self)
            )
            var values = device.context.observe(query).makeAsyncIterator()
            func ids(_ value: [WithRelated<Customer, [Job]>]?) -> [String: [String]] {
                let pairs = (value ?? []).map { ($0.id, $0.related.map(\.id)) }
                return Dictionary(uniqueKeysWithValues: pairs)
            }
            #expect(try await ids(values.next()) == ["a": ["1"], "b": ["3"]])
            try await jobs.update(id: "2") { $0.status = .open }
            #expect(try await ids(values.next()) == ["a": ["1", "2"], "b": ["3"]])
            try await jobs.insert(Job(id: "6", customerID: "a", rank: 0))
            #expect(try await ids(values.next()) == ["a": ["6", "1"], "b": ["3"]])
            try await jobs.delete(id: "6")
            #expect(try await ids(values.next()) == ["a": ["1", "2"], "b": ["3"]])
            try await jobs.update(id: "1") { $0.customerID = "b" }
            #expect(try await ids(values.next()) == ["a": ["2"], "b": ["3", "1"]])
            try await customers.update(id: "c") { $0.city = "Kiel" }
            #expect(try await ids(values.next()) == ["a": ["2"], "b": ["3", "1"], "c": []])
            try await jobs.update(id: "5") { $0.customerID = "c" }
            #expect(try await ids(values.next()) == ["a": ["2"], "b": ["3", "1"], "c": ["5"]])
            try await device.context.transaction { transaction in
                try transaction.table(Job.self).update(id: "2") { $0.customerID = "c" }
                try transaction.table(Customer.self).delete(id: "a")
            }
            #expect(try await ids(values.next()) == ["b": ["3", "1"], "c": ["5", "2"]])
        }
    }

    @Test("A value shows the changes of parents, also of two levels", arguments: StoreKind.allCases)
    func parents(kind: StoreKind) async throws {
        try await Firm.withDevice(kind) { device in
            try await Firm.fill(device)
            let query = try Query<Visit>()
                .including(parent: Query<Job>().including(parent: Query<Customer>()))
            let customers = try device.client.syncTable(Customer.self)
            let jobs = try device.client.syncTable(Job.self)
            var values = device.context.observe(query).makeAsyncIterator()
            typealias Value = [WithRelated<Visit, WithRelated<Job, Customer?>?>]
            func names(_ value: Value?) -> [String?] {
                (value ?? []).map { $0.related?.related?.name }
            }
            #expect(try await names(values.next()) == ["Ahrens", "Ahrens", "Behn"])
            try await customers.update(id: "a") { $0.name = "Adam" }
            #expect(try await names(values.next()) == ["Adam", "Adam", "Behn"])
            try await jobs.update(id: "3") { $0.customerID = "new" }
            #expect(try await names(values.next()) == ["Adam", "Adam", nil])
            try await customers.insert(Customer(id: "new", name: "Nils"))
            #expect(try await names(values.next()) == ["Adam", "Adam", "Nils"])
            try await jobs.delete(id: "1")
            #expect(try await names(values.next()) == [nil, nil, "Nils"])
        }
    }

    /// Counts how often a closure runs.
    private final class Runs: Sendable {
        private let state = Mutex(0)

        var count: Int { state.withLock { $0 } }

        func add() { state.withLock { $0 += 1 } }
    }

    @Test("A change of records that are not part of the value does not run a closure")
    func otherChanges() async throws {
        try await Firm.withDevice(.file) { device in
            try await Firm.fill(device)
            let open = try Query<Job> { $0.status == .open }
            let query = try Query<Customer> { $0.id == "a" }.including(open)
            let (jobs, runs) = (try device.client.syncTable(Job.self), Runs())
            var values = device.context.observe { reader in
                runs.add()
                return try reader.read(query).map { $0.related.map(\.title) }
            }.makeAsyncIterator()
            #expect(try await values.next() == [["door"]])
            // Of another customer, of no customer, and not open.
            try await jobs.update(id: "3") { $0.title = "x" }
            try await jobs.insert(Job(id: "7"))
            try await jobs.update(id: "2") { $0.title = "x" }
            try await device.client.syncTable(Customer.self).update(id: "b") { $0.name = "x" }
            try await jobs.update(id: "1") { $0.title = "gate" }
            #expect(try await values.next() == [["gate"]])
            #expect(runs.count == 2)
        }
    }

    @Test(
        "A list with a condition on related records follows the other table",
        arguments: StoreKind.allCases
    )
    func conditions(kind: StoreKind) async throws {
        try await Firm.withDevice(kind) { device in
            try await Firm.fill(device)
            let jobs = try device.client.syncTable(Job.self)
            let customers = try device.client.syncTable(Customer.self)
            let isOfBonn = RecordCondition<Job> {
                $0.hasParent(Customer.self) { $0.city == "Bonn" }
            }
            var lists = jobs.observe(where: { isOfBonn($0) }).makeAsyncIterator()
            var counts = jobs.observeCount(where: { isOfBonn($0) }).makeAsyncIterator()
            var closures = device.context.observe {
                try $0.table(Job.self).read(where: { isOfBonn($0) }).map(\.id)
            }.makeAsyncIterator()
            #expect(try await lists.next()?.map(\.id) == [])
            #expect(try await counts.next() == 0)
            #expect(try await closures.next() == [])
            try await customers.update(id: "b") { $0.city = "Bonn" }
            #expect(try await lists.next()?.map(\.id) == ["3"])
            #expect(try await counts.next() == 1)
            #expect(try await closures.next() == ["3"])
            try await jobs.update(id: "5") { $0.customerID = "c" }
            #expect(try await lists.next()?.map(\.id) == ["3", "5"])
            #expect(try await counts.next() == 2)
            #expect(try await closures.next() == ["3", "5"])
        }
    }

    private struct Page: SyncRecord, Equatable {
        static let search = SearchIndex(\Page.text)

        var id = ""
        var text = ""
    }

    @Test("A closure that searches for words runs after each change of the table")
    func searches() async throws {
        try await withTemporaryFile { path in
            let store = try SQLiteStore(path: path)
            let device = try await Device(ScriptedTransport(), store: store, tables: [Page.self])
            let pages = try device.client.syncTable(Page.self)
            var found = device.context.observe {
                try $0.table(Page.self).read(Query().matching("oak")).items.map(\.id)
            }.makeAsyncIterator()
            #expect(try await found.next() == [])
            try await pages.insert(Page(id: "a", text: "an oak"))
            #expect(try await found.next() == ["a"])
        }
    }
}
