// A server and a real standby: it never takes one for its database, says so where its address lets it, and finds the
// primary behind it.

import Foundation
import Testing
import Tideline
import TidelinePostgres
import TidelineTestKit

extension ProcessTests {
    @Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
    struct StandbyProcessTests {
        @Test func aStandbyIsNotServed() async throws {
            let primary = try PostgresCluster()
            let name = PostgresCluster.name(in: try primary.database())
            let standby = try PostgresCluster(standbyOf: primary)
            #expect(try standby.psql("SELECT pg_is_in_recovery()", in: name) == "t\n")
            // The standby comes first.
            let hosts = "\(standby.socketDirectory),\(primary.socketDirectory)"
            let both = "postgres://postgres@/\(name)?host=\(hosts)"
            try await withWorkspace { workspace in
                for attributes in ["any", "standby", "prefer-standby", "read-only"] {
                    let url = both + "&target_session_attrs=\(attributes)"
                    let finished = try await Self.serve(url, workspace)
                    #expect(finished.code == 2 && finished.output.isEmpty, "\(attributes)")
                    for words in [
                        "database: ", "target_session_attrs=\(attributes)", "cannot write",
                        "Leave it out",
                    ] {
                        #expect(finished.error.contains(words), "\(finished.error)")
                    }
                }
                for option in ["", "&target_session_attrs=primary"] {
                    let finished = try await Self.serve(standby.url(of: name) + option, workspace)
                    #expect(finished.code == 1 && finished.output.isEmpty)
                    #expect(finished.error.contains("No host of the address takes writes"))
                    #expect(finished.error.contains("Name the host of the primary"))
                }
                for option in ["", "&target_session_attrs=primary"] {
                    let server = try await ServerProcess.start(
                        in: workspace,
                        database: both + option
                    )
                    let made = try await server.wire.send("POST", "/tables/Note", "{}")
                    #expect(made.status == 201)
                    #expect(try await server.stop() == .exit(0))
                }
                // A database that takes no writes, and is no standby.
                try primary.psql(
                    "ALTER DATABASE \(name) SET default_transaction_read_only = on",
                    in: name
                )
                let url = primary.url(of: name) + "&target_session_attrs=primary"
                let finished = try await Self.serve(url, workspace)
                #expect(finished.code == 1)
                #expect(finished.error.contains("default_transaction_read_only"))
            }
        }

        private static func serve(_ url: String, _ workspace: Workspace) async throws -> Finished {
            try await workspace.run(
                .tideline,
                ["serve", "--listen", "127.0.0.1:0", "--database", url]
            )
        }
    }
}
