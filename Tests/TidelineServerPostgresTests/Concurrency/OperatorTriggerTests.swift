// Goal: an operator's triggers, rules and constraints on tables cause no rejection of other writes, and every device
// receives the rows that they change. Method: two servers on one database, SQL of another program, devices that follow
// delta links.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.serialized, .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is missing"))
struct OperatorTriggerTests {
    private static let note = TableDefinition(
        "Note",
        columns: [
            ColumnDefinition("item", .string), ColumnDefinition("count", .integer),
            ColumnDefinition("weight", .number), ColumnDefinition("price", .decimal),
            ColumnDefinition("due", .dateTime), ColumnDefinition("day", .date),
        ]
    )

    /// Two servers on one database, and a connection of another program.
    private struct SharedDatabase {
        let url: String
        let servers: [TestServer]
        let psql: PostgresConnection

        init(softDelete: Bool = true) async throws {
            url = try PostgresCluster.shared().database()
            var tables = [TestServer.todo, OperatorTriggerTests.note]
            for index in tables.indices { tables[index].softDelete = softDelete }
            var servers: [TestServer] = []
            let clock = TestClock()
            for _ in 0..<2 {
                servers.append(
                    try await TestServer(tables, onPostgres: true, database: url, clock: clock)
                )
            }
            self.servers = servers
            psql = try PostgresConnection(PostgresAddress(url))
        }

        func post(_ table: String, _ body: String) async -> ServerResponse {
            await servers[0].send("POST", "/tables/\(table)", body)
        }

        /// A trigger with this body.
        func trigger(_ when: String, on table: String, _ body: String) throws {
            let name = "others_\(UUID().uuidString.lowercased().prefix(8))"
            try psql.execute(
                """
                CREATE FUNCTION \(name)() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN \(body) END $$;
                CREATE TRIGGER \(name) \(when) ON "\(table)" FOR EACH ROW EXECUTE FUNCTION \(name)();
                """
            )
        }

        func link(_ table: String) async throws -> String {
            var target = "/tables/\(table)"
            while true {
                let answer = await servers[1].send(
                    "GET",
                    target,
                    headers: ["Prefer": "odata.track-changes"]
                )
                try #require(answer.status == 200, "\(answer.text)")
                if let link = answer.row["@odata.deltaLink"] as? String {
                    return "/tables/\(table)?" + link
                }
                target = "/tables/\(table)?" + (answer.row["nextLink"] as? String ?? "")
            }
        }

        /// The rows after a link by id; nil for a deleted row.
        func changes(_ link: String) async throws -> [String: [String: Any]?] {
            let answer = await servers[1].send("GET", link)
            try #require(answer.status == 200, "\(answer.text)")
            var rows: [String: [String: Any]?] = [:]
            for row in answer.row["items"] as? [[String: Any]] ?? [] {
                guard let id = row["id"] as? String else { continue }
                rows.updateValue(row["@removed"] == nil ? row : nil, forKey: id)
            }
            return rows
        }
    }

    @Test("A deferred constraint rejects only the write that violates it")
    func aDeferredConstraintRejectsNoOtherWrite() async throws {
        let shared = try await SharedDatabase()
        try shared.psql.execute(
            """
            CREATE TABLE allowed (word text COLLATE "C" PRIMARY KEY);
            INSERT INTO allowed VALUES ('good');
            ALTER TABLE "TodoItem" ADD FOREIGN KEY ("text") REFERENCES allowed
            DEFERRABLE INITIALLY DEFERRED
            """
        )
        let servers = shared.servers
        let statuses = await withTaskGroup(of: (String, Int).self) { group in
            for number in 0..<60 {
                group.addTask {
                    let isNote = number % 3 == 0
                    let word = isNote ? "note" : number % 3 == 1 ? "good" : "bad"
                    let body = "{\"id\":\"r\(number)\",\"\(isNote ? "item" : "text")\":\"\(word)\"}"
                    let table = isNote ? "Note" : "TodoItem"
                    let answer = await servers[number % 2].send(
                        "POST",
                        "/tables/\(table)",
                        body
                    )
                    return (word, answer.status)
                }
            }
            return await group.reduce(into: [:]) { $0[$1.0, default: []].append($1.1) }
        }
        #expect(Set(statuses["note"] ?? []) == [201] && Set(statuses["good"] ?? []) == [201])
        #expect(Set(statuses["bad"] ?? []) == [400])
        let count = try shared.psql.run("SELECT count(*) FROM \"TodoItem\"").integer(0, 0)
        #expect(count == 20)
    }

    @Test("A locked row that a foreign key references rejects only the writes that refer to it")
    func aHeldForeignKeyRejectsNoOtherWrite() async throws {
        let shared = try await SharedDatabase()
        try shared.psql.execute(
            """
            CREATE TABLE allowed (word text COLLATE "C" PRIMARY KEY);
            INSERT INTO allowed VALUES ('free'), ('held');
            ALTER TABLE "TodoItem" ADD FOREIGN KEY ("text") REFERENCES allowed
            """
        )
        let holder = try PostgresConnection(PostgresAddress(shared.url))
        try holder.execute("BEGIN; SELECT 1 FROM allowed WHERE word = 'held' FOR UPDATE")
        let servers = shared.servers
        let statuses = await withTaskGroup(of: (String, Int).self) { group in
            for number in 0..<30 {
                group.addTask {
                    let word = number % 3 == 0 ? "held" : "free"
                    let body = "{\"id\":\"r\(number)\",\"text\":\"\(word)\"}"
                    let answer = await servers[0].send("POST", "/tables/TodoItem", body)
                    #expect((answer.headers["Retry-After"] != nil) == (word == "held"))
                    return (word, answer.status)
                }
            }
            return await group.reduce(into: [:]) { $0[$1.0, default: []].append($1.1) }
        }
        #expect(Set(statuses["free"] ?? []) == [201])
        #expect(Set(statuses["held"] ?? []) == [503])
        try holder.execute("COMMIT")
        let count = try shared.psql.run("SELECT count(*) FROM \"TodoItem\"").integer(0, 0)
        #expect(count == 20)
        let answer = await shared.servers[0]
            .send("POST", "/tables/TodoItem", #"{"id":"r3","text":"held"}"#)
        #expect(answer.status == 201)
    }

    @Test(
        "A write that a trigger or a rule suppresses is rejected",
        arguments: ["trigger", "rule"]
    )
    func aSuppressedWriteIsRejected(by kind: String) async throws {
        let shared = try await SharedDatabase(softDelete: false)
        #expect(await shared.post("TodoItem", #"{"id":"a","text":"was"}"#).status == 201)
        let other = await shared.servers[1].send("POST", "/tables/TodoItem", #"{"id":"b"}"#)
        #expect(other.status == 201)
        if kind == "trigger" {
            let body = "IF NEW.\"text\" = 'no' THEN RETURN NULL; END IF; RETURN NEW;"
            try shared.trigger("BEFORE INSERT OR UPDATE", on: "TodoItem", body)
            let gone = "IF OLD.\"text\" = 'was' THEN RETURN NULL; END IF; RETURN OLD;"
            try shared.trigger("BEFORE DELETE", on: "TodoItem", gone)
        } else {
            try shared.psql.execute(
                """
                CREATE RULE i AS ON INSERT TO "TodoItem" WHERE NEW."text" = 'no' DO INSTEAD NOTHING;
                CREATE RULE u AS ON UPDATE TO "TodoItem" WHERE NEW."text" = 'no' DO INSTEAD NOTHING;
                CREATE RULE d AS ON DELETE TO "TodoItem" WHERE OLD."text" = 'was' DO INSTEAD NOTHING
                """
            )
        }
        let before = await shared.servers[0].send("GET", "/tables/TodoItem/a").text
        let server = shared.servers[0]
        let rejected = await withTaskGroup(of: (String, Int).self) { group in
            for (name, method, id, body) in [
                ("insert", "POST", "", #"{"id":"c","text":"no"}"#),
                ("update", "PATCH", "/a", #"{"text":"no"}"#), ("delete", "DELETE", "/a", nil),
                ("other insert", "POST", "", #"{"id":"d","text":"yes"}"#),
                ("other update", "PATCH", "/b", #"{"text":"yes"}"#),
            ] as [(String, String, String, String?)] {
                group.addTask {
                    let answer = await server.send(method, "/tables/TodoItem\(id)", body)
                    return (name, answer.status)
                }
            }
            return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        let wanted = [
            "insert": 400, "update": 400, "delete": 400, "other insert": 201, "other update": 200,
        ]
        #expect(rejected == wanted)
        #expect(await shared.servers[0].send("GET", "/tables/TodoItem/c").status == 404)
        #expect(await shared.servers[0].send("GET", "/tables/TodoItem/a").text == before)
    }

    /// The response to a write has the values that were sent; the writer pulls the ones that the trigger made of them.
    @Test("The writer pulls the values that a trigger gave its row")
    func rowsThatATriggerChangesArePulled() async throws {
        let shared = try await SharedDatabase()
        let link = try await shared.link("TodoItem")
        try shared.trigger(
            "BEFORE INSERT OR UPDATE",
            on: "TodoItem",
            "NEW.\"text\" := upper(NEW.\"text\"); RETURN NEW;"
        )
        let created = await shared.post("TodoItem", #"{"id":"a","text":"milk"}"#)
        #expect(created.status == 201 && created.row["text"] as? String == "milk")
        let first = try #require(RowVersion.timestamp(created.row["version"] as? String ?? ""))
        let pulled = try #require(try await shared.changes(link)["a"] ?? nil)
        #expect(pulled["text"] as? String == "MILK")
        let second = try #require(RowVersion.timestamp(pulled["version"] as? String ?? ""))
        #expect(second > first)
        let behind = try await shared.link("TodoItem")
        // A row that the trigger leaves unchanged gets no further timestamp.
        let patched = await shared.servers[0].send(
            "PATCH",
            "/tables/TodoItem/a",
            #"{"text":"OAT"}"#,
            headers: ["If-Match": "\"\(RowVersion.text(second))\""]
        )
        #expect(patched.status == 200)
        let after = try #require(try await shared.changes(behind)["a"] ?? nil)
        #expect(after["version"] as? String == patched.row["version"] as? String)
    }

    @Test("Changes that a trigger makes in another table are reported")
    func triggerWritesToOtherTablesAreReported() async throws {
        let shared = try await SharedDatabase()
        #expect(await shared.post("Note", #"{"id":"n","count":0}"#).status == 201)
        let link = try await shared.link("Note")
        try shared.trigger(
            "AFTER INSERT",
            on: "TodoItem",
            """
            UPDATE "Note" SET "count" = "count" + 1 WHERE "id" = 'n';
            INSERT INTO "Note" ("id", "item") VALUES ('n-' || NEW."id", NEW."id");
            RETURN NULL;
            """
        )
        let version = { (id: String) in
            try shared.psql.run("SELECT \"version\" FROM \"Note\" WHERE \"id\" = '\(id)'").integer(
                0,
                0
            )
        }
        let before = try version("n")
        for number in 0..<3 {
            #expect(await shared.post("TodoItem", "{\"id\":\"r\(number)\"}").status == 201)
        }
        #expect(try version("n") > before)
        let reported = try await shared.changes(link)
        #expect(Set(reported.keys) == ["n", "n-r0", "n-r1", "n-r2"])
        #expect((reported["n"] ?? nil)?["count"] as? Int == 3)
        let zero = "SELECT count(*) FROM \"Note\" WHERE \"version\" = 0"
        #expect(try shared.psql.run(zero).integer(0, 0) == 0)
    }

    /// Writes of other callers to the same rows that a trigger changes, in the same transactions.
    @Test(
        "Concurrent writes of other callers do not revert the changes of a trigger",
        arguments: [false, true]
    )
    func noChangeByATriggerIsReverted(inOneBatch: Bool) async throws {
        let shared = try await SharedDatabase()
        #expect(await shared.post("Note", #"{"id":"n","count":0}"#).status == 201)
        let link = try await shared.link("Note")
        try shared.trigger(
            "AFTER INSERT",
            on: "TodoItem",
            "UPDATE \"Note\" SET \"count\" = \"count\" + 1 WHERE \"id\" = 'n'; RETURN NULL;"
        )
        let server = shared.servers[0]
        if inOneBatch {
            let parts = (0..<20).map { number in
                """
                {"id":"i\(number)","method":"POST","url":"/tables/TodoItem","atomicityGroup":"g",\
                "headers":{"content-type":"application/json"},"body":{"id":"r\(number)"}},
                {"id":"p\(number)","method":"PATCH","url":"/tables/Note/n","atomicityGroup":"g",\
                "headers":{"content-type":"application/json"},"body":{"item":"\(number)"}}
                """
            }
            let body = "{\"requests\":[\(parts.joined(separator: ","))]}"
            let answer = await server.send("POST", "/$batch", body)
            let statuses = (answer.row["responses"] as? [[String: Any]] ?? [])
                .compactMap { $0["status"] as? Int }
            #expect(Set(statuses) == [200, 201] && statuses.count == 40)
        } else {
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<20 {
                    group.addTask {
                        let body = "{\"id\":\"r\(number)\"}"
                        #expect(await server.send("POST", "/tables/TodoItem", body).status == 201)
                    }
                    group.addTask {
                        let body = "{\"item\":\"\(number)\"}"
                        #expect(await server.send("PATCH", "/tables/Note/n", body).status == 200)
                    }
                }
            }
        }
        let reported = try #require(try await shared.changes(link)["n"] ?? nil)
        #expect(reported["count"] as? Int == 20)
        let stored = try shared.psql.run("SELECT \"count\", \"version\" FROM \"Note\"")
        #expect(stored.integer(0, 0) == 20)
        #expect(reported["version"] as? String == RowVersion.text(stored.integer(0, 1)))
    }

    @Test(
        "Changes that an operator's foreign keys make in further rows are reported",
        arguments: ["CASCADE", "SET NULL"]
    )
    func changesByForeignKeysAreReported(action: String) async throws {
        let shared = try await SharedDatabase(softDelete: false)
        try shared.psql.execute(
            """
            ALTER TABLE "Note" ADD FOREIGN KEY ("item") REFERENCES "TodoItem" ("id")
            ON DELETE \(action)
            """
        )
        #expect(await shared.post("TodoItem", #"{"id":"a"}"#).status == 201)
        for id in ["x", "y"] {
            #expect(await shared.post("Note", "{\"id\":\"\(id)\",\"item\":\"a\"}").status == 201)
        }
        let link = try await shared.link("Note")
        #expect(await shared.servers[0].send("DELETE", "/tables/TodoItem/a").status == 204)
        let reported = try await shared.changes(link)
        #expect(Set(reported.keys) == ["x", "y"])
        for (_, row) in reported {
            #expect((row == nil) == (action == "CASCADE"))
            if let row { #expect(row["item"] is NSNull) }
        }
    }

    @Test("A value that a foreign key changes is not reverted by a write of the same batch")
    func anUpdateByAForeignKeyIsNotReverted() async throws {
        let shared = try await SharedDatabase()
        // 'Note' is written before 'TodoItem', which then has the new value.
        try shared.psql.execute(
            """
            CREATE UNIQUE INDEX note_item ON "Note" ("item");
            ALTER TABLE "TodoItem" ADD FOREIGN KEY ("text") REFERENCES "Note" ("item")
            ON UPDATE CASCADE
            """
        )
        #expect(await shared.post("Note", #"{"id":"n","item":"old"}"#).status == 201)
        #expect(await shared.post("TodoItem", #"{"id":"a","text":"old"}"#).status == 201)
        let link = try await shared.link("TodoItem")
        let answer = await shared.servers[0]
            .batch(
                [
                    BatchPart("1", "PATCH", "/tables/Note/n", #"{"item":"new"}"#),
                    BatchPart("2", "PATCH", "/tables/TodoItem/a", #"{"complete":true}"#),
                ],
                continuing: true
            )
        #expect(answer.partStatuses == [200, 200])
        let reported = try #require(try await shared.changes(link)["a"] ?? nil)
        #expect(reported["text"] as? String == "new")
        #expect(reported["complete"] as? Bool == true)
    }

    @Test(
        "A delete that cascades to a table with tombstones is reported",
        arguments: ["device", "device of a later server", "psql"]
    )
    func aCascadeToATableWithTombstonesIsReported(by who: String) async throws {
        var parent = TestServer.todo
        parent.softDelete = false
        let url = try PostgresCluster.shared().database()
        let server = try await TestServer([parent, Self.note], onPostgres: true, database: url)
        let psql = try PostgresConnection(PostgresAddress(url))
        try psql.execute(
            """
            ALTER TABLE "Note" ADD FOREIGN KEY ("item") REFERENCES "TodoItem" ("id") ON DELETE CASCADE
            """
        )
        #expect(await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#).status == 201)
        #expect(await server.send("POST", "/tables/Note", #"{"id":"n","item":"a"}"#).status == 201)
        let first = await server.send(
            "GET",
            "/tables/Note",
            headers: ["Prefer": "odata.track-changes"]
        )
        let link = try #require(first.row["@odata.deltaLink"] as? String)
        switch who {
        case "device": #expect(await server.send("DELETE", "/tables/TodoItem/a").status == 204)
        case "psql": try psql.execute("DELETE FROM \"TodoItem\"")
        default:
            // This server knows the foreign key as a reference, and deletes the note itself.
            let later = try await TestServer([parent, Self.note], onPostgres: true, database: url)
            #expect(await later.send("DELETE", "/tables/TodoItem/a").status == 204)
        }
        let reported = await server.send("GET", "/tables/Note?" + link).rows
        #expect(reported.map { $0["id"] as? String } == ["n"])
        #expect((reported.first?["@removed"] as? [String: Any])?["reason"] as? String == "deleted")
    }

    @Test("A trigger that names a dropped table rejects only the writes that use it")
    func aBrokenTriggerRejectsNoOtherWrite() async throws {
        let shared = try await SharedDatabase()
        try shared.trigger(
            "AFTER INSERT",
            on: "TodoItem",
            "IF NEW.\"text\" = 'bad' THEN INSERT INTO nowhere VALUES (1); END IF; RETURN NULL;"
        )
        let servers = shared.servers
        let statuses = await withTaskGroup(of: (String, Int).self) { group in
            for number in 0..<30 {
                group.addTask {
                    let word = number % 3 == 0 ? "bad" : "good"
                    let body = "{\"id\":\"r\(number)\",\"text\":\"\(word)\"}"
                    let answer = await servers[number % 2].send("POST", "/tables/TodoItem", body)
                    return (word, answer.status)
                }
            }
            return await group.reduce(into: [:]) { $0[$1.0, default: []].append($1.1) }
        }
        #expect(Set(statuses["good"] ?? []) == [201])
        #expect(Set(statuses["bad"] ?? []) == [503])
    }

    @Test("A trigger that changes the owner of a row removes it from the former owner")
    func anOwnerChangeByATriggerIsReported() async throws {
        let url = try PostgresCluster.shared().database()
        let table = OwnedTable.definition()
        let store = try await OwnedTable.store(url, table)
        _ = try await OwnedTable.put("a", of: "ann", store, table)
        let timestamp = try await OwnedTable.changes(of: "ann", after: 0, store, table).clock
            .timestamp
        try PostgresConnection(PostgresAddress(url)).execute(
            """
            CREATE FUNCTION give() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN NEW."userId" := 'bob'; RETURN NEW; END $$;
            CREATE TRIGGER give BEFORE UPDATE ON "TodoItem" FOR EACH ROW EXECUTE FUNCTION give()
            """
        )
        _ = try await OwnedTable.put("a", of: "ann", by: .merge, store, table)
        let reported = try await OwnedTable.changes(of: "ann", after: timestamp, store, table).text
        #expect(reported.contains("@removed") && reported.contains("\"a\""), "\(reported)")
        await store.stop()
    }

    /// A trigger that sets no timestamp itself writes while rows of its table get their timestamps.
    @Test("A write of a trigger while rows get their timestamps is reported")
    func triggerWritesDuringTimestampingAreReported() async throws {
        let shared = try await SharedDatabase()
        #expect(await shared.post("Note", #"{"id":"n","count":0}"#).status == 201)
        let link = try await shared.link("Note")
        try shared.trigger(
            "AFTER INSERT OR UPDATE",
            on: "TodoItem",
            "UPDATE \"Note\" SET \"item\" = NEW.\"text\" WHERE \"id\" = 'n'; RETURN NULL;"
        )
        try shared.psql.execute(
            "INSERT INTO \"TodoItem\" (\"id\", \"text\", \"complete\") VALUES ('f', 'by psql', false)"
        )
        #expect((try await shared.changes(link)["n"] ?? nil)?["item"] as? String == "by psql")
    }

    @Test("A rejection by a trigger is sent as 400 without the message of the trigger")
    func aRejectionByATriggerIsNotAServerError() async throws {
        let shared = try await SharedDatabase()
        try shared.trigger(
            "BEFORE INSERT",
            on: "TodoItem",
            "IF NEW.\"text\" = 'no' THEN RAISE EXCEPTION 'not that: %', NEW.\"text\"; END IF; RETURN NEW;"
        )
        let server = shared.servers[0]
        async let other = server.send("POST", "/tables/Note", #"{"id":"n"}"#)
        let rejected = await shared.post("TodoItem", #"{"id":"a","text":"no"}"#)
        #expect(rejected.status == 400 && !rejected.text.contains("not that"))
        #expect(await other.status == 201)
    }

    @Test("An atomic group writes its rows in the order of its requests")
    func aGroupIsWrittenInItsOrder() async throws {
        let shared = try await SharedDatabase(softDelete: false)
        try shared.psql.execute(
            """
            ALTER TABLE "Note" ADD FOREIGN KEY ("item") REFERENCES "TodoItem" ("id");
            CREATE UNIQUE INDEX ON "TodoItem" ("text")
            """
        )
        func group(_ requests: [(String, String, String?)]) async -> [Int] {
            let parts = requests.enumerated().map { number, request in
                let body = request.2.map { ",\"body\":\($0)" } ?? ""
                return """
                    {"id":"\(number)","atomicityGroup":"g","method":"\(request.0)","url":"/tables/\(request.1)",\
                    "headers":{"content-type":"application/json"}\(body)}
                    """
            }
            let body = "{\"requests\":[\(parts.joined(separator: ","))]}"
            let answer = await shared.servers[0].send("POST", "/$batch", body)
            let responses = answer.row["responses"] as? [[String: Any]] ?? []
            return responses.compactMap { $0["status"] as? Int }
        }
        // 'Note' sorts before 'TodoItem', and references it.
        let created = await group([
            ("POST", "TodoItem", #"{"id":"p","text":"A"}"#),
            ("POST", "Note", #"{"id":"c","item":"p"}"#),
        ])
        #expect(created == [201, 201])
        // A value that is free only after the first of the two writes.
        let swapped = await group([
            ("PATCH", "TodoItem/p", #"{"text":"B"}"#),
            ("POST", "TodoItem", #"{"id":"q","text":"A"}"#),
        ])
        #expect(swapped == [200, 201])
        let gone = await group([("DELETE", "Note/c", nil), ("DELETE", "TodoItem/p", nil)])
        #expect(gone == [204, 204])
        let left = try shared.psql.run("SELECT string_agg(\"id\", ' ') FROM \"TodoItem\"")
        #expect(left.text(0, 0) == "q")
    }

    @Test("A referenced tombstone does not prevent the purge of other tombstones")
    func aReferenceKeepsOneTombstone() async throws {
        var table = TestServer.todo
        table.tombstoneDays = 1
        let url = try PostgresCluster.shared().database()
        let clock = TestClock()
        let server = try await TestServer([table], onPostgres: true, database: url, clock: clock)
        let psql = try PostgresConnection(PostgresAddress(url))
        for id in ["a", "b", "c"] {
            #expect(
                await server.send("POST", "/tables/TodoItem", "{\"id\":\"\(id)\"}").status == 201
            )
        }
        try psql.execute(
            """
            CREATE TABLE others (item text COLLATE "C" REFERENCES "TodoItem" ("id"));
            INSERT INTO others VALUES ('b')
            """
        )
        for id in ["a", "b", "c"] {
            #expect(await server.send("DELETE", "/tables/TodoItem/\(id)").status == 204)
        }
        clock.move(by: 3 * 86_400_000_000)
        try await server.purge()
        let left = try psql.run("SELECT string_agg(\"id\", ' ') FROM \"TodoItem\"").text(0, 0)
        #expect(left == "b")
    }

    @Test("The purge of a tombstone reports the changes that cascade from it")
    func aPurgeReportsCascadingDeletes() async throws {
        var tables = [TestServer.todo, Self.note]
        tables[0].tombstoneDays = 1
        let url = try PostgresCluster.shared().database()
        let clock = TestClock()
        let server = try await TestServer(tables, onPostgres: true, database: url, clock: clock)
        let psql = try PostgresConnection(PostgresAddress(url))
        try psql.execute(
            """
            ALTER TABLE "Note" ADD FOREIGN KEY ("item") REFERENCES "TodoItem" ("id") ON DELETE SET NULL
            """
        )
        #expect(await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#).status == 201)
        #expect(await server.send("POST", "/tables/Note", #"{"id":"n","item":"a"}"#).status == 201)
        #expect(await server.send("DELETE", "/tables/TodoItem/a").status == 204)
        let first = await server.send(
            "GET",
            "/tables/Note",
            headers: ["Prefer": "odata.track-changes"]
        )
        let link = try #require(first.row["@odata.deltaLink"] as? String)
        clock.move(by: 3 * 86_400_000_000)
        try await server.purge()
        let reported = await server.send("GET", "/tables/Note?" + link)
        #expect(reported.rows.map { $0["id"] as? String } == ["n"])
        #expect(reported.rows.first?["item"] is NSNull)
    }

    @Test("The purge of a tombstone removes no row that refers to it")
    func aPurgeRemovesNoRowByAForeignKey() async throws {
        var tables = [TestServer.todo, Self.note]
        for place in tables.indices { tables[place].tombstoneDays = 1 }
        tables[1].references = [TableReference("item", to: "TodoItem", onDelete: .none)]
        let url = try PostgresCluster.shared().database()
        let clock = TestClock()
        let server = try await TestServer(tables, onPostgres: true, database: url, clock: clock)
        let psql = try PostgresConnection(PostgresAddress(url))
        try psql.execute(
            """
            ALTER TABLE "Note" ADD FOREIGN KEY ("item") REFERENCES "TodoItem" ("id") ON DELETE CASCADE
            """
        )
        #expect(await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#).status == 201)
        #expect(await server.send("POST", "/tables/Note", #"{"id":"n","item":"a"}"#).status == 201)
        #expect(await server.send("DELETE", "/tables/TodoItem/a").status == 204)
        func count(_ table: String) throws -> Int64 {
            try psql.run("SELECT count(*) FROM \"\(table)\"").integer(0, 0)
        }
        clock.move(by: 3 * 86_400_000_000)
        try await server.purge()
        #expect(await server.send("GET", "/tables/Note/n").status == 200)
        #expect(try count("TodoItem") == 1)
        // The tombstones are removed in turn, the one that refers to the other first.
        #expect(await server.send("DELETE", "/tables/Note/n").status == 204)
        try await server.purge()
        #expect(try count("TodoItem") == 1)
        clock.move(by: 3 * 86_400_000_000)
        for _ in 0..<2 { try await server.purge() }
        #expect(try count("Note") == 0)
        #expect(try count("TodoItem") == 0)
    }

    // MARK: - External writers

    /// Privileges on the table are sufficient, and the search path of the role does not matter.
    @Test(
        "Writes of a role that has privileges only on the table are reported",
        arguments: [true, false]
    )
    func writesOfARoleWithPrivilegesOnTheTableAreReported(softDelete: Bool) async throws {
        let shared = try await SharedDatabase(softDelete: softDelete)
        #expect(await shared.post("TodoItem", #"{"id":"a"}"#).status == 201)
        let link = try await shared.link("TodoItem")
        let role = "clerk_\(UUID().uuidString.lowercased().prefix(8))"
        try shared.psql.execute(
            """
            CREATE ROLE \(role);
            GRANT SELECT, INSERT, UPDATE, DELETE ON "TodoItem" TO \(role);
            CREATE SCHEMA elsewhere;
            CREATE TABLE elsewhere."TodoItem" ("id" text, "version" bigint);
            GRANT USAGE ON SCHEMA elsewhere TO \(role);
            SET ROLE \(role);
            SET search_path = elsewhere
            """
        )
        try shared.psql.execute(
            "CREATE TEMPORARY TABLE \"TodoItem\" (\"id\" text, \"version\" bigint)"
        )
        try shared.psql.execute(
            """
            INSERT INTO public."TodoItem" ("id", "text", "complete") VALUES ('f', 'by a clerk', FALSE);
            UPDATE public."TodoItem" SET "text" = 'twice' WHERE "id" = 'f';
            DELETE FROM public."TodoItem" WHERE "id" = 'a'
            """
        )
        let reported = try await shared.changes(link)
        #expect((reported["f"] ?? nil)?["text"] as? String == "twice")
        let gone = try #require(reported["a"])
        #expect(gone == nil)
        try shared.psql.execute("RESET ROLE")
        let zero = "SELECT count(*) FROM public.\"TodoItem\" WHERE \"version\" = 0"
        #expect(try shared.psql.run(zero).integer(0, 0) == 0)
        try shared.psql.execute("DROP OWNED BY \(role); DROP ROLE \(role)")
    }

    @Test(
        "A value without a representation in JSON is rejected",
        arguments: [
            ("weight", "'NaN'"), ("weight", "'-Infinity'"), ("price", "'NaN'"),
            ("price", "'Infinity'"),
            ("due", "'infinity'"), ("due", "'0044-03-15 12:00 BC'"), ("due", "'12026-01-01'"),
            ("day", "'-infinity'"), ("day", "'0044-03-15 BC'"), ("createdAt", "'infinity'"),
        ]
    )
    func valuesThatCannotBeSentAreRejected(column: String, value: String) async throws {
        let shared = try await SharedDatabase()
        let error = #expect(throws: PostgresError.self) {
            try shared.psql.execute(
                "INSERT INTO \"Note\" (\"id\", \"\(column)\") VALUES ('x', \(value))"
            )
        }
        #expect(error?.category == "22")
        #expect(await shared.servers[0].send("GET", "/tables/Note").row["items"] as? [String] == [])
    }

    /// A nightly job that empties a table and fills it again.
    @Test("A row that an external writer deletes and inserts again is the same row")
    func aRowThatIsInsertedAgainIsTheSameRow() async throws {
        let shared = try await SharedDatabase()
        for id in ["a", "b"] {
            #expect(
                await shared.post("TodoItem", "{\"id\":\"\(id)\",\"text\":\"old\"}").status == 201
            )
        }
        let link = try await shared.link("TodoItem")
        for turn in 1...2 {
            try shared.psql.execute(
                """
                BEGIN;
                DELETE FROM "TodoItem";
                INSERT INTO "TodoItem" ("id", "text", "complete") VALUES ('a', 'turn \(turn)', FALSE);
                COMMIT
                """
            )
            let reported = try await shared.changes(link)
            #expect((reported["a"] ?? nil)?["text"] as? String == "turn \(turn)")
            let gone = try #require(reported["b"])
            #expect(gone == nil)
        }
        // Also in a separate transaction, after the tombstone.
        try shared.psql.execute(
            "INSERT INTO \"TodoItem\" (\"id\", \"complete\") VALUES ('b', TRUE)"
        )
        #expect((try await shared.changes(link)["b"] ?? nil)?["complete"] as? Bool == true)
        let error = #expect(throws: PostgresError.self) {
            try shared.psql.execute(
                "INSERT INTO \"TodoItem\" (\"id\", \"complete\") VALUES ('b', TRUE)"
            )
        }
        #expect(error?.isUniqueViolation == true)
    }

    @Test("An invalid value from an earlier version prevents neither changes nor deletes")
    func valuesFromEarlierVersionsAreIgnored() async throws {
        let shared = try await SharedDatabase()
        #expect(await shared.post("Note", #"{"id":"n"}"#).status == 201)
        try shared.psql.execute(
            """
            BEGIN; SET LOCAL tideline.own = 'on'; UPDATE "Note" SET "weight" = 'NaN'; COMMIT;
            UPDATE "Note" SET "item" = 'other'; DELETE FROM "Note"
            """
        )
        #expect(try shared.psql.run("SELECT \"deleted\" FROM \"Note\"").boolean(0, 0))
    }

    @Test("Two jobs that write to two tables in different orders both commit")
    func jobsThatWriteInDifferentOrdersBothCommit() async throws {
        let shared = try await SharedDatabase()
        let url = shared.url
        try await withThrowingTaskGroup(of: Void.self) { group in
            for job in 0..<2 {
                group.addTask {
                    try await onThread {
                        let psql = try PostgresConnection(PostgresAddress(url))
                        for number in 0..<40 {
                            let tables = job == 0 ? ["TodoItem", "Note"] : ["Note", "TodoItem"]
                            try psql.execute("BEGIN")
                            for table in tables {
                                let complete = table == "Note" ? "" : ", \"complete\""
                                let value = table == "Note" ? "" : ", FALSE"
                                try psql.execute(
                                    """
                                    INSERT INTO "\(table)" ("id"\(complete)) VALUES ('\(job)-\(number)'\(value))
                                    """
                                )
                            }
                            try psql.execute("COMMIT")
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        let count = try shared.psql.run("SELECT count(*) FROM \"Note\" WHERE \"version\" > 0")
        #expect(count.integer(0, 0) == 80)
    }

    @Test("Columns may have the names of the variables in triggers", arguments: [true, false])
    func columnsMayHaveAnyNames(softDelete: Bool) async throws {
        let names = [
            "first", "rows", "gone", "seen", "own", "before", "owners", "firsts", "counts", "stamp",
            "new", "old", "t", "n", "c", "x", "l", "100 %", "it's", "a \"b\"",
        ]
        var table = TableDefinition(
            "Odd \"Names\"",
            columns: names.map { ColumnDefinition($0, .number) }
                + [ColumnDefinition("owner", .string)]
        )
        table.owner = "owner"
        table.softDelete = softDelete
        let url = try PostgresCluster.shared().database()
        let store = try await OwnedTable.store(url, table)
        let psql = try PostgresConnection(PostgresAddress(url))
        let relation = "\"Odd \"\"Names\"\"\""
        try psql.execute(
            """
            INSERT INTO \(relation) ("id", "owner") VALUES ('a', 'ann'), ('b', 'ann');
            UPDATE \(relation) SET "first" = 1 WHERE "id" = 'a';
            DELETE FROM \(relation) WHERE "id" = 'a';
            INSERT INTO \(relation) ("id", "owner") VALUES ('a', 'ann')
            """
        )
        let timestamped = try psql.run("SELECT count(*) FROM \(relation) WHERE \"version\" > 0")
        #expect(timestamped.integer(0, 0) == 2)
        let error = #expect(throws: PostgresError.self) {
            try psql.execute("UPDATE \(relation) SET \"100 %\" = 'NaN' WHERE \"id\" = 'b'")
        }
        #expect(error?.category == "22")
        await store.stop()
    }

    @Test("A deleted row whose new insert does nothing is reported as deleted")
    func aRowThatIsNotInsertedAgainIsReportedAsDeleted() async throws {
        let shared = try await SharedDatabase()
        try shared.psql.execute("CREATE UNIQUE INDEX ON \"TodoItem\" (\"text\")")
        for (id, text) in [("a", "one"), ("b", "two")] {
            let body = "{\"id\":\"\(id)\",\"text\":\"\(text)\"}"
            #expect(await shared.post("TodoItem", body).status == 201)
        }
        let link = try await shared.link("TodoItem")
        #expect(await shared.servers[0].send("DELETE", "/tables/TodoItem/a").status == 204)
        try shared.psql.execute(
            """
            INSERT INTO "TodoItem" ("id", "text", "complete") VALUES ('a', 'two', FALSE)
            ON CONFLICT ("text") DO NOTHING
            """
        )
        let gone = try #require(try await shared.changes(link)["a"])
        #expect(gone == nil)
    }
}
