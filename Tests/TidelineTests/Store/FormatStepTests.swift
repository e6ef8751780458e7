// The upgrade of older queues: format 1 with a full queue, and stores of the original SDK.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestSupport

@Suite struct FormatStepTests {
    @Test("A full queue of storage format 1 is upgraded and pushed")
    func aFullQueueOfFormatOneIsUpgraded() async throws {
        try await withTemporaryFile { path in
            try FormatOne.make(path)
            let transport = ScriptedTransport()
            let device = try await Device(transport, store: SQLiteStore(path: path))
            #expect(
                try await device.queue() == [
                    "update conflict attempted parked", "update refused attempted parked",
                    "update behind attempted", "update behind", "update edited", "delete gone",
                    "update replaced", "update older", "insert new", "insert note",
                ]
            )
            let errors = try await device.context.operationErrors()
            #expect(errors.map(\.statusCode) == [412, 422])
            #expect(errors.map { $0.item?["text"] } == ["mine", "refused text"])
            #expect(errors[0].serverItem?["text"] == "theirs")
            guard case .row(let known) = errors[0].serverCopy else {
                Issue.record("the newest server row is forgotten")
                return
            }
            #expect(known.version == "v20")
            transport.add(
                .json(200, serverRow("behind", 30, text: "first", rank: 1)),
                .json(200, serverRow("behind", 31, text: "first", rank: 2)),
                .json(200, serverRow("edited", 32, text: "two words", rank: 1)),
                .status(204),
                .json(200, serverRow("replaced", 33, text: "second life")),
                .json(412, serverRow("older", 34)),
                .json(201, serverRow("new", 35, rank: 9)),
                .json(201, #"{"id":"note","body":"a note","version":"v36"}"#)
            )
            #expect(try await device.push()?.status == .operationErrors)
            #expect(
                transport.sent.map(\.description) == [
                    #"PATCH /tables/Todo/behind "v1" {"text":"first"}"#,
                    #"PATCH /tables/Todo/behind "v30" {"rank":2}"#,
                    #"PATCH /tables/Todo/edited "v8" {"text":"two words"}"#,
                    #"DELETE /tables/Todo/gone "v4" -"#,
                    #"PATCH /tables/Todo/replaced "v5" "#
                        + #"{"text":"second life","complete":false,"rank":null}"#,
                    #"PATCH /tables/Todo/older "v0" "#
                        + #"{"text":"from an old screen","complete":false,"rank":1}"#,
                    #"POST /tables/Todo - "#
                        + #"{"id":"new","text":"new\nwith \"quotes\"","complete":false,"rank":9}"#,
                    #"POST /tables/Note - {"id":"note","body":"a note"}"#,
                ]
            )
            // A request that was sent before the upgrade keeps its id.
            #expect(transport.sent[0].requestID == "538e1f70-cf74-48cc-8bc1-07b036f334fe")
            let file = try Database(path: path, mode: .readOnly)
            #expect(try file.integer("PRAGMA user_version") == 3)
            let bases = "SELECT count(*) FROM sqlite_master WHERE name = 'MS_TableBases'"
            #expect(try file.integer(bases) == 0)
            #expect(try file.integer("SELECT seq FROM sqlite_sequence") == 11)
            let sent = "SELECT count(*) FROM MS_TableOperations WHERE firstSent = ?1"
            #expect(try file.integer(sent, [.text("Fri, 15 Jan 2027 08:00:00 GMT")]) == 3)
        }
    }

    /// Format 2 had one operation for each row; an older program would send only a part of format 3.
    @Test(
        "A file of format 2 is upgraded with its queue, and older programs reject it then"
    )
    func aQueueOfFormatTwoIsUpgraded() async throws {
        try await withTemporaryFile { path in
            let store = try SQLiteStore(path: path)
            let before = try await Device(ScriptedTransport(), store: store)
            try await before.todos().insert(Todo(id: "a", text: "mine"))
            try await store.close()
            try Database(path: path).execute(
                """
                ALTER TABLE MS_TableOperations DROP COLUMN "edit";
                ALTER TABLE MS_TableOperations DROP COLUMN "before";
                PRAGMA user_version = 2
                """
            )
            let transport = ScriptedTransport([.json(201, serverRow("a", 1, text: "mine"))])
            let device = try await Device(transport, store: SQLiteStore(path: path))
            #expect(try await device.queue() == ["insert a"])
            #expect(try await device.push() == nil)
            #expect(try await device.todos().read(id: "a")?.text == "mine")
            let file = try Database(path: path, mode: .readOnly)
            #expect(try file.integer("PRAGMA user_version") == 3)
        }
    }

    @Test("The operations of a file of format 2 keep their accounts, groups, requests and errors")
    func operationsOfFormatTwoAreUnchanged() async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport([
                .json(412, serverRow("conflict", 9, text: "theirs")), .lost,
            ])
            let store = try SQLiteStore(path: path)
            func open(_ store: SQLiteStore) async throws -> Device {
                try await Device(transport, store: store, authentication: SignIn("anna"))
            }
            let before = try await open(store)
            try await before.seed([
                localRow("edited", 1), localRow("gone", 2), localRow("conflict", 3),
            ])
            try await before.todos().update(id: "conflict") { $0.text = "mine" }
            #expect(try await before.push()?.status == .operationErrors)
            try await before.todos().insert(Todo(id: "new", text: "new"))
            #expect(try await before.push() != nil)
            try await before.todos().update(id: "edited") { $0.text = "mine" }
            try await before.todos().delete(id: "gone")
            try await before.context.transaction { transaction in
                for id in ["one", "two"] {
                    try transaction.table(Todo.self).insert(Todo(id: id, text: "new"))
                }
            }
            let queued = try await before.context.pendingOperations()
            #expect(
                try await before.queue() == [
                    "update conflict attempted parked", "insert new attempted", "update edited",
                    "delete gone", "insert one", "insert two",
                ]
            )
            try #require(queued.allSatisfy { $0.account == "anna" })
            try #require(queued[4].groupID != nil && queued[4].groupID == queued[5].groupID)
            try await store.close()
            let columns = ["edit", "before", "failedPushes", "knownUntil", "inherited"]
            let drops = columns.map { "ALTER TABLE MS_TableOperations DROP COLUMN \"\($0)\";" }
            try Database(path: path).execute(drops.joined() + "PRAGMA user_version = 2")

            let device = try await open(SQLiteStore(path: path))
            #expect(try await device.context.pendingOperations() == queued)
            let error = try #require(try await device.context.operationErrors().first)
            #expect(error.serverItem?["text"] == "theirs")
            transport.add(
                .json(201, serverRow("new", 10)),
                .json(200, serverRow("edited", 11, text: "mine")),
                .status(204)
            )
            // The server does not accept batches, so the transaction stays in the queue.
            #expect(try await device.push()?.status == .networkFailure)
            let sent = transport.sent
            try #require(sent.count == 5)
            #expect(sent[2].description == sent[1].description)
            #expect(sent[2].requestID == sent[1].requestID)
            #expect(
                sent[3...4].map(\.description) == [
                    #"PATCH /tables/Todo/edited "v1" {"text":"mine"}"#,
                    #"DELETE /tables/Todo/gone "v2" -"#,
                ]
            )
            let left = try await device.context.pendingOperations()
            #expect(left.map(\.itemID) == ["conflict", "one", "two"])
            #expect(left[1].groupID == queued[4].groupID && left[2].groupID == left[1].groupID)
        }
    }

    /// The tables of a store of the original SDK.
    static let original = """
        CREATE TABLE MS_TableOperations (id INTEGER PRIMARY KEY, itemId TEXT,
            properties BLOB, "table" TEXT, tableKind INTEGER);
        CREATE TABLE MS_TableOperationErrors (id TEXT PRIMARY KEY, operationId INTEGER,
            properties BLOB, tableKind INTEGER);
        CREATE TABLE MS_TableConfig (id TEXT PRIMARY KEY, "key" TEXT, keyType INTEGER,
            "table" TEXT, value TEXT);
        CREATE TABLE Todo (id TEXT PRIMARY KEY, version TEXT, text TEXT, complete INTEGER);
        """

    /// Its updates send the whole row with the row's version, and its deletes store the row.
    @Test("Operations of the original SDK are upgraded and sent")
    func operationsOfTheOriginalSDKAreSent() async throws {
        try await withTemporaryFile { path in
            try Database(path: path).execute(
                Self.original + """
                    INSERT INTO Todo VALUES ('made', NULL, 'new', 0), ('edited', 'AAA=', 'mine', 1);
                    INSERT INTO MS_TableOperations VALUES
                        (7, 'made', CAST('{"type":0}' AS BLOB), 'Todo', 0),
                        (8, 'edited', CAST('{"type":1}' AS BLOB), 'Todo', 0),
                        (9, 'gone', CAST('{"type":2,"item":{"id":"gone","version":"BBB="}}'
                            AS BLOB), 'Todo', 0);
                    INSERT INTO MS_TableOperationErrors VALUES
                        ('e', 8, CAST('{"code":412}' AS BLOB), 0);
                    """
            )
            let transport = ScriptedTransport([
                .json(201, serverRow("made", 1)), .json(200, serverRow("edited", 2)),
                .status(204),
            ])
            let device = try await Device(transport, store: SQLiteStore(path: path))
            #expect(try await device.queue() == ["insert made", "update edited", "delete gone"])
            #expect(try await device.push() == nil)
            #expect(
                transport.sent.map { "\($0.method) \($0.ifMatch ?? "-")" } == [
                    "POST -", "PATCH \"AAA=\"", "DELETE \"BBB=\"",
                ]
            )
            #expect(transport.sent[1].body?.contains(#""text":"mine","complete":true"#) == true)
            try await device.todos().insert(Todo(id: "next"))
            #expect(try await device.context.pendingOperations().first?.id == 10)
        }
    }

    private struct Chore: SyncRecord {
        static let tableName = "Todo"
        var id = ""
        var text = ""
        var complete = false
        var due: Date?
        var tags: [String] = []
        var weight: Double?
        var photo: Data?
        var version: String?
        var updatedAt: Date?
    }

    @Test("The columns of the original SDK are read with their types, and sent in the wire form")
    func columnsOfTheOriginalSDKAreConverted() async throws {
        try await withTemporaryFile { path in
            try Database(path: path).execute(
                Self.original + """
                    DROP TABLE Todo;
                    CREATE TABLE Todo (id TEXT PRIMARY KEY, version TEXT, updatedAt DATETIME,
                        text TEXT, complete BOOLEAN, due DATETIME, tags JSON, weight FLOAT,
                        photo BLOB);
                    INSERT INTO Todo VALUES
                        ('a', 'AAA=', 1767225600000, 'mine', 1, 1767225601499.6,
                            '[ "x", "y" ]', 2, 'AQI='),
                        ('b', 'BBB=', 1767225600000.25, 'not JSON', 0, 1767225600000, '[', NULL,
                            NULL);
                    INSERT INTO MS_TableOperations VALUES
                        (7, 'a', CAST('{"type":1}' AS BLOB), 'Todo', 0);
                    """
            )
            let rest = #","due":null,"tags":[],"weight":2,"photo":null"#
            let transport = ScriptedTransport([.json(200, serverRow("a", 2, rest))])
            let device = try await Device(
                transport,
                store: SQLiteStore(path: path),
                tables: [Chore.self]
            )
            let chores = try device.client.syncTable(Chore.self)
            let chore = try #require(try await chores.read(id: "a"))
            #expect(chore.complete)
            #expect(chore.due == Date(timeIntervalSince1970: 1_767_225_601.5))
            #expect(chore.tags == ["x", "y"])
            #expect(chore.weight == 2)
            #expect(chore.photo == Data([1, 2]))
            #expect(chore.updatedAt == Date(timeIntervalSince1970: 1_767_225_600))
            #expect(await code { _ = try await chores.read(id: "b") } == .rowDoesNotFit)
            #expect(try await device.push() == nil)
            let sent = try #require(transport.sent.first)
            #expect(sent.ifMatch == "\"AAA=\"")
            for part in [
                #""complete":true"#, #""due":"2026-01-01T00:00:01.500Z""#, #""tags":["x","y"]"#,
                #""weight":2"#, #""photo":"AQI=""#,
            ] { #expect(sent.body?.contains(part) == true, "\(part)") }
        }
    }

    /// It is upgraded unchanged, and can be dropped.
    @Test(
        "An unreadable operation of an older queue is parked, and the others are sent",
        arguments: [
            "'nonsense'", "'{\"type\":7}'", "'{}'", "'{\"type\":\"1\"}'", "'[1]'", "x'ff00'",
            "NULL",
        ]
    )
    func anUnreadableOperationOfAnOlderQueueIsParked(properties: String) async throws {
        try await withTemporaryFile { path in
            try Database(path: path).execute(
                Self.original + """
                    INSERT INTO Todo VALUES ('row 1', 'AAA=', 'mine', 0), ('made', NULL, 'new', 0);
                    INSERT INTO MS_TableOperations VALUES
                        (3, 'row 1', CAST(\(properties) AS BLOB), 'Todo', 0),
                        (4, 'made', CAST('{"type":0}' AS BLOB), 'Todo', 0);
                    PRAGMA wal_checkpoint(TRUNCATE)
                    """
            )
            let transport = ScriptedTransport([.json(201, serverRow("made", 1))])
            let device = try await Device(transport, store: SQLiteStore(path: path))
            #expect(try await device.context.pendingOperations().map(\.id) == [3, 4])
            let error = try #require(try await device.push())
            #expect(error.completed == 1)
            let one = try #require(error.errors.first)
            #expect(one.itemID == "row 1")
            for part in ["Operation 3", "row 1", "Todo", "MS_TableOperations", "kind"] {
                #expect(one.message.contains(part), "\(part)")
            }
            let file = try Database(path: path, mode: .readOnly)
            let kept =
                "SELECT count(*) FROM MS_TableOperations WHERE properties IS CAST(\(properties) AS BLOB)"
            #expect(try file.integer(kept) == 1)
            try await one.cancelOperationAndDiscardItem()
            #expect(try await device.queue().isEmpty)
            #expect(try await device.rows().count == 2)
        }
    }

    /// It is then compared with the version of the local row.
    @Test("A change after an unreadable operation waits until that operation is dropped")
    func aChangeAfterADamagedOperationWaits() async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport([.lost])
            let device = try await Device(transport, store: SQLiteStore(path: path))
            try await device.seed([localRow("a", 1)])
            try await device.todos().update(id: "a") { $0.text = "mine" }
            #expect(try await device.push()?.status == .networkFailure)
            try await device.todos().update(id: "a") { $0.rank = 7 }
            #expect(try await device.queue() == ["update a attempted", "update a"])
            try Database(path: path).execute(
                "UPDATE MS_TableOperations SET base = '{\"id\":' WHERE id = 1"
            )
            for _ in 1...2 {
                #expect(try await device.push()?.status == .operationErrors)
                #expect(transport.sent.count == 1)
            }
            let error = try #require(try await device.context.operationErrors().first)
            try await error.cancelOperationAndDiscardItem()
            transport.add(.json(200, serverRow("a", 3, text: "mine", rank: 7)))
            #expect(try await device.push() == nil)
            #expect(
                transport.sent.last?.description
                    == #"PATCH /tables/Todo/a "v1" {"text":"mine","complete":false,"rank":7}"#
            )
        }
    }

    /// The states from later pulls were not stored.
    @Test("After an unreadable operation is dropped, its table is pulled from the start")
    func theTableIsReadFromTheStartAfterADamagedOperation() async throws {
        try await withTemporaryFile { path in
            let list = { (version: Int) in
                ScriptedTransport.Answer.json(
                    200,
                    """
                    {"items":[\(serverRow("a", version, text: "v\(version)"))],\
                    "@odata.deltaLink":"$deltatoken=d\(version)"}
                    """,
                    ["Preference-Applied": "odata.track-changes"]
                )
            }
            let transport = ScriptedTransport([list(1)])
            let device = try await Device(transport, store: SQLiteStore(path: path))
            try await device.todos().pull(queryID: "all")
            try await device.todos().update(id: "a") { $0.text = "mine" }
            try Database(path: path).execute("UPDATE MS_TableOperations SET kind = 9 WHERE id = 1")
            #expect(try await device.push()?.status == .operationErrors)
            transport.add(list(5))
            try await device.todos().pull(queryID: "all")
            let error = try #require(try await device.context.operationErrors().first)
            try await error.cancelOperationAndDiscardItem()
            transport.add(list(5))
            try await device.todos().pull(queryID: "all")
            #expect(transport.sent.last?.query.contains("deltatoken") == false)
            #expect(try await device.todos().read(id: "a")?.text == "v5")
        }
    }

    @Test(
        "An unreadable operation is reported and can be dropped, and the others are sent",
        arguments: [
            "kind = NULL", "kind = 9", "state = NULL", "base = '{\"id\":'", "latest = 'x'",
            "sentRow = '[]', method = 'PATCH', requestId = 'r'", "state = 1",
            "state = 1, method = 'SMASH', requestId = 'r'",
            "state = 1, method = 'PATCH', requestId = 'r', ifMatch = 'a' || char(10)",
            "state = 1, method = 'PATCH', requestId = 'r', body = '{}},{\"id\":\"9\"'",
        ]
    )
    func aDamagedOperationIsNamedAndTheOthersContinue(damage: String) async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport([.json(201, serverRow("b", 1))])
            let device = try await Device(transport, store: SQLiteStore(path: path))
            try await device.seed([localRow("a", 1)])
            try await device.todos().update(id: "a") { $0.text = "mine" }
            try await device.todos().insert(Todo(id: "b"))
            try Database(path: path).execute("UPDATE MS_TableOperations SET \(damage) WHERE id = 1")
            #expect(try await device.context.pendingOperations().count == 2)
            let error = try #require(try await device.push())
            #expect(error.status == .operationErrors)
            #expect(error.completed == 1)
            let one = try #require(error.errors.first)
            #expect(one.itemID == "a")
            #expect(one.message.contains("Operation 1"))
            #expect(one.message.contains("cancelOperationAndDiscardItem"))
            #expect(transport.sent.map(\.method) == ["POST"])
            try await one.cancelOperationAndDiscardItem()
            #expect(try await device.queue().isEmpty)
            #expect(try await device.push() == nil)
        }
    }

    /// A version that is not a valid header field value, and a count that cannot be incremented.
    @Test("An operation that cannot be sent is parked, and the others are sent")
    func anOperationThatCannotBeSentIsParkedAndTheOthersContinue() async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport([.json(201, serverRow("b", 1))])
            let device = try await Device(transport, store: SQLiteStore(path: path))
            try await device.seed([["id": "a", "text": "x", "version": "v\n1"]])
            try await device.todos().update(id: "a") { $0.text = "mine" }
            try await device.todos().insert(Todo(id: "b"))
            try Database(path: path).execute(
                "UPDATE MS_TableOperations SET attempts = 9223372036854775807 WHERE id = 2"
            )
            let error = try #require(try await device.push())
            #expect(error.completed == 1)
            #expect(error.errors.map(\.itemID) == ["a"])
            #expect(error.errors.first?.message.contains("'ifMatch'") == true)
            #expect(transport.sent.map(\.method) == ["POST"])
        }
    }

    @Test(
        "A delete stays queued if the operation before it becomes unreadable in flight",
        arguments: [409, 412, 400]
    )
    func aDeleteAfterAnOperationThatIsDamagedInFlightStays(status: Int) async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport()
            let device = try await Device(
                transport,
                store: SQLiteStore(path: path),
                conflicts: .clientWins
            )
            try await device.seed([localRow("a", 1)])
            try await device.todos().update(id: "a") { $0.text = "mine" }
            transport.add(
                .run { _ in
                    try await device.todos().delete(id: "a")
                    try Database(path: path).execute(
                        "UPDATE MS_TableOperations SET sentRow = '[' WHERE id = 1"
                    )
                    return .json(status, serverRow("a", 2, text: "theirs"))
                }
            )
            #expect(try await device.push()?.status == .operationErrors)
            #expect(try await device.context.pendingOperations().map(\.kind) == [.update, .delete])
            let error = try #require(try await device.context.operationErrors().first)
            try await error.cancelOperationAndDiscardItem()
            transport.add(.status(204))
            #expect(try await device.push() == nil)
            #expect(transport.sent.map(\.method) == ["PATCH", "DELETE"])
        }
    }

    @Test(
        "A change after a parked unreadable operation is queued behind it and sent later",
        arguments: [false, true]
    )
    func aChangeAfterAParkedDamagedOperationIsSent(isDelete: Bool) async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport()
            let device = try await Device(transport, store: SQLiteStore(path: path))
            try await device.seed([localRow("a", 1)])
            try await device.todos().update(id: "a") { $0.text = "mine" }
            try Database(path: path).execute(
                "UPDATE MS_TableOperations SET base = '{\"id\":' WHERE id = 1"
            )
            #expect(try await device.push()?.status == .operationErrors)
            if isDelete {
                try await device.todos().delete(id: "a")
            } else {
                try await device.todos().update(id: "a") { $0.rank = 7 }
            }
            #expect(try await device.push()?.status == .operationErrors)
            #expect(try await device.context.pendingOperations().count == 2)
            let error = try #require(try await device.context.operationErrors().first)
            try await error.cancelOperationAndDiscardItem()
            transport.add(isDelete ? .status(204) : .json(200, serverRow("a", 3, rank: 7)))
            #expect(try await device.push() == nil)
            #expect(
                transport.sent.map(\.description) == [
                    isDelete
                        ? #"DELETE /tables/Todo/a "" -"#
                        : #"PATCH /tables/Todo/a "v1" {"text":"mine","complete":false,"rank":7}"#
                ]
            )
        }
    }

    /// The queue stores it in a column, and as the sent row.
    @Test(
        "A JSON document with the maximum number of levels is stored and sent",
        arguments: [false, true]
    )
    func deepDocumentsAreSent(isLost: Bool) async throws {
        try await withTemporaryFile { path in
            let deep = String(repeating: "[", count: 64) + String(repeating: "]", count: 64)
            let transport = ScriptedTransport(isLost ? [.lost] : [])
            let store = try SQLiteStore(path: path)
            let device = try await Device(transport, store: store)
            let rows = try device.client.syncTable(named: "Todo")
            try await rows.insert(["id": "a", "deep": .json(try JSON(deep))])
            if isLost { _ = try await device.push() }
            transport.add(.status(400))
            let error = try #require(try await device.push()?.errors.first)
            #expect(error.statusCode == 400)
            #expect(error.item?["deep"] != nil)
            #expect(transport.sent.last?.body?.contains(deep) == true)
        }
    }
}
