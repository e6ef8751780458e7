// An operator's commands on PostgreSQL, as processes; and a device that does not notice that its server's file was
// copied into a PostgreSQL database, by a copy that was killed in between.

import Foundation
import Testing
import Tideline
import TidelinePostgres
import TidelineTestKit
import TidelineTestSupport

extension ProcessTests {
    @Suite(.slow, .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
    struct PostgresMaintenanceProcessTests {
        @Test("The restored, backup and migrate commands support a PostgreSQL database")
        func commandsAcceptPostgres() async throws {
            try await withWorkspace { workspace in
                let url = try PostgresCluster.shared().database()
                let server = try await ServerProcess.start(in: workspace, database: url)
                let options = ["--config", workspace.path("tideline.json"), "--database", url]
                let before = try await server.wire.send("GET", "/tables/Note")
                    .headers["Tideline-Epoch"]
                // The server continues, and reports it.
                let restored = try await workspace.run(.tideline, ["restored"] + options)
                #expect(restored.code == 0, "\(restored.error)")
                let after = try await server.wire.send("GET", "/tables/Note")
                    .headers["Tideline-Epoch"]
                #expect(after != before && restored.output.contains(after ?? "?"))
                let backup = try await workspace.run(.tideline, ["backup"] + options)
                #expect(backup.code == 1 && backup.output.contains("pg_basebackup"))
                let file = workspace.path("backup.db")
                let rejected = try await workspace.run(.tideline, ["backup", file] + options)
                #expect(rejected.code == 1 && rejected.error.contains("is not a file"))
                _ = try await server.wire.send("POST", "/tables/Note", #"{"id":"a","rank":1}"#)
                _ = try await server.stop()
                _ = try workspace.file(
                    "tideline.json",
                    #"{"tables": {"Note": {"columns": {"rank": "string"}}}}"#
                )
                let plan = try await workspace.run(.tideline, ["migrate", "--dry-run"] + options)
                #expect(plan.code == 0, "\(plan.error)")
                #expect(plan.output.contains("column 'rank': 1 value becomes string"))
                #expect(plan.output.contains("ALTER TABLE \"Note\" ADD COLUMN \"__new\" text"))
                let done = try await workspace.run(.tideline, ["migrate", "--apply"] + options)
                #expect(done.code == 0 && done.output.hasSuffix("Done.\n"), "\(done.error)")
                let again = try await server.restart()
                let row = try await again.wire.send("GET", "/tables/Note/a")
                #expect(row.object["rank"] as? String == "1")
            }
        }

        @Test("A device continues its sync after the server moved from SQLite to PostgreSQL")
        func aDeviceDoesNotNoticeThatItsServerMoved() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let probe = Probe(workspace, server.url)
                try await probe.run("fill", "3000", "first")
                try await probe.run("push")
                try await probe.run("pull")
                #expect(try await server.stop() == .exit(0))
                // Made while the server is not running.
                try await probe.run("edit", "20", "offline")
                let cluster = try PostgresCluster.shared()
                let url = try cluster.database()
                try await copy(from: "sqlite:" + workspace.path("server.db"), to: url, workspace)
                let moved = try await ServerProcess.start(
                    [
                        "--config", workspace.path("tideline.json"), "--database", url,
                    ],
                    listen: "127.0.0.1:\(server.port)",
                    in: workspace
                )
                try await probe.run("push")
                try await probe.run("pull")
                // Its own changes were returned; nothing else was pulled again, in pages of 40.
                let pulls = moved.requests.filter { $0.method == "GET" }
                #expect(pulls.count < 10, "\(pulls.count)")
                #expect(moved.requests.allSatisfy { $0.status < 400 }, "\(moved.requests)")
                #expect(try probe.file.queue().isEmpty)
                let rows = try await moved.wire.allRows("TodoItem")
                let live = rows.filter { $0["deleted"] as? Bool == false }.map { row in
                    ["id", "text", "version"].map { row[$0] as? String ?? "?" }
                }
                let local = try probe.file.rows(#"SELECT "id", "text", "version" FROM "TodoItem""#)
                #expect(live.count > 2900 && Set(local) == Set(live))
                #expect(live.contains { $0[1].hasPrefix("offline") })
            }
        }

        /// Kills the command once while rows are being copied, and starts it again.
        private func copy(
            from source: String,
            to target: String,
            _ workspace: Workspace
        ) async throws {
            let words = ["copy", "--from", source, "--to", target]
            let connection = try PostgresConnection(PostgresAddress(target))
            let first = try workspace.start(.tideline, words)
            _ = try await eventually("a copy under way") { () -> Bool? in
                let found = try? connection.run(
                    "SELECT \"value\" FROM tideline.state WHERE \"key\" = 'copy'"
                )
                let progress = found.map { $0.count > 0 ? $0.text(0, 0) : "" } ?? ""
                return progress.contains("after") && !progress.contains("[]") || first.end != nil
                    ? true : nil
            }
            try await first.destroy()
            let again = try await workspace.run(.tideline, words)
            #expect(again.code == 0, "\(again.error)")
        }
    }
}
