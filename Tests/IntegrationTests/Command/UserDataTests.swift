// UserDataTests: export, forget and owners --rename, compact, inspect and purge-tombstones on both databases.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit

extension ProcessTests {
    struct UserDataTests {
        private static let configuration = """
            {
              "authentication": { "secretFile": "jwt.key" },
              "tables": {
                "Diary": {
                  "columns": { "text": "string", "mood": "integer" }, "owner": "userId",
                  "conflict": "merge", "audit": true
                },
                "Shared": { "columns": { "text": "string" }, "audit": true }
              }
            }
            """

        private struct Scene {
            let workspace: Workspace
            let options: [String]
            let database: String

            func run(_ words: [String]) async throws -> Finished {
                let finished = try await workspace.run(.tideline, words + options)
                #expect(finished.code == 0, "\(words) \(finished.error)")
                return finished
            }

            func token(_ user: String) async throws -> String {
                let words = [
                    "token", "--config", workspace.path("tideline.json"), "--subject", user,
                ]
                return try await workspace.run(.tideline, words)
                    .output.trimmingCharacters(in: .newlines)
            }

            func server() async throws -> ServerProcess {
                try await ServerProcess.start(options, listen: "127.0.0.1:0", in: workspace)
            }

            /// The count for a part, as `forget` and `owners` print it.
            func count(_ part: String, of user: String) async throws -> Int {
                let finished = try await run(["forget", "--user", user])
                let line = finished.output.split(separator: "\n").first {
                    $0.hasPrefix(part + ": ")
                }
                return line.flatMap { Int($0.dropFirst(part.count + 2)) } ?? 0
            }
        }

        private static let parts = [
            "rows of Diary", "tombstones of Diary", "merge bases", "ledger", "audit",
        ]

        /// A database with rows, tombstones and ledger entries of anna and of bert.
        private func withScene(
            _ kind: String,
            _ body: (Scene) async throws -> Void
        ) async throws {
            try await withWorkspace { workspace in
                _ = try workspace.file("jwt.key", String(repeating: "0123456789abcdef", count: 2))
                let file = try workspace.file("tideline.json", Self.configuration)
                let database =
                    kind == "sqlite"
                    ? "sqlite:" + workspace.path("server.db")
                    : try PostgresCluster.shared().database()
                let scene = Scene(
                    workspace: workspace,
                    options: ["--config", file, "--database", database],
                    database: database
                )
                let server = try await scene.server()
                for user in ["anna", "bert"] {
                    let token = try await scene.token(user)
                    func send(_ method: String, _ path: String, _ body: String?) async throws -> Int
                    {
                        var fields: HTTPFields = ["X-ZUMO-AUTH": token]
                        fields["Repeatability-Request-ID"] = UUID().uuidString
                        fields["Repeatability-First-Sent"] = HTTPDate.text(
                            microseconds: Int64(Date.now.timeIntervalSince1970 * 1_000_000)
                        )
                        return try await server.wire.send(method, path, body, headers: fields)
                            .status
                    }
                    for id in ["a", "b", "c"] {
                        let row = #"{"id":"\#(user)-\#(id)","text":"secret of \#(user)"}"#
                        #expect(try await send("POST", "/tables/Diary", row) == 201)
                    }
                    let path = "/tables/Diary/\(user)-"
                    #expect(try await send("PATCH", path + "a", #"{"mood":5}"#) == 200)
                    #expect(try await send("DELETE", path + "c", nil) == 204)
                    let shared = #"{"id":"of-\#(user.prefix(1))","text":"x"}"#
                    #expect(try await send("POST", "/tables/Shared", shared) == 201)
                }
                #expect(try await server.stop() == .exit(0))
                try await body(scene)
            }
        }

        private static var kinds: [String] {
            PostgresCluster.reasonToSkip == nil ? ["sqlite", "postgres"] : ["sqlite"]
        }

        @Test(
            "The data of a user is exported and counted, and then removed",
            arguments: kinds
        )
        func forget(kind: String) async throws {
            try await withScene(kind) { scene in
                let exported = try await scene.run(["export", "--user", "anna"]).output
                let lines = exported.split(separator: "\n")
                for line in lines {
                    let object = try JSONSerialization.jsonObject(with: Data(line.utf8))
                    #expect((object as? [String: Any])?["part"] is String)
                }
                #expect(lines.count { $0.contains("\"part\":\"rows\"") } == 2)
                #expect(lines.count { $0.contains("\"part\":\"tombstones\"") } == 1)
                #expect(exported.contains("secret of anna") && !exported.contains("bert"))
                for part in Self.parts {
                    #expect(try await scene.count(part, of: "anna") > 0, "\(part)")
                }
                let before = try await scene.run(["export", "--user", "bert"]).output
                let done = try await scene.run(["forget", "--user", "anna", "--apply"])
                #expect(done.output.contains("Removed."))
                #expect(try await scene.run(["export", "--user", "anna"]).output.isEmpty)
                #expect(try await scene.run(["export", "--user", "bert"]).output == before)
                if kind == "sqlite" {
                    let folder = scene.workspace.directory
                    for name in try FileManager.default.contentsOfDirectory(atPath: folder)
                    where name.hasPrefix("server.db") {
                        let data =
                            FileManager.default.contents(atPath: folder + "/" + name) ?? Data()
                        #expect(data.range(of: Data("anna".utf8)) == nil, "\(name)")
                    }
                }
                let server = try await scene.server()
                let fields: HTTPFields = ["X-ZUMO-AUTH": try await scene.token("bert")]
                let answer = try await server.wire.send("GET", "/tables/Diary", headers: fields)
                #expect(answer.rows.count == 2)
                #expect(answer.headers["Tideline-Horizon"] != nil)
                _ = try await server.stop()
            }
        }

        @Test("All data of a renamed user belongs to the new name", arguments: kinds)
        func rename(kind: String) async throws {
            try await withScene(kind) { scene in
                let rename = ["owners", "--rename", "anna", "anna@example.org"]
                let dry = try await scene.run(rename)
                #expect(dry.output.contains("rows of Diary: 2") && dry.output.contains("--apply"))
                #expect(try await scene.count("rows of Diary", of: "anna@example.org") == 0)
                var counts: [Int] = []
                for part in Self.parts { counts.append(try await scene.count(part, of: "anna")) }
                let done = try await scene.run(rename + ["--apply"])
                #expect(done.output.contains("Renamed."))
                #expect(try await scene.run(["export", "--user", "anna"]).output.isEmpty)
                for (part, count) in zip(Self.parts, counts) {
                    #expect(try await scene.count(part, of: "anna@example.org") == count, "\(part)")
                }
                let server = try await scene.server()
                let fields: HTTPFields = ["X-ZUMO-AUTH": try await scene.token("anna@example.org")]
                let answer = try await server.wire.send("GET", "/tables/Diary", headers: fields)
                #expect(answer.rows.count == 2)
                // A pending change still applies, and the table clock continues.
                let version = try #require(answer.rows.first?["version"] as? String)
                let id = try #require(answer.rows.first?["id"] as? String)
                var named = fields
                named["If-Match"] = "\"\(version)\""
                let path = "/tables/Diary/" + id
                let written = try await server.wire.send(
                    "PATCH",
                    path,
                    #"{"mood":9}"#,
                    headers: named
                )
                #expect(written.status == 200)
                _ = try await server.stop()
            }
        }

        @Test(
            "The commands inspect, purge-tombstones and compact accept both databases",
            arguments: kinds
        )
        func care(kind: String) async throws {
            try await withScene(kind) { scene in
                let report = try await scene.run(["inspect", "--json"]).output
                let object =
                    try JSONSerialization.jsonObject(with: Data(report.utf8)) as? [String: Any]
                let tables = object?["tables"] as? [[String: Any]] ?? []
                let diary = tables.first { $0["name"] as? String == "Diary" }
                #expect(diary?["rows"] as? Int == 4 && diary?["deleted"] as? Int == 2)
                let purged = try await scene.run(["purge-tombstones", "--days", "0", "--json"])
                    .output
                #expect(purged.contains(#""removed":2"#), "\(purged)")
                let compacted = try await scene.run(["compact"]).output
                #expect(compacted.contains("bytes now"))
                let after = try await scene.run(["inspect", "--json"]).output
                #expect(after.contains(#""deleted":0"#))
            }
        }
    }
}
