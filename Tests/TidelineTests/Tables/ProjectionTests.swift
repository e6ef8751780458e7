// Records of a selection: no write contains a column that was not read.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineServerCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct ProjectionTests {
    private func selected() throws -> Query<Todo> { try Query<Todo>().selecting(\.text) }

    /// A device with a row that the server also has.
    private func device(_ server: InProcessServer) async throws -> Device {
        let device = try await Device(server.transport)
        try await device.todos().insert(Todo(id: "a", text: "milk", complete: true, rank: 5))
        #expect(try await device.push() == nil)
        return device
    }

    @Test("An update with a record of a selection writes no column that was not read")
    func update() async throws {
        let device = try await device(try await makeServer())
        let todos = try device.todos()
        var copy = try #require(try await todos.read(selected()).items.first)
        copy.text = "oat milk"
        #expect(await code { try await todos.update(copy) } == .partialRecord)
        #expect(
            await code {
                try await device.context.transaction { [copy] in
                    _ = try $0.table(Todo.self).update(copy)
                }
            } == .partialRecord
        )
        #expect(try await todos.read(id: "a")?.rank == 5)
        #expect(try await device.queue() == [])
        // The whole record, and the recommended form, work as usual.
        var whole = try #require(try await todos.read(id: "a"))
        whole.complete = false
        whole.rank = nil
        try await todos.update(whole)
        try await todos.update(id: "a") { $0.text = "oat milk" }
        let row = try await todos.read(id: "a")
        #expect(row?.rank == nil && row?.complete == false && row?.text == "oat milk")
    }

    @Test("A record of a selection without its version does not overwrite a later change")
    func laterChange() async throws {
        let server = try await makeServer()
        let device = try await Device(server.transport)
        let other = try await Device(server.transport)
        try await other.todos().insert(Todo(id: "c", text: "old"))
        #expect(try await other.push() == nil)
        try await device.todos().pull(queryID: nil)
        let query = try Query<Todo>(where: { $0.id == "c" }).selecting(\.text)
        var record = try #require(try await device.todos().read(query).items.first)
        try await other.todos().update(id: "c") { $0.text = "new" }
        #expect(try await other.push() == nil)
        try await device.todos().pull(queryID: nil)
        record.rank = 5
        let edited = record
        #expect(await code { try await device.todos().update(edited) } == .partialRecord)
        #expect(try await device.todos().read(id: "c")?.text == "new")
    }

    @Test("An update with a record of a selection is rejected for unpushed rows, too")
    func unpushed() async throws {
        let device = try await device(try await makeServer())
        let todos = try device.todos()
        try await todos.insert(Todo(id: "b", text: "tea", complete: true, rank: 1))
        for id in ["a", "b"] {
            let query = try Query<Todo>(where: { $0.id == id })
                .selecting(\.text, \.version, \.updatedAt)
            var copy = try #require(try await todos.read(query).items.first)
            copy.text = "changed"
            #expect(await code { try await todos.update(copy) } == .partialRecord)
            var iterator = todos.observe(query).makeAsyncIterator()
            var shown = try #require(try await iterator.next()?.first)
            shown.text = "changed"
            #expect(await code { try await todos.update(shown) } == .partialRecord)
        }
    }

    @Test("A deleted row is not inserted again from a record of a selection")
    func insert() async throws {
        let device = try await device(try await makeServer())
        let todos = try device.todos()
        let copy = try #require(try await todos.read(selected()).items.first)
        try await todos.delete(copy)
        #expect(await code { try await todos.insert(copy) } == .partialRecord)
        let whole = Todo(id: "a", text: "milk", complete: true, rank: 5)
        try await todos.insert(whole)
        #expect(try await todos.read(id: "a")?.rank == 5)
    }

    @Test("An update with a record of a selection may write values that equal the row's")
    func harmless() async throws {
        let device = try await device(try await makeServer())
        let todos = try device.todos()
        try await todos.insert(Todo(id: "b", text: "tea"))
        let query = try Query<Todo>(where: { $0.id == "b" }).selecting(\.text)
        var copy = try #require(try await todos.read(query).items.first)
        copy.text = "green tea"
        try await todos.update(copy)
        #expect(try await todos.read(id: "b") == Todo(id: "b", text: "green tea"))
    }

    @Test("A remote table rejects a write with a record of a selection, too")
    func remote() async throws {
        let device = try await device(try await makeServer())
        let remote = device.client.table(Todo.self)
        var copy = try #require(try await remote.read(selected()).items.first)
        copy.text = "oat milk"
        #expect(await code { try await remote.update(copy) } == .partialRecord)
        #expect(await code { try await device.todos().update(copy) } == .partialRecord)
        try await remote.delete(id: "a")
        #expect(await code { try await remote.insert(copy) } == .partialRecord)
    }

    @Test("A remote table rejects an update with a row made from a record of a selection")
    func remoteRows() async throws {
        let device = try await device(try await makeServer())
        let remote = device.client.table(Todo.self)
        var copy = try #require(try await remote.read(selected()).items.first)
        copy.text = "oat milk"
        let row = try Row(copy)
        let rows = device.client.table(named: "Todo")
        #expect(await code { try await rows.update(row) } == .partialRecord)
        try await rows.update(["id": "a", "text": "oat milk"])
        let found = try await remote.read(id: "a")
        #expect(found?.text == "oat milk" && found?.rank == 5 && found?.complete == true)
    }

    @Test("A plain row is limited to the columns that it has")
    func rows() async throws {
        let device = try await device(try await makeServer())
        let rows = try device.client.syncTable(named: "Todo")
        var query = Query<Row>()
        query.fields = ["id", "text"]
        var row = try #require(try await rows.read(query).items.first)
        row["text"] = "oat milk"
        try await rows.update(row)
        // A record made from such a row has values that were not read, and so has a row made from that record.
        var copy = try row.decode(Todo.self)
        copy.text = "rice milk"
        #expect(await code { try await device.todos().update(copy) } == .partialRecord)
        #expect(await code { try await rows.update(Row(copy)) } == .partialRecord)
        let found = try await device.todos().read(id: "a")
        #expect(found?.text == "oat milk" && found?.rank == 5 && found?.complete == true)
    }
}
