// Values that no server accepts are rejected when they are stored, and nothing is queued.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct RowCheckTests {
    private let transport = ScriptedTransport()

    private struct Marked: SyncRecord, Hashable {
        static let tableName = "Todo"
        var id = ""
        var text = ""
        var deleted = false
        var version: String?
    }

    private func expectRejected(
        _ column: String,
        _ body: () async throws -> Void
    ) async throws {
        let error = await #expect(throws: SyncError.self) { try await body() }
        #expect(error?.code == .rowDoesNotFit)
        #expect(error?.message.contains("'\(column)'") == true)
        #expect(error?.message.contains("'a'") == true)
    }

    @Test("Text with a NUL character is rejected") func textsWithNULAreRejected() async throws {
        let device = try await Device(transport)
        let todos = try device.todos()
        try await device.seed([["id": "a", "text": "x", "version": "v1"]])
        let bad = Todo(id: "a", text: "a\u{0}b")
        try await expectRejected("text") { try await todos.update(bad) }
        try await expectRejected("text") { try await todos.update(id: "a") { $0.text = bad.text } }
        try await todos.delete(id: "a")
        try await expectRejected("text") { try await todos.insert(bad) }
        try await expectRejected("text") { try await todos.insert([Todo(id: "b"), bad]) }
        #expect(try await device.queue() == ["delete a"])
        let remote = device.client.table(Todo.self)
        try await expectRejected("text") { try await remote.insert(bad) }
        try await expectRejected("text") { try await remote.update(bad) }
        transport.add(.json(200, serverRow("a", 1)))
        try await expectRejected("text") { try await remote.update(id: "a") { $0.text = bad.text } }
        #expect(transport.sent.map(\.description) == ["GET /tables/Todo/a - -"])
    }

    private struct Tagged: SyncRecord, Hashable {
        static let tableName = "Todo"
        var id = ""
        var tags: [String] = []
    }

    @Test("A JSON document with a NUL character is rejected")
    func documentsWithNULAreRejected() async throws {
        let device = try await Device(transport, tables: [Tagged.self])
        let table = try device.client.syncTable(Tagged.self)
        // An escaped backslash before "u0000" is not a NUL.
        try await table.insert(Tagged(id: "b", tags: ["\\u0000", "\\"]))
        try await expectRejected("tags") {
            try await table.insert(Tagged(id: "a", tags: ["\\", "x\u{0}"]))
        }
        #expect(try await device.queue() == ["insert b"])
    }

    @Test("A value of an untyped row that does not fit its declared column is rejected")
    func valuesOfAnotherTypeAreRejected() async throws {
        let schema = TableSchema(
            name: "Todo",
            columns: [
                ColumnDefinition("text", .string), ColumnDefinition("rank", .integer),
                ColumnDefinition("size", .number), ColumnDefinition("done", .boolean),
                ColumnDefinition("due", .dateTime), ColumnDefinition("bytes", .binary),
                ColumnDefinition("price", .decimal), ColumnDefinition("shape", .json),
                ColumnDefinition("day", .date), ColumnDefinition("at", .time),
                ColumnDefinition("key", .guid), ColumnDefinition("level", .enumeration(["low"])),
            ]
        )
        let device = try await Device(transport, tables: [], schemas: [schema])
        let rows = try device.client.syncTable(named: "Todo")
        try await device.seed([["id": "a", "text": 6, "rank": "x", "version": "v1"]])
        let other = try await Device(transport, tables: [], schemas: [schema])
        let fresh = try other.client.syncTable(named: "Todo")
        let bad: [(String, Value)] = [
            ("text", 5), ("text", .bool(true)), ("rank", "5"), ("rank", .number(1.5)),
            ("size", .number(.nan)), ("size", .number(.infinity)), ("size", "1"), ("done", 1),
            ("due", "yesterday"), ("bytes", "?"), ("price", "much"), ("other", .number(.nan)),
            ("day", "2026-02-30"), ("at", "25:00"), ("key", "5"), ("level", "high"),
        ]
        for (name, value) in bad {
            try await expectRejected(name) { try await rows.update(id: "a") { $0[name] = value } }
            var row: Row = ["id": "a"]
            row[name] = value
            let new = row
            try await expectRejected(name) { try await fresh.insert(new) }
        }
        #expect(try await device.queue() == [])
        // The server's value stays as it is, and does not prevent other edits.
        try await rows.update(id: "a") { $0["size"] = 2 }
        #expect(try await rows.read(id: "a")?["text"] == 6)
        try await rows.insert([
            "text": "x", "rank": .number(5), "size": 5, "due": "2026-01-01T00:00:00Z",
            "bytes": "AAAA", "price": "1.5", "shape": 7, "done": .null, "other": "kept",
            "day": "2026-02-28", "at": "23:59", "key": "0A000000-0000-0000-0000-000000000000",
            "level": "low",
        ])
    }

    private enum Either: Codable, Hashable {
        case text(String)
        case whole(Int)

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            do {
                self = .text(try container.decode(String.self))
            } catch {
                self = .whole(try container.decode(Int.self))
            }
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .text(let text): try container.encode(text)
            case .whole(let number): try container.encode(number)
            }
        }
    }

    private struct Faced: SyncRecord, Hashable {
        static let tableName = "Todo"
        var id = ""
        var text = Either.text("")
    }

    @Test("A model may write another type than that of its column, also in an update")
    func aModelMayWriteAnotherTypeThanItsColumn() async throws {
        let device = try await Device(transport, tables: [Faced.self])
        let table = try device.client.syncTable(Faced.self)
        try await table.insert(Faced(id: "a", text: .whole(7)))
        try await table.update(id: "a") { $0.text = .whole(8) }
        #expect(try await table.read(id: "a")?.text == .whole(8))
    }

    /// Such names are reserved for the protocol.
    @Test(
        "A column name that begins with two underscores is rejected",
        arguments: ["__x", "__queries", "__extra", "__checksum", "__includedeleted", "__"]
    )
    func reservedNamesAreRejected(name: String) async throws {
        let device = try await Device(transport)
        let rows = try device.client.syncTable(named: "Todo")
        try await device.seed([["id": "b", "text": "x", "version": "v1"]])
        var row: Row = ["id": "a", "text": "x"]
        row[name] = 1
        let bad = row
        try await expectRejected(name) { try await rows.insert(bad) }
        try await expectRejected(name) { try await rows.insert([bad]) }
        var edit = bad
        edit["id"] = "b"
        let edited = edit
        let rejections: [SyncError.Code?] = [
            await code { try await rows.update(edited) },
            await code { try await rows.update([edited]) },
            await code { try await rows.update(id: "b") { $0[name] = 1 } },
            await code {
                try await device.context.transaction {
                    _ = try $0.table(named: "Todo").insert(bad)
                }
            },
        ]
        #expect(rejections == Array(repeating: .rowDoesNotFit, count: 4))
        #expect(try await device.queue() == [])
        #expect(try await rows.count() == 1)
        let remote = device.client.table(named: "Todo")
        try await expectRejected(name) { try await remote.insert(bad) }
        try await expectRejected(name) { try await remote.update(bad) }
        transport.add(.json(200, serverRow("a", 1)))
        try await expectRejected(name) { try await remote.update(id: "a") { $0[name] = 1 } }
        #expect(transport.sent.map(\.method) == ["GET"])
    }

    @Test("An ID that is not text is rejected") func anIDMustBeAText() async throws {
        let device = try await Device(transport)
        let rows = try device.client.syncTable(named: "Todo")
        #expect(await code { try await rows.insert(["id": 5, "text": "x"]) } == .invalidID)
        #expect(await code { try await rows.update(["id": 5, "text": "x"]) } == .invalidID)
        #expect(try await device.queue() == [])
    }

    @Test("A row with invalid text from the server can still be edited")
    func valuesOfTheServerAreNotRejected() async throws {
        let device = try await Device(transport)
        try await device.seed([["id": "a", "text": "x\u{0}", "version": "v1"]])
        try await device.todos().update(id: "a") { $0.rank = 1 }
        var read = try #require(try await device.todos().read(id: "a"))
        #expect(read.text == "x\u{0}")
        read.rank = 2
        try await device.todos().update(read)
        #expect(try await device.queue() == ["update a"])
    }

    @Test("A change that sets the deleted property is rejected")
    func onlyADeleteDeletes() async throws {
        let device = try await Device(transport, tables: [Marked.self])
        let table = try device.client.syncTable(Marked.self)
        try await device.seed([["id": "a", "text": "x", "version": "v1"]])
        let bad = Marked(id: "a", text: "y", deleted: true, version: "v1")
        try await expectRejected("deleted") { try await table.update(bad) }
        try await expectRejected("deleted") {
            try await table.update(id: "a") { $0.deleted = true }
        }
        try await table.update(id: "a") { $0.text = "z" }
        #expect(try await device.queue() == ["update a"])
        let remote = device.client.table(Marked.self)
        try await expectRejected("deleted") { try await remote.update(bad) }
        try await expectRejected("deleted") { try await remote.insert(bad) }
    }

    @Test("A retry with an invalid row is rejected and does not change the parked operation")
    func aRetryIsChecked() async throws {
        let device = try await Device(transport)
        try await device.todos().insert(Todo(id: "a", text: "x"))
        transport.add(.status(400))
        await #expect(throws: PushError.self) { try await device.context.push() }
        let error = try #require(try await device.context.operationErrors().first)
        try await expectRejected("text") {
            try await error.updateOperationAndRetry(with: ["id": "a", "text": "\u{0}"])
        }
        let queue = try await device.queue()
        #expect(queue.count == 1 && queue[0].hasSuffix("parked"))
    }

    @Test(
        "A rejection has the same error code for a remote read and a pull",
        arguments: [(403, SyncError.Code.forbidden), (429, .tooManyRequests)]
    )
    func rejectionsHaveTheSameCodesEverywhere(status: Int, code: SyncError.Code) async throws {
        let device = try await Device(transport)
        transport.add(.status(status))
        await #expect { try await device.client.table(Todo.self).read(id: "a") } throws: {
            ($0 as? SyncError)?.code == code
        }
        for _ in 0..<8 { transport.add(.status(status)) }
        await #expect { try await device.todos().pull(queryID: "all") } throws: {
            ($0 as? SyncError)?.code == code
        }
    }
}
