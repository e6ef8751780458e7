// CrashAtomicityTests: a device is killed while it edits offline. A row and its operation are written in one
// transaction, so neither exists without the other.

import Foundation
import Testing
import TidelineTestKit
import TidelineTestSupport

extension ProcessTests {
    @Suite(.slow) struct CrashAtomicityTests {
        /// Each kill comes when the process has written a random number of bytes, or does not write so much.
        @Test(
            "A killed process leaves each row consistent with its queued operation",
            arguments: RandomSeeds.all
        )
        func rowAndOperationAreAtomic(seed: UInt64) async throws {
            var random = SeededGenerator(seed: seed)
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let probe = Probe(workspace, server.url)
                try await probe.run("fill", "60", "base")
                try await probe.run("push")
                let pristine = try texts(probe)
                #expect(pristine.count == 60)
                var edits: Int64 = 0
                for round in 0..<12 {
                    let before = try probe.file.lastOperation()
                    let enough = probe.bytesWritten + random.below(300_000)
                    let child = try probe.start("edit", "0", "edit\(round)-\(seed)")
                    _ = try await becomesTrue(within: .seconds(2)) {
                        child.end != nil || probe.bytesWritten >= enough
                    }
                    #expect(try await child.destroy() == .signal(SIGKILL), "\(child.error)")
                    edits += try probe.file.lastOperation() - before
                    try check(probe, pristine)
                }
                #expect(edits > 10, "the kills came before the edits")
                try await probe.run("push")
                #expect(try probe.file.queue().isEmpty)
            }
        }

        @Test(
            "A store can be opened after its process was killed while creating it",
            arguments: RandomSeeds.all
        )
        func storeCanBeOpenedAfterAnyKill(seed: UInt64) async throws {
            var random = SeededGenerator(seed: seed)
            try await withWorkspace { workspace in
                let nowhere = try #require(URL(string: "http://127.0.0.1:9"))
                for round in 0..<12 {
                    let probe = Probe(workspace, nowhere, store: "store\(round)")
                    let enough = random.below(200_000)
                    let child = try probe.start("fill", "20", "a")
                    _ = try await becomesTrue(within: .seconds(2)) {
                        child.end != nil || probe.bytesWritten >= enough
                    }
                    try await child.destroy()
                    try await probe.run("fill", "3", "b")
                    try probe.file.expectIntact()
                    try check(probe, [:])
                }
            }
        }

        private func texts(_ probe: Probe) throws -> [String: String] {
            let rows = try probe.file.rows(#"SELECT "id", "text" FROM "TodoItem""#)
            return Dictionary(rows.map { ($0[0], $0[1]) }) { first, _ in first }
        }

        /// Every edit writes a new text: a row differs from the pushed one exactly if it has an operation, whose kind
        /// is the edit that was made.
        private func check(_ probe: Probe, _ pristine: [String: String]) throws {
            let file = try probe.file
            try file.expectIntact()
            let rows = try texts(probe)
            var expected: [String: QueueEntry.Kind] = [:]
            for (id, text) in rows where pristine[id] != text {
                expected[id] = pristine[id] == nil ? .insert : .update
            }
            for id in pristine.keys where rows[id] == nil { expected[id] = .delete }
            let queue = try file.queue()
            let found = Dictionary(queue.map { ($0.itemID, $0.kind) }) { first, _ in first }
            #expect(found == expected)
            #expect(queue.count == found.count, "a row has two entries")
            // Only changes to rows of the server have a base row.
            let sql = #"SELECT "itemId" FROM "MS_TableOperations" WHERE "base" IS NOT NULL"#
            let bases = try file.rows(sql).map { $0[0] }
            #expect(Set(bases) == Set(expected.filter { $0.value != .insert }.keys))
        }
    }
}
