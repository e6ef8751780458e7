// `"clock": "owner"` in a configuration file: what a server makes of it on PostgreSQL and on SQLite, and what it
// says where it cannot be.

import Foundation
import Testing
import Tideline
import TidelinePostgres
import TidelineTestKit

extension ProcessTests {
    struct OwnerClockProcessTests {
        /// What stands beside the columns of the table, and what the file has for users.
        private static func configuration(
            _ keys: String,
            users: String = #""authentication": { "secretFile": "jwt.key" },"#
        ) -> String {
            #"{ \#(users) "tables": { "TodoItem": { "columns": { "text": "string" }, \#(keys) } } }"#
        }

        private static let both = #""owner": "userId", "clock": "owner""#

        private func headers(
            _ subject: String,
            _ workspace: Workspace
        ) async throws -> HTTPFields {
            let finished = try await workspace.run(
                .tideline,
                ["token", "--config", workspace.path("tideline.json"), "--subject", subject]
            )
            #expect(finished.code == 0, "\(finished.error)")
            let token = finished.output.trimmingCharacters(in: .newlines)
            return ["Authorization": "Bearer " + token, "Prefer": "odata.track-changes"]
        }

        /// Two users write, and each follows a link of their own.
        private func serve(database: String, in workspace: Workspace) async throws -> ServerProcess
        {
            _ = try workspace.file("jwt.key", String(repeating: "0123456789abcdef", count: 2))
            let server = try await ServerProcess.start(
                in: workspace,
                database: database,
                configuration: Self.configuration(Self.both)
            )
            for user in ["anna", "bert"] {
                let headers = try await headers(user, workspace)
                let wire = server.wire
                let list = try await wire.send("GET", "/tables/TodoItem", headers: headers)
                let link = try #require(list.object["@odata.deltaLink"] as? String)
                let made = try await wire.send(
                    "POST",
                    "/tables/TodoItem",
                    #"{"id":"\#(user)"}"#,
                    headers: headers
                )
                #expect(made.status == 201 && made.object["userId"] as? String == user)
                let changes = try await wire.send(
                    "GET",
                    "/tables/TodoItem?" + link,
                    headers: headers
                )
                let ids = (changes.object["items"] as? [[String: Any]])?.map { $0["id"] as? String }
                #expect(ids == [user])
            }
            return server
        }

        @Test(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
        func eachOwnerHasAClockOnPostgres() async throws {
            try await withWorkspace { workspace in
                let url = try PostgresCluster.shared().database()
                let server = try await serve(database: url, in: workspace)
                let found = try PostgresConnection(PostgresAddress(url)).run(
                    """
                    SELECT string_agg(c."owner", ',' ORDER BY c."owner")
                    FROM tideline.owner_clocks AS c JOIN "TodoItem" AS r
                    ON r."userId" = c."owner" AND r."version" = c."stamp"
                    """
                )
                #expect(found.text(0, 0) == "anna,bert")
                #expect(!server.process.error.contains("means nothing"))
                #expect(try await server.stop() == .exit(0))
            }
        }

        /// The same file serves both, so that a database can be moved.
        @Test func aFileOfSQLiteIsServedWithoutThem() async throws {
            try await withWorkspace { workspace in
                let server = try await serve(database: "server.db", in: workspace)
                let told = server.process.error.split(separator: "\n").filter {
                    $0.contains("'clock' means nothing for SQLite") && $0.contains("TodoItem")
                }
                #expect(told.count == 1, "\(server.process.error)")
                #expect(try await server.stop() == .exit(0))
            }
        }

        @Test(arguments: [
            (
                configuration(#""clock": "owner""#),
                ["tables.TodoItem.clock: ", "needs 'owner' beside it", "leave 'clock' out"]
            ),
            (
                configuration(both, users: ""),
                ["tables.TodoItem.owner: ", "needs 'authentication'"]
            ),
            (
                configuration(#""owner": "userId", "clock": "own""#),
                ["tables.TodoItem.clock: ", "one of 'table', 'owner' is expected, not \"own\""]
            ),
        ])
        func saysWhatIsWrong(configuration: String, names: [String]) async throws {
            try await withWorkspace { workspace in
                _ = try workspace.file("jwt.key", String(repeating: "0123456789abcdef", count: 2))
                let file = try workspace.file("tideline.json", configuration)
                let finished = try await workspace.run(
                    .tideline,
                    ["serve", "--config", file, "--listen", "127.0.0.1:0"]
                )
                #expect(finished.code == 2 && finished.output.isEmpty)
                for name in names + [file] {
                    #expect(finished.error.contains(name), "\(finished.error)")
                }
            }
        }
    }
}
