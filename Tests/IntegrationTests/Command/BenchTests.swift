// BenchTests: `tideline bench` and its report; `--json` of other commands.

import Foundation
import Testing
import Tideline
import TidelineTestSupport

extension ProcessTests {
    struct BenchTests {
        private static func object(_ finished: Finished) -> [String: Any] {
            let data = Data(finished.output.utf8)
            return (try? JSONSerialization.jsonObject(with: data)) as? [String: Any] ?? [:]
        }

        @Test(
            "The bench command measures reads and writes and deletes the rows that it inserted",
            .slow
        )
        func aServerIsLoaded() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let kept = try await server.wire.send("POST", "/tables/Note", #"{"id":"kept"}"#)
                #expect(kept.status == 201)
                let words = [
                    "bench", server.url.absoluteString, "--table", "Note", "--seconds", "1",
                    "--connections", "3", "--writes", "50",
                ]
                let finished = try await workspace.run(.tideline, words + ["--json"])
                #expect(finished.code == 0, "\(finished.output) \(finished.error)")
                let report = Self.object(finished)
                for (name, count) in [
                    ("connections", 3), ("refused", 0), ("failed", 0), ("rowsLeft", 0),
                ] {
                    #expect(report[name] as? Int == count, "\(name)")
                }
                #expect(report["isInterrupted"] as? Bool == false)
                let load = try #require(report["load"] as? [[String: Any]])
                #expect(load.map { $0["kind"] as? String } == ["reads", "writes"])
                for kind in load {
                    let requests = try #require(kind["requests"] as? Int)
                    #expect(requests > 0)
                    let times = ["p50", "p95", "p99", "max"].compactMap {
                        kind[$0 + "Microseconds"] as? Int
                    }
                    #expect(times.count == 4 && times == times.sorted() && times[0] > 0)
                }
                // Its count equals the server's requests, including the first probe.
                let all = load.reduce(0) { $0 + ($1["requests"] as? Int ?? 0) }
                let asked = try await eventually("the lines of the log") {
                    let count = server.requests.count { $0.path == "/tables/Note" }
                    return count < all + 2 ? nil : count
                }
                #expect(asked == all + 2)
                #expect(try await server.wire.send("GET", "/tables/Note").ids == ["kept"])
                let shown = try await workspace.run(.tideline, words)
                #expect(shown.code == 0 && shown.output.contains("p99Microseconds"))
            }
        }

        @Test("The bench command reports rejections by the server and invalid arguments")
        func rejectionsAreReported() async throws {
            try await withWorkspace { workspace in
                let configuration = ServerProcess.configuration.replacing(
                    "\"limits\": {",
                    with: "\"limits\": { \"callerWrites\": 1,"
                )
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: configuration
                )
                let url = server.url.absoluteString
                let none = try await workspace.run(.tideline, ["bench", url, "--table", "none"])
                #expect(none.code == 1 && none.error.contains("status 404"), "\(none.error)")
                let busy = try await workspace.run(
                    .tideline,
                    [
                        "bench", url, "--table", "Note", "--seconds", "1", "--writes", "100",
                        "--json",
                    ]
                )
                #expect(busy.code == 1)
                let report = Self.object(busy)
                #expect((report["refused"] as? Int ?? 0) > 0)
                #expect((report["reason"] as? String)?.hasPrefix("status 429: ") == true)
                for words in [
                    ["bench"], ["bench", url], ["bench", "todo.example", "--table", "Note"],
                    ["bench", url, "--table", "Note", "--seconds", "0"],
                    ["bench", url, "--table", "Note", "--writes", "101"],
                ] {
                    #expect(try await workspace.run(.tideline, words).code == 2, "\(words)")
                }
            }
        }

        @Test(
            "A signal ends the benchmark, which reports its measurements and deletes its rows",
            arguments: [SIGINT, SIGTERM]
        )
        func aSignalEndsTheBenchmark(signal: Int32) async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let child = try workspace.start(
                    .tideline,
                    [
                        "bench", server.url.absoluteString, "--table", "Note", "--seconds", "600",
                        "--connections", "2", "--writes", "50", "--json",
                    ]
                )
                _ = try await eventually("rows that were inserted") {
                    try await server.wire.send("GET", "/tables/Note").ids.isEmpty ? nil : true
                }
                child.send(signal)
                #expect(try await child.wait() == .exit(0), "\(child.error)")
                #expect(child.error.contains("Interrupted"))
                let report = Self.object(
                    Finished(code: 0, output: child.output, error: child.error)
                )
                #expect(report["isInterrupted"] as? Bool == true)
                #expect(report["rowsLeft"] as? Int == 0)
                let load = try #require(report["load"] as? [[String: Any]])
                #expect(load.allSatisfy { ($0["requests"] as? Int ?? 0) > 0 })
                #expect(try await server.wire.send("GET", "/tables/Note").ids.isEmpty)
            }
        }

        @Test("Token, audit, migrate, restored, certificate and copy print JSON")
        func otherCommandsPrintJSON() async throws {
            try await withWorkspace { workspace in
                _ = try workspace.file("jwt.key", String(repeating: "0123456789abcdef", count: 2))
                let file = try workspace.file(
                    "a.json",
                    #"{"authentication":{"secretFile":"jwt.key"},"tables":{"T":{"columns":{},"audit":true}}}"#
                )
                let place = ["--config", file, "--database", "sqlite:" + workspace.path("a.db")]
                let server = try await ServerProcess.start(
                    place,
                    listen: "127.0.0.1:0",
                    in: workspace
                )
                let token = try await workspace.run(
                    .tideline,
                    ["token", "--config", file, "--subject", "anna", "--json"]
                )
                #expect((Self.object(token)["token"] as? String)?.split(separator: ".").count == 3)
                #expect(!token.output.contains("0123456789abcdef"))
                let created = try await server.wire.send(
                    "POST",
                    "/tables/T",
                    #"{"id":"a"}"#,
                    headers: ["X-ZUMO-AUTH": try #require(Self.object(token)["token"] as? String)]
                )
                #expect(created.status == 201)
                let audit = try await workspace.run(
                    .tideline,
                    ["audit", "--table", "t", "--last", "5", "--json"] + place
                )
                let changes = Self.object(audit)["changes"] as? [[String: Any]] ?? []
                #expect(changes.map { $0["user"] as? String } == ["anna"], "\(audit.error)")
                #expect(changes.first?["action"] as? String == "insert")
                #expect(try await server.stop() == .exit(0))
                let migrated = try await workspace.run(
                    .tideline,
                    ["migrate", "--apply", "--json"] + place
                )
                #expect(Self.object(migrated)["isEmpty"] is Bool, "\(migrated.error)")
                let restored = try await workspace.run(.tideline, ["restored", "--json"] + place)
                #expect(Self.object(restored)["epoch"] is String, "\(restored.error)")
                let certificate = try await workspace.run(
                    .tideline,
                    [
                        "certificate", "--host", "127.0.0.1", "--directory", workspace.path("c"),
                        "--json",
                    ]
                )
                #expect(Self.object(certificate)["keyFile"] is String)
                let copied = try await workspace.run(
                    .tideline,
                    [
                        "copy", "--from", "sqlite:" + workspace.path("a.db"), "--to",
                        "sqlite:" + workspace.path("b.db"), "--json",
                    ]
                )
                #expect(Self.object(copied)["copied"] is [[String: Any]], "\(copied.error)")
            }
        }
    }
}
