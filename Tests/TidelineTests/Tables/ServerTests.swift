// The client with the real server, in process.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct ServerTests {
    @Test("Two devices converge through the server", arguments: StoreKind.allCases)
    func twoDevicesConverge(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            let stores = kind.stores(in: path)
            let one = try await Device(server.transport, store: stores("one"))
            let two = try await Device(server.transport, store: stores("two"))
            for number in 0..<10 {
                try await one.todos().insert(Todo(id: "\(number)", text: "one"))
            }
            #expect(try await one.context.push().completed == 10)
            #expect(try await two.todos().pull(queryID: "all").applied == 10)
            try await two.todos().update(id: "1") { $0.text = "two" }
            try await two.todos().delete(id: "2")
            try await two.todos().insert(Todo(id: "é", text: "new"))
            #expect(try await two.push() == nil)
            let result = try await one.todos().pull(queryID: "all")
            #expect(result.removed == 1)
            #expect(try await one.rows() == two.rows())
            let truth = try await one.client.table(Todo.self).read(sortedBy: [.ascending(\.id)])
            #expect(try await one.todos().read() == truth)
            #expect(truth.count == 10)
        }
    }

    @Test("All rows are pulled from many small pages") func manyPagesArePulled() async throws {
        let server = try await makeServer(pageSize: 7)
        var limits = SyncLimits()
        limits.pageRowsMax = 7
        let one = try await Device(server.transport, limits: limits)
        for number in 0..<100 {
            try await one.todos().insert(Todo(text: "\(number)", rank: number))
        }
        #expect(try await one.push() == nil)
        for queryID in ["all", nil] {
            let two = try await Device(server.transport, limits: limits)
            let result = try await two.todos().pull(queryID: queryID)
            #expect(try await two.rows() == one.rows())
            #expect(result.requests > 14)
        }
        let remote = one.client.table(Todo.self)
        #expect(try await remote.read().count == 100)
        #expect(try await remote.read(limit: 20, offset: 5).count == 20)
        #expect(try await remote.count() == 100)
        #expect(try await remote.count(where: { $0.rank >= 90 }) == 10)
        let page = try await remote.read(
            Query<Todo>(odata: "$top=3&$count=true&$orderby=rank desc")
        )
        #expect(page.items.map(\.rank) == [99, 98, 97])
        #expect(page.totalCount == 100)
    }

    @Test("Remote verbs change the server's rows and report conflicts")
    func remoteVerbsChangeTheServer() async throws {
        let server = try await makeServer()
        let remote = try await Device(server.transport).client.table(Todo.self)
        let created = try await remote.insert(Todo(text: "x"))
        #expect(
            await code { try await remote.insert(Todo(id: created.id, text: "y")) } == .conflict
        )
        var changed = created
        changed.text = "y"
        let updated = try await remote.update(changed)
        #expect(updated.text == "y")
        let error = await #expect(throws: SyncError.self) { try await remote.update(created) }
        #expect(error?.code == .conflict)
        #expect(error?.serverItem?["text"] == "y")
        #expect(await code { try await remote.delete(created) } == .conflict)
        try await remote.delete(updated)
        #expect(try await remote.read(id: created.id) == nil)
        #expect(try await remote.read().isEmpty)
        var all = Query<Todo>()
        all.includesDeleted = true
        #expect(try await remote.read(all).items.count == 1)
        #expect(try await remote.undelete(id: created.id).text == "y")
        #expect(try await remote.read(id: created.id) != nil)
        #expect(await code { try await remote.update(id: "no") { $0.rank = 1 } } == .notFound)
        let rows = try await Device(server.transport).client.table(named: "todo")
        #expect(try await rows.read(where: { $0["text"] == "y" }).count == 1)
    }

    @Test("An insert restores a row that another device deleted")
    func anInsertRestoresARowThatAnotherDeviceDeleted() async throws {
        let server = try await makeServer()
        let one = try await Device(server.transport)
        let two = try await Device(server.transport)
        try await one.todos().insert(Todo(id: "a", text: "first"))
        #expect(try await one.push() == nil)
        try await one.todos().delete(id: "a")
        #expect(try await one.push() == nil)
        try await two.todos().insert(Todo(id: "a", text: "second"))
        #expect(try await two.push() == nil)
        try await one.todos().pull(queryID: "all")
        #expect(try await one.todos().read().map(\.text) == ["second"])
    }

    @Test("A resolved conflict reaches the server and the other device")
    func aConflictIsResolved() async throws {
        let server = try await makeServer()
        let one = try await Device(server.transport)
        let two = try await Device(server.transport)
        try await one.todos().insert(Todo(id: "a", text: "base"))
        #expect(try await one.push() == nil)
        try await two.todos().pull(queryID: "all")
        try await one.todos().update(id: "a") { $0.text = "one" }
        #expect(try await one.push() == nil)
        try await two.todos().update(id: "a") { $0.text = "two" }
        let error = try #require(try await two.push()?.errors.first)
        #expect(error.statusCode == 412)
        #expect(error.serverItem?["text"] == "one")
        var merged = try #require(error.serverItem).decode(Todo.self)
        merged.text = "one and two"
        try await error.updateOperationAndRetry(with: merged)
        #expect(try await two.push() == nil)
        try await one.todos().pull(queryID: "all")
        #expect(try await one.rows() == two.rows())
        #expect(try await one.todos().read(id: "a")?.text == "one and two")
    }

    /// Guarantee 7 under load: fifty edits of five rows during a push.
    @Test("Concurrent edits during pushes are not lost", arguments: StoreKind.allCases)
    func concurrentEditsDuringPushesAreKept(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            let device = try await Device(server.transport, store: kind.stores(in: path)("one"))
            let todos = try device.todos()
            for number in 0..<5 { try await todos.insert(Todo(id: "\(number)", rank: 0)) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<50 {
                    group.addTask {
                        try await todos.update(id: "\(number % 5)") { todo in
                            todo.rank = (todo.rank ?? 0) + 1
                        }
                    }
                    if number % 10 == 0 {
                        group.addTask { try await device.context.push() }
                        group.addTask { try await todos.pull(queryID: "all") }
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await device.push() == nil)
            #expect(try await device.context.pendingOperationCount == 0)
            let truth = try await device.client.table(Todo.self).read(sortedBy: [.ascending(\.id)])
            #expect(truth.map(\.rank) == Array(repeating: 10, count: 5))
            #expect(try await todos.read() == truth)
        }
    }

    @Test("A row that no longer matches the query is not pulled again after a purge")
    func rowsThatNoLongerMatchStayUntilAPurge() async throws {
        let server = try await makeServer()
        let one = try await Device(server.transport)
        let two = try await Device(server.transport)
        try await one.todos().insert(Todo(id: "a"))
        try await two.todos().pull(queryID: "open", where: { !$0.complete })
        try await one.push().map { throw $0 }
        try await two.todos().pull(queryID: "open", where: { !$0.complete })
        #expect(try await two.rows().count == 1)
        try await one.todos().update(id: "a") { $0.complete = true }
        try await one.push().map { throw $0 }
        try await two.todos().purge()
        try await two.todos().pull(queryID: "open", where: { !$0.complete })
        #expect(try await two.rows().isEmpty)
    }
}
