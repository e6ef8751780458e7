// Goal: a database that is restored to an older copy, followed by `tideline restored`: a cursor that is ahead is
// rejected at once, devices pull again, and the operations in their queues are pushed. Method: real processes;
// PostgreSQL makes the copy with the database as a template.

import Foundation
import Testing
import Tideline
import TidelinePostgres
import TidelineTestKit
import TidelineTestSupport

extension ProcessTests {
    @Suite(.slow, .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
    struct PostgresRestoreTests {
        private static let tracking: HTTPFields = ["Prefer": "odata.track-changes"]

        /// Reads to the end, and returns the delta link.
        private static func link(_ wire: Wire) async throws -> String {
            var answer = try await wire.send("GET", "/tables/Note", headers: tracking)
            while let next = answer.object["nextLink"] as? String {
                answer = try await wire.send("GET", "/tables/Note?" + next, headers: tracking)
            }
            return "/tables/Note?" + (try #require(answer.object["@odata.deltaLink"] as? String))
        }

        private static func expectGone(_ link: String, at server: ServerProcess) async throws {
            let answer = try await server.wire.send("GET", link)
            #expect(answer.status == 410, "\(answer.object)")
            #expect(answer.object["code"] as? String == "epochChanged")
        }

        /// The device's changes while no server runs.
        private static func changeOffline(_ device: Device) async throws {
            for number in 0..<10 {
                try await device.notes.insert(Note(id: "queued-\(number)", text: "offline"))
            }
            for number in 20..<25 {
                try await device.notes.update(id: "first-\(number)") { $0.text = "offline" }
            }
            try await device.notes.delete(id: "first-30")
            #expect(try await device.context.pendingOperationCount == 16)
        }

        @Test("A device continues after an older copy of the PostgreSQL database was restored")
        func devicesContinueAfterARestoreOfAnOlderCopy() async throws {
            try await withWorkspace { workspace in
                let cluster = try PostgresCluster.shared()
                let url = try cluster.database()
                let name = PostgresCluster.name(in: url)
                var servers: [ServerProcess] = []
                for _ in 0..<2 {
                    servers.append(try await ServerProcess.start(in: workspace, database: url))
                }
                let path = workspace.path("device.sqlite")
                let device = try await Device(
                    servers[0].url,
                    CurlTransport(),
                    try SQLiteStore(path: path)
                )
                for number in 0..<60 {
                    try await device.notes.insert(Note(id: "first-\(number)", text: "first"))
                }
                try await device.sync()
                for server in servers { #expect(try await server.stop() == .exit(0)) }
                _ = try await blocking {
                    try cluster.psql("CREATE DATABASE \(name)_old TEMPLATE \(name)", in: "postgres")
                }

                for place in servers.indices {
                    servers[place] = try await servers[place].restart(samePort: true)
                }
                // Rows that the copy does not have.
                for number in 0..<30 {
                    try await device.notes.insert(Note(id: "late-\(number)", text: "late"))
                }
                try await device.notes.update(id: "first-1") { $0.text = "late" }
                try await device.notes.delete(id: "first-2")
                try await device.sync()
                let link = try await Self.link(servers[1].wire)
                let epoch = try await servers[1].wire.send("GET", "/tables/Note?$top=1")
                    .headers["Tideline-Epoch"]
                for server in servers { try await server.process.destroy() }
                try await Self.changeOffline(device)
                try await blocking {
                    try cluster.psql("DROP DATABASE \(name) WITH (FORCE)", in: "postgres")
                    try cluster.psql("ALTER DATABASE \(name)_old RENAME TO \(name)", in: "postgres")
                }

                for place in servers.indices {
                    servers[place] = try await servers[place].restart(samePort: true)
                }
                // The server does not know of the restore yet: the link is ahead of the table clock.
                for server in servers { try await Self.expectGone(link, at: server) }
                let restored = try await workspace.run(
                    .tideline,
                    ["restored", "--config", workspace.path("tideline.json"), "--database", url]
                )
                #expect(restored.code == 0, "\(restored.error)")
                for server in servers {
                    try await Self.expectGone(link, at: server)
                    let answer = try await server.wire.send("GET", "/tables/Note?$top=1")
                    let renewed = try #require(answer.headers["Tideline-Epoch"])
                    #expect(renewed != epoch && restored.output.contains(renewed))
                }
                try await device.sync()
                // No row that the copy lacks was removed from the device; the app then decides for the copy.
                let context = device.context
                let lost = (0..<30).map { "late-\($0)" } + ["first-1"]
                #expect(try await context.lostRows().map(\.itemID) == lost.sorted())
                #expect(try await device.text("first-1") == "late")
                #expect(try await context.discardLostRows() == lost.count)
                try await device.sync()
                try await expectAgreement(device)
                let rows = try await device.notes.read()
                #expect(rows.count == 60 - 1 + 10)
                let offline = rows.filter { $0.text == "offline" }.map(\.id)
                let queued = (0..<10).map { "queued-\($0)" } + (20..<25).map { "first-\($0)" }
                #expect(Set(offline) == Set(queued))
                #expect(try await device.text("first-1") == "first")
                #expect(try await device.text("first-2") == "first")
                // A device that is added later has the same rows, at the other server.
                let fresh = try await Device(
                    servers[1].url,
                    CurlTransport(),
                    try SQLiteStore(path: ":memory:")
                )
                try await fresh.sync()
                try await expectAgreement(fresh, device)
                try DatabaseFile(path).expectIntact()
            }
        }
    }
}
