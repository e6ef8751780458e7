// MaintenanceReferenceTests: forget, copy and purge-tombstones on a database whose rows refer to each other.

import Foundation
import Testing
import Tideline
import TidelineTestKit
import TidelineTestSupport

extension ProcessTests {
    struct MaintenanceReferenceTests {
        private static let configuration = """
            {
              "authentication": { "secretFile": "jwt.key" },
              "tables": {
                "Customer": { "columns": { "name": "string" }, "owner": "userId" },
                "Job": {
                  "columns": { "customerID": "string" },
                  "references": { "customerID": { "table": "Customer", "onDelete": "cascade" } }
                },
                "Note": {
                  "columns": { "customerID": "string", "text": "string" },
                  "references": { "customerID": { "table": "Customer", "onDelete": "setNull" } }
                },
                "Invoice": {
                  "columns": { "customerID": "string" },
                  "references": { "customerID": { "table": "Customer" } }
                }
              },
              "limits": { "cascadeRows": 4 }
            }
            """

        private struct Scene {
            let workspace: Workspace
            let configuration: String
            let kind: String

            func database() throws -> String {
                kind == "sqlite"
                    ? "sqlite:" + workspace.path("server.db")
                    : try PostgresCluster.shared().database()
            }

            func run(_ words: [String]) async throws -> String {
                let finished = try await workspace.run(.tideline, words)
                #expect(finished.code == 0, "\(words) \(finished.error)")
                return finished.output
            }

            func headers(_ user: String) async throws -> HTTPFields {
                let words = ["token", "--config", configuration, "--subject", user]
                return ["X-ZUMO-AUTH": try await run(words).trimmingCharacters(in: .newlines)]
            }

            func server(_ database: String) async throws -> ServerProcess {
                try await ServerProcess.start(
                    ["--config", configuration, "--database", database],
                    listen: "127.0.0.1:0",
                    in: workspace
                )
            }

            /// Returns the ids of a table's rows, deleted or not.
            func ids(
                _ table: String,
                _ server: ServerProcess,
                _ headers: HTTPFields,
                deleted: Bool
            ) async throws -> [String] {
                let path = "/tables/\(table)?__includeDeleted=true&$filter=deleted eq \(deleted)"
                    .replacingOccurrences(of: " ", with: "%20")
                let answer = try await server.wire.send("GET", path, headers: headers)
                #expect(answer.status == 200)
                return answer.rows.compactMap { $0["id"] as? String }.sorted()
            }
        }

        private static var kinds: [String] {
            PostgresCluster.reasonToSkip == nil ? ["sqlite", "postgres"] : ["sqlite"]
        }

        /// Stores a customer of anna and one of bert, each with six jobs, a note and an invoice.
        private func withScene(
            _ kind: String,
            _ body: (Scene, String) async throws -> Void
        ) async throws {
            try await withWorkspace { workspace in
                _ = try workspace.file("jwt.key", String(repeating: "0123456789abcdef", count: 2))
                let file = try workspace.file("tideline.json", Self.configuration)
                let scene = Scene(workspace: workspace, configuration: file, kind: kind)
                let database = try scene.database()
                let server = try await scene.server(database)
                for user in ["anna", "bert"] {
                    let headers = try await scene.headers(user)
                    func insert(_ table: String, _ id: String, _ customer: String?) async throws {
                        let parent = customer.map { #","customerID":"\#($0)""# } ?? ""
                        let answer = try await server.wire.send(
                            "POST",
                            "/tables/\(table)",
                            #"{"id":"\#(id)"\#(parent)}"#,
                            headers: headers
                        )
                        #expect(answer.status == 201, "\(table) \(answer.status)")
                    }
                    try await insert("Customer", "of-\(user)", nil)
                    for number in 1...6 {
                        try await insert("Job", "\(user)\(number)", "of-\(user)")
                    }
                    try await insert("Note", "note-\(user)", "of-\(user)")
                    try await insert("Invoice", "invoice-\(user)", "of-\(user)")
                }
                #expect(try await server.stop() == .exit(0))
                try await body(scene, database)
            }
        }

        @Test(
            "The command forget deletes the rows of a user with the rows that refer to them",
            arguments: kinds
        )
        func forget(kind: String) async throws {
            try await withScene(kind) { scene, database in
                let options = ["--config", scene.configuration, "--database", database]
                _ = try await scene.run(["forget", "--user", "anna", "--apply"] + options)
                let server = try await scene.server(database)
                let headers = try await scene.headers("bert")
                _ = try await eventually("the end of the cascade") {
                    let left = try await scene.ids("Job", server, headers, deleted: false)
                    return left.count == 6 ? () : nil
                }
                let jobs = try await scene.ids("Job", server, headers, deleted: false)
                #expect(jobs == (1...6).map { "bert\($0)" })
                let invoices = try await scene.ids("Invoice", server, headers, deleted: false)
                #expect(invoices == ["invoice-bert"])
                let customers = try await scene.ids("Customer", server, headers, deleted: false)
                #expect(customers == ["of-bert"])
                let notes = try await server.wire.send("GET", "/tables/Note", headers: headers)
                let parents = notes.rows.map { $0["customerID"] as? String }
                #expect(Set(parents) == [nil, "of-bert"])
                #expect(try await server.stop() == .exit(0))
            }
        }

        @Test(
            "A copied database continues a cascade that the original has not finished",
            .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"),
            arguments: ["sqlite", "postgres"]
        )
        func copy(kind: String) async throws {
            try await withScene(kind) { scene, database in
                let options = ["--config", scene.configuration, "--database", database]
                // No server runs after it, so that the rows below are still there.
                _ = try await scene.run(["forget", "--user", "anna", "--apply"] + options)
                let target =
                    kind == "sqlite"
                    ? try PostgresCluster.shared().database()
                    : "sqlite:" + scene.workspace.path("copy.db")
                _ = try await scene.run(["copy", "--from", database, "--to", target])
                let server = try await scene.server(target)
                let headers = try await scene.headers("bert")
                _ = try await eventually("the end of the cascade") {
                    let left = try await scene.ids("Job", server, headers, deleted: false)
                    return left.count == 6 ? () : nil
                }
                let invoices = try await scene.ids("Invoice", server, headers, deleted: false)
                #expect(invoices == ["invoice-bert"])
                // The references hold in the copy.
                let answer = try await server.wire.send(
                    "DELETE",
                    "/tables/Customer/of-bert",
                    headers: headers
                )
                #expect(answer.status == 409)
                #expect(answer.object["code"] as? String == "rowIsReferenced")
                #expect(try await server.stop() == .exit(0))
            }
        }

        @Test("A purge of tombstones leaves no row that refers to a purged row", arguments: kinds)
        func purge(kind: String) async throws {
            try await withScene(kind) { scene, database in
                var server = try await scene.server(database)
                let headers = try await scene.headers("anna")
                for path in ["Invoice/invoice-anna", "Customer/of-anna"] {
                    let answer = try await server.wire.send(
                        "DELETE",
                        "/tables/" + path,
                        headers: headers
                    )
                    #expect(answer.status == 204)
                }
                _ = try await eventually("the end of the cascade") {
                    let left = try await scene.ids("Job", server, headers, deleted: false)
                    return left.count == 6 ? () : nil
                }
                #expect(try await server.stop() == .exit(0))
                let options = ["--config", scene.configuration, "--database", database]
                let purged = try await scene.run(
                    ["purge-tombstones", "--days", "0", "--json"] + options
                )
                #expect(purged.contains(#""name":"Job","removed":6"#), "\(purged)")
                #expect(purged.contains(#""name":"Customer","removed":1"#), "\(purged)")
                server = try await scene.server(database)
                for table in ["Customer", "Job", "Invoice"] {
                    let deleted = try await scene.ids(table, server, headers, deleted: true)
                    #expect(deleted.isEmpty, "\(table)")
                }
                // A purged parent is missing, like one that never existed.
                let answer = try await server.wire.send(
                    "POST",
                    "/tables/Job",
                    #"{"id":"new","customerID":"of-anna"}"#,
                    headers: headers
                )
                #expect(answer.status == 409)
                #expect(answer.object["code"] as? String == "parentNotFound")
                #expect(try await server.stop() == .exit(0))
            }
        }
    }
}
