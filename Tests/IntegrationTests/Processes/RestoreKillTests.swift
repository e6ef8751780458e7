// RestoreKillTests: a device is killed with SIGKILL while it pushes to a server, before and after the server's database
// is replaced by an older backup.

import Foundation
import Testing
import Tideline
import TidelineTestKit
import TidelineTestSupport

extension ProcessTests {
    @Suite(.slow) struct RestoreKillTests {
        private static let rounds = 3

        @Test(
            "a device that is killed during pushes to a restored server loses and doubles nothing",
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
                var (kills, inFlight) = (0, 0)
                for round in 0..<Self.rounds {
                    let backup = workspace.path("backup\(round).db")
                    try await Self.tideline(workspace, "backup", backup)
                    let saved = try await Self.texts(server)
                    // The server accepts these edits, and loses them; it may lose a request that has no answer yet.
                    try await probe.run("edit", "80", "lost\(round)-\(seed)")
                    if round > 0 { try await probe.run("resend") }
                    try await probe.run("edit", "60", "last\(round)-\(seed)")
                    kills += try await probe.killed(
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
                        kills += try await probe.killed(
                            "resend",
                            at: proxy,
                            bytes: 1...30_000,
                            using: &random
                        )
                        inFlight += try probe.file.hasOperationInFlight() ? 1 : 0
                    }
                    // A pull sends lost rows again, and the next push completes them.
                    for _ in 0..<2 { try await probe.run("resend") }
                    // A delete that the backup does not have is undone, unless the device still has to send it.
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
                #expect(kills > 0 && inFlight > 0, "no kill met a request under way")
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
