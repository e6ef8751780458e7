// RelatedReadTests: records with their children and their parents, in one value of one state.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct RelatedReadTests {
    typealias Customer = Firm.Customer
    typealias Job = Firm.Job
    typealias Visit = Firm.Visit

    @Test(
        "Each record has its children, and a record without children has an empty list",
        arguments: StoreKind.allCases
    )
    func children(kind: StoreKind) async throws {
        try await Firm.withDevice(kind) { device in
            try await Firm.fill(device)
            let found = try await device.context.read(Query<Customer>().including(Query<Job>()))
            #expect(found.map(\.name) == ["Ahrens", "Behn", "Claus"])
            #expect(found.map(\.id) == ["a", "b", "c"])
            #expect(found.map { $0.related.map(\.title) } == [["door", "roof"], ["wall"], []])
        }
    }

    @Test("A record has its parent, or nil if it has none", arguments: StoreKind.allCases)
    func parents(kind: StoreKind) async throws {
        try await Firm.withDevice(kind) { device in
            try await Firm.fill(device)
            let jobs = try Query<Job>().including(parent: Query<Customer>(), on: \.customerID)
            let found = try await device.context.read(jobs)
            #expect(found.map(\.related?.name) == ["Ahrens", "Ahrens", "Behn", nil, nil])
            let bonn = try Query<Customer> { $0.city == "Bonn" }
            let none = try await device.context.read(Query<Job>().including(parent: bonn))
            #expect(none.map(\.related) == [nil, nil, nil, nil, nil])
        }
    }

    @Test(
        "Condition, order, limit and offset apply to the children of each record",
        arguments: StoreKind.allCases
    )
    func windows(kind: StoreKind) async throws {
        try await Firm.withDevice(kind) { device in
            try await Firm.fill(device)
            func titles(_ jobs: Query<Job>) async throws -> [[String]] {
                let query = try Query<Customer> { $0.city == "Kiel" }
                    .sorted(by: .descending(\.name))
                    .including(jobs)
                return try await device.context.read(query).map { $0.related.map(\.title) }
            }
            let ranked = try Query<Job>().sorted(by: .descending(\.rank))
            #expect(try await titles(ranked) == [["wall"], ["roof", "door"]])
            #expect(try await titles(ranked.limited(to: 1)) == [["wall"], ["roof"]])
            #expect(try await titles(ranked.limited(to: 1, offset: 1)) == [[], ["door"]])
            #expect(try await titles(ranked.limited(to: 0)) == [[], []])
            let open = try ranked.filter { $0.status == .open }
            #expect(try await titles(open.limited(to: .max, offset: 0)) == [["wall"], ["door"]])
            let first = try await device.context.read(
                Query<Customer>().limited(to: 1, offset: 1).including(ranked)
            )
            #expect(first.map { $0.related.map(\.title) } == [["wall"]])
        }
    }

    @Test("Children and parents are two levels deep", arguments: StoreKind.allCases)
    func levels(kind: StoreKind) async throws {
        try await Firm.withDevice(kind) { device in
            try await Firm.fill(device)
            let visits = try Query<Visit>().sorted(by: .descending(\.minutes))
            let down = try Query<Customer>().including(Query<Job>().including(visits))
            let customers = try await device.context.read(down)
            let minutes = customers.map { $0.related.map { $0.related.map(\.minutes) } }
            #expect(minutes == [[[60, 30], []], [[15]], []])
            let up = try Query<Visit>()
                .including(parent: Query<Job>().including(parent: Query<Customer>()))
            let found = try await device.context.read(up)
            #expect(found.map(\.related?.title) == ["door", "door", "wall"])
            #expect(found.map(\.related?.related?.name) == ["Ahrens", "Ahrens", "Behn"])
        }
    }

    @Test("A record can have several kinds of related records")
    func several() async throws {
        let device = try await Firm.device(MemoryStore())
        try await Firm.fill(device)
        try await device.client.syncTable(Firm.Person.self).insert(
            Firm.Person(id: "p", name: "Pohl")
        )
        let query = try Query<Job> { $0.customerID == "a" }
            .including(parent: Query<Customer>())
            .including(Query<Visit>())
            .including(parent: Query<Firm.Person>(), on: \.workerID)
        let found = try await device.context.read(query)
        #expect(found.map(\.related.first.first?.name) == ["Ahrens", "Ahrens"])
        #expect(found.map(\.related.first.second.count) == [2, 0])
        #expect(found.map(\.related.second?.name) == ["Pohl", nil])
    }

    @Test("A transaction reads related records with its changes")
    func inTransaction() async throws {
        let device = try await Firm.device(MemoryStore())
        try await Firm.fill(device)
        let query = try Query<Customer> { $0.id == "c" }.including(Query<Job>())
        try await device.context.transaction { transaction in
            try transaction.table(Job.self).update(id: "5") { $0.customerID = "c" }
            #expect(try transaction.reader.read(query).map { $0.related.map(\.id) } == [["5"]])
        }
    }

    @Test("The columns that connect records are read even if they are not selected")
    func selected() async throws {
        try await Firm.withDevice(.file) { device in
            try await Firm.fill(device)
            let titles = try Query<Job>().selecting(\.title)
            let jobs = try await device.context.read(titles.including(parent: Query<Customer>()))
            #expect(jobs.map(\.related?.name).prefix(2) == ["Ahrens", "Ahrens"])
            let customers = try await device.context.read(Query<Customer>().including(titles))
            #expect(customers.map { $0.related.map(\.title) } == [["door", "roof"], ["wall"], []])
            // They are not records that an update could store.
            let door = try #require(customers.first?.related.first)
            await #expect(throws: SyncError.self) {
                try await device.context.transaction { try $0.table(Job.self).update(door) }
            }
        }
    }

    @Test(
        "A related row that does not decode is an error, or is skipped",
        arguments: StoreKind.allCases
    )
    func decodingFailures(kind: StoreKind) async throws {
        try await Firm.withDevice(kind) { device in
            try await Firm.fill(device)
            try await device.store.write { writer in
                try writer.put([["id": "2", "customerID": "a", "status": "odd"]], in: "Job")
                try writer.put([["id": "b", "name": 7]], in: "Customer")
            }
            let query = try Query<Customer>().including(Query<Job>())
            await #expect(throws: SyncError.self) { try await device.context.read(query) }
            let found = try await device.context.read(query, onDecodingFailure: .skip)
            #expect(found.map(\.id) == ["a", "c"])
            #expect(found.map { $0.related.map(\.id) } == [["1"], []])
            let parents = try Query<Job> { $0.customerID == "b" }.including(
                parent: Query<Customer>()
            )
            let jobs = try await device.context.read(parents, onDecodingFailure: .skip)
            #expect(jobs.map(\.related) == [nil])
        }
    }

    @Test("Related records are read for more parents than a statement may have parameters")
    func manyParents() async throws {
        try await withTemporaryFile { path in
            let device = try await Firm.device(try SQLiteStore(path: path))
            let count = 40_000
            try await device.store.write { writer in
                try writer.put((0..<count).map { ["id": .string("c\($0)")] }, in: "Customer")
                try writer.put([["id": "j", "customerID": "c39999"]], in: "Job")
            }
            let found = try await device.context.read(Query<Customer>().including(Query<Job>()))
            #expect(found.count == count)
            #expect(found.filter { !$0.related.isEmpty }.map(\.id) == ["c39999"])
        }
    }

    @Test("A relation needs a named property unless the table declares one reference")
    func references() async throws {
        func message(_ body: () throws -> Void) -> String {
            #expect(throws: SyncError.self, performing: body)?.message ?? ""
        }
        let people = Query<Firm.Person>()
        let several = message { _ = try Query<Job>().including(parent: people) }
        #expect(several.contains("declares several references to 'Person'. Name the property"))
        let none = message { _ = try people.including(Query<Visit>()) }
        #expect(none.contains("declares no reference to 'Person'"))
        let number = message { _ = try people.including(Query<Visit>(), on: \.minutes) }
        #expect(number.contains("column 'minutes' of table 'Visit' holds no ids"))
        let limit = message {
            _ = try Query<Job>().including(parent: Query<Customer>().limited(to: 1))
        }
        #expect(limit.contains("remove the limit"))
        let condition = message { _ = try Query<Job> { $0.hasParent(Firm.Person.self) } }
        #expect(condition.contains("declares several references"))
    }

    @Test("A negative limit of children is rejected")
    func negativeLimits() async throws {
        let device = try await Firm.device(MemoryStore())
        try await Firm.fill(device)
        let query = try Query<Customer>().including(Query<Job>().limited(to: -1))
        let error = await #expect(throws: SyncError.self) { try await device.context.read(query) }
        #expect(error?.code == .unsupportedQuery)
    }
}
