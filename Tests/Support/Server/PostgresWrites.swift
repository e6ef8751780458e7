// PostgresWrites: a store with one table, for tests of failures.

import Foundation
import Testing
import TidelineCore
import TidelinePostgres
package import TidelineServerCore
package import TidelineServerPostgres
import TidelineTestKit

package struct PostgresWrites: Sendable {
    package static let table = Table(TestServer.todo)

    package let store: PostgresTableStore
    /// A connection to the database other than the store's.
    package let url: String

    package init(
        _ url: String,
        _ change: (inout PostgresTableStore.Options) -> Void = { _ in }
    ) async throws {
        var options = PostgresTableStore.Options()
        options.readers = 2
        change(&options)
        self.url = url
        store = try PostgresTableStore(url: url, options: options)
        _ = try await store.prepare([TestServer.todo], filtered: [], isComplete: true)
    }

    /// Inserts a row.
    ///
    /// - Throws: The error that the write was rejected with.
    @discardableResult
    package func insert(
        _ id: String,
        text: String = "",
        named key: RepeatKey? = nil
    ) async throws -> WriteOutcome {
        var operation = WriteOperation(.insert, id: id)
        operation.values = [.text(text), .integer(0), nil]
        var write = WriteBatch.Write(operation, in: Self.table)
        write.repeatKey = key
        switch try await store.write(WriteBatch([WriteBatch.Group([write])])).first {
        case .done(let outcomes)?: return outcomes[0]
        case .rejected(_, let outcome)?: return outcome
        case .failed(_, let error)?: throw error
        case let other: throw PostgresCluster.Missing(description: "\(String(describing: other))")
        }
    }

    /// Inserts a row as soon as the database accepts one.
    package func insertSoon(_ id: String) async throws {
        _ = try await answer { try await insert(id) }
    }

    /// Returns a result as soon as the database can answer.
    package func answer<Answer>(_ body: () async throws -> Answer) async throws -> Answer {
        var answer: Answer?
        try await until {
            do {
                answer = try await body()
            } catch let error as ServerError where error.status == 503 {}
            return answer != nil
        }
        return try #require(answer)
    }

    package func row(_ id: String) async throws -> StoredRow? {
        try await store.read(id, view: nil, in: Self.table)
    }

    /// The number of other connections to the database that meet a condition.
    package func connections(where condition: String) throws -> Int64 {
        try PostgresConnection(PostgresAddress(url)).run(
            """
            SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
            AND pid <> pg_backend_pid() AND \(condition)
            """
        ).integer(0, 0)
    }

    /// Returns when a condition is true.
    ///
    /// - Throws: ``WaitTooLong`` with the place of the caller.
    package static func soon(
        file: StaticString = #fileID,
        line: UInt = #line,
        _ isSo: () async throws -> Bool
    ) async throws {
        try await until(file: file, line: line, isSo)
    }
}
