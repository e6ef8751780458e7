// LongWorkTests: work on a whole database reports its progress.

import ServerTestSupport
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServer
import TidelineServerCore

@Suite struct LongWorkTests {
    private static let rows = 1500

    private static func table(_ type: ColumnType) -> TableDefinition {
        TableDefinition("T", columns: [ColumnDefinition("a", type)])
    }

    private static func database(_ path: String, _ type: ColumnType) throws -> ServerDatabase {
        var configuration = ServerConfiguration()
        configuration.database = .sqlite(path: path)
        configuration.tables = [table(type)]
        return try ServerDatabase(configuration)
    }

    /// One row, and old tombstones.
    private static func fill(_ path: String) async throws {
        let server = try await TestServer([table(.integer)], path: path)
        #expect(await server.send("POST", "/tables/T", #"{"id":"1","a":1}"#).status == 201)
        await server.store.stop()
        try Database(path: path).execute(
            """
            INSERT INTO T (id, a, version, updatedAt, createdAt, deleted)
            WITH n(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n WHERE n < \(rows))
            SELECT n, n, n, n, n, 1 FROM n
            """
        )
    }

    @Test("Conversions and purges report their progress")
    func conversionsAndPurgesReportTheirProgress() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            try await Self.fill(path)
            let database = try Self.database(path, .string)
            var converted: [String] = []
            try database.migrate { converted.append("\($0) \($1)") }
            #expect(converted == ["T.a 1000", "T.a 500"])

            var purged: [(table: String, rows: Int)] = []
            try database.purgeTombstones(olderThan: 0) { purged.append(($0, $1)) }
            #expect(purged.allSatisfy { $0.table == "T" } && purged.count > 1)
            #expect(purged.map(\.rows).reduce(0, +) == Self.rows - 1)
        }
    }
}
