// Pages as cells: after a pull a store file has the same contents as if rows were stored one by one, and rows that can
// be pulled again do not wait for the disk.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct PageCellsTests {
    private static let schema = TableSchema(
        name: "Odd",
        columns: [
            ColumnDefinition("text", .string), ColumnDefinition("rank", .integer),
            ColumnDefinition("size", .number), ColumnDefinition("price", .decimal),
            ColumnDefinition("done", .boolean), ColumnDefinition("due", .dateTime),
            ColumnDefinition("shape", .json), ColumnDefinition("bytes", .binary),
            ColumnDefinition("key", .guid), ColumnDefinition("day", .date),
        ]
    )

    private static func row(_ id: String, _ members: String) -> String {
        "{\"id\":\"\(id)\",\(members),\"updatedAt\":\"\(timestamp(1))\",\"version\":\"v1\",\"deleted\":false}"
    }

    /// Returns a document that is as deep as a column may be.
    private static let deepest =
        String(repeating: "[", count: 63) + String(repeating: "]", count: 63)

    /// Pages, and whether they can be stored as cells.
    private static let pages: [(rows: [String], isUsual: Bool)] = [
        ([row("a", #""text":"one","rank":1"#), row("b", #""text":"two","rank":-2"#)], true),
        ([row("a", #""text":null,"rank":null,"size":null,"due":null,"shape":null"#)], true),
        ([row("a", #""text":"""#), row("é", #""text":"\"\u00e9\n\ud83d\ude00""#)], true),
        ([row(#"\u0061b"#, #""text":"an id with an escape""#)], true),
        ([row("a", #""size":2"#), row("b", #""size":-1.5e3"#), row("c", #""size":0.1"#)], true),
        ([row("a", #""price":1.50"#), row("b", #""price":"2.50""#)], true),
        ([row("a", #""done":true"#), row("b", #""done":false"#), row("c", #""done":null"#)], true),
        ([row("a", #""due":"2026-01-02T03:04:05.678901Z""#)], true),
        ([row("a", #""due":"0001-01-01T00:00:00Z""#)], true),
        ([row("a", #""shape":{"b" : [1, 2]}"#), row("b", #""shape":"x""#)], true),
        ([row("a", #""bytes":"AAEC""#), row("b", #""bytes":"""#)], true),
        ([row("a", #""key":"6F9619FF-8B86-D011-B42D-00CF4FC964FF""#)], true),
        ([row("a", #""day":"2026-01-02""#)], true),
        ([row("a", #""rank":9223372036854775807"#)], true),
        ([row("a", #""TEXT":"another case""#)], true),
        ([row("a", #""text":"first""#), row("a", #""text":"second""#)], true),
        ([row("a", #""shape":\#(deepest)"#)], true),
        ([], true),
        // A column that no model has, values that do not decode, another layout, and tombstones.
        ([row("a", #""text":"one","color":"red""#)], false),
        ([row("a", #""rank":"007""#)], false),
        ([row("a", #""rank":7.5"#)], false),
        ([row("a", #""rank":9223372036854775808"#)], false),
        ([row("a", #""text":5"#)], false),
        ([row("a", #""due":"soon""#)], false),
        ([row("a", #""bytes":"?""#)], true),
        ([row("a", #""price":"dear""#)], true),
        ([row("a", #""text":"one""#), row("b", #""rank":1"#)], false),
        ([row("a", #""text":"one""#), row("b", #""text":"one","rank":1"#)], false),
        ([row("a", #""text":"one","Text":"two""#)], false),
        ([row("", #""text":"no id""#), row("b", #""text":"one""#)], false),
        ([row("a", #""text":"one""#), #"{"id":"b","deleted":true}"#], false),
        ([row("a", #""text":"one""#), #"{"@removed":{"reason":"deleted"},"id":"b"}"#], false),
        ([#"{"text":"no id"}"#], false),
    ]

    private static func body(_ rows: [String]) -> String {
        "{\"items\":[\(rows.joined(separator: ","))],\"@odata.deltaLink\":\"$deltatoken=1\"}"
    }

    @Test("Common pages are decoded as cells, and unusual pages are not", arguments: pages.indices)
    func commonPagesAreCells(index: Int) throws {
        let (rows, isUsual) = Self.pages[index]
        let answer = TransportResponse(status: 200, body: Array(Self.body(rows).utf8))
        let page = try #require(PulledPage(answer, schema: Self.schema, asCells: true))
        #expect((page.cells != nil) == isUsual)
        #expect(page.rowCount == rows.count)
        let plain = try #require(PulledPage(answer, schema: Self.schema))
        #expect(page.summary == plain.summary)
    }

    /// The same page is stored as rows, into a table that already has the rows of another query, and as cells: all
    /// values and their storage classes are equal.
    @Test("Cells and rows produce the same contents of the store file", arguments: pages.indices)
    func cellsAndRowsGiveTheSameFile(index: Int) async throws {
        let rows = Self.pages[index].rows
        var contents: [[String]] = []
        for isFirst in [true, false] {
            try await withTemporaryFile { path in
                let transport = ScriptedTransport()
                let store = try SQLiteStore(path: path)
                let device = try await Device(
                    transport,
                    store: store,
                    tables: [],
                    schemas: [Self.schema]
                )
                let odd = try device.client.syncTable(named: "Odd")
                // A second query of the table: its pages are stored row by row.
                let tracked: HTTPFields = ["Preference-Applied": "odata.track-changes"]
                if !isFirst {
                    transport.add(.json(200, Self.body([]), tracked))
                    try await odd.pull(queryID: "other")
                }
                transport.add(.json(200, Self.body(rows), tracked))
                try await odd.pull(queryID: "all")
                try await store.close()
                contents.append(try Self.cells(path))
            }
        }
        #expect(contents[0] == contents[1])
    }

    /// Returns each cell with its storage class, without the membership masks.
    private static func cells(_ path: String) throws -> [String] {
        let database = try Database(path: path, mode: .readOnly)
        let names = ["id", "createdAt", "updatedAt", "version"] + schema.columns.map(\.name)
        let list = (names + ["__extra", "__checksum"]).map {
            "typeof(\"\($0)\") || ' ' || quote(\"\($0)\")"
        }
        let sql = "SELECT \(list.joined(separator: " || ', ' || ")) FROM \"Odd\" ORDER BY rowid"
        let statement = try database.prepare(sql)
        var cells: [String] = []
        while try statement.step() { cells.append(statement.text(0)) }
        statement.reset()
        return cells
    }

    @Test("A pulled page does not change a row with a parked operation")
    func pendingRowsStay() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport, store: SQLiteStore(path: ":memory:"))
        try await device.todos().insert(Todo(id: "b", text: "mine"))
        transport.add(.status(400))
        transport.add(page([serverRow("a", 1), serverRow("b", 1)]))
        try await device.todos().pull(queryID: "all")
        #expect(try await device.todos().read(id: "a")?.text == "server")
        #expect(try await device.todos().read(id: "b")?.text == "mine")
    }

    // MARK: - Transactions

    /// Records the kind of each transaction, and can block the first page.
    private final class GateStore: ForwardingStore {
        let inner: any LocalStore = MemoryStore()
        private let calls = Mutex<[String]>([])
        let isOpen = Mutex(false)

        var taken: [String] {
            calls.withLock { calls in
                defer { calls = [] }
                return calls
            }
        }

        func write<Result: Sendable>(
            _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
        ) async throws -> Result {
            calls.withLock { $0.append("lasting") }
            return try await inner.write(body)
        }

        func writeRepeatable<Result: Sendable>(
            _ body: @escaping @Sendable (any LocalStoreWriter) throws -> Result
        ) async throws -> Result {
            calls.withLock { $0.append("repeatable") }
            try await until { isOpen.withLock({ $0 }) }
            return try await inner.write(body)
        }
    }

    private static let tracked: HTTPFields = ["Preference-Applied": "odata.track-changes"]

    /// Returns one of several pages with one row each.
    private static func body(_ number: Int, of count: Int) -> String {
        let link = number == count ? "@odata.deltaLink\":\"d" : "nextLink\":\"p\(number)"
        return "{\"items\":[\(serverRow("r\(number)", number))],\"\(link)\"}"
    }

    @Test("Pages that arrive while another page is stored share a transaction")
    func pagesThatAreReadyShareATransaction() async throws {
        let transport = ScriptedTransport()
        let store = GateStore()
        let device = try await Device(transport, store: store)
        for number in 1...5 {
            transport.add(
                .run { _ in
                    if number == 5 { store.isOpen.withLock { $0 = true } }
                    return .json(200, Self.body(number, of: 5), Self.tracked)
                }
            )
        }
        _ = store.taken
        let result = try await device.todos().pull(queryID: "all")
        #expect(result.applied == 5)
        #expect(result.requests == 5)
        #expect(try await device.rows().count == 5)
        // The transactions before them store the server's capabilities.
        #expect(store.taken.drop { $0 == "lasting" }.prefix(2) == ["repeatable", "lasting"])
    }

    @Test("Pages before a failure are stored, and the next pull continues after them")
    func pagesBeforeAFailureAreKept() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport)
        for number in 1...3 { transport.add(.json(200, Self.body(number, of: 9), Self.tracked)) }
        transport.add(.status(403))
        #expect(await code { try await device.todos().pull(queryID: "all") } != nil)
        #expect(try await device.rows().count == 3)
        transport.add(.json(200, "{\"items\":[],\"@odata.deltaLink\":\"d\"}", Self.tracked))
        try await device.todos().pull(queryID: "all")
        #expect(transport.sent.last?.query == "p3")
    }

    @Test("A transaction is flushed to the disk after one that was not flushed")
    func theNextTransactionWaitsForTheDisk() throws {
        struct Rejected: Error {}
        let full: Int64 = 2
        let database = try Database(path: ":memory:")
        func level() throws -> Int64? { try database.integer("PRAGMA synchronous") }
        #expect(try database.transaction(isFlushed: false) { try level() } == 1)
        #expect(try database.transaction { try level() } == full)
        #expect(throws: Rejected.self) {
            try database.transaction(isFlushed: false) { () throws -> Void in throw Rejected() }
        }
        #expect(try database.transaction { try level() } == full)
    }
}
