// OwnedTable: a table whose rows have owners, and operations on it for tests of a store.

import Foundation
import TidelineCore
package import TidelinePostgres
package import TidelineServerCore
package import TidelineServerPostgres
import TidelineTestKit

package enum OwnedTable {
    package static func definition(
        _ change: (inout TableDefinition) -> Void = { _ in }
    ) -> TableDefinition {
        var table = TestServer.todo
        table.schema.columns.append(ColumnDefinition("userId", .string))
        table.owner = "userId"
        change(&table)
        return table
    }

    package static func store(
        _ url: String,
        _ table: TableDefinition = definition(),
        prepares: Bool = true,
        _ change: (inout PostgresTableStore.Options) -> Void = { _ in }
    ) async throws -> PostgresTableStore {
        var options = PostgresTableStore.Options()
        options.readers = 2
        change(&options)
        let store = try PostgresTableStore(url: url, options: options)
        if prepares { _ = try await store.prepare([table], filtered: [], isComplete: true) }
        return store
    }

    package static func put(
        _ id: String,
        of owner: String,
        by kind: WriteOperation.Kind = .insert,
        _ store: PostgresTableStore,
        _ table: TableDefinition = definition()
    ) async throws -> WriteOutcome {
        let write = write(id, of: owner, by: kind, table)
        switch try await store.write(WriteBatch([WriteBatch.Group([write])])).first {
        case .done(let outcomes)?: return outcomes[0]
        case .rejected(_, let outcome)?: return outcome
        case .failed(_, let error)?: throw error
        case let other: throw PostgresCluster.Missing(description: "\(String(describing: other))")
        }
    }

    package static func changes(
        of owner: String,
        after timestamp: Int64,
        _ store: PostgresTableStore,
        _ table: TableDefinition = definition()
    ) async throws -> (text: String, clock: TableClock) {
        var request = ChangeRequest(after: timestamp, rowsMax: 100, bytesMax: 1 << 20)
        request.view = QueryExpression(
            .compare(
                .eq,
                QueryExpression(.field("userId")),
                QueryExpression(.value(.string(owner)))
            )
        )
        let page = try await store.changes(request, in: Table(table))
        return (String(decoding: page.bytes, as: UTF8.self), page.clock)
    }

    /// A write of one column, as in a batch.
    package static func write(
        _ id: String,
        of owner: String,
        by kind: WriteOperation.Kind = .insert,
        _ table: TableDefinition = definition()
    ) -> WriteBatch.Write {
        var operation = WriteOperation(kind, id: id)
        operation.softDelete = table.softDelete
        if kind != .delete {
            operation.values = [.text(id), .integer(0), nil, kind == .insert ? .text(owner) : nil]
        }
        return WriteBatch.Write(operation, in: Table(table))
    }

    /// The table with another column, which it does not have yet.
    package static func grown(_ old: TableDefinition) -> Table {
        var wider = old
        wider.schema.columns.append(ColumnDefinition("more", .string))
        return Table(wider, existing: .part(Table(old)))
    }

    /// An external change that is not committed before `body` returns.
    package static func holding<Result>(
        _ url: String,
        _ sql: String,
        _ body: (PostgresConnection) async throws -> Result
    ) async throws -> Result {
        let holder = try PostgresConnection(PostgresAddress(url))
        try holder.execute("BEGIN; " + sql)
        let result = try await body(holder)
        try holder.execute("COMMIT")
        return result
    }

    /// The process id of a connection, to query which connections wait for it.
    package static func number(of connection: PostgresConnection) throws -> Int64 {
        try connection.run("SELECT pg_backend_pid()").integer(0, 0)
    }

    /// The start times of the transactions that wait for a connection.
    package static func waits(_ url: String, for number: Int64) throws -> [String] {
        let found = try PostgresConnection(PostgresAddress(url)).run(
            """
            SELECT "xact_start"::text FROM pg_stat_activity
            WHERE datname = current_database() AND $1::int = ANY(pg_blocking_pids(pid))
            """,
            [.integer(number)]
        )
        return (0..<found.count).map { found.text($0, 0) }
    }

    /// Returns when a transaction waits for a connection.
    package static func waiting(_ url: String, for number: Int64) async throws {
        try await PostgresWrites.soon { try !waits(url, for: number).isEmpty }
    }

    /// Returns when this many writes wait for the writer.
    package static func queued(_ count: Int, _ store: PostgresTableStore) async throws {
        try await PostgresWrites.soon { store.writeQueueLength == count }
    }

    /// Returns when this many connections of the database wait for locks.
    package static func waiting(_ url: String, count: Int64 = 1) async throws {
        try await PostgresWrites.soon {
            try PostgresConnection(PostgresAddress(url)).run(
                """
                SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                AND wait_event_type = 'Lock'
                """
            ).integer(0, 0) >= count
        }
    }

    // MARK: - One transaction

    /// Two batches that wait in order for another one, and so are executed in one transaction.
    package static func together(
        _ url: String,
        _ store: PostgresTableStore,
        _ first: WriteBatch.Write,
        _ second: WriteBatch.Write,
        _ table: TableDefinition = definition()
    ) async throws -> (Task<[GroupOutcome], any Error>, Task<[GroupOutcome], any Error>) {
        // After the second one, the purge that a server starts with is over; it reads the ledger, too.
        for id in ["z1", "z2"] { _ = try await put(id, of: "zoe", store, table) }
        let gate = try PostgresConnection(PostgresAddress(url))
        try gate.execute("BEGIN; LOCK TABLE tideline.ledger IN ACCESS EXCLUSIVE MODE")
        let before = Task { try await put("before", of: "zoe", store, table) }
        try await waiting(url, for: try number(of: gate))
        let one = Task { try await store.write(WriteBatch([WriteBatch.Group([first])])) }
        try await queued(1, store)
        let two = Task { try await store.write(WriteBatch([WriteBatch.Group([second])])) }
        try await queued(2, store)
        try gate.execute("COMMIT")
        _ = await before.result
        return (one, two)
    }

    /// Whether a batch was executed.
    ///
    /// - Throws: The error that it was rejected with.
    package static func isDone(_ batch: Task<[GroupOutcome], any Error>) async throws -> Bool {
        for outcome in try await batch.value {
            if case .failed(_, let error) = outcome { throw error }
            guard outcome.isDone else { return false }
        }
        return true
    }
}
