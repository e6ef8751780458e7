// RelatedConditionTests: conditions on the parents and the children of records.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct RelatedConditionTests {
    typealias Customer = Firm.Customer
    typealias Job = Firm.Job
    typealias Visit = Firm.Visit

    @Test("Conditions on parents and children find the records", arguments: StoreKind.allCases)
    func conditions(kind: StoreKind) async throws {
        try await Firm.withDevice(kind) { device in
            try await Firm.fill(device)
            let jobs = try device.client.syncTable(Job.self)
            func ids(_ condition: (Columns<Job>) throws -> Condition) async throws -> [String] {
                let found = try await jobs.read(where: condition).map(\.id)
                #expect(try await jobs.count(where: condition) == found.count)
                return found
            }
            #expect(try await ids { $0.hasParent(Customer.self) } == ["1", "2", "3"])
            #expect(try await ids { !$0.hasParent(Customer.self) } == ["4", "5"])
            let kiel = RecordCondition<Job> { $0.hasParent(Customer.self) { $0.city == "Kiel" } }
            #expect(try await ids { kiel($0) && $0.status == .open } == ["1", "3"])
            #expect(try await ids { !kiel($0) || $0.rank > 5 } == ["2", "4", "5"])
            #expect(try await ids { $0.hasChild(Visit.self) { !$0.isDone } } == ["1", "3"])
            #expect(try await ids { $0.hasChild(Visit.self) { $0.minutes > 90 } } == [])
            #expect(try await ids { $0.hasParent(Customer.self, on: \.title) } == [])
        }
    }

    @Test(
        "A condition on related records may contain another such condition",
        arguments: StoreKind.allCases
    )
    func nested(kind: StoreKind) async throws {
        try await Firm.withDevice(kind) { device in
            try await Firm.fill(device)
            let names = try await device.context.read { reader in
                let visits = try reader.table(Visit.self).read(where: {
                    $0.hasParent(Job.self) {
                        $0.rank < 3 && $0.hasParent(Customer.self) { $0.name == "Behn" }
                    }
                })
                let customers = try reader.table(Customer.self).read(where: {
                    $0.hasChild(Job.self) { !$0.hasChild(Visit.self) || $0.rank == 1 }
                })
                return visits.map(\.id) + customers.map(\.name)
            }
            #expect(names == ["v3", "Ahrens", "Behn"])
        }
    }

    @Test(
        "Sums, updates and deletes accept a condition on related records",
        arguments: StoreKind.allCases
    )
    func bulk(kind: StoreKind) async throws {
        try await Firm.withDevice(kind) { device in
            try await Firm.fill(device)
            let jobs = try device.client.syncTable(Job.self)
            let isOfKiel = RecordCondition<Job> {
                $0.hasParent(Customer.self) { $0.city == "Kiel" }
            }
            #expect(try await jobs.sum(\.rank, Query(where: isOfKiel)) == 13)
            #expect(try await jobs.exists(where: { isOfKiel($0) && $0.rank == 9 }))
            try await jobs.update(where: { isOfKiel($0) }) { $0.status = .planned }
            #expect(
                try await jobs.read(where: { $0.status == .planned }).map(\.id) == ["1", "2", "3"]
            )
            try await jobs.delete(where: { !isOfKiel($0) })
            #expect(try await jobs.read().map(\.id) == ["1", "2", "3"])
        }
    }

    @Test("A condition on related records is rejected in a pull and in a remote read")
    func pulls() async throws {
        let device = try await Firm.device(MemoryStore())
        let jobs = try device.client.syncTable(Job.self)
        let pull = await #expect(throws: SyncError.self) {
            try await jobs.pull(queryID: "kiel", where: { $0.hasParent(Customer.self) })
        }
        #expect(pull?.code == .unsupportedQuery)
        #expect(pull?.message.contains("hasParent") == true)
        let remote = await #expect(throws: SyncError.self) {
            try await device.client.table(Job.self).read(where: { $0.hasChild(Visit.self) })
        }
        #expect(remote?.code == .unsupportedQuery)
    }

    @Test("A table that the client does not have is an error", arguments: StoreKind.allCases)
    func unknownTables(kind: StoreKind) async throws {
        try await Firm.withDevice(kind) { device in
            let jobs = try device.client.syncTable(Job.self)
            let error = await #expect(throws: SyncError.self) {
                try await jobs.read(where: { $0.hasParent(Todo.self, on: \.title) })
            }
            #expect(error?.code == .unknownTable)
        }
    }

    @Test("A condition that is nested too deep is an error")
    func depth() async throws {
        try await Firm.withDevice(.file) { device in
            try await Firm.fill(device)
            let jobs = try device.client.syncTable(Job.self)
            func nested(_ depth: Int) -> RecordCondition<Job> {
                var condition = RecordCondition<Job> { $0.hasParent(Customer.self) }
                for _ in 0..<depth {
                    let inner = condition
                    condition = RecordCondition<Job> { !($0.rank == 77 || inner($0)) }
                }
                return condition
            }
            #expect(
                try await jobs.read(Query(where: nested(2))).items.map(\.id) == ["1", "2", "3"]
            )
            let error = await #expect(throws: SyncError.self) {
                try await jobs.read(Query(where: nested(20)))
            }
            #expect(error?.code == .unsupportedQuery)
            #expect(error?.message.contains("nested too deep") == true)
        }
    }

    @Test(
        "A deeply nested condition on the other table is evaluated",
        arguments: StoreKind.allCases
    )
    func deepInside(kind: StoreKind) async throws {
        try await Firm.withDevice(kind) { device in
            try await Firm.fill(device)
            var name = RecordCondition<Customer> { $0.name == "Ahrens" }
            for _ in 0..<20 {
                let inner = name
                name = RecordCondition<Customer> {
                    !(!($0.city == "Kiel" && inner($0)) || $0.name == "")
                }
            }
            let jobs = try device.client.syncTable(Job.self)
            let found = try await jobs.read(where: { [name] in
                $0.hasParent(Customer.self) { name($0) }
            })
            #expect(found.map(\.id) == ["1", "2"])
            let children = try Query<Customer>().sorted(by: .ascending(\.name)).including(
                Query<Job> { [name] in $0.rank > 0 && $0.hasParent(Customer.self) { name($0) } }
                    .limited(to: 1)
            )
            let customers = try await device.context.read(children)
            #expect(customers.map { $0.related.map(\.id) } == [["1"], [], []])
        }
    }
}
