// BackendDryRunTests: a dry run of a device says on each database what its push meets, and changes nothing.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit

extension ProcessTests {
    struct BackendDryRunTests {
        private static let configuration = """
            {"tables": {"Note": {
              "columns": {
                "text": "string", "done": {"type": "boolean", "nullable": false},
                "rank": "integer", "weight": "number", "due": "dateTime"},
              "unique": [["text"]]}}}
            """

        private static let backends = PostgresCluster.reasonToSkip == nil ? [false, true] : [false]

        @Test(
            "A dry run against a server says what the push meets, and changes no row",
            arguments: backends
        )
        func outcomes(_ onPostgres: Bool) async throws {
            try await withWorkspace { workspace in
                let server = try await ServerProcess.start(
                    in: workspace,
                    database: onPostgres ? PostgresCluster.shared().database() : "server.db",
                    configuration: Self.configuration
                )
                func device() async throws -> Device {
                    try await Device(server.url, CurlTransport(), SQLiteStore(path: ":memory:"))
                }
                func rows() async throws -> [UInt8] {
                    let target = "/tables/Note?__includeDeleted=true&$orderby=id"
                    return try await server.wire.send("GET", target).body
                }
                let (one, two) = (try await device(), try await device())
                for id in ["a", "b", "c", "d"] {
                    try await one.notes.insert(Note(id: id, text: id, rank: 1))
                }
                try await one.sync()
                try await two.sync()
                try await one.notes.update(id: "b") { $0.rank = 2 }
                try await one.notes.delete(id: "c")
                try await one.sync()
                for id in ["a", "b", "c"] { try await two.notes.update(id: id) { $0.rank = 3 } }
                try await two.notes.delete(id: "d")
                try await two.notes.insert(Note(id: "e", text: "a"))
                let before = try await rows()

                let run = try await two.context.dryRun()
                #expect(run.operations.map(\.itemID) == ["a", "b", "c", "d", "e"])
                let outcomes = run.operations.map(\.outcome)
                #expect(outcomes[0] == .accepted && outcomes[3] == .accepted)
                #expect(outcomes[2] == .conflict(nil))
                guard case .conflict(let stored?) = outcomes[1],
                    case .rejected(let rejection) = outcomes[4]
                else {
                    Issue.record("\(outcomes)")
                    return
                }
                #expect(stored["rank"] == 2 && stored.version != nil)
                #expect(rejection.statusCode == 409 && rejection.brokenRule?.code == .notUnique)
                #expect(try await rows() == before)

                let error = await #expect(throws: PushError.self) { try await two.context.push() }
                #expect(error?.errors.map(\.itemID).sorted() == ["b", "c", "e"])
                #expect(try await server.stop() == .exit(0))
            }
        }
    }
}
