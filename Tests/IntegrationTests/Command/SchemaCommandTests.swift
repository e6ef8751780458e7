// SchemaCommandTests: `tideline schema` and `tideline models` on a configuration, a document, and a running server.

import Foundation
import Testing
import Tideline
import TidelineCore

extension ProcessTests {
    struct SchemaCommandTests {
        private static let configuration = #"""
            {"database": "sqlite:a.db", "tables": {
              "Job": {"columns": {
                "title": {"type": "string", "nullable": false, "default": "a \"b\" \\(c)",
                          "maxLength": 80, "required": true},
                "minutes": {"type": "integer", "nullable": false, "min": 0, "max": 1440},
                "price": {"type": "decimal", "nullable": false, "default": 1.5},
                "rate": {"type": "number", "default": 2},
                "isOpen": {"type": "boolean", "nullable": false, "default": true},
                "start": "dateTime", "end": {"type": "dateTime", "nullable": false},
                "day": {"type": "date", "nullable": false, "default": "2026-11-20"},
                "time": {"type": "time", "nullable": false},
                "ref": {"type": "guid", "nullable": false},
                "photo": {"type": "binary", "nullable": false},
                "extra": {"type": "json", "nullable": false}, "tags": "json",
                "status": {"enum": ["open", "in work", "class", "1st", ""], "nullable": false,
                           "default": "in work"}},
               "unique": [["title", "day"]], "compare": [["start", "<=", "end"]]},
              "todo_item": {"columns": {"class": "string", "self": "string", "_": "integer"}},
              "Date": {"columns": {"Status": {"enum": ["a"]}}},
              "Hidden": {"columns": {"text": "string"}, "permissions": {"read": "disabled"}}}}
            """#

        private static let repository = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

        /// Type-checks a file against the built module.
        private func compile(_ file: String) throws -> String {
            let sources = Self.repository.path + "/Sources"
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/env")
            let modules = URL(filePath: Program.tideline.path).deletingLastPathComponent().path
            process.arguments =
                [
                    "swiftc", "-typecheck", "-swift-version", "6", "-warnings-as-errors",
                    "-parse-as-library", "-module-name", "Models", "-I", modules + "/Modules",
                    "-I", modules,
                ]
                + ["CSQLite", "CCurl", "CZlib", "CCrypto", "CLibPQ", "CEpoll"].flatMap {
                    ["-Xcc", "-fmodule-map-file=\(sources)/\($0)/module.modulemap"]
                } + [file]
            let output = Pipe()
            process.standardOutput = output
            process.standardError = output
            try process.run()
            let data = output.fileHandleForReading.readDataToEndOfFile()
            process.waitUntilExit()
            return String(decoding: data, as: UTF8.self)
        }

        @Test("The printed models compile, and are the same from every source")
        func models() async throws {
            try await withWorkspace { workspace in
                let file = try workspace.file("tideline.json", Self.configuration)
                let first = try await workspace.run(
                    .tideline,
                    ["models", "--swift", "--config", file]
                )
                #expect(first.code == 0, "\(first.error)")
                for line in [
                    "struct Job: SyncRecord {", "struct TodoItem: SyncRecord {",
                    "struct DateRecord: SyncRecord {", #"    static let tableName = "todo_item""#,
                    #"    var title: String = "a \"b\" \\(c)""#, "    var start: Date?",
                    "    var status: Status = Status.inWork", "    var `class`: String?",
                    #"        case selfValue = "self""#, "    var tags: JSONValue?",
                ] {
                    #expect(first.output.contains(line + "\n"), "\(line)")
                }
                #expect(!first.output.contains("Hidden"))
                let models = try workspace.file("Models.swift", first.output)
                #expect(try compile(models) == "")
                let again = try await workspace.run(
                    .tideline,
                    ["models", "--swift", "--config", file]
                )
                #expect(again.output == first.output)
                // A running server and its document say the same.
                let server = try await ServerProcess.start(
                    ["--config", file],
                    listen: "127.0.0.1:0",
                    in: workspace
                )
                let url = server.url.absoluteString
                let asked = try await workspace.run(
                    .tideline,
                    ["models", "--swift", "--server", url]
                )
                #expect(asked.output == first.output, "\(asked.error)")
                let shown = try await workspace.run(.tideline, ["schema", "--server", url])
                let document = try workspace.file("schema.json", shown.output)
                let read = try await workspace.run(
                    .tideline,
                    ["models", "--swift", "--schema", document]
                )
                #expect(read.output == first.output)
            }
        }

        @Test("Models compile if columns have the names of models, types and members of Swift")
        func names() async throws {
            try await withWorkspace { workspace in
                let file = try workspace.file("tideline.json", Self.unusualNames)
                let models = try await workspace.run(
                    .tideline,
                    ["models", "--swift", "--config", file]
                )
                #expect(models.output.contains("    enum StatusValue: String"))
                #expect(models.output.contains("    enum CustomerValue: String"))
                #expect(try compile(try workspace.file("Models.swift", models.output)) == "")
            }
        }

        private static let unusualNames = #"""
            {"database": "sqlite:a.db", "tables": {
              "Status": {"columns": {
                "status": {"enum": ["rawValue", "RawValue", "allCases", "hashValue", "description"]},
                "up": "string", "any": "json", "text": {"type": "string", "maxLength": 3}},
               "references": {"up": {"table": "Status"}}},
              "Customer": {"columns": {"class": "string", "rawValue": "string", "RawValue2": "string"}},
              "Job": {"columns": {
                "customer": {"enum": ["self", "default"], "nullable": false}, "customerID": "string"},
               "references": {"customerID": {"table": "Customer"}}}}}
            """#

        @Test("The names in a schema document cannot add Swift code to its models")
        func hostileNames() async throws {
            try await withWorkspace { workspace in
                let file = try workspace.file("schema.json", Self.hostileNames)
                let models = try await workspace.run(
                    .tideline,
                    ["models", "--swift", "--schema", file]
                )
                #expect(models.code == 0, "\(models.error)")
                let lines = models.output.split(separator: "\n")
                #expect(lines.contains(#"/// A row of the table 'A\nlet x = 1'."#))
                #expect(!lines.contains { $0.hasPrefix("let x") || $0.contains("let y") })
                #expect(lines.contains(#"        .unique(\.a),"#))
                #expect(try compile(try workspace.file("Models.swift", models.output)) == "")
            }
        }

        private static let hostileNames = #"""
            {"format": 1, "parts": ["columns", "rules"], "tables": {
              "A\nlet x = 1": {"columns": {"a": {"type": "string"}, "c": {"type": "string"}},
               "unique": [["a"], ["b)\nlet y = 1"], []],
               "compare": [["a", "<=", "c)\nlet y = 1"]]}}}
            """#

        @Test("The document of printed models prints the same models, byte for byte")
        func roundTrip() async throws {
            try await withWorkspace { workspace in
                let file = try workspace.file("tideline.json", RoundTrip.configuration)
                let printed = try await workspace.run(
                    .tideline,
                    ["models", "--swift", "--config", file]
                )
                #expect(printed.code == 0, "\(printed.error)")
                // The file in this module is what the command prints. After a change of the command, write it again.
                let kept = try String(contentsOf: RoundTrip.models, encoding: .utf8)
                if printed.output != kept {
                    Issue.record("RoundTripModels.swift differs:\n\(printed.output)")
                }
                let json = try SchemaDocument(of: RoundTrip.types).json
                #expect(try SchemaDocument(of: RoundTrip.types).json == json)
                let document = try workspace.file("models.json", json)
                let again = try await workspace.run(
                    .tideline,
                    ["models", "--swift", "--schema", document]
                )
                #expect(again.output == printed.output)
                // Through the configuration of a server, too.
                let created = try await workspace.run(
                    .tideline,
                    ["schema", "--from-models", document]
                )
                let tables = try workspace.file("made.json", created.output)
                let third = try await workspace.run(
                    .tideline,
                    ["models", "--swift", "--config", tables]
                )
                #expect(third.output == printed.output, "\(third.error)")
                for config in [file, tables] {
                    let fits = try await workspace.run(
                        .tideline,
                        ["schema", "--check", document, "--config", config]
                    )
                    #expect(fits.code == 0, "\(fits.output)")
                }
            }
        }

        @Test("A reference is printed with its table, and the schema check reports a difference")
        func references() async throws {
            try await withWorkspace { workspace in
                let file = try workspace.file("tideline.json", RoundTrip.configuration)
                let printed = try await workspace.run(
                    .tideline,
                    ["models", "--swift", "--config", file]
                )
                for line in [
                    "        Reference(\\Ship.portID, to: Port.self, onDelete: .setNull),",
                    "        Reference(\\Ship.next, to: Ship.self, onDelete: .cascade),",
                ] {
                    #expect(printed.output.contains(line + "\n"), "\(line)")
                }
                let other = RoundTrip.configuration.replacing(#""setNull""#, with: #""restrict""#)
                let changed = try workspace.file("other.json", other)
                let app = try workspace.file(
                    "app.json",
                    try SchemaDocument(of: RoundTrip.types).json
                )
                let differs = try await workspace.run(
                    .tideline,
                    ["schema", "--check", app, "--config", changed]
                )
                #expect(differs.code == 1)
                #expect(
                    differs.output == "Ship.portID: app and server have different references\n"
                )
                // A caller that may not read the parents gets models that compile.
                let hidden = RoundTrip.configuration.replacing(
                    #""Port": {"#,
                    with: #""Port": {"permissions": {"read": "disabled"}, "#
                )
                let part = try workspace.file("part.json", hidden)
                let rest = try await workspace.run(
                    .tideline,
                    ["models", "--swift", "--config", part]
                )
                #expect(rest.code == 0 && !rest.output.contains("Port.self"), "\(rest.error)")
                #expect(rest.output.contains("to: Ship.self"))
            }
        }

        @Test("Rules are printed as the models declare them")
        func rules() async throws {
            try await withWorkspace { workspace in
                let file = try workspace.file("tideline.json", Self.configuration)
                let printed = try await workspace.run(
                    .tideline,
                    ["models", "--swift", "--config", file]
                )
                for line in [
                    "    static let rules: [Rule<Job>] = [", #"        .required(\.title),"#,
                    #"        .maxLength(\.title, 80),"#, #"        .max(\.minutes, 1440),"#,
                    #"        .unique(\.title, \.day),"#,
                    #"        .compare(\.start, .lessOrEqual, \.end),"#,
                ] {
                    #expect(printed.output.contains(line + "\n"), "\(line)")
                }
            }
        }

        private struct Job: SyncRecord {
            var id = ""
            var title = "new"
            var minutes = 0
            var start: Date?
            var note: String?
        }

        @Test("The models of an app become a configuration, and the schema check compares them")
        func check() async throws {
            try await withWorkspace { workspace in
                let json = try SchemaDocument(of: [Job.self]).json
                let app = try workspace.file("app.json", json)
                let created = try await workspace.run(.tideline, ["schema", "--from-models", app])
                #expect(created.code == 0, "\(created.error)")
                let own = try workspace.file("own.json", created.output)
                let valid = try await workspace.run(.tideline, ["check", "--config", own])
                #expect(valid.code == 0, "\(valid.output)")
                let same = try await workspace.run(
                    .tideline,
                    ["schema", "--check", app, "--config", own]
                )
                #expect(
                    same.code == 0 && same.output.contains("The app matches the server"),
                    "\(same.output)"
                )
                let other = try workspace.file("tideline.json", Self.configuration)
                let differs = try await workspace.run(
                    .tideline,
                    ["schema", "--check", app, "--config", other]
                )
                #expect(differs.code == 1)
                let lines = differs.output.split(separator: "\n").map(String.init)
                #expect(
                    lines == [
                        "Job.note: the server's table has no such column",
                        "Job.title: app and server have different rules",
                        "Job.minutes: app and server have different rules",
                        "Job: only one side has the rule unique (day, title)",
                        "Job: only one side has the rule start <= end",
                    ]
                )
                let report = try await workspace.run(
                    .tideline,
                    ["schema", "--check", app, "--config", other, "--json"]
                )
                #expect(report.code == 1 && report.output.contains(#""isSame":false"#))
                let wrong = try workspace.file("wrong.json", "{}")
                let bad = try await workspace.run(
                    .tideline,
                    ["schema", "--check", wrong, "--config", other]
                )
                #expect(bad.code == 1 && bad.error.contains("'format'"))
            }
        }

        @Test(
            "Wrong arguments are rejected with a message that names them",
            arguments: [
                (["models", "--config", "x"], "--swift is missing"),
                (["models", "--swift"], "One of --server"),
                (["schema"], "One of --server"),
                (["schema", "--from-models", "a", "--config", "b"], "--from-models"),
                (["schema", "--config", "b", "--token", "c"], "--token needs --server"),
            ]
        )
        func arguments(_ words: [String], _ message: String) async throws {
            try await withWorkspace { workspace in
                let result = try await workspace.run(.tideline, words)
                #expect(result.code == 2 && result.error.contains(message), "\(result.error)")
            }
        }
    }
}
