// SharedStoreTests: several processes with one store file see each other's changes, and one of them syncs at a time.

import Foundation
import Testing
import Tideline

@Suite(.timeLimit(.minutes(10))) struct SharedStoreTests {
    private struct TodoItem: SyncRecord, Hashable {
        var id = ""
        var text = ""
        var complete = false
    }

    private func client(_ path: String, _ server: URL) async throws -> SyncClient {
        let client = SyncClient(endpoint: server)
        try await client.syncContext.initialize(
            store: SQLiteStore(path: path),
            tables: [TodoItem.self]
        )
        return client
    }

    @Test("An observation emits the changes that another process makes in the same store")
    func changesOfAnotherProcessAreSeen() async throws {
        try await withWorkspace { workspace in
            let server = try #require(URL(string: "http://127.0.0.1:9"))
            let probe = Probe(workspace, server)
            let client = try await client(probe.path, server)
            let items = try client.syncTable(TodoItem.self)
            var seen = items.observe(sortedBy: [.ascending(\.id)]).makeAsyncIterator()
            #expect(try await seen.next()?.isEmpty == true)
            try await probe.run("fill", "3", "theirs")
            var shown: [TodoItem] = []
            while shown.count < 3, let next = try await seen.next() { shown = next }
            #expect(shown.map(\.id) == ["theirs-0", "theirs-1", "theirs-2"])
            // Both write, and both queue operations.
            try await items.update(id: "theirs-1") { $0.text = "ours" }
            try await probe.run("fill", "1", "more")
            while shown.count < 4, let next = try await seen.next() { shown = next }
            #expect(try await client.syncContext.pendingOperationCount == 4)
        }
    }

    @Test("Pushes wait for the process that syncs the store and continue after it is killed")
    func oneProcessSyncsAndAKilledOneStopsNoOther() async throws {
        try await withWorkspace { workspace in
            let server = try await ServerProcess.start(in: workspace)
            let probe = Probe(workspace, server.url)
            try await probe.run("fill", "2", "x")
            let holder = try probe.start("hold")
            _ = try await eventually("the turn") { holder.output.contains("held") ? () : nil }
            let client = try await client(probe.path, server.url)
            let push = Task { try await client.syncContext.push() }
            // Local work is still possible.
            try await client.syncTable(TodoItem.self).insert(TodoItem(id: "mine"))
            let short = try probe.start("push")
            // A device with another store starts later, and has already pushed.
            let other = Probe(workspace, server.url, store: "other.sqlite")
            try await other.run("fill", "1", "y")
            try await other.run("push")
            #expect(short.end == nil)
            #expect(try await client.syncContext.pendingOperationCount == 3)
            holder.send(SIGKILL)
            _ = try await push.value
            #expect(try await short.wait() == .exit(0))
            #expect(try await client.syncContext.pendingOperationCount == 0)
            #expect(try await client.table(TodoItem.self).count() == 4)
        }
    }
}
