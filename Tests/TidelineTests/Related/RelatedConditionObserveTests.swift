// Observed sums and searches with a condition on a related record follow the changes of that record.

import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct RelatedConditionObserveTests {
    private struct Customer: SyncRecord {
        var id = ""
        var city = ""
    }

    private struct Job: SyncRecord {
        static let references = [Reference(\Job.customerID, to: Customer.self)]
        static let search = SearchIndex(\Job.title)
        var id = ""
        var customerID: String?
        var title = ""
        var minutes = 0
    }

    private func withJobs(
        _ body: (Device, SyncTable<Customer>) async throws -> Void
    ) async throws {
        try await withTemporaryFile { path in
            let device = try await Device(
                ScriptedTransport(),
                store: StoreKind.file.stores(in: path)("one"),
                tables: [Customer.self, Job.self]
            )
            let customers = try device.client.syncTable(Customer.self)
            try await customers.insert(Customer(id: "c", city: "Bonn"))
            try await device.client.syncTable(Job.self).insert(
                Job(id: "j", customerID: "c", title: "boiler", minutes: 30)
            )
            try await body(device, customers)
        }
    }

    @Test("Observed totals follow changes of the parents in their condition")
    func totals() async throws {
        try await withJobs { device, customers in
            var values = device.context.observe { reader in
                let jobs = try reader.table(Job.self)
                let query = try Query<Job> { $0.hasParent(Customer.self) { $0.city == "Kiel" } }
                return [
                    try jobs.sum(\.minutes, query), Int(try jobs.average(\.minutes, query) ?? 0),
                    try jobs.count(by: \.title, query).count,
                    try jobs.distinct(\.title, query).count,
                ]
            }.makeAsyncIterator()
            #expect(try await values.next() == [0, 0, 0, 0])
            try await customers.update(id: "c") { $0.city = "Kiel" }
            #expect(try await values.next() == [30, 30, 1, 1])
        }
    }

    @Test("An observed search follows changes of the parents in its condition")
    func searches() async throws {
        try await withJobs { device, customers in
            let jobs = try device.client.syncTable(Job.self)
            var hits = jobs.observeSearch(
                "boil*",
                where: { $0.hasParent(Customer.self) { $0.city == "Kiel" } }
            ).makeAsyncIterator()
            #expect(try await hits.next()?.isEmpty == true)
            try await customers.update(id: "c") { $0.city = "Kiel" }
            #expect(try await hits.next()?.count == 1)
        }
    }

    @Test("An observed list follows parents whose table is declared in another letter case")
    func declaredNames() async throws {
        let schema = TableSchema(name: "CUSTOMER", columns: [ColumnDefinition("city", .string)])
        let device = try await Device(
            ScriptedTransport(),
            tables: [Customer.self, Job.self],
            schemas: [schema]
        )
        let customers = try device.client.syncTable(Customer.self)
        let jobs = try device.client.syncTable(Job.self)
        try await customers.insert(Customer(id: "c", city: "Bonn"))
        try await jobs.insert(Job(id: "j", customerID: "c", title: "boiler", minutes: 30))
        var lists = jobs.observe(
            where: { $0.hasParent(Customer.self) { $0.city == "Kiel" } }
        ).makeAsyncIterator()
        var counts = device.context.observe { reader in
            let query = try Query<Job> { $0.hasParent(Customer.self) { $0.city == "Kiel" } }
            return try reader.table(Job.self).count(query)
        }.makeAsyncIterator()
        #expect(try await lists.next()?.isEmpty == true)
        #expect(try await counts.next() == 0)
        try await customers.update(id: "c") { $0.city = "Kiel" }
        #expect(try await lists.next()?.map(\.id) == ["j"])
        #expect(try await counts.next() == 1)
    }
}
