// LocalOnlyKillTests: a device is killed while it changes values that stay on it, and while it pulls. The values
// survive, and nothing of them is queued.

import Foundation
import Testing
import TidelineTestKit
import TidelineTestSupport

extension ProcessTests {
    @Suite(.slow) struct LocalOnlyKillTests {
        /// The marks of the rows, by id.
        private func marks(_ probe: Probe) throws -> [String: String] {
            let rows = try probe.file.rows(
                #"SELECT "id", "mark" FROM "TodoItem" WHERE "mark" <> ''"#
            )
            return Dictionary(rows.map { ($0[0], $0[1]) }) { first, _ in first }
        }

        /// The texts of the drafts, by id, which is that of a row.
        private func drafts(_ probe: Probe) throws -> [String: String] {
            let rows = try probe.file.rows(#"SELECT "id", "text" FROM "Draft""#)
            return Dictionary(rows.map { ($0[0], $0[1]) }) { first, _ in first }
        }

        @Test(
            "A local column and a local record that change together survive kills together",
            arguments: RandomSeeds.all
        )
        func transactions(seed: UInt64) async throws {
            var random = SeededGenerator(seed: seed)
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let writer = Probe(workspace, server.url, store: "writer.sqlite")
                try await writer.run("fill", "60", "base")
                try await writer.run("push")
                let probe = Probe(workspace, server.url)
                try await probe.run("keep")
                var changes: Set<String> = []
                for round in 0..<8 {
                    let enough = probe.bytesWritten + random.below(200_000)
                    let child = try probe.start("mark", "0", "mark\(round)-\(seed)")
                    _ = try await becomesTrue(within: .seconds(2)) {
                        child.end != nil || probe.bytesWritten >= enough
                    }
                    #expect(try await child.destroy() == .signal(SIGKILL), "\(child.error)")
                    try probe.file.expectIntact()
                    let marks = try marks(probe)
                    #expect(try drafts(probe) == marks)
                    #expect(try probe.file.queue().isEmpty)
                    changes.formUnion(marks.values)
                }
                #expect(changes.count > 10, "the kills came before the changes")
            }
        }

        @Test(
            "A kill during a pull does not change the values of local columns",
            arguments: RandomSeeds.all
        )
        func pulls(seed: UInt64) async throws {
            var random = SeededGenerator(seed: seed)
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let writer = Probe(workspace, server.url, store: "writer.sqlite")
                try await writer.run("fill", "300", "base")
                try await writer.run("push")
                let proxy = try SlowProxy(to: server.port, .init(seed: seed))
                defer { proxy.stop() }
                let probe = Probe(workspace, server.url)
                try await probe.run("keep")
                try await probe.run("mark", "200", "mark-\(seed)")
                let (marks, drafts) = (try marks(probe), try drafts(probe))
                #expect(marks == drafts && marks.count > 50)
                var kills = 0
                for round in 0..<6 {
                    try await writer.run("edit", "60", "round\(round)-\(seed)")
                    try await writer.run("push")
                    kills += try await probe.killed(
                        "keep",
                        at: proxy,
                        bytes: 1...20_000,
                        using: &random
                    )
                    try probe.file.expectIntact()
                    #expect(try self.drafts(probe) == drafts)
                    let left = try self.marks(probe)
                    #expect(left.allSatisfy { marks[$0.key] == $0.value })
                }
                #expect(kills >= 1, "no kill found a pull at work")
                try await probe.run("keep")
                // The rows are those of the server, and each that was never deleted has its mark.
                let texts = #"SELECT "id", "text" FROM "TodoItem" ORDER BY "id""#
                #expect(try probe.file.rows(texts) == writer.file.rows(texts))
                let ids = Set(try probe.file.rows(texts).map { $0[0] })
                #expect(try self.marks(probe) == marks.filter { ids.contains($0.key) })
                #expect(try probe.file.queue().isEmpty)
            }
        }
    }
}
