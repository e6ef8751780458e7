// A server and a real standby: it never uses one as its database, reports that if its address allows it, finds the
// primary, and reads pages from the standby if it is configured to.

import Foundation
import Testing
import Tideline
import TidelinePostgres
import TidelineTestKit
import TidelineTestSupport

extension ProcessTests {
    @Suite(.slow, .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
    struct StandbyProcessTests {
        @Test("A server starts only with a PostgreSQL host that accepts writes")
        func aStandbyIsNotServed() async throws {
            let primary = try PostgresCluster()
            let name = PostgresCluster.name(in: try primary.database())
            let standby = try PostgresCluster(standbyOf: primary)
            #expect(try standby.psql("SELECT pg_is_in_recovery()", in: name) == "t\n")
            // The standby is first.
            let hosts = "\(standby.socketDirectory),\(primary.socketDirectory)"
            let both = "postgres://postgres@/\(name)?host=\(hosts)"
            try await withWorkspace { workspace in
                for attributes in ["any", "standby", "prefer-standby", "read-only"] {
                    let url = both + "&target_session_attrs=\(attributes)"
                    let finished = try await Self.serve(url, workspace)
                    #expect(finished.code == 2 && finished.output.isEmpty, "\(attributes)")
                    for words in [
                        "database: ", "target_session_attrs=\(attributes)", "rejects writes",
                        "Leave it out",
                    ] {
                        #expect(finished.error.contains(words), "\(finished.error)")
                    }
                }
                for option in ["", "&target_session_attrs=primary"] {
                    let finished = try await Self.serve(standby.url(of: name) + option, workspace)
                    #expect(finished.code == 1 && finished.output.isEmpty)
                    #expect(finished.error.contains("No host of the address accepts writes"))
                    #expect(finished.error.contains("Add the host of the primary"))
                }
                for option in ["", "&target_session_attrs=primary"] {
                    let server = try await ServerProcess.start(
                        in: workspace,
                        database: both + option
                    )
                    let created = try await server.wire.send("POST", "/tables/Note", "{}")
                    #expect(created.status == 201)
                    #expect(try await server.stop() == .exit(0))
                }
                // A database that accepts no writes, and is not a standby.
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

        @Test("A caller reads the latest writes although the standby that serves pages lags behind")
        func pagesComeFromAStandby() async throws {
            let primary = try PostgresCluster()
            let url = try primary.database()
            let standby = try PostgresCluster(standbyOf: primary)
            let replica = standby.url(of: PostgresCluster.name(in: url))
            let configuration = ServerProcess.configuration.replacing(
                "\"tables\"",
                with: "\"replica\": \"\(replica)\", \"tables\""
            )
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(
                    in: workspace,
                    database: url,
                    configuration: configuration
                )
                let wire = server.wire
                try standby.catchUp(with: primary)
                for number in 0..<20 {
                    if number == 10 { try standby.pauseReplay() }
                    let note = "{\"id\":\"n\(number)\"}"
                    let created = try await wire.send("POST", "/tables/Note", note)
                    #expect(created.status == 201)
                    let filter = "$filter=id%20eq%20'n\(number)'"
                    let page = try await wire.send("GET", "/tables/Note?\(filter)")
                    #expect(page.rows.count == 1, "\(number)")
                }
                let metrics = String(
                    decoding: try await wire.send("GET", "/metrics").body,
                    as: UTF8.self
                )
                for (outcome, isSome) in [("answered", true), ("behind", true), ("failed", false)] {
                    let name = "tideline_replica_pages_total{outcome=\"\(outcome)\"} "
                    let line = metrics.split(separator: "\n").first { $0.hasPrefix(name) }
                    #expect((line != "\(name)0") == isSome, "\(line ?? "")")
                }
                #expect(try await server.stop() == .exit(0))
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
