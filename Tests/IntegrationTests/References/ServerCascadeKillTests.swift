// ServerCascadeKillTests: the server is killed with SIGKILL while it deletes many rows in steps, because their parent
// was deleted. After each restart it continues, and meanwhile no row can refer to the deleted parent.

import Foundation
import Testing
import Tideline
import TidelineTestKit
import TidelineTestSupport

extension ProcessTests {
    @Suite(.slow) struct ServerCascadeKillTests {
        private static let jobs = 400

        private static let configuration =
            "{ \(CascadeTables.json), \"limits\": { \"cascadeRows\": 5 } }"

        @Test("A cascade on SQLite continues after the server is killed repeatedly")
        func aCascadeContinuesAfterKills() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: Self.configuration
                )
                let file = try DatabaseFile(workspace.path("server.db"))
                try await killRepeatedly(server) {
                    try file.expectIntact()
                    return try file.integer(#"SELECT count(*) FROM "tideline_cascades""#)
                }
            }
        }

        @Test(
            "A cascade on PostgreSQL continues after the server is killed repeatedly",
            .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed")
        )
        func aCascadeContinuesAfterKillsOnPostgres() async throws {
            try await withWorkspace { workspace in
                let cluster = try PostgresCluster.shared()
                let url = try cluster.database()
                let server = try await ServerProcess.start(
                    in: workspace,
                    database: url,
                    configuration: Self.configuration
                )
                let database = PostgresCluster.name(in: url)
                try await killRepeatedly(server) {
                    let sql = "SELECT count(*) FROM tideline.cascades"
                    let text = try cluster.psql(sql, in: database)
                    return Int64(text.trimmingCharacters(in: .whitespacesAndNewlines))
                }
            }
        }

        /// Deletes a customer, and kills the server until all rows below are deleted.
        ///
        /// `pending` returns the number of rows whose children are not all deleted.
        private func killRepeatedly(
            _ first: ServerProcess,
            pending: () throws -> Int64?
        ) async throws {
            var server = first
            try await Self.fill(server.wire)
            var kept: [String: String] = [:]
            for row in try await server.wire.allRows("Job")
            where row["customerID"] as? String == "d" {
                kept[row["id"] as? String ?? ""] = row["version"] as? String
            }
            #expect(kept.count == 2)
            let answer = try await server.wire.send("DELETE", "/tables/Customer/c")
            #expect(answer.status == 204)
            var kills = 0
            for round in 0..<6 {
                try await server.process.destroy()
                if try pending() ?? 0 > 0 { kills += 1 }
                server = try await server.restart()
                // The parent is deleted for callers, however far the cascade is.
                for (table, column, id) in [("Job", "customerID", "c"), ("Visit", "jobID", "c1")] {
                    let body = #"{"id":"new\#(round)","\#(column)":"\#(id)"}"#
                    let answer = try await server.wire.send("POST", "/tables/\(table)", body)
                    #expect(answer.status == 409, "\(table) in round \(round)")
                    #expect(answer.object["code"] as? String == "parentNotFound")
                }
            }
            #expect(kills > 0, "no kill met a cascade under way")
            let wire = server.wire
            _ = try await eventually("the end of the cascade") {
                try pending() == 0 ? () : nil
            }
            for (table, count) in [("Job", Self.jobs), ("Visit", Self.jobs)] {
                let rows = try await wire.allRows(table)
                let deleted = rows.filter { $0["deleted"] as? Bool == true }
                #expect(deleted.count == count, "\(table)")
                #expect(rows.count == count + 2, "\(table)")
            }
            for row in try await wire.allRows("Job") {
                guard let version = kept[row["id"] as? String ?? ""] else { continue }
                #expect(row["version"] as? String == version, "a row of another parent was changed")
            }
            #expect(try await server.stop() == .exit(0))
        }

        /// Stores customer `c` with many jobs, each with a visit, and customer `d` with two.
        private static func fill(_ wire: Wire) async throws {
            var requests: [String] = []
            func add(_ table: String, _ body: String) {
                requests.append(
                    #"{"id":"\#(requests.count)","method":"post","url":"tables/\#(table)","body":\#(body)}"#
                )
            }
            for (customer, count) in [("c", jobs), ("d", 2)] {
                add("Customer", #"{"id":"\#(customer)"}"#)
                for number in 1...count {
                    let id = "\(customer)\(number)"
                    add("Job", #"{"id":"\#(id)","customerID":"\#(customer)"}"#)
                    add("Visit", #"{"id":"\#(id)v","jobID":"\#(id)"}"#)
                }
            }
            let answer = try await wire.send(
                "POST",
                "/$batch",
                "{\"requests\":[" + requests.joined(separator: ",") + "]}"
            )
            let answers = answer.object["responses"] as? [[String: Any]] ?? []
            #expect(answers.count == requests.count)
            #expect(answers.allSatisfy { $0["status"] as? Int == 201 })
        }
    }
}
