// RelatedReads: records with their children or parents, compared with the same statements in plain SQLite.

import Foundation
import Tideline

struct Customer: SyncRecord {
    var id = ""
    var name: String
    var city: String
}

struct Visit: SyncRecord {
    static let references = [Reference(\Visit.customerID, to: Customer.self)]

    var id = ""
    var customerID: String
    var title: String
    var minutes: Int
}

struct RelatedReads {
    let directory: String
    /// The time for each kind of work.
    let time: Duration

    private static let parents = 1000
    private static let children = 20

    func measure() async throws {
        let models: [any SyncRecord.Type] = [Customer.self, Visit.self]
        let (client, store, path) = try await Device.client(in: directory, models, nil)
        let customers = (0..<Self.parents).map {
            Customer(
                id: UUID().uuidString.lowercased(),
                name: "customer \($0)",
                city: "city \($0 % 10)"
            )
        }
        try await client.syncTable(Customer.self).insert(customers)
        var visits: [Visit] = []
        for number in 0..<Self.parents * Self.children {
            // The children of a parent are not stored next to each other.
            let customer = customers[number % customers.count].id
            let id = UUID().uuidString.lowercased()
            visits.append(
                Visit(id: id, customerID: customer, title: "visit \(number)", minutes: number % 480)
            )
        }
        try await client.syncTable(Visit.self).insert(visits)
        let context = client.syncContext
        let plain = try PlainDatabase(path)
        let all = try Query<Customer>().including(Query<Visit>())
        try await compare("1,000 parents of 20 children") {
            try await context.read(all).reduce(0) { $0 + $1.related.count }
        } with: {
            try plain.customers().reduce(0) { $0 + $1.visits.count }
        }
        let longest = try Query<Visit>().sorted(by: .descending(\.minutes)).limited(to: 3)
        let three = try Query<Customer>().including(longest)
        try await compare("1,000 parents, 3 of 20 children") {
            try await context.read(three).reduce(0) { $0 + $1.related.count }
        } with: {
            try plain.customers(visitsMax: 3).reduce(0) { $0 + $1.visits.count }
        }
        let parents = try Query<Visit>().limited(to: 1000).including(parent: Query<Customer>())
        try await compare("1,000 children with parent") {
            try await context.read(parents).count { $0.related != nil }
        } with: {
            try plain.visitsWithCustomers(1000).count
        }
        let city = try Query<Visit> { $0.hasParent(Customer.self) { $0.city == "city 3" } }
        try await compare("2,000 children by a column of the parent") {
            try await context.read { try $0.table(Visit.self).read(city).items.count }
        } with: {
            try plain.visits(ofCity: "city 3").count
        }
        try await measureChanges(client, all, visits)
        try await Device.remove(store, path)
    }

    /// Alternates between a read and the same statements in plain SQLite.
    private func compare(
        _ name: String,
        _ read: () async throws -> Int,
        with other: () throws -> Int
    ) async throws {
        let (one, two) = (try await read(), try other())
        guard one == two else { throw BenchError("\(name): \(one) rows, \(two) in SQLite") }
        var (ours, theirs, turns) = (0.0, 0.0, 0.0)
        var best = (ours: Double.infinity, theirs: Double.infinity)
        var processor = (ours: 0.0, theirs: 0.0)
        let whole = Usage()
        while whole.seconds < time.seconds || turns < 3 {
            let usage = Usage()
            _ = try await read()
            let mine = usage.seconds
            processor.ours += usage.processorSeconds
            let alone = Usage()
            _ = try other()
            let its = alone.seconds
            processor.theirs += alone.processorSeconds
            (ours, theirs, turns) = (ours + mine, theirs + its, turns + 1)
            best = (min(best.ours, mine), min(best.theirs, its))
        }
        Bench.report("related: \(name)", ours / turns * 1e3, "ms")
        Bench.report("related: \(name), best", best.ours * 1e3, "ms")
        Bench.report("related: \(name), SQLite", theirs / turns * 1e3, "ms")
        Bench.report("related: \(name), SQLite, best", best.theirs * 1e3, "ms")
        Bench.report("related: \(name), CPU", processor.ours / turns * 1e3, "ms")
        Bench.report("related: \(name), SQLite, CPU", processor.theirs / turns * 1e3, "ms")
        Bench.report("related: \(name), times SQLite", ours / theirs, "x")
    }

    /// Measures the time from a change of one child to the observed value that shows it.
    private func measureChanges(
        _ client: SyncClient,
        _ query: RelatedQuery<Customer, [Visit]>,
        _ visits: [Visit]
    ) async throws {
        let table = try client.syncTable(Visit.self)
        var seen = client.syncContext.observe(query).makeAsyncIterator()
        _ = try await seen.next()
        var (changing, all, turns) = (0.0, 0.0, 0)
        let whole = Usage()
        while whole.seconds < time.seconds || turns < 3 {
            let usage = Usage()
            try await table.update(id: visits[turns * 37 % visits.count].id) { $0.minutes += 1 }
            changing += usage.seconds
            _ = try await seen.next()
            all += usage.seconds
            turns += 1
            // The observation combines changes that follow each other at once.
            try await Task.sleep(for: .milliseconds(30))
        }
        let count = Double(turns)
        Bench.report("related: change of one child of 20,000, shown", all / count * 1e3, "ms")
        Bench.report("related: the change alone", changing / count * 1e3, "ms")
    }
}

private struct PlainCustomer {
    var id: String
    var name: String
    var city: String
    var visits: [Visit] = []
}

extension PlainDatabase {
    fileprivate func customers(visitsMax: Int? = nil) throws -> [PlainCustomer] {
        let parents = try PlainStatement(
            self,
            #"SELECT "id", "name", "city" FROM "Customer" ORDER BY "id""#
        )
        var customers: [PlainCustomer] = []
        var places: [String: Int] = [:]
        while try parents.step() {
            places[parents.text(0)] = customers.count
            customers.append(
                PlainCustomer(id: parents.text(0), name: parents.text(1), city: parents.text(2))
            )
        }
        var sql =
            #"SELECT "id", "customerID", "title", "minutes" FROM "Visit" ORDER BY "customerID", "id""#
        if let visitsMax {
            sql = """
                SELECT "id", "customerID", "title", "minutes" FROM (
                SELECT *, row_number() OVER (PARTITION BY "customerID" ORDER BY "minutes" DESC, "id") AS "rank"
                FROM "Visit") WHERE "rank" <= \(visitsMax) ORDER BY "customerID", "rank"
                """
        }
        for visit in try visits(try PlainStatement(self, sql)) {
            if let place = places[visit.customerID] { customers[place].visits.append(visit) }
        }
        return customers
    }

    fileprivate func visits(_ statement: PlainStatement) throws -> [Visit] {
        var visits: [Visit] = []
        while try statement.step() {
            visits.append(
                Visit(
                    id: statement.text(0),
                    customerID: statement.text(1),
                    title: statement.text(2),
                    minutes: statement.integer(3)
                )
            )
        }
        return visits
    }

    fileprivate func visitsWithCustomers(_ limit: Int) throws -> [(Visit, PlainCustomer)] {
        let statement = try PlainStatement(
            self,
            """
            SELECT "Visit"."id", "customerID", "title", "minutes", "Customer"."id", "name", "city"
            FROM "Visit" LEFT JOIN "Customer" ON "Customer"."id" = "customerID"
            ORDER BY "Visit"."id" LIMIT \(limit)
            """
        )
        var found: [(Visit, PlainCustomer)] = []
        while try statement.step() {
            let visit = Visit(
                id: statement.text(0),
                customerID: statement.text(1),
                title: statement.text(2),
                minutes: statement.integer(3)
            )
            let customer = PlainCustomer(
                id: statement.text(4),
                name: statement.text(5),
                city: statement.text(6)
            )
            found.append((visit, customer))
        }
        return found
    }

    fileprivate func visits(ofCity city: String) throws -> [Visit] {
        try visits(
            try PlainStatement(
                self,
                """
                SELECT "id", "customerID", "title", "minutes" FROM "Visit"
                WHERE "customerID" IN (SELECT "id" FROM "Customer" WHERE "city" = '\(city)') ORDER BY "id"
                """
            )
        )
    }
}
