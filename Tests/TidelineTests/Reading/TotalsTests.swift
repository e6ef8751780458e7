// Sums, averages, extremes and groups: the results of the store equal those of adding records in memory.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

/// A record with a property of each kind that can be added or grouped.
private struct Job: SyncRecord, Hashable {
    enum Status: String, Codable, CaseIterable { case open, done, cancelled }

    static let defaults = Job(minutes: 15, price: 2)

    var id = ""
    var title = ""
    var status = Status.open
    var minutes = 15
    var small: Int8?
    var hours = 0.5
    var distance: Double?
    var price: Decimal = 2
    var discount: Decimal?
    var isUrgent = false
    var day: LocalDate?
    var due: Date?
    var customer: UUID?
    var tags: [String] = []
}

/// The same table before most properties were added.
private struct OldJob: SyncRecord {
    static let tableName = "Job"
    var id = ""
    var title = ""
}

@Suite struct TotalsTests {
    private func open(_ store: any LocalStore) async throws -> Device {
        try await Device(ScriptedTransport(), store: store, tables: [Job.self])
    }

    private func withDevice(
        _ kind: StoreKind,
        _ body: (Device, SyncTable<Job>) async throws -> Void
    ) async throws {
        try await withTemporaryFile { path in
            let device = try await open(kind.stores(in: path)("one"))
            try await body(device, device.client.syncTable(Job.self))
        }
    }

    @Test("Totals of no records are zero, nil or empty", arguments: StoreKind.allCases)
    func empty(kind: StoreKind) async throws {
        try await withDevice(kind) { _, jobs in
            let minutes = try await jobs.sum(\.minutes)
            #expect(minutes == 0)
            #expect(try await jobs.sum(\.price) == 0)
            #expect(try await jobs.sum(\.distance) == 0)
            #expect(try await jobs.average(\.hours) == nil)
            #expect(try await jobs.min(\.minutes) == nil)
            #expect(try await jobs.max(\.due) == nil)
            #expect(try await jobs.count(by: \.status).isEmpty)
            #expect(try await jobs.sum(\.minutes, by: \.status).isEmpty)
            #expect(try await jobs.distinct(\.title).isEmpty)
            #expect(try await !jobs.exists(where: { _ in .always() }))
            #expect(try await !jobs.exists())
            #expect(try await jobs.first() == nil)
        }
    }

    @Test("Each total can be read from a table, a reader and a transaction")
    func forms() async throws {
        try await withDevice(.file) { device, jobs in
            try await jobs.insert([
                Job(id: "a", status: .done, minutes: 10, price: 1.5),
                Job(id: "b", status: .open, minutes: 20, small: 3, price: 2.25),
                Job(id: "c", status: .done, minutes: 30, distance: 2, price: 3),
            ])
            let done = try Query<Job>(where: { $0.status == .done })
            #expect(try await jobs.sum(\.minutes, done) == 40)
            #expect(try await jobs.sum(\.price, where: { $0.minutes > 10 }) == 5.25)
            #expect(try await jobs.sum(\.small) == 3)
            #expect(try await jobs.average(\.minutes) == 20)
            #expect(try await jobs.average(\.distance, where: { $0.id != "x" }) == 2)
            #expect(try await jobs.min(\.minutes, done) == 10)
            #expect(try await jobs.max(\.small, where: { $0.id != "x" }) == 3)
            #expect(try await jobs.count(by: \.status) == [.done: 2, .open: 1])
            #expect(try await jobs.count(by: \.small, where: { $0.id != "a" }) == [3: 1, nil: 1])
            #expect(try await jobs.sum(\.minutes, by: \.status) == [.done: 40, .open: 20])
            let later = try await jobs.sum(\.minutes, by: \.status, where: { $0.id != "a" })
            #expect(later == [.done: 30, .open: 20])
            #expect(try await jobs.exists())
            #expect(try await jobs.distinct(\.status) == [.open, .done])
            #expect(try await jobs.distinct(\.distance, done) == [nil, 2])
            #expect(try await jobs.exists(where: { $0.minutes == 30 }))
            #expect(
                try await !jobs.exists(done.limited(to: 0).sorted(by: .ascending(\.id))) == false
            )
            #expect(
                try await jobs.first(where: { _ in .always() }, sortedBy: [.descending(\.id)])?.id
                    == "c"
            )
            #expect(try await jobs.first(done.limited(to: 5, offset: 1))?.id == "c")
            #expect(
                try await jobs.totals(of: "minutes", by: "status", Query()) == [
                    RowTotals(group: "open", count: 1, sum: 20),
                    RowTotals(group: "done", count: 2, sum: 40),
                ]
            )
            let inReader = try await device.context.read { reader in
                let jobs = try reader.table(Job.self)
                #expect(try jobs.exists(where: { $0.minutes == 30 }))
                #expect(try jobs.exists())
                #expect(try jobs.max(\.price) == 3)
                return try jobs.sum(\.minutes)
            }
            #expect(inReader == 60)
            try await device.context.transaction { transaction in
                let jobs = try transaction.table(Job.self)
                try jobs.insert(Job(id: "d", minutes: 40))
                #expect(try jobs.sum(\.minutes) == 100)
                #expect(try jobs.count(by: \.status)[.open] == 2)
            }
        }
    }

    @Test("Each verb takes a predicate on tables, in readers and in transactions")
    func predicates() async throws {
        try await withDevice(.file) { device, jobs in
            try await jobs.insert([
                Job(id: "a", title: "oil", minutes: 10, price: 1.5),
                Job(id: "b", title: "oil", minutes: 20, small: 3, price: 2.25),
                Job(id: "c", title: "gas", minutes: 30, distance: 2, price: 3),
            ])
            let long = #Predicate<Job> { $0.minutes > 10 }
            #expect(try await jobs.exists(where: #Predicate { $0.minutes == 30 }))
            #expect(try await !jobs.exists(where: #Predicate { $0.minutes == 31 }))
            #expect(try await jobs.first(where: long, sortedBy: [.descending(\.id)])?.id == "c")
            #expect(try await jobs.sum(\.minutes, where: long) == 50)
            #expect(
                try await jobs.sum(\.minutes, by: \.title, where: long) == ["oil": 20, "gas": 30]
            )
            #expect(try await jobs.average(\.minutes, where: long) == 25)
            #expect(try await jobs.min(\.minutes, where: long) == 20)
            #expect(try await jobs.min(\.small, where: long) == 3)
            #expect(try await jobs.max(\.price, where: long) == 3)
            #expect(try await jobs.max(\.distance, where: long) == 2)
            #expect(try await jobs.count(by: \.title, where: long) == ["oil": 1, "gas": 1])
            #expect(try await jobs.distinct(\.title, where: long) == ["gas", "oil"])
            let longOil = try Query<Job>(where: { $0.title == "oil" }).filter(long)
            #expect(try await jobs.read(longOil).items.map(\.id) == ["b"])
            try await device.context.read { reader in
                let jobs = try reader.table(Job.self)
                #expect(try jobs.exists(where: long))
                #expect(try jobs.first(where: #Predicate { $0.title == "gas" })?.id == "c")
                #expect(try jobs.sum(\.price, where: long) == 5.25)
            }
            let changed = try await device.context.transaction { transaction in
                let jobs = try transaction.table(Job.self)
                let updated = try jobs.update(where: long) { $0.title = "new" }
                return try [updated, jobs.delete(where: #Predicate { $0.minutes == 10 })]
            }
            #expect(changed == [2, 1])
            #expect(try await jobs.update(where: long) { $0.minutes += 1 } == 2)
            #expect(try await jobs.delete(where: #Predicate { $0.minutes == 31 }) == 1)
            #expect(try await jobs.read().map(\.minutes) == [21])
        }
    }

    @Test("A row without a value counts with the property's default", arguments: StoreKind.allCases)
    func absentValues(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let store = try await kind.stores(in: path)("one")
            let old = try await Device(ScriptedTransport(), store: store, tables: [OldJob.self])
            try await old.client.syncTable(OldJob.self).insert([OldJob(id: "a"), OldJob(id: "b")])
            let device = try await open(store)
            let jobs = try device.client.syncTable(Job.self)
            try await jobs.insert(Job(id: "c", minutes: 5, price: 10))
            #expect(try await jobs.read().map(\.minutes) == [15, 15, 5])
            #expect(try await jobs.sum(\.minutes) == 35)
            #expect(try await jobs.sum(\.price) == 14)
            #expect(try await jobs.min(\.minutes) == 5)
            #expect(try await jobs.max(\.minutes) == 15)
            let titles = try Query<Job>().selecting(\.title)
            #expect(try await jobs.min(\.minutes, titles) == 5)
            #expect(try await jobs.max(\.price, titles) == 10)
            #expect(try await jobs.count(by: \.minutes) == [15: 2, 5: 1])
            #expect(try await jobs.distinct(\.minutes) == [5, 15])
            #expect(try await jobs.sum(\.minutes, by: \.price) == [2: 30, 10: 5])
        }
    }

    @Test(
        "A sum out of range is an error, and its average is not",
        arguments: StoreKind.allCases
    )
    func overflow(kind: StoreKind) async throws {
        try await withDevice(kind) { _, jobs in
            try await jobs.insert([
                Job(id: "a", minutes: .max), Job(id: "b", minutes: .max - 1),
                Job(id: "c", minutes: -5),
            ])
            #expect(await code { _ = try await jobs.sum(\.minutes) } == .sumTooLarge)
            #expect(try await jobs.average(\.minutes).map { $0 > 6e18 } == true)
            // The intermediate sum is out of range, the result is not.
            try await jobs.update(id: "b") { $0.minutes = .min + 5 }
            try await jobs.update(id: "c") { $0.minutes = 7 }
            #expect(try await jobs.sum(\.minutes) == 11)
            try await jobs.insert(Job(id: "d", minutes: -11))
            #expect(try await jobs.sum(\.minutes) == 0)
        }
    }

    @Test("Columns that cannot be added or grouped are rejected", arguments: StoreKind.allCases)
    func unsupported(kind: StoreKind) async throws {
        try await withDevice(kind) { device, jobs in
            #expect(await code { _ = try await jobs.count(by: \.tags) } == .unsupportedQuery)
            let rows = try device.client.syncTable(named: "Job")
            #expect(await totalsCode(of: "title", by: nil, rows) == .unsupportedQuery)
            #expect(await totalsCode(of: "nowhere", by: nil, rows) == .unsupportedQuery)
            #expect(await totalsCode(of: nil, by: "nowhere", rows) == .unsupportedQuery)
            #expect(await totalsCode(of: nil, by: "deleted", rows) == .unsupportedQuery)
        }
    }

    private func totalsCode(
        of column: String?,
        by group: String?,
        _ rows: SyncTable<Row>
    ) async -> SyncError.Code? {
        await code { _ = try await rows.totals(of: column, by: group, Query()) }
    }

    @Test(
        "A value that does not fit its column counts as missing in a total",
        arguments: StoreKind.allCases
    )
    func misfits(kind: StoreKind) async throws {
        try await withDevice(kind) { device, _ in
            try await device.seed(
                [
                    ["id": "a", "minutes": "many", "small": "few", "price": 1.5],
                    ["id": "b", "minutes": 2, "small": 2, "price": .decimal(1)],
                ],
                "Job"
            )
            let rows = try device.client.syncTable(named: "Job")
            let small = try await rows.totals(of: "small", by: nil, Query())
            #expect(small == [RowTotals(count: 1, sum: 2)])
            let groups = try await rows.totals(of: nil, by: "small", Query())
            #expect(groups.map(\.group) == [.null, 2])
            let jobs = try device.client.syncTable(Job.self)
            #expect(try await jobs.sum(\.minutes) == 17)
        }
    }

    @Test("Observed totals follow every change of their table")
    func observed() async throws {
        try await withDevice(.file) { device, jobs in
            try await jobs.insert([Job(id: "a", minutes: 10), Job(id: "b", minutes: 20)])
            var seen = device.context.observe { reader in
                try reader.table(Job.self).sum(\.minutes, where: { $0.minutes > 15 })
            }.makeAsyncIterator()
            #expect(try await seen.next() == 20)
            try await jobs.update(id: "b") { $0.minutes = 5 }
            #expect(try await seen.next() == 0)
            try await jobs.update(id: "a") { $0.minutes = 100 }
            #expect(try await seen.next() == 100)
            var top = device.context.observe { reader in
                try reader.table(Job.self).max(\.minutes)
            }.makeAsyncIterator()
            #expect(try await top.next() == 100)
            try await jobs.delete(id: "a")
            #expect(try await top.next() == 5)
        }
    }

    private static let seeds: [UInt64] = TestScope.first(20, of: Array(0..<40))

    /// Returns a record whose doubles have a short binary form, so that their sum does not depend on the order.
    private static func job(_ number: Int, _ random: inout SeededGenerator) -> Job {
        func optional<T>(_ value: T) -> T? { random.chance(30) ? nil : value }
        let amount = Decimal(random.below(2000) - 1000) / 100
        var job = Job(id: "\(number)")
        job.title = random.pick(["", "a", "b", "\u{e9}", "e\u{301}"])
        job.status = random.pick(Job.Status.allCases)
        job.minutes = random.pick([0, 1, -7, 15, 1440, 1 << 40])
        job.small = optional(Int8(random.below(200) - 100))
        job.hours = Double(random.below(100) - 50) / 4
        job.distance = optional(Double(random.below(100)) / 8)
        job.price = amount
        job.discount = optional(amount / 16)
        job.isUrgent = random.chance(50)
        job.day = optional(LocalDate("2026-0\(1 + random.below(9))-01")).flatMap { $0 }
        job.due = optional(Date(timeIntervalSince1970: Double(random.below(1000)) / 4))
        job.customer = optional(UUID(uuidString: "6BA7B810-9DAD-11D1-80B4-00C04FD430C8"))
            .flatMap { $0 }
        return job
    }

    @Test("Totals equal those of the records in memory", arguments: StoreKind.allCases)
    func property(kind: StoreKind) async throws {
        for seed in Self.seeds {
            var random = SeededGenerator(seed: seed)
            try await withDevice(kind) { device, jobs in
                let count = random.below(40)
                let old = random.below(5)
                try await jobs.insert((0..<count).map { Self.job($0, &random) })
                // Rows of the server without values for some columns.
                try await device.seed((0..<old).map { ["id": .string("old \($0)")] }, "Job")
                let limit = random.pick([-8, 0, 15])
                let query = try Query<Job>(where: { $0.minutes >= limit || $0.isUrgent })
                let all = try await jobs.read(query).items
                #expect(all.allSatisfy { $0.minutes >= limit || $0.isUrgent })
                let note: Comment = "seed \(seed)"
                try await compareSums(jobs, query, all, note)
                try await compareGroups(jobs, query, all, note)
                try await compareExtremes(jobs, query, all, note)
            }
        }
    }

    private func compareSums(
        _ jobs: SyncTable<Job>,
        _ query: Query<Job>,
        _ all: [Job],
        _ note: Comment
    ) async throws {
        #expect(try await jobs.sum(\.minutes, query) == all.map(\.minutes).reduce(0, +), note)
        let small = all.compactMap(\.small).map { Int($0) }
        #expect(try await jobs.sum(\.small, query) == small.reduce(0, +), note)
        #expect(try await jobs.sum(\.hours, query) == all.map(\.hours).reduce(0, +), note)
        let distances = all.compactMap(\.distance)
        #expect(try await jobs.sum(\.distance, query) == distances.reduce(0, +), note)
        #expect(try await jobs.sum(\.price, query) == all.map(\.price).reduce(0, +), note)
        let discounts = all.compactMap(\.discount)
        #expect(try await jobs.sum(\.discount, query) == discounts.reduce(0, +), note)
        let average =
            all.isEmpty ? nil : Double(all.map(\.minutes).reduce(0, +)) / Double(all.count)
        #expect(try await jobs.average(\.minutes, query) == average, note)
        let distance =
            distances.isEmpty ? nil : distances.reduce(0, +) / Double(distances.count)
        #expect(try await jobs.average(\.distance, query) == distance, note)
        let price = all.isEmpty ? nil : all.map(\.price).reduce(0, +) / Decimal(all.count)
        #expect(try await jobs.average(\.price, query) == price, note)
    }

    private func compareGroups(
        _ jobs: SyncTable<Job>,
        _ query: Query<Job>,
        _ all: [Job],
        _ note: Comment
    ) async throws {
        func counts<Key: Hashable>(_ path: KeyPath<Job, Key>) -> [Key: Int] {
            Dictionary(grouping: all) { $0[keyPath: path] }.mapValues(\.count)
        }
        #expect(try await jobs.count(by: \.status, query) == counts(\.status), note)
        #expect(try await jobs.count(by: \.title, query) == counts(\.title), note)
        #expect(try await jobs.count(by: \.isUrgent, query) == counts(\.isUrgent), note)
        #expect(try await jobs.count(by: \.small, query) == counts(\.small), note)
        #expect(try await jobs.count(by: \.distance, query) == counts(\.distance), note)
        #expect(try await jobs.count(by: \.price, query) == counts(\.price), note)
        #expect(try await jobs.count(by: \.day, query) == counts(\.day), note)
        #expect(try await jobs.count(by: \.due, query) == counts(\.due), note)
        #expect(try await jobs.count(by: \.customer, query) == counts(\.customer), note)
        let minutes = Dictionary(grouping: all, by: \.title)
            .mapValues { $0.map(\.minutes).reduce(0, +) }
        #expect(try await jobs.sum(\.minutes, by: \.title, query) == minutes, note)
        let prices = Dictionary(grouping: all, by: \.due)
            .mapValues { $0.map(\.price).reduce(0, +) }
        #expect(try await jobs.sum(\.price, by: \.due, query) == prices, note)
        #expect(try await jobs.distinct(\.minutes, query) == Set(all.map(\.minutes)).sorted(), note)
        #expect(try await jobs.distinct(\.price, query) == Set(all.map(\.price)).sorted(), note)
        let days = try await jobs.distinct(\.day, query)
        #expect(Set(days) == Set(all.map(\.day)) && days.count == Set(days).count, note)
    }

    private func compareExtremes(
        _ jobs: SyncTable<Job>,
        _ query: Query<Job>,
        _ all: [Job],
        _ note: Comment
    ) async throws {
        #expect(try await jobs.min(\.minutes, query) == all.map(\.minutes).min(), note)
        #expect(try await jobs.max(\.minutes, query) == all.map(\.minutes).max(), note)
        #expect(try await jobs.min(\.price, query) == all.map(\.price).min(), note)
        #expect(try await jobs.max(\.discount, query) == all.compactMap(\.discount).max(), note)
        #expect(try await jobs.min(\.due, query) == all.compactMap(\.due).min(), note)
        #expect(try await jobs.max(\.due, query) == all.compactMap(\.due).max(), note)
        #expect(try await jobs.min(\.small, query) == all.compactMap(\.small).min(), note)
        #expect(try await jobs.exists(query) == !all.isEmpty, note)
        #expect(try await jobs.first(query)?.id == all.first?.id, note)
    }
}
