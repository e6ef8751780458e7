// ClientCascadeKillTests: a device is killed while it deletes parents with the rows that refer to them. A parent and
// these rows are deleted together, with all of their operations in one group, or none of them is.

import Foundation
import Testing
import TidelineTestKit
import TidelineTestSupport

extension ProcessTests {
    @Suite(.slow) struct ClientCascadeKillTests {
        private static let customers = 60
        private static let configuration =
            "{ \(CascadeTables.json) }"

        /// Each kill comes when the process has written a random number of bytes.
        @Test(
            "A cascading delete on the device is stored completely or not at all after a kill",
            arguments: RandomSeeds.all
        )
        func aCascadeIsStoredAsAWhole(seed: UInt64) async throws {
            var random = SeededGenerator(seed: seed)
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: Self.configuration
                )
                let probe = Probe(workspace, server.url)
                try await probe.run("cascade", "fill", "\(Self.customers)")
                try await probe.run("cascade", "push")
                #expect(try probe.file.queue().isEmpty)
                var met = 0
                while try Self.count("Customer", probe) > 0 {
                    let before = try Self.count("Customer", probe)
                    let enough = probe.bytesWritten + 20_000 + random.below(300_000)
                    let child = try probe.start("cascade", "delete")
                    _ = try await becomesTrue(within: .seconds(5)) {
                        child.end != nil || probe.bytesWritten >= enough
                    }
                    try await child.destroy()
                    let after = try Self.count("Customer", probe)
                    if after < before, after > 0 { met += 1 }
                    try check(probe)
                }
                #expect(met > 0, "no kill came between the first and the last delete")
                try await probe.run("cascade", "push")
                #expect(try probe.file.queue().isEmpty)
                for table in ["Customer", "Job", "Visit"] {
                    let rows = try await server.wire.allRows(table)
                    #expect(rows.count == Self.customers * (table == "Customer" ? 1 : 10))
                    #expect(rows.allSatisfy { $0["deleted"] as? Bool == true }, "\(table)")
                }
            }
        }

        private static func count(_ table: String, _ probe: Probe) throws -> Int64 {
            try probe.file.integer(#"SELECT count(*) FROM "\#(table)""#) ?? 0
        }

        /// The rows that are left are those of customers that are left, and all others have deletes in one group.
        private func check(_ probe: Probe) throws {
            let file = try probe.file
            try file.expectIntact()
            let left = Int64(try file.rows(#"SELECT "id" FROM "Customer""#).count)
            for (table, column, parent) in [
                ("Job", "customerID", "Customer"), ("Visit", "jobID", "Job"),
            ] {
                let orphans = try file.rows(
                    """
                    SELECT "id" FROM "\(table)" WHERE "\(column)" NOT IN (SELECT "id" FROM "\(parent)")
                    """
                )
                #expect(orphans.isEmpty, "\(table) has orphans")
                #expect(try Self.count(table, probe) == left * 10)
            }
            let deleted = Int64(Self.customers) - left
            let groups = try file.rows(
                """
                SELECT "group", count(*) FROM "MS_TableOperations" WHERE "kind" = 2 GROUP BY "group"
                """
            )
            #expect(Int64(groups.count) == deleted)
            #expect(groups.allSatisfy { $0[1] == "21" })
        }
    }
}
