// Behavior of PostgreSQL only: several servers on one database, constraints of external programs, unsupported names and
// formats.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct PostgresStoreTests {
    private static let table = Table(TestServer.todo)

    private func store(_ url: String) throws -> PostgresTableStore {
        var options = PostgresTableStore.Options()
        options.readers = 2
        return try PostgresTableStore(url: url, options: options)
    }

    private func insert(_ id: String, into store: PostgresTableStore) async throws -> WriteOutcome {
        var operation = WriteOperation(.insert, id: id)
        operation.values = [.text(id), .integer(0), nil]
        let batch = WriteBatch([WriteBatch.Group([WriteBatch.Write(operation, in: Self.table)])])
        switch try await store.write(batch).first {
        case .done(let outcomes)?: return outcomes[0]
        case .rejected(_, let outcome)?: return outcome
        case let other: throw PostgresCluster.Missing(description: "\(String(describing: other))")
        }
    }

    @Test("Servers that start together create one database with one epoch")
    func serversThatStartTogetherCreateTheTablesOnce() async throws {
        let url = try PostgresCluster.shared().database()
        let stores = try (0..<4).map { _ in try store(url) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for store in stores {
                group.addTask {
                    _ = try await store.prepare([TestServer.todo], filtered: [], isComplete: true)
                }
            }
            try await group.waitForAll()
        }
        #expect(Set(try await stores.asyncMap { try await $0.epoch() }).count == 1)
        for store in stores { await store.stop() }
    }

    @Test("A server reports the commits of another server")
    func aServerReportsTheCommitsOfAnotherServer() async throws {
        let url = try PostgresCluster.shared().database()
        let (one, other) = (try store(url), try store(url))
        for store in [one, other] {
            _ = try await store.prepare([TestServer.todo], filtered: [], isComplete: true)
        }
        let (timestamps, heard) = AsyncStream.makeStream(of: TableTimestamp.self)
        try await other.watch { for timestamp in $0 { heard.yield(timestamp) } }
        let outcome = try await insert("a", into: one)
        let timestamp = try #require(outcome.row?.state.version)
        // The stream ends when the timestamp arrives, however long that takes.
        for await reported in timestamps
        where reported == TableTimestamp(table: "todoitem", timestamp: timestamp) {
            break
        }
        let row = try await other.read("a", view: nil, in: Self.table)
        #expect(row?.state.version == timestamp)
        #expect(try await insert("a", into: other).decision == .exists)
        await one.stop()
        await other.stop()
    }

    @Test("Concurrent writes on two servers get distinct increasing timestamps")
    func concurrentWritesOnTwoServersHaveDistinctTimestamps() async throws {
        let url = try PostgresCluster.shared().database()
        let stores = [try store(url), try store(url)]
        for store in stores {
            _ = try await store.prepare([TestServer.todo], filtered: [], isComplete: true)
        }
        let versions = try await withThrowingTaskGroup(of: [Int64].self) { group in
            for number in 0..<8 {
                group.addTask {
                    var versions: [Int64] = []
                    for write in 0..<25 {
                        let outcome = try await insert(
                            "r\(number)-\(write)",
                            into: stores[number % 2]
                        )
                        versions.append(outcome.row?.state.version ?? 0)
                    }
                    #expect(versions == versions.sorted())
                    return versions
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(Set(versions).count == 200)
        for store in stores { await store.stop() }
    }

    @Test("Names that are too long and a newer storage format are rejected at the start")
    func namesThatPostgresCannotStoreAreRejectedAtTheStart() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try store(url)
        let long = String(repeating: "n", count: 64)
        for table in [
            TableDefinition(long),
            TableDefinition("Short", columns: [ColumnDefinition(long, .string)]),
        ] {
            await #expect(throws: SchemaError.self) {
                try await store.prepare([table], filtered: [], isComplete: true)
            }
        }
        _ = try await store.prepare([TestServer.todo], filtered: [], isComplete: true)
        let connection = try PostgresConnection(PostgresAddress(url))
        try connection.execute(
            "UPDATE tideline.state SET \"value\" = '99' WHERE \"key\" = 'format'"
        )
        let error = await #expect(throws: DatabaseError.self) {
            try await store.prepare([TestServer.todo], filtered: [], isComplete: true)
        }
        #expect(error?.code == .newerFormat)
        await store.stop()
    }

    @Test("A row that violates a constraint is rejected without the rest of the batch")
    func aRowThatTheDatabaseRejectsIsRejectedAlone() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try store(url)
        _ = try await store.prepare([TestServer.todo], filtered: [], isComplete: true)
        let connection = try PostgresConnection(PostgresAddress(url))
        try connection.execute("ALTER TABLE \"TodoItem\" ADD CHECK (\"text\" <> 'bad')")
        let groups = ["good", "bad", "fine"].map { id in
            var operation = WriteOperation(.insert, id: id)
            operation.values = [.text(id), .integer(0), nil]
            return WriteBatch.Group([WriteBatch.Write(operation, in: Self.table)])
        }
        let outcomes = try await store.write(WriteBatch(groups))
        #expect(outcomes.map(\.isDone) == [true, false, true])
        guard case .failed(_, let error as ServerError) = outcomes[1] else {
            Issue.record("\(outcomes[1])")
            return
        }
        #expect(error.status == 400)
        await store.stop()
    }

    @Test("Added columns and defaults change a table without losing values")
    func tablesChangeWithoutLosingValues() async throws {
        let url = try PostgresCluster.shared().database()
        let store = try store(url)
        _ = try await store.prepare([TestServer.todo], filtered: [], isComplete: true)
        let before = try #require(try await insert("a", into: store).row?.state.version)
        var wider = TestServer.todo
        wider.schema.columns[0].name = "Text"
        wider.schema.columns.append(
            ColumnDefinition("level", .integer, nullable: false, default: .integer(3))
        )
        wider.indexes = [["level"]]
        _ = try await store.prepare([wider], filtered: [], isComplete: true)
        let image = try await store.image("a", view: nil, in: Table(wider))
        #expect(image?.values == [.text("a"), .integer(0), .null, .integer(3)])
        // Devices do not know the default: they pull the row again.
        #expect(image.map { $0.version > before } == true)
        #expect(image?.updatedAt == image?.version)
        var other = wider
        other.schema.columns[0].type = .integer
        await #expect(throws: SchemaError.self) {
            try await store.prepare([other], filtered: [], isComplete: true)
        }
        await store.stop()
    }
}

extension Sequence {
    /// The results of an asynchronous transformation.
    fileprivate func asyncMap<Result>(
        _ transform: (Element) async throws -> Result
    ) async rethrows -> [Result] {
        var results: [Result] = []
        for element in self { results.append(try await transform(element)) }
        return results
    }
}
