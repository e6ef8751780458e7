// RelatedMixedStateTests: observed parents with children during writes of two stores: no value mixes two states.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

/// Each transaction moves minutes between two jobs, and sometimes a job to another customer.
///
/// In each committed state the jobs of all customers have the same sum, there are as many as at the start, and all
/// customers have the same name. A mix of two states is likely to break one of these rules.
@Suite(.timeLimit(.minutes(30))) struct RelatedMixedStateTests {
    typealias Customer = Firm.Customer
    typealias Job = Firm.Job

    private static let rounds = TestScope.coversAll ? 500 : 150
    private static let customers = 4
    private static let jobs = 20
    private static let sum = 1000

    private struct Mixed: Error { var what: String }

    private static func check(_ value: [WithRelated<Customer, [Job]>]) throws {
        let all = value.flatMap(\.related)
        let sum = all.reduce(0) { $0 + $1.rank }
        guard all.count == jobs, sum == Self.sum, Set(value.map(\.name)).count == 1 else {
            throw Mixed(what: "\(all.count) jobs, \(sum), \(value.map(\.name))")
        }
    }

    /// Makes `rounds` transactions.
    private static func write(_ context: SyncContext, seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        for round in 0..<rounds {
            let (from, to) = (Int.random(in: 0..<jobs, using: &random), round % jobs)
            let (amount, customer) = (
                Int.random(in: 0..<9, using: &random), Int.random(in: 0..<customers, using: &random)
            )
            let isRenaming = round % 7 == 0
            try await context.transaction { transaction in
                let table = try transaction.table(Job.self)
                try table.update(id: "j\(from)") { $0.rank -= amount }
                try table.update(id: "j\(to)") { job in
                    job.rank += amount
                    job.customerID = "c\(customer)"
                }
                guard isRenaming else { return }
                let parents = try transaction.table(Customer.self)
                for number in 0..<customers {
                    try parents.update(id: "c\(number)") { $0.name = "\(seed) \(round)" }
                }
            }
        }
    }

    @Test("No observed value shows a mix of two states", arguments: [1, 2])
    func neverMixed(stores: Int) async throws {
        try await withTemporaryFile { path in
            let here = try await Firm.device(try SQLiteStore(path: path))
            try await here.context.transaction { transaction in
                try transaction.table(Customer.self).insert(
                    (0..<Self.customers).map { Customer(id: "c\($0)", name: "same") }
                )
                let rank = Self.sum / Self.jobs
                try transaction.table(Job.self).insert(
                    (0..<Self.jobs).map { Job(id: "j\($0)", customerID: "c0", rank: rank) }
                )
            }
            let contexts = try await writers(here, path, stores)
            let query = try Query<Customer>().including(Query<Job>().sorted(by: .ascending(\.rank)))
            let observers = (0..<2).map { _ in
                Task {
                    var count = 0
                    for try await value in here.context.observe(query) {
                        try Self.check(value)
                        count += 1
                        if value.allSatisfy({ $0.name == "end" }) { break }
                    }
                    return count
                }
            }
            try await withThrowingTaskGroup { group in
                for (number, context) in contexts.enumerated() {
                    group.addTask { try await Self.write(context, seed: UInt64(number)) }
                }
                try await group.waitForAll()
            }
            try await here.context.transaction { transaction in
                let parents = try transaction.table(Customer.self)
                for number in 0..<Self.customers {
                    try parents.update(id: "c\(number)") { $0.name = "end" }
                }
            }
            for observer in observers { #expect(try await observer.value > 1) }
        }
    }

    /// Returns two writers of one store, or of two stores on the same file.
    private func writers(
        _ here: Device,
        _ path: String,
        _ stores: Int
    ) async throws -> [SyncContext] {
        guard stores > 1 else { return [here.context, here.context] }
        return [here.context, try await Firm.device(try SQLiteStore(path: path)).context]
    }
}
