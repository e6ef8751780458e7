// ReloadTests: the settings that SIGHUP reloads, and what the dashboard and the metrics report about it.

import Foundation
import Testing
import Tideline

extension ProcessTests {
    struct ReloadTests {
        private static func configuration(
            certificates: String,
            operators: String,
            level: String,
            key: String = "one.key",
            page: Int = 40
        ) -> String {
            """
            {
              "tables": { "TodoItem": { "columns": { "text": "string" } } },
              "tls": {
                "certificateFile": "\(certificates)/certificate.pem",
                "keyFile": "\(certificates)/certificate.key"
              },
              "authentication": { "secretFile": "jwt.key", "operators": ["\(operators)"] },
              "metrics": { "keyFile": "\(key)" },
              "limits": { "batchRequests": \(page) },
              "log": { "level": "\(level)" }
            }
            """
        }

        private static func wire(_ server: ServerProcess, _ authority: String) -> Wire {
            Wire(endpoint: server.url, transport: CurlTransport(certificateAuthorities: authority))
        }

        private static func token(_ user: String, _ space: Workspace) async throws -> String {
            let config = space.path("tideline.json")
            let created = try await space.run(
                .tideline,
                ["token", "--config", config, "--subject", user]
            )
            #expect(created.code == 0, "\(created.error)")
            return created.output.trimmingCharacters(in: .whitespacesAndNewlines)
        }

        @Test("SIGHUP applies changed settings, and the dashboard shows the ones in effect")
        func changedNamesAreReloaded() async throws {
            try await withWorkspace { space in
                _ = try space.file("jwt.key", String(repeating: "0123456789abcdef", count: 2))
                _ = try space.file("one.key", String(repeating: "1", count: 32) + "\n")
                _ = try space.file("two.key", String(repeating: "2", count: 32) + "\n")
                var before = 0
                for folder in ["one", "two"] {
                    before = Int(Date().timeIntervalSince1970)
                    let created = try await space.run(
                        .tideline,
                        ["certificate", "--host", "127.0.0.1", "--directory", space.path(folder)]
                    )
                    #expect(created.code == 0)
                }
                let after = Int(Date().timeIntervalSince1970)
                let server = try await ServerProcess.start(
                    in: space,
                    configuration: Self.configuration(
                        certificates: "one",
                        operators: "olga",
                        level: "info"
                    )
                )
                let old = Self.wire(server, space.path("one/authority.pem"))
                let olga: HTTPFields = ["X-ZUMO-AUTH": try await Self.token("olga", space)]
                let otto: HTTPFields = ["X-ZUMO-AUTH": try await Self.token("otto", space)]
                let path = "/$admin/overview"
                #expect(try await old.send("GET", path, headers: olga).status == 200)
                #expect(try await old.send("GET", path, headers: otto).status == 403)
                _ = try space.file(
                    "tideline.json",
                    Self.configuration(
                        certificates: "two",
                        operators: "otto",
                        level: "warning",
                        key: "two.key",
                        page: 41
                    )
                )
                server.process.send(SIGHUP)
                let new = Self.wire(server, space.path("two/authority.pem"))
                let answer = try await eventually("the other certificate and operator") {
                    let answer = try? await new.send("GET", path, headers: otto)
                    return answer?.status == 200 ? answer : nil
                }
                #expect(try await new.send("GET", path, headers: olga).status == 403)
                let lists = answer.object["settings"] as? [[String]] ?? []
                let settings = Dictionary(uniqueKeysWithValues: lists.map { ($0[0], $0[1]) })
                #expect(settings["log.level"] == "warning")
                #expect(settings["authentication.operators"] == "otto")
                #expect(settings["tls.certificateFile"]?.hasSuffix("two/certificate.pem") == true)
                // This key is applied at the next start, and that is reported.
                #expect(settings["limits.batchRequests"] == "40")
                _ = try await eventually("a line about it: \(server.process.error)") {
                    server.process.error.contains("limits.batchRequests") ? true : nil
                }
                #expect(!server.process.error.contains("keys=\"log.level"))
                for (number, status) in [("1", 401), ("2", 200)] {
                    let key = String(repeating: number, count: 32)
                    let fields: HTTPFields = ["Authorization": "Bearer " + key]
                    let metrics = try await new.send("GET", "/metrics", headers: fields)
                    #expect(metrics.status == status)
                    guard status == 200 else { continue }
                    let text = String(decoding: metrics.body, as: UTF8.self)
                    let lines = text.split(separator: "\n")
                    let end = lines.first { $0.hasPrefix("tideline_certificate_end_seconds ") }
                    let seconds = try #require(end?.split(separator: " ").last.flatMap { Int($0) })
                    // The second certificate ends 820 days after it was created.
                    let created = seconds - 820 * 86_400
                    #expect(before <= created && created <= after, "\(seconds)")
                }
                #expect(try await server.stop() == .exit(0))
            }
        }

        @Test("The metrics contain the time of the last successful backup")
        func theLastBackupIsReported() async throws {
            try await withWorkspace { space in
                let server = try await ServerProcess.start(in: space)
                func told() async throws -> Int? {
                    let answer = try await server.wire.send("GET", "/metrics")
                    let text = String(decoding: answer.body, as: UTF8.self)
                    return text.split(separator: "\n")
                        .first { $0.hasPrefix("tideline_backup_last_seconds ") }?
                        .split(separator: " ").last.flatMap { Int($0) }
                }
                #expect(try await told() == nil)
                let database = "sqlite:" + space.path("server.db")
                let marker = space.path("server.db-backup")
                for name in ["a.db", "b.db"] {
                    let created = try await space.run(
                        .tideline,
                        ["backup", space.path(name), "--database", database]
                    )
                    #expect(created.code == 0, "\(created.error)")
                    let attributes = try FileManager.default.attributesOfItem(atPath: marker)
                    let modified = try #require(attributes[.modificationDate] as? Date)
                    let time = try #require(try await told())
                    #expect(time == Int(modified.timeIntervalSince1970) && time > 1000)
                    // The next backup replaces this time.
                    try FileManager.default.setAttributes(
                        [.modificationDate: Date(timeIntervalSince1970: 1000)],
                        ofItemAtPath: marker
                    )
                }
                // A failed backup does not count.
                let failed = try await space.run(
                    .tideline,
                    ["backup", space.path("a.db"), "--database", database]
                )
                #expect(failed.code == 1)
                #expect(try await told() == 1000)
            }
        }

        @Test("A backup with the name of its marker file is not overwritten by the marker")
        func aBackupWithTheNameOfItsMarkerIsKept() async throws {
            try await withWorkspace { space in
                let server = try await ServerProcess.start(in: space)
                _ = try await server.stop()
                let database = "sqlite:" + space.path("server.db")
                for name in ["server.db-backup", "other.db"] {
                    let created = try await space.run(
                        .tideline,
                        ["backup", space.path(name), "--database", database]
                    )
                    #expect(created.code == 0, "\(created.error)")
                    let kept = space.path("server.db-backup")
                    let attributes = try FileManager.default.attributesOfItem(atPath: kept)
                    #expect(attributes[.size] as? Int ?? 0 > 0)
                }
            }
        }

        @Test("The dashboard shows the client version of a device")
        func theDashboardShowsTheVersionOfADevice() async throws {
            try await withWorkspace { space in
                let server = try await ServerProcess.start(in: space)
                let todo = TodoProgram(space, "store.db", server.url)
                _ = try await todo.add("milk")
                try await todo("sync")
                let overview = try await server.wire.send("GET", "/$admin/overview")
                #expect(overview.status == 200)
                let devices = overview.object["devices"] as? [[String: Any]]
                let client = try #require(devices?.first?["client"] as? String)
                let form =
                    /ZUMO\/\d+\.\d+ \(lang=Swift; os=\w+; os_version=[\d.]+; arch=\w+; version=\d+\.\d+\.\d+\)/
                #expect(client.wholeMatch(of: form) != nil, "\(client)")
            }
        }
    }
}
