// Servers behind a pooler in transaction mode behave the same, with four connections for all of them.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit
import TidelineTestSupport

@Suite(
    .slow,
    .enabled(
        if: PostgresPooler.reasonToSkip == nil,
        Comment(rawValue: PostgresPooler.reasonToSkip ?? "")
    )
)
struct PoolerTests {
    private static let pooler = Result {
        try PostgresPooler(of: PostgresCluster.shared())
    }

    /// Also if the server takes the pooler for the database, and detects it while running.
    @Test(
        "The store conforms to the table store rules through a pooler",
        arguments: TableStoreConformance.all,
        [false, true]
    )
    func conforms(check: TableStoreConformance.Check, isTrusted: Bool) async throws {
        let pooler = try Self.pooler.get()
        try await check.run { limits, now in
            var options = PostgresTableStore.Options()
            options.limits = limits
            options.now = now
            options.readers = 2
            options.trustsPoolers = isTrusted
            let url = try PostgresCluster.shared().database()
            return try PostgresTableStore(url: pooler.url(of: url), options: options)
        }
    }

    @Test("Callers of two servers and an external writer share few connections")
    func callersOfTwoServersShareFewConnections() async throws {
        let url = try PostgresCluster.shared().database()
        let pooled = try Self.pooler.get().url(of: url)
        let servers = [
            try await TestServer([TestServer.todo], onPostgres: true, database: pooled),
            try await TestServer([TestServer.todo], onPostgres: true, database: pooled),
        ]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for caller in 0..<6 {
                group.addTask {
                    for number in 0..<15 {
                        let body = #"{"id":"c\#(caller)-\#(number)","text":"t"}"#
                        let answer = await servers[caller % 2].send(
                            "POST",
                            "/tables/TodoItem",
                            body
                        )
                        #expect(answer.status == 201, "\(answer.text)")
                    }
                }
            }
            try await group.waitForAll()
        }
        let external = try PostgresConnection(PostgresAddress(pooled))
        try external.run(#"INSERT INTO "TodoItem" ("id", "text") VALUES ('beside', 'psql')"#)
        for server in servers {
            let list = await server.send("GET", "/tables/TodoItem?$top=100&$orderby=updatedAt")
            #expect(list.rows.count == 91 && list.ids.last == "beside")
            let versions = list.rows.compactMap { $0["version"] as? String }
            #expect(Set(versions).count == 91)
        }
        let direct = try PostgresConnection(PostgresAddress(url))
        let connections = try direct.run(
            """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
            """
        ).integer(0, 0)
        #expect(connections <= 4)
    }
}
