// Tables by name with a declared schema: each verb of typed tables, in each form.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct RowTableTests {
    private static let schema = TableSchema(
        name: "Todo",
        columns: [
            ColumnDefinition("text", .string), ColumnDefinition("complete", .boolean),
            ColumnDefinition("rank", .integer),
        ]
    )

    private func device(_ transport: any Transport) async throws -> (Device, SyncTable<Row>) {
        let device = try await Device(transport, tables: [], schemas: [Self.schema])
        return (device, try device.client.syncTable(named: "Todo"))
    }

    private func row(_ id: String, _ rank: Int64) -> Row {
        ["id": .string(id), "text": .string("t" + id), "complete": false, "rank": .integer(rank)]
    }

    @Test("Each verb changes untyped rows, also in a transaction")
    func eachVerbChangesRows() async throws {
        let (device, todos) = try await device(ScriptedTransport())
        #expect(try await todos.insert(row("a", 1))["rank"] == 1)
        #expect(try await todos.insert([row("b", 2), row("c", 3), row("d", 4)]).count == 3)
        var changed = try #require(try await todos.read(id: "a"))
        changed["rank"] = 5
        #expect(try await todos.update(changed)["rank"] == 5)
        #expect(try await todos.update(id: "b") { $0["rank"] = 6 }["rank"] == 6)
        changed["rank"] = 7
        #expect(try await todos.update([changed]).map { $0["rank"] } == [7])
        try await todos.delete(id: "b")
        try await todos.delete(row("c", 3))
        try await todos.delete([row("d", 4)])
        try await todos.delete(ids: ["nobody"])
        #expect(try await device.queue() == ["insert a"])
        try await device.context.transaction { transaction in
            let todos = try transaction.table(named: "todo")
            try todos.insert(["id": "e", "rank": 9])
            try todos.insert([["id": "f", "rank": 10], ["id": "g", "rank": 11]])
            try todos.update(id: "e") { $0["rank"] = 8 }
            try todos.update([["id": "f", "rank": 12]])
            try todos.delete(ids: ["g"])
            let high = try todos.read(where: { $0["rank"] > 7 }, limit: 5, onDecodingFailure: .skip)
            #expect(high.map(\.id) == ["e", "f"])
            #expect(try todos.count(where: { $0["rank"] > 7 }) == 2)
            #expect(
                try todos.read(Query(odata: "$filter=rank gt 7"), onDecodingFailure: .skip).items
                    .count == 2
            )
        }
    }

    @Test("An upsert of an untyped row sets only the columns that the row has")
    func anUpsertSetsTheColumnsOfTheRow() async throws {
        let transport = ScriptedTransport()
        var schema = Self.schema
        schema.columns.append(ColumnDefinition("isOpen", .boolean))
        schema.localColumns = ["isOpen"]
        let device = try await Device(transport, tables: [], schemas: [schema])
        let todos = try device.client.syncTable(named: "Todo")
        var stored = localRow("a", 1, text: "milk", rank: 1)
        stored["isOpen"] = true
        stored["note"] = "of another version of the app"
        try await device.seed([stored])
        #expect(try await todos.upsert(["id": "a", "rank": 5])["text"] == "milk")
        stored["rank"] = 5
        #expect(try await device.rows() == [stored])
        // A row of a query that selects columns.
        let query = try Query<Row>(odata: "$select=id,text")
        var selected = try await todos.read(query, onDecodingFailure: .skip).items[0]
        selected["text"] = "tea"
        try await todos.upsert(selected)
        stored["text"] = "tea"
        #expect(try await device.rows() == [stored])
        transport.add(.status(400))
        _ = try await device.push()
        #expect(transport.sent.last?.body == #"{"text":"tea","rank":5}"#)
    }

    @Test("A date in a condition is rounded like a stored date", arguments: StoreKind.allCases)
    func aDateMatchesItself(kind: StoreKind) async throws {
        try await withTemporaryFile { path in
            let schema = TableSchema(name: "Todo", columns: [ColumnDefinition("due", .dateTime)])
            let device = try await Device(
                ScriptedTransport(),
                store: try await kind.stores(in: path)("one"),
                tables: [],
                schemas: [schema]
            )
            let todos = try device.client.syncTable(named: "Todo")
            let date = Date(timeIntervalSince1970: 1_700_000_000.12378)
            let due = Value.date(date)
            var lists = todos.observe(where: { $0["due"] == due }).makeAsyncIterator()
            #expect(try await lists.next()?.isEmpty == true)
            let stored = try await todos.insert(["id": "a", "due": due])
            #expect(stored["due"] == .date(Date(timeIntervalSince1970: 1_700_000_000.124)))
            #expect(try await lists.next()?.map(\.id) == ["a"])
            #expect(try await todos.count(where: { $0["due"] == due }) == 1)
            #expect(try await todos.count(where: { $0["due"].isIn([due]) }) == 1)
            #expect(try await todos.count(where: { $0["due"] >= due && $0["due"] <= due }) == 1)
            #expect(try await todos.count(where: { $0["due", as: Date.self] == date }) == 1)
            #expect(try await todos.count(where: { $0["due"] != due }) == 0)
        }
    }

    @Test("A date that no column can store is rejected in filters and inserts")
    func aDateThatNoColumnCanStoreIsRejected() async throws {
        for seconds in [Double.nan, .infinity, 1e15] {
            let date = Value.date(Date(timeIntervalSince1970: seconds))
            let error = #expect(throws: SyncError.self) { try Filter(where: { $0["due"] == date }) }
            #expect(error?.code == .unsupportedQuery)
            let (_, todos) = try await device(ScriptedTransport())
            #expect(await code { try await todos.insert(["due": date]) } == .rowDoesNotFit)
        }
    }

    @Test("Untyped rows are read with filters, orders, limits and OData queries")
    func rowsAreReadInEachForm() async throws {
        let (device, todos) = try await device(ScriptedTransport())
        try await todos.insert((1...4).map { row("\($0)", Int64($0)) })
        let order = [SortTerm<Row>.descending("rank")]
        #expect(
            try await todos.read(sortedBy: order, limit: 2, onDecodingFailure: .skip).map(\.id) == [
                "4", "3",
            ]
        )
        let some = try await todos.read(
            where: { $0["rank"] > 1 && $0["text", as: String.self].hasPrefix("t") },
            sortedBy: order,
            limit: 2,
            offset: 1,
            onDecodingFailure: .skip
        )
        #expect(some.map(\.id) == ["3", "2"])
        let query = try Query<Row>(odata: "$filter=rank lt 3&$count=true")
        let page = try await todos.read(query, onDecodingFailure: .skip)
        #expect(page.items.map(\.id) == ["1", "2"] && page.totalCount == 2)
        #expect(try await todos.count(where: { $0["rank"] > 1 }) == 3)
        #expect(try await todos.count(query) == 2)
        #expect(try await todos.count() == 4)
        // A value of another type than the column's is kept, and is not a decoding failure, because nothing is decoded.
        try await device.seed([["id": "odd", "rank": "007"]])
        #expect(try await todos.read(id: "odd")?["rank"] == "007")
    }

    @Test("Untyped rows are observed as lists, single rows and counts")
    func rowsAreObservedInEachForm() async throws {
        let (_, todos) = try await device(ScriptedTransport())
        let order = [SortTerm<Row>.descending("rank")]
        var all = todos.observe(sortedBy: order, limit: 3, onDecodingFailure: .skip)
            .makeAsyncIterator()
        var some = todos.observe(
            where: { $0["rank"] > 1 },
            sortedBy: order,
            onDecodingFailure: .skip
        )
        .makeAsyncIterator()
        var query = try todos.observe(Query(odata: "$filter=rank gt 1"), onDecodingFailure: .skip)
            .makeAsyncIterator()
        var one = todos.observe(id: "2").makeAsyncIterator()
        var number = todos.observeCount(where: { $0["rank"] > 1 }).makeAsyncIterator()
        #expect(try await all.next()?.count == 0)
        #expect(try await some.next()?.count == 0)
        #expect(try await query.next()?.count == 0)
        #expect(try await one.next() == .some(nil))
        #expect(try await number.next() == 0)
        try await todos.insert([row("1", 1), row("2", 2)])
        #expect(try await all.next()?.map(\.id) == ["2", "1"])
        #expect(try await some.next()?.map(\.id) == ["2"])
        #expect(try await query.next()?.map(\.id) == ["2"])
        let second = try #require(try await one.next())
        #expect(second?["rank"] == 2)
        #expect(try await number.next() == 1)
    }

    @Test("Untyped rows are pulled, synced, verified and purged")
    func rowsAreSyncedInEachForm() async throws {
        let server = try await makeServer()
        let (device, todos) = try await device(server.transport)
        try await todos.insert((1...4).map { row("\($0)", Int64($0)) })
        #expect(try await device.push() == nil)
        let query = try Query<Row>(odata: "$filter=rank lt 3")
        try await todos.pull(queryID: "low", query)
        try await todos.pull(queryID: "high", where: { $0["rank"] >= 3 })
        try await todos.sync(queryID: "low", query)
        try await todos.sync(queryID: "high", where: { $0["rank"] >= 3 })
        try await todos.sync(queryID: "all")
        #expect(try await todos.verify(queryID: "all").isEqual)
        try await todos.purge(where: { $0["rank"] == 4 })
        try await todos.purge(query)
        #expect(try await todos.read().map(\.id) == ["3"])
        try await todos.purge(force: true)
        #expect(try await todos.count() == 0)
    }

    @Test("A remote table of untyped rows has the same verbs")
    func remoteRowsHaveTheSameVerbs() async throws {
        let server = try await makeServer()
        let (device, _) = try await device(server.transport)
        let remote = device.client.table(named: "Todo")
        let created = try await remote.insert(row("a", 1))
        #expect(created.version != nil)
        var changed = created
        changed["rank"] = 2
        #expect(try await remote.update(changed)["rank"] == 2)
        #expect(try await remote.update(id: "a") { $0["rank"] = 3 }["rank"] == 3)
        #expect(
            try await remote.read(where: { $0["rank"] == 3 }, onDecodingFailure: .skip).map(\.id)
                == ["a"]
        )
        #expect(
            try await remote.read(sortedBy: [.ascending("rank")], onDecodingFailure: .skip).count
                == 1
        )
        #expect(try await remote.count(where: { $0["rank"] == 3 }) == 1)
        try await remote.delete(id: "a")
        #expect(try await remote.read(id: "a") == nil)
        #expect(try await remote.undelete(id: "a")["rank"] == 3)
    }
}
