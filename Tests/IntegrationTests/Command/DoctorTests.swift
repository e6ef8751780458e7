// DoctorTests: the findings of `tideline doctor`, and the arguments of the command.

import Foundation
import Testing
import Tideline
import TidelinePostgres
import TidelineTestKit

extension ProcessTests {
    struct DoctorTests {
        private static func doctor(
            _ workspace: Workspace,
            _ server: String,
            _ words: String...
        ) async throws -> (code: Int32, states: [String: String]) {
            let ended = try await workspace.run(
                .tideline,
                ["doctor", "--server", server, "--json"] + words
            )
            let data = Data(ended.output.utf8)
            let object = (try? JSONSerialization.jsonObject(with: data)) as? [String: Any]
            var states: [String: String] = [:]
            for check in object?["checks"] as? [[String: Any]] ?? [] {
                states[check["check"] as? String ?? ""] = check["state"] as? String
            }
            #expect((object?["isWell"] as? Bool) == (ended.code == 0), "\(ended.error)")
            return (ended.code, states)
        }

        @Test("The doctor command passes a healthy server and reports one that is not running")
        func aHealthyServer() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let (code, states) = try await Self.doctor(workspace, "\(server.url)")
                #expect(code == 0)
                #expect(states == ["reach": "fine", "clock": "fine", "ready": "fine"])
                _ = try await server.stop()
                let gone = try await Self.doctor(workspace, "\(server.url)")
                #expect(gone.code == 1 && gone.states == ["reach": "fault"])
            }
        }

        @Test("The doctor command checks certificates and tokens")
        func tokensAndCertificatesAreChecked() async throws {
            try await withWorkspace { workspace in
                _ = try workspace.file("jwt.key", String(repeating: "0123456789abcdef", count: 2))
                let folder = workspace.path("certificates")
                let created = try await workspace.run(
                    .tideline,
                    ["certificate", "--host", "127.0.0.1", "--directory", folder]
                )
                #expect(created.code == 0)
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: """
                        {
                          "authentication": { "secretFile": "jwt.key" },
                          "tls": {
                            "certificateFile": "certificates/certificate.pem",
                            "keyFile": "certificates/certificate.key"
                          },
                          "tables": { "TodoItem": { "columns": { "text": "string" } } }
                        }
                        """
                )
                let url = "\(server.url)"
                let untrusted = try await Self.doctor(workspace, url)
                // The expiration date is still reported.
                #expect(untrusted.code == 1)
                #expect(untrusted.states == ["reach": "fault", "certificate": "fine"])
                let authority = folder + "/authority.pem"
                let words = ["--config", workspace.path("tideline.json"), "--subject", "anna"]
                let token = try await workspace.run(.tideline, ["token"] + words)
                let good = try workspace.file("good", token.output)
                let bad = try workspace.file("bad", "x" + token.output)
                let taken = try await Self.doctor(
                    workspace,
                    url,
                    "--authority",
                    authority,
                    "--token",
                    good
                )
                #expect(taken.code == 0 && taken.states["token"] == "fine")
                let rejected = try await Self.doctor(
                    workspace,
                    url,
                    "--authority",
                    authority,
                    "--token",
                    bad
                )
                #expect(rejected.code == 1 && rejected.states["token"] == "fault")
                // A table requires a token.
                let todo = TodoProgram(workspace, "store.db")
                _ = try await todo.add("milk")
                let store = try await Self.doctor(
                    workspace,
                    url,
                    "--authority",
                    authority,
                    "--store",
                    workspace.path("store.db")
                )
                #expect(store.code == 1 && store.states["table TodoItem"] == "fault")
            }
        }

        private struct Newer: SyncRecord {
            static let tableName = "TodoItem"
            var id = ""
            var text = ""
            var note = ""
        }

        @Test(
            "The differences between an app and the server are found from its models or its store"
        )
        func differencesAreReported() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: """
                        {"tables": {"TodoItem": {"columns": {
                          "text": {"type": "string", "nullable": false, "default": ""}}}}}
                        """
                )
                let file = workspace.path("phone.db")
                let client = SyncClient(endpoint: server.url, transport: CurlTransport())
                let store = try SQLiteStore(path: file)
                try await client.syncContext.initialize(store: store, tables: [Newer.self])
                #expect(try await client.syncOnce(deadline: .seconds(60)))
                try await store.close()
                let document = try SchemaDocument(of: [Newer.self]).json
                let models = try workspace.file("models.json", document)
                let (code, states) = try await Self.doctor(
                    workspace,
                    "\(server.url)",
                    "--models",
                    models
                )
                #expect(code == 1 && states["models TodoItem"] == "fault")
                let device = try await Self.doctor(workspace, "\(server.url)", "--store", file)
                #expect(device.states["schema TodoItem"] == "warning")
                let inspected = try await workspace.run(.tideline, ["inspect", file, "--json"])
                #expect(
                    inspected.output.contains(
                        #""difference":"the server's table has no such column""#
                    ),
                    "\(inspected.output)"
                )
                let own = try await workspace.run(
                    .tideline,
                    ["schema", "--server", "\(server.url)"]
                )
                let fitting = try workspace.file("own.json", own.output)
                let fits = try await Self.doctor(
                    workspace,
                    "\(server.url)",
                    "--models",
                    fitting
                )
                #expect(fits.code == 0 && fits.states["models"] == "fine")
            }
        }

        @Test("A proxy that drops If-Match is detected, with a row and without one")
        func aProxyThatDropsConditionsIsDetected() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                var manners = SlowProxy.Manners()
                manners.piece = 16_384...16_384
                manners.replaced = ("If-Match", "No-Match")
                let proxy = try SlowProxy(to: server.port, manners)
                defer { proxy.stop() }
                let file = workspace.path("phone.db")
                let device = try await Device(server.url, CurlTransport(), SQLiteStore(path: file))
                try await device.notes.pull(queryID: "all")
                for hasRow in [false, true] {
                    if hasRow {
                        let row = #"{"id":"a","text":"x"}"#
                        let created = try await server.wire.send("POST", "/tables/TodoItem", row)
                        #expect(created.status == 201)
                    }
                    let dropped = try await Self.doctor(
                        workspace,
                        "\(proxy.url)",
                        "--store",
                        file
                    )
                    #expect(dropped.code == 1 && dropped.states["conditions"] == "fault")
                    let well = try await Self.doctor(
                        workspace,
                        "\(server.url)",
                        "--store",
                        file
                    )
                    #expect(well.code == 0)
                    #expect(well.states["conditions"] == (hasRow ? "fine" : nil))
                }
            }
        }

        @Test("The doctor command explains why a database in memory is not watched")
        func aWatchThatIsOff() async throws {
            try await withWorkspace { workspace in
                let memory = try await ServerProcess.start(
                    ["--database", "sqlite::memory:"],
                    listen: "127.0.0.1:0",
                    in: workspace
                )
                let ended = try await workspace.run(
                    .tideline,
                    ["doctor", "--server", "\(memory.url)"]
                )
                #expect(ended.code == 0 && ended.output.contains("in memory"), "\(ended.output)")
            }
        }

        @Test(
            "The doctor command names a role that may not read the timeline, with the reason",
            .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed")
        )
        func aTimelineThatCannotBeRead() async throws {
            try await withWorkspace { workspace in
                let url = try PostgresCluster.shared().database()
                let psql = try PostgresConnection(PostgresAddress(url))
                let functions = "pg_walfile_name(pg_lsn), pg_current_wal_insert_lsn()"
                let name = try psql.run("SELECT current_database()").text(0, 0)
                try psql.execute(
                    """
                    CREATE ROLE "blind_\(name)" LOGIN;
                    GRANT ALL ON DATABASE "\(name)" TO "blind_\(name)";
                    GRANT ALL ON SCHEMA public TO "blind_\(name)";
                    REVOKE EXECUTE ON FUNCTION \(functions), pg_control_checkpoint() FROM PUBLIC
                    """
                )
                let user = try psql.run("SELECT current_user").text(0, 0)
                let blind = url.replacing("//\(user)@", with: "//blind_\(name)@")
                let server = try await ServerProcess.start(
                    in: workspace,
                    database: blind,
                    configuration: #"{"tables":{"T":{"columns":{"text":"string"}}}}"#
                )
                let ended = try await workspace.run(
                    .tideline,
                    ["doctor", "--server", "\(server.url)"]
                )
                #expect(ended.code == 0, "\(ended.output)")
                #expect(ended.output.contains("permission denied for function"), "\(ended.output)")
                #expect(ended.output.contains("GRANT EXECUTE"))
                _ = try await server.stop()
            }
        }

        @Test("The doctor command reports columns and indexes that the server lacks")
        func missingColumnsAndIndexesAreReported() async throws {
            try await withWorkspace { workspace in
                let less = ServerProcess.configuration
                    .replacing("\"due\": \"dateTime\"", with: "\"place\": \"string\"")
                    .replacing(
                        "\"limits\"",
                        with: "\"dashboard\": { \"slowTime\": 0.000001 }, \"limits\""
                    )
                let server = try await ServerProcess.start(in: workspace, configuration: less)
                let file = workspace.path("phone.db")
                let store = try SQLiteStore(path: file)
                let device = try await Device(server.url, CurlTransport(), store)
                try await device.notes.pull(queryID: "some", where: { $0.rank >= 5 })
                let target = "/tables/TodoItem?$filter=text%20eq%20'secret'"
                #expect(try await server.wire.send("GET", target).status == 200)
                let (code, states) = try await Self.doctor(
                    workspace,
                    "\(server.url)",
                    "--store",
                    file
                )
                #expect(code == 1)
                #expect(states["columns Note"] == "fault")
                #expect(states["indexes Note"] == "warning")
                #expect(states["indexes TodoItem"] == "warning")
                let ended = try await workspace.run(
                    .tideline,
                    ["doctor", "--server", "\(server.url)", "--store", file]
                )
                #expect(ended.output.contains("lacks due:"))
                #expect(ended.output.contains(#"[["rank", "updatedAt"]]"#))
                #expect(!ended.output.contains("secret"))
                let told = try await workspace.run(.tideline, ["inspect", file])
                #expect(told.output.contains("rank ge #") && told.output.contains("weight"))
                #expect(!told.output.contains("__"))
                #expect(try await server.stop() == .exit(0))
                // As doctor recommends.
                let more = ServerProcess.configuration
                    .replacing(
                        "\"TodoItem\": {",
                        with: "\"TodoItem\": { \"indexes\": [[\"text\"]],"
                    )
                    .replacing(
                        "\"Note\": {",
                        with: "\"Note\": { \"indexes\": [[\"rank\", \"updatedAt\"]],"
                    )
                let mended = try await ServerProcess.start(
                    in: workspace,
                    database: "other.db",
                    configuration: more
                )
                let well = try await Self.doctor(workspace, "\(mended.url)", "--store", file)
                #expect(well.code == 0)
                #expect(well.states["columns Note"] == "fine")
                #expect(!well.states.keys.contains { $0.hasPrefix("indexes ") })
            }
        }

        @Test("Local tables and columns of a store are not reported as missing on the server")
        func localNames() async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(in: workspace)
                let file = workspace.path("phone.sqlite")
                // It has a table and a column that stay on the device.
                let synced = try await workspace.run(.probe, [file, "\(server.url)", "keep"])
                #expect(synced.code == 0, "\(synced.error)")
                let (code, states) = try await Self.doctor(
                    workspace,
                    "\(server.url)",
                    "--store",
                    file
                )
                #expect(code == 0)
                #expect(states["table Draft"] == "fine" && states["columns TodoItem"] == "fine")
                let told = try await workspace.run(.tideline, ["inspect", file])
                #expect(told.output.contains("Draft") && told.output.contains("TodoItem.mark"))
            }
        }

        @Test("Doctor reports missing columns but no indexes to a caller without operator rights")
        func aCallerThatIsNotAnOperatorIsToldAboutTheColumns() async throws {
            try await withWorkspace { workspace in
                let configuration = ServerProcess.configuration
                    .replacing("\"complete\": \"boolean\"", with: "\"done\": \"boolean\"")
                    .replacing(
                        "\"limits\"",
                        with: "\"dashboard\": { \"mode\": \"off\" }, \"limits\""
                    )
                let server = try await ServerProcess.start(
                    in: workspace,
                    configuration: configuration
                )
                _ = try await TodoProgram(workspace, "store.db").add("milk")
                let (code, states) = try await Self.doctor(
                    workspace,
                    "\(server.url)",
                    "--store",
                    workspace.path("store.db")
                )
                #expect(code == 1)
                #expect(states["columns TodoItem"] == "fault" && states["indexes"] == "fine")
            }
        }

        @Test(
            "Commands report invalid arguments with exit code 2",
            arguments: [
                (["doctor"], "--server"), (["doctor", "--server", "ftp://a"], "--server"),
                (["doctor", "--server", "http://a", "--token", "/none"], "--token"),
                (["doctor", "--server", "http://a", "--token", "/tmp"], "'/tmp' is a folder"),
                (
                    ["doctor", "--server", "https://a", "--authority", "/none/a.pem"],
                    "--authority: '/none/a.pem': the file cannot be read. Use a PEM file"
                ),
                (
                    ["doctor", "--server", "https://a", "--authority", "/etc/hostname"],
                    "--authority: '/etc/hostname': the file contains no certificate. Use a PEM file"
                ),
                (
                    ["bench", "https://a", "--table", "T", "--authority", "/tmp"],
                    "--authority: '/tmp': the file cannot be read. Use a PEM file"
                ),
                (["inspect"], "inspect needs FILE"), (["restore"], "restore needs FILE"),
                (["purge-tombstones", "--days", "x"], "--days"),
            ]
        )
        func mistakesAreReported(words: [String], text: String) async throws {
            try await withWorkspace { workspace in
                let ended = try await workspace.run(.tideline, words)
                #expect(ended.code == 2)
                #expect(ended.error.contains(text), "\(ended.error)")
            }
        }

        @Test("Help lists all commands, and each command describes itself")
        func helpDescribesAllCommands() async throws {
            try await withWorkspace { workspace in
                let commands = [
                    "serve", "certificate", "token", "backup", "restore", "restored", "migrate",
                    "purge-tombstones", "inspect", "doctor",
                ]
                let help = try await workspace.run(.tideline, ["help"])
                #expect(help.code == 0)
                for command in commands {
                    #expect(help.output.contains("tideline \(command)"), "\(command)")
                    let own = try await workspace.run(.tideline, [command, "--help"])
                    #expect(own.code == 0 && own.output.hasPrefix("Usage: tideline \(command)"))
                    #expect(own.output.count < help.output.count / 2, "\(command)")
                    #expect(own.output.contains("\n\n\(command)"), "\(own.output)")
                    let asked = try await workspace.run(.tideline, ["help", command])
                    #expect(asked.code == 0 && asked.output == own.output, "\(command)")
                }
            }
        }
    }
}
