// RestoreKillTests: a device is killed with SIGKILL while it pushes, before and after the server's database is restored
// from a backup.

import Foundation
import Testing
import Tideline
import TidelineTestKit
import TidelineTestSupport

extension ProcessTests {
    @Suite(.slow) struct RestoreKillTests {
        private static let rounds = 3

        @Test(
            "A device that is killed while it pushes to a restored server loses no row",
            arguments: RandomSeeds.all
        )
        func pushSurvivesKills(seed: UInt64) async throws {
            var random = SeededGenerator(seed: seed)
            try await withWorkspace { workspace in
                var server = try await ServerProcess.start(in: workspace)
                let proxy = try SlowProxy(to: server.port, .init(seed: seed))
                defer { proxy.stop() }
                let probe = Probe(workspace, proxy.url)
                try await probe.run("fill", "120", "first")
                try await probe.run("resend")
                var inFlight = 0
                for round in 0..<Self.rounds {
                    let backup = workspace.path("backup\(round).db")
                    try await Self.tideline(workspace, "backup", backup)
                    let saved = try await Self.texts(server)
                    // The restore loses these edits. The request that the kill interrupts may be lost, too.
                    try await probe.run("edit", "80", "lost\(round)-\(seed)")
                    if round > 0 { try await probe.run("resend") }
                    try await probe.run("edit", "60", "last\(round)-\(seed)")
                    _ = try await probe.killed(
                        "resend",
                        at: proxy,
                        bytes: 1...20_000,
                        using: &random
                    )
                    try await probe.run("edit", "60", "next\(round)-\(seed)")
                    let local = try Self.texts(probe.file)
                    let deletes = Set(
                        try probe.file.queue().filter { $0.kind == .delete }.map(\.itemID)
                    )
                    _ = try await server.stop()
                    try await Self.tideline(workspace, "restore", backup)
                    server = try await server.restart(samePort: true)
                    for _ in 0..<4 {
                        let kills = try await probe.killed(
                            "resend",
                            at: proxy,
                            bytes: 1...30_000,
                            using: &random
                        )
                        if kills > 0, try probe.file.hasOperationInFlight() { inFlight += 1 }
                    }
                    // The pull queues the lost rows, and the next push sends them.
                    for _ in 0..<2 { try await probe.run("resend") }
                    // The restore undoes a delete that the backup lacks, unless it is still in the queue.
                    let undone = saved.filter { local[$0.key] == nil && !deletes.contains($0.key) }
                    let expected = local.merging(undone) { first, _ in first }
                    #expect(try await Self.texts(server) == expected)
                    #expect(try Self.texts(probe.file) == expected)
                    try probe.file.expectIntact()
                    #expect(try probe.file.queue().isEmpty)
                    #expect(
                        try probe.file.integer(#"SELECT count(*) FROM "MS_TableLostRows""#) == 0
                    )
                }
                #expect(inFlight > 0, "no kill interrupted a request")
            }
        }

        private static func texts(_ server: ServerProcess) async throws -> [String: String] {
            let rows = try await server.wire.allRows("TodoItem")
                .filter { $0["deleted"] as? Bool == false }
            return Dictionary(
                uniqueKeysWithValues: rows.map {
                    ($0["id"] as? String ?? "?", $0["text"] as? String ?? "?")
                }
            )
        }

        private static func texts(_ file: DatabaseFile) throws -> [String: String] {
            let rows = try file.rows(#"SELECT "id", "text" FROM "TodoItem""#)
            return Dictionary(uniqueKeysWithValues: rows.map { ($0[0], $0[1]) })
        }

        private static func tideline(_ workspace: Workspace, _ words: String...) async throws {
            let options = [
                "--config", workspace.path("tideline.json"), "--database",
                "sqlite:" + workspace.path("server.db"),
            ]
            let finished = try await workspace.run(.tideline, words + options)
            guard finished.code == 0 else {
                throw TestFailure("tideline \(words) failed: \(finished.error)")
            }
        }
    }
}
