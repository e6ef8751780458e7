// RelatedRowsReadTests: which rows an observation reads after a change, counted by its store.

import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct RelatedRowsReadTests {
    typealias Customer = Firm.Customer
    typealias Job = Firm.Job
    typealias Visit = Firm.Visit

    /// A store that counts the rows that reads return, by table, without those of write transactions.
    private final class RowCountingStore: ForwardingStore {
        let inner: any LocalStore
        private let state = Mutex<[String: Int]>([:])

        init(_ inner: any LocalStore) { self.inner = inner }

        /// Returns the rows since the last call, by table; a table of which a read found no row has 0.
        func take() -> [String: Int] {
            state.withLock { counts in
                defer { counts = [:] }
                return counts
            }
        }

        func read<Result: Sendable>(
            _ body: @escaping @Sendable (any LocalStoreReader) throws -> Result
        ) async throws -> Result {
            try await inner.read { [self] in try body(Reader(inner: $0, note: note)) }
        }

        func rowChanges() -> any AsyncSequence<StoreChange, Never> & Sendable { inner.rowChanges() }

        @Sendable private func note(_ table: String, _ count: Int) {
            guard ["Customer", "Job", "Visit"].contains(table) else { return }
            state.withLock { $0[table, default: 0] += count }
        }

        private struct Reader: ForwardingReader {
            let inner: any LocalStoreReader
            let note: @Sendable (String, Int) -> Void

            func rows(_ query: TableQuery, in table: String) throws -> [Row] {
                let rows = try inner.rows(query, in: table)
                note(table, rows.count)
                return rows
            }

            func keyedRows(
                _ query: KeyedQuery,
                in table: String,
                omitting column: String
            ) throws -> [Row] {
                let rows = try inner.keyedRows(query, in: table, omitting: column)
                note(table, rows.count)
                return rows
            }
        }
    }

    private func withFirm(
        _ body: (RowCountingStore, Device) async throws -> Void
    ) async throws {
        try await withTemporaryFile { path in
            let store = RowCountingStore(try SQLiteStore(path: path))
            let device = try await Firm.device(store)
            try await device.context.transaction { transaction in
                try transaction.table(Customer.self).insert(
                    (0..<30).map { Customer(id: "c\($0)", name: "\($0)", city: "Kiel") }
                )
                try transaction.table(Job.self).insert(
                    (0..<300).map { Job(id: "j\($0)", customerID: "c\($0 % 30)", rank: $0 % 7) }
                )
                try transaction.table(Visit.self).insert(
                    (0..<600).map { Visit(id: "v\($0)", jobID: "j\($0 % 300)", minutes: $0) }
                )
            }
            try await body(store, device)
        }
    }

    @Test("A changed child is read with the other children of its parent, and nothing else")
    func children() async throws {
        try await withFirm { store, device in
            let query = try Query<Customer>().including(Query<Job>().sorted(by: .ascending(\.rank)))
            let jobs = try device.client.syncTable(Job.self)
            var values = device.context.observe(query).makeAsyncIterator()
            _ = try await values.next()
            #expect(store.take() == ["Customer": 30, "Job": 300])
            try await jobs.update(id: "j7") { $0.title = "x" }
            let changed = try await values.next()
            #expect(changed?.first { $0.id == "c7" }?.related.first { $0.id == "j7" }?.title == "x")
            #expect(store.take() == ["Job": 10])
            try await jobs.update(id: "j7") { $0.customerID = "c8" }
            #expect(try await values.next()?.first { $0.id == "c8" }?.related.count == 11)
            #expect(store.take() == ["Job": 20])
            try await jobs.delete(id: "j7")
            _ = try await values.next()
            #expect(store.take() == ["Job": 10])
        }
    }

    @Test("A changed record is read alone, and a new record is read with its children")
    func parents() async throws {
        try await withFirm { store, device in
            let query = try Query<Customer>().sorted(by: .descending(\.name)).including(
                Query<Job>()
            )
            let customers = try device.client.syncTable(Customer.self)
            var values = device.context.observe(query).makeAsyncIterator()
            _ = try await values.next()
            _ = store.take()
            try await customers.update(id: "c7") { $0.name = "z" }
            let changed = try await values.next()
            #expect(changed?.first?.id == "c7")
            #expect(changed?.first?.related.count == 10)
            #expect(store.take() == ["Customer": 1])
            try await device.context.transaction { transaction in
                try transaction.table(Job.self).update(id: "j3") { $0.customerID = "new" }
                try transaction.table(Customer.self).insert(Customer(id: "new", name: "zz"))
            }
            #expect(try await values.next()?.first?.related.map(\.id) == ["j3"])
            #expect(store.take() == ["Customer": 1, "Job": 10])
        }
    }

    @Test("A change in one of two levels reads only the changed records and their siblings")
    func levels() async throws {
        try await withFirm { store, device in
            let down = try Query<Customer>().including(Query<Job>().including(Query<Visit>()))
            let up = try Query<Visit>()
                .including(parent: Query<Job>().including(parent: Query<Customer>()))
            var customers = device.context.observe(down).makeAsyncIterator()
            var visits = device.context.observe(up).makeAsyncIterator()
            _ = try await (customers.next(), visits.next())
            _ = store.take()
            try await device.client.syncTable(Visit.self).update(id: "v5") { $0.minutes = -1 }
            _ = try await (customers.next(), visits.next())
            // Two visits of the job, and the visit itself.
            #expect(store.take() == ["Visit": 3])
            try await device.client.syncTable(Customer.self).update(id: "c5") { $0.name = "x" }
            _ = try await (customers.next(), visits.next())
            #expect(store.take() == ["Customer": 2])
        }
    }

    @Test("A list reads only the rows that changed")
    func lists() async throws {
        try await withFirm { store, device in
            let jobs = try device.client.syncTable(Job.self)
            var seen = jobs.observe(sortedBy: [.descending(\.rank)]).makeAsyncIterator()
            _ = try await seen.next()
            #expect(store.take() == ["Job": 300])
            try await jobs.update(id: "j9") { $0.rank = 100 }
            #expect(try await seen.next()?.first?.id == "j9")
            #expect(store.take() == ["Job": 1])
            try await jobs.delete(id: "j9")
            #expect(try await seen.next()?.count == 299)
            #expect(store.take() == ["Job": 0])
        }
    }

    @Test("A list with a limit reads all of its rows if the next one is not known")
    func limits() async throws {
        try await withFirm { store, device in
            let jobs = try device.client.syncTable(Job.self)
            var seen = jobs.observe(sortedBy: [.ascending(\.title)], limit: 5).makeAsyncIterator()
            _ = try await seen.next()
            #expect(store.take() == ["Job": 5])
            try await jobs.update(id: "j1") { $0.rank = 50 }
            #expect(try await seen.next()?.map(\.id) == ["j0", "j1", "j10", "j100", "j101"])
            #expect(store.take() == ["Job": 1])
            try await jobs.update(id: "j0") { $0.title = "z" }
            #expect(try await seen.next()?.map(\.id) == ["j1", "j10", "j100", "j101", "j102"])
            // The changed row, and the whole list.
            #expect(store.take() == ["Job": 6])
        }
    }

    @Test("After more transactions than a store remembers, all rows are read again")
    func forgotten() async throws {
        try await withFirm { store, device in
            let jobs = try device.client.syncTable(Job.self)
            var seen = jobs.observe(where: { $0.customerID == "c3" }).makeAsyncIterator()
            #expect(try await seen.next()?.count == 10)
            for number in 0..<600 { try await jobs.update(id: "j1") { $0.rank = number } }
            _ = store.take()
            try await jobs.update(id: "j3") { $0.title = "x" }
            #expect(try await seen.next()?.contains { $0.title == "x" } == true)
            #expect(store.take() == ["Job": 10])
        }
    }
}
