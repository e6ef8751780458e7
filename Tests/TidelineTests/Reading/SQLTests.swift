// sql of SyncReader: values, decoding, observation, and what SQLite's authorizer confines.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

private struct Visit: SyncRecord, Hashable {
    enum Kind: String, Codable, CaseIterable { case repair, check }

    struct Place: Codable, Hashable { var city = "" }

    var id = ""
    var todo = ""
    var kind = Kind.check
    var minutes = 0
    var price: Decimal?
    var begin: Date?
    var day: LocalDate?
    var device: UUID?
    var isPaid = false
    var photo: Data?
    var tags: [String] = []
    var place: Place?
}

@Suite struct SQLTests {
    private func withDevice(_ body: (Device, SyncTable<Visit>) async throws -> Void) async throws {
        try await withTemporaryFile { path in
            let device = try await Device(
                ScriptedTransport(),
                store: SQLiteStore(path: path),
                tables: [Todo.self, Visit.self]
            )
            try await body(device, device.client.syncTable(Visit.self))
        }
    }

    private static let device = UUID(uuidString: "6BA7B810-9DAD-11D1-80B4-00C04FD430C8")

    private static let visit = Visit(
        id: "v",
        todo: "a",
        kind: .repair,
        minutes: 30,
        price: Decimal(string: "12.50"),
        begin: Date(timeIntervalSince1970: 1_700_000_000.25),
        day: LocalDate("2026-11-20"),
        device: device,
        isPaid: true,
        photo: Data([0, 255]),
        tags: ["a", "b"],
        place: Visit.Place(city: "Kiel")
    )

    @Test("The result of a statement across tables is decoded into a type")
    func decoding() async throws {
        struct Total: Decodable, Hashable {
            var title: String
            var minutes: Int
            var last: Date?
        }
        try await withDevice { device, visits in
            try await device.todos().insert([Todo(id: "a", text: "one"), Todo(id: "b", text: "b")])
            try await visits.insert([
                Self.visit, Visit(id: "w", todo: "a", minutes: 12), Visit(id: "x", todo: "b"),
            ])
            let totals = try await device.context.read { reader in
                try reader.sql(
                    """
                    SELECT "text" AS title, sum("minutes") AS minutes, max("begin") AS last
                    FROM "Visit" JOIN "Todo" ON "Todo"."id" = "todo"
                    GROUP BY "Todo"."id" ORDER BY title DESC
                    """,
                    as: Total.self
                )
            }
            #expect(
                totals == [
                    Total(title: "one", minutes: 42, last: Self.visit.begin),
                    Total(title: "b", minutes: 0, last: nil),
                ]
            )
        }
    }

    @Test("Each kind of value is decoded as it was stored, and can be interpolated")
    func kinds() async throws {
        struct Whole: Decodable, Hashable {
            var id: String
            var kind: Visit.Kind
            var minutes: Int16
            var price: Decimal?
            var begin: Date?
            var day: LocalDate?
            var device: UUID?
            var isPaid: Bool
            var photo: Data?
            var tags: [String]
            var place: Visit.Place?
        }
        try await withDevice { device, visits in
            try await visits.insert([Self.visit, Visit(id: "w")])
            let visit = Self.visit
            let found = try await device.context.read { reader in
                try reader.sql(
                    """
                    SELECT * FROM \(Visit.self) WHERE \(\Visit.kind) = \(visit.kind)
                    AND minutes IN \([29, 30]) AND price = \(visit.price)
                    AND begin = \(visit.begin) AND day = \(visit.day) AND device = \(visit.device)
                    AND isPaid = \(true) AND photo = \(visit.photo)
                    AND id NOT IN \([String]())
                    """,
                    as: Whole.self
                )
            }
            #expect(found.count == 1)
            let whole = try #require(found.first)
            #expect(whole.kind == .repair && whole.minutes == 30 && whole.price == visit.price)
            #expect(whole.begin == visit.begin && whole.day == visit.day)
            #expect(whole.device == Self.device && whole.isPaid && whole.photo == visit.photo)
            #expect(whole.tags == ["a", "b"] && whole.place == visit.place)
            let (dates, counts, optional, rows, records) = try await device.context.read { reader in
                (
                    try reader.sql("SELECT begin FROM Visit WHERE id = 'v'", as: Date.self),
                    try reader.sql("SELECT count(*) FROM Visit", as: Int.self),
                    try reader.sql("SELECT price FROM Visit ORDER BY id", as: Decimal?.self),
                    try reader.sql("SELECT id, minutes, tags FROM Visit ORDER BY id"),
                    try reader.sql("SELECT * FROM Visit ORDER BY id", as: Visit.self)
                )
            }
            #expect(dates == [visit.begin] && counts == [2] && optional == [visit.price, nil])
            #expect(rows.first == ["id": "v", "minutes": 30, "tags": #"["a","b"]"#])
            #expect(records == [visit, Visit(id: "w")])
        }
    }

    @Test("Nested values with any content are decoded")
    func nestedValues() async throws {
        struct Part: Codable, Hashable {
            var name = ""
            var price: Decimal?
            var weight: Float = 0
            var photo: Data?
            var made: Date?
            var link: URL?
        }
        struct Result: Decodable, Hashable {
            var part: Part
            var counts: [String: Int]
            var tags: [String]
        }
        let part = Part(
            name: "a\"b\\c\nd\u{1}é😀",
            price: Decimal(string: "12.345678901234567890123"),
            weight: 1.5,
            photo: Data([1, 2]),
            made: Date(timeIntervalSince1970: 1_700_000_000.25),
            link: URL(string: "https://example.org/a?b=c")
        )
        let counts = ["a\"b": 1, "\\": 2, "plain": 3]
        let tags = ["\"", "\\\"", "\n", "plain"]
        let (json, keys, list) = (
            """
            {"name":"a\\"b\\\\c\\nd\\u0001é😀","price":12.345678901234567890123,"weight":1.5,\
            "photo":"AQI=","made":"2023-11-14T22:13:20.250Z","link":"https://example.org/a?b=c"}
            """,
            #"{"a\"b":1,"\\":2,"plain":3}"#, #"["\"","\\\"","\n","plain"]"#
        )
        try await withDevice { device, _ in
            let results = try await device.context.read {
                try $0.sql(
                    "SELECT \(json) AS part, \(keys) AS counts, \(list) AS tags",
                    as: Result.self
                )
            }
            #expect(results == [Result(part: part, counts: counts, tags: tags)])
            // A member is missing, or of another type.
            for json in [#"{"weight":1}"#, #"{"name":1,"weight":1}"#, #"[1]"#, #"{"#, "7"] {
                let found = await code {
                    _ = try await device.context.read {
                        try $0.sql(
                            "SELECT \(json) AS part, '{}' AS counts, '[]' AS tags",
                            as: Result.self
                        )
                    }
                }
                #expect(found == .rowDoesNotFit, "\(json)")
            }
        }
    }

    @Test(
        "An instant out of range or a text that is too long fails only its statement"
    )
    func outOfRange() async throws {
        try await withDevice { device, _ in
            let query: SQLQuery = "SELECT 9223372036854775807"
            let early = await code {
                _ = try await device.context.read { try $0.sql(query, as: Date.self) }
            }
            #expect(early == .rowDoesNotFit)
            let long: SQLQuery = """
                SELECT replace(printf('%.*c', 1000000, 'x'), 'x', printf('%.*c', 10000, 'y'))
                """
            let count = try await device.context.read { reader in
                #expect(throws: SyncError.self) { try reader.sql(long) }
                // The error does not end the read.
                return try reader.sql("SELECT 1", as: Int.self)
            }
            #expect(count == [1])
        }
    }

    @Test("A value is never part of the statement")
    func injection() async throws {
        try await withDevice { device, _ in
            let todos = try device.todos()
            let text = "x' OR 1=1; DROP TABLE \"Todo\"; --"
            try await todos.insert([Todo(id: "a", text: text), Todo(id: "b")])
            let ids = try await device.context.read {
                try $0.sql("SELECT id FROM Todo WHERE text = \(text)", as: String.self)
            }
            #expect(ids == ["a"])
        }
    }

    /// Statements that are not allowed, each with a part of its message.
    static let rejected: [(SQLQuery, String)] = [
        ("DELETE FROM Todo", "is not read-only"),
        ("UPDATE Todo SET text = 'x'", "is not read-only"),
        ("INSERT INTO Todo (id) VALUES ('z') RETURNING id", "is not read-only"),
        ("CREATE TABLE more (id)", "is not read-only"),
        ("DROP TABLE Todo", "is not read-only"),
        ("PRAGMA table_info(Todo)", "is not read-only"),
        ("PRAGMA user_version", "is not read-only"),
        ("ATTACH 'other.db' AS other", "is not read-only"),
        ("BEGIN", "is not read-only"),
        ("COMMIT", "is not read-only"),
        ("VACUUM", "is not read-only"),
        ("SELECT * FROM MS_TableOperations", "MS_TableOperations"),
        ("SELECT count(*) FROM MS_TableOperations", "MS_TableOperations"),
        ("SELECT 1 FROM ms_tableerrors, MS_TableConfig", ""),
        ("SELECT id FROM Todo UNION SELECT itemId FROM MS_TableOperations", "MS_TableOperations"),
        ("SELECT (SELECT max(id) FROM MS_TableOperations)", "MS_TableOperations"),
        ("SELECT name FROM sqlite_master", "sqlite_master"),
        ("SELECT count(*) FROM sqlite_schema", ""),
        ("SELECT * FROM pragma_table_info('Todo')", ""),
        ("SELECT count(*) FROM pragma_database_list", ""),
        ("SELECT load_extension('x')", "load_extension"),
        ("SELECT writefile('x', 'y')", ""),
        ("SELECT zeroblob(1000000000)", "zeroblob"),
        ("SELECT 1; SELECT 2", "several statements"),
        ("SELECT 1; DELETE FROM Todo", "is not read-only"),
        ("SELECT ?1", "placeholders"),
        ("SELECT :id", "placeholders"),
        ("SELECT nowhere FROM Todo", "nowhere"),
        ("SELEC 1", "syntax error"),
        ("", "has no statement"),
        (" ; ", "has no statement"),
        ("-- nothing", "has no statement"),
        ("SELECT \(Unknown())", "Unknown"),
    ]

    struct Unknown: Sendable { var pair = (1, 2) }

    @Test(
        "A statement that does more than read the app's tables is rejected",
        arguments: [false, true]
    )
    func confinement(inTransaction: Bool) async throws {
        try await withDevice { device, _ in
            try await device.todos().insert(Todo(id: "a", text: "kept"))
            for (query, part) in Self.rejected {
                do {
                    if inTransaction {
                        try await device.context.transaction { _ = try $0.reader.sql(query) }
                    } else {
                        _ = try await device.context.read { try $0.sql(query) }
                    }
                    Issue.record("\(query) is accepted")
                } catch let error as SyncError {
                    #expect(error.code == .unsupportedQuery, "\(query): \(error)")
                    #expect(part.isEmpty || error.message.contains(part), "\(query): \(error)")
                }
            }
            #expect(try await device.todos().read().map(\.text) == ["kept"])
            #expect(try await device.queue() == ["insert a"])
        }
    }

    @Test("A statement that only reads the app's tables is accepted")
    func accepted() async throws {
        try await withDevice { device, visits in
            try await visits.insert(Self.visit)
            let queries: [SQLQuery] = [
                "SELECT 1", "SELECT 1;", "SELECT 1 -- one", "VALUES (1)",
                "WITH one AS (SELECT id FROM Visit) SELECT count(*) FROM one",
                """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3)
                SELECT max(i) FROM n
                """,
                "SELECT count(*) FROM visit",
                "SELECT v.minutes, rank() OVER (ORDER BY minutes) FROM Visit AS v",
                "SELECT value FROM Visit, json_each(Visit.tags)",
                "SELECT strftime('%Y', begin / 1000, 'unixepoch') FROM Visit",
                "SELECT tl_length(id) FROM Visit",
                "EXPLAIN QUERY PLAN SELECT * FROM Visit",
            ]
            for query in queries {
                do {
                    let rows = try await device.context.read { try $0.sql(query) }
                    #expect(!rows.isEmpty, "\(query)")
                } catch {
                    Issue.record(error, "\(query)")
                }
            }
        }
    }

    @Test("The cached statements of the store are separate from those of the app's SQL")
    func statementCaches() async throws {
        try await withTemporaryFile { path in
            let database = try Database(path: path)
            try database.execute("CREATE TABLE Open (id); CREATE TABLE Secret (id)")
            try database.execute("INSERT INTO Secret VALUES (7)")
            let sql = "SELECT count(*) FROM Secret"
            func confined(_ sql: String) throws -> (result: Int64, tables: Set<String>) {
                try database.readConfined(sql, [], to: ["open"], stop: nil) { statement in
                    try statement.step() ? statement.integer(0) : 0
                }
            }
            for _ in 0..<3 {
                #expect(try database.integer(sql) == 1)
                #expect(throws: ConfinementError.table("Secret")) { try confined(sql) }
                let open = try confined("SELECT count(*) FROM Open")
                #expect(open.result == 0 && open.tables == ["open"])
                try database.execute("INSERT INTO Open VALUES (1)")
                #expect(try confined("SELECT count(*) FROM Open").result == 1)
                try database.execute("DELETE FROM Open")
                // A change of the schema compiles each statement again.
                try database.execute("CREATE TABLE Later (id); DROP TABLE Later")
            }
            // A cached statement is compiled again, and then reads another table.
            try database.execute("DROP TABLE Open; CREATE VIEW Open AS SELECT id FROM Secret")
            #expect(throws: ConfinementError.self) { try confined("SELECT count(*) FROM Open") }
            #expect(throws: ConfinementError.self) { try confined("SELECT id FROM Open") }
        }
    }

    @Test("An observation follows the tables that its SQL reads")
    func observed() async throws {
        try await withDevice { device, visits in
            var seen = device.context.observe { reader in
                try reader.sql(
                    "SELECT count(*) FROM visit WHERE minutes > (SELECT count(*) FROM Todo)",
                    as: Int.self
                )
            }.makeAsyncIterator()
            #expect(try await seen.next() == [0])
            try await visits.insert(Visit(id: "a", minutes: 1))
            #expect(try await seen.next() == [1])
            try await device.todos().insert(Todo(id: "t"))
            #expect(try await seen.next() == [0])
        }
    }

    @Test("An observation whose SQL fails runs again after a change")
    func observedFailure() async throws {
        try await withDevice { device, visits in
            try await visits.insert([
                Visit(id: "a", minutes: .max), Visit(id: "b", minutes: .max),
            ])
            var seen = device.context.observe { reader -> [Int] in
                do {
                    return try reader.sql("SELECT sum(minutes) FROM Visit", as: Int.self)
                } catch let error as SyncError where error.code != .cancelled {
                    // The sum overflows.
                    return [-1]
                }
            }.makeAsyncIterator()
            #expect(try await seen.next() == [-1])
            try await visits.delete(id: "b")
            #expect(try await seen.next() == [Int.max])
        }
    }

    @Test("A row that does not decode is an error that names the column")
    func misfits() async throws {
        struct Strict: Decodable { var minutes: Int }
        try await withDevice { device, visits in
            try await visits.insert(Visit(id: "a"))
            let queries: [SQLQuery] = [
                "SELECT NULL AS minutes FROM Visit", "SELECT 'many' AS minutes FROM Visit",
                "SELECT 1.5 AS minutes FROM Visit", "SELECT id FROM Visit",
            ]
            for query in queries {
                do {
                    _ = try await device.context.read { try $0.sql(query, as: Strict.self) }
                    Issue.record("\(query) decodes")
                } catch let error as SyncError {
                    #expect(error.code == .rowDoesNotFit)
                    #expect(error.message.contains("'minutes'") && !error.message.contains("many"))
                }
            }
        }
    }

    @Test("A transaction's SQL sees its changes")
    func inTransactions() async throws {
        try await withDevice { device, _ in
            try await device.context.transaction { transaction in
                try transaction.table(Visit.self).insert(Visit(id: "a", minutes: 4))
                let sums = try transaction.reader.sql(
                    "SELECT sum(minutes) FROM Visit",
                    as: Int.self
                )
                #expect(sums == [4])
                try transaction.table(Visit.self).insert(Visit(id: "b", minutes: 5))
            }
            #expect(try await device.queue() == ["insert a", "insert b"])
        }
    }

    @Test("An endless statement ends when its task is cancelled")
    func cancellation() async throws {
        try await withDevice { device, _ in
            let context = device.context
            let (started, start) = AsyncStream.makeStream(of: Void.self)
            let task = Task {
                try await context.read { reader in
                    start.finish()
                    _ = try reader.sql(
                        """
                        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                        SELECT max(i) FROM n
                        """
                    )
                }
            }
            for await _ in started {}
            task.cancel()
            #expect(await code { try await task.value } == .cancelled)
            let one = try await device.context.read { try $0.sql("SELECT 1", as: Int.self) }
            #expect(one == [1])
        }
    }

    /// A query that never ends.
    private static let endless: SQLQuery = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
        SELECT max(i) FROM n
        """

    @Test(
        "A cancelled transaction with an endless statement ends and changes nothing",
        .timeLimit(.minutes(5))
    )
    func cancelledTransaction() async throws {
        try await withDevice { device, _ in
            let context = device.context
            let (started, start) = AsyncStream.makeStream(of: Void.self)
            let task = Task {
                try await context.transaction { transaction in
                    try transaction.table(Todo.self).insert(Todo(id: "a"))
                    start.finish()
                    _ = try transaction.reader.sql(Self.endless)
                }
            }
            for await _ in started {}
            task.cancel()
            #expect(await code { try await task.value } == .cancelled)
            try await device.todos().insert(Todo(id: "b"))
            #expect(try await device.todos().read().map(\.id) == ["b"])
        }
    }

    @Test(
        "Endless statements on all cores block neither other tasks nor their cancellation",
        .timeLimit(.minutes(5))
    )
    func manyAtOnce() async throws {
        try await withDevice { device, _ in
            let context = device.context
            // A store has a thread for each of at most 16.
            let count = min(ProcessInfo.processInfo.activeProcessorCount + 1, 16)
            let (started, start) = AsyncStream.makeStream(of: Void.self)
            let tasks = (0..<count).map { _ in
                Task {
                    try await context.read { reader in
                        start.yield()
                        _ = try reader.sql(Self.endless)
                    }
                }
            }
            var running = started.makeAsyncIterator()
            for _ in 0..<count { await running.next() }
            try await device.todos().insert(Todo(id: "a"))
            #expect(try await device.todos().read().map(\.id) == ["a"])
            for task in tasks { task.cancel() }
            for task in tasks { #expect(await code { try await task.value } == .cancelled) }
        }
    }

    @Test("A store without SQL rejects a statement")
    func otherStores() async throws {
        let device = try await Device(ScriptedTransport())
        let found = await code { _ = try await device.context.read { try $0.sql("SELECT 1") } }
        #expect(found == .unsupportedQuery)
    }
}
