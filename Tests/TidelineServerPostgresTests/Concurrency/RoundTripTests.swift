// Goal: a group of plain writes takes two round trips, whatever its rows, tables, idempotency keys and methods; the
// writes that need more are known, and need exactly that. Method: a socket between server and PostgreSQL records what
// the writer's connection sends and waits for.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelinePostgres
import TidelineServerCore
import TidelineServerPostgres
import TidelineTestKit

@Suite(.serialized, .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is missing"))
struct RoundTripTests {
    private struct Tapped {
        let tap: WireTap
        let server: TestServer
        let store: PostgresTableStore
        let url: String

        init() async throws {
            url = try PostgresCluster.shared().database()
            tap = try WireTap(to: url)
            var options = PostgresTableStore.Options()
            options.readers = 2
            let store = try PostgresTableStore(url: tap.url, options: options)
            self.store = store
            var merged = TableDefinition("Merged", columns: TestServer.todo.schema.columns)
            merged.conflict = .merge
            var hard = TableDefinition("Hard", columns: TestServer.todo.schema.columns)
            hard.softDelete = false
            server = try await TestServer(
                [TestServer.todo, merged, hard],
                onPostgres: false,
                clock: TestClock(Int64(Date().timeIntervalSince1970 * 1_000_000)),
                relay: { _ in store }
            )
        }

        /// The round trips of each transaction of a request.
        func transactions(_ body: () async throws -> Void) async throws -> [[String]] {
            let before = tap.transactions.count
            try await body()
            // The server also looks for unfinished cascades, in a transaction of its own.
            return tap.transactions.dropFirst(before).filter { transaction in
                !transaction.contains { $0.contains("pg_try_advisory_xact_lock") }
            }
        }

        func send(_ method: String, _ target: String, _ body: String? = nil) async {
            let answer = await server.send(method, "/tables/" + target, body)
            let expected = ["POST": 201, "DELETE": 204][method] ?? 200
            #expect(answer.status == expected, "\(method) \(target): \(answer.text)")
        }

        func stop() async {
            await store.stop()
            tap.stop()
        }
    }

    /// A clock of the store, whose time is the database's.
    private static let start: String = {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return formatter.string(from: Date())
    }()

    private static func part(_ number: Int, _ method: String, _ target: String) -> String {
        let body = method == "DELETE" ? "" : #","body":{"text":"\#(number)"}"#
        return """
            {"id":"\(number)","atomicityGroup":"g","method":"\(method)","url":"/tables/\(target)",\
            "headers":{"Content-Type":"application/json",\
            "Repeatability-Request-ID":"\(UUID().uuidString)",\
            "Repeatability-First-Sent":"\(start)"}\(body)}
            """
    }

    private func expectTwo(_ tapped: Tapped, _ body: () async throws -> Void) async throws {
        let transactions = try await tapped.transactions(body)
        #expect(transactions.map(\.count) == [2], "\(transactions)")
    }

    @Test("Plain writes and atomic groups need two round trips")
    func plainWritesAreTwoRoundTrips() async throws {
        let tapped = try await Tapped()
        for table in ["TodoItem", "Merged", "Hard"] {
            try await expectTwo(tapped) { await tapped.send("POST", table, #"{"id":"a"}"#) }
            try await expectTwo(tapped) {
                await tapped.send("PATCH", table + "/a", #"{"text":"b"}"#)
            }
            try await expectTwo(tapped) {
                await tapped.send("PUT", table + "/a", #"{"id":"a","complete":true}"#)
            }
            try await expectTwo(tapped) { await tapped.send("DELETE", table + "/a") }
        }
        // Groups with idempotency keys, of existing and of missing rows, in all the tables.
        for table in ["TodoItem", "Merged", "Hard"] {
            await tapped.send("POST", table, #"{"id":"b"}"#)
            await tapped.send("POST", table, #"{"id":"c"}"#)
        }
        var parts: [String] = []
        for table in ["TodoItem", "Hard", "Merged"] {
            for _ in 0..<20 { parts.append(Self.part(parts.count, "POST", table)) }
            parts.append(Self.part(parts.count, "PATCH", table + "/b"))
            parts.append(Self.part(parts.count, "DELETE", table + "/c"))
        }
        let batch = "{\"requests\":[" + parts.joined(separator: ",") + "]}"
        try await expectTwo(tapped) {
            let answer = await tapped.server.send("POST", "/$batch", batch)
            let answers = answer.row["responses"] as? [[String: Any]] ?? []
            #expect(answers.count == 66)
            let isDone = answers.allSatisfy { ($0["status"] as? Int ?? 0) / 100 == 2 }
            #expect(isDone, "\(answer.text.prefix(400))")
        }
        // A repeated request is found in the ledger, and only updated there.
        try await expectTwo(tapped) { _ = await tapped.server.send("POST", "/$batch", batch) }
        await tapped.stop()
    }

    @Test("The waiting writes of many callers share their round trips")
    func callersShareTheirRoundTrips() async throws {
        let tapped = try await Tapped()
        let transactions = try await tapped.transactions {
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<200 {
                    group.addTask {
                        await tapped.send("POST", "TodoItem", #"{"id":"r\#(number)"}"#)
                    }
                }
            }
        }
        #expect(transactions.allSatisfy { $0.count == 2 })
        #expect(!transactions.isEmpty && transactions.count < 200)
        await tapped.stop()
    }

    @Test("A merge needs one more round trip to read its base version")
    func aMergeNeedsOneMoreForItsBase() async throws {
        let tapped = try await Tapped()
        await tapped.send("POST", "Merged", #"{"id":"a","text":"one","rank":1}"#)
        let first = await tapped.server.send("GET", "/tables/Merged/a")
        await tapped.send("PATCH", "Merged/a", #"{"rank":2}"#)
        let transactions = try await tapped.transactions {
            var headers = HTTPFields()
            headers.append("If-Match", first.headers["ETag"] ?? "")
            let answer = await tapped.server.send(
                "PATCH",
                "/tables/Merged/a",
                #"{"text":"two"}"#,
                headers: headers
            )
            #expect(answer.status == 200)
            #expect(answer.row["text"] as? String == "two" && answer.row["rank"] as? Double == 2)
        }
        #expect(transactions.map(\.count) == [3], "\(transactions)")
        #expect(transactions.first?.dropFirst().first?.contains("tideline.bases") == true)
        await tapped.stop()
    }

    /// A row that appears between the locks and the insert ends the transaction; the second transaction includes it.
    ///
    /// The trigger that inserts it is named like those of the server: another name would cost one more round trip.
    @Test("A row that appears before the insert causes a second transaction")
    func aRowThatAppearsCausesASecondTransaction() async throws {
        let tapped = try await Tapped()
        try PostgresConnection(PostgresAddress(tapped.url)).execute(
            """
            CREATE SEQUENCE tries;
            CREATE FUNCTION appear() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF nextval('tries') = 1 THEN
                    RAISE EXCEPTION 'as a row that appeared' USING ERRCODE = '23505';
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER tideline_z AFTER INSERT ON "TodoItem" FOR EACH ROW EXECUTE FUNCTION appear();
            """
        )
        let transactions = try await tapped.transactions {
            await tapped.send("POST", "TodoItem", #"{"id":"a"}"#)
        }
        #expect(transactions.map(\.count) == [2, 2], "\(transactions)")
        await tapped.stop()
    }

    @Test("The number of children adds no round trips, with or without a cascade above them")
    func manyChildrenDuringACascade() async throws {
        let url = try PostgresCluster.shared().database()
        let tap = try WireTap(to: url)
        var options = PostgresTableStore.Options()
        options.readers = 2
        options.limits.cascadeRows = 2
        let store = try PostgresTableStore(url: tap.url, options: options)
        let server = try await TestServer(
            FieldService.tables(),
            onPostgres: false,
            clock: TestClock(Int64(Date().timeIntervalSince1970 * 1_000_000)),
            relay: { _ in store }
        )
        func insert(_ table: String, _ rows: [(String, [String: String?])]) async {
            let parts = rows.enumerated().map { place, row in
                BatchPart("\(place)", "POST", "/tables/\(table)", FieldService.json(row.0, row.1))
            }
            let answer = await server.batch(parts)
            #expect(answer.partStatuses == rows.map { _ in 201 }, "\(answer.text.prefix(400))")
        }
        let numbers = 0..<50
        await insert("Customer", [("gone", [:])] + numbers.map { ("c\($0)", [:]) })
        await insert(
            "Job",
            (0..<3).map { ("gone\($0)", ["customerID": "gone"]) }
                + numbers.map { ("j\($0)", ["customerID": "c\($0)"]) }
        )
        // Another server holds the lock of the steps, so that the cascade stays pending.
        let other = try PostgresConnection(PostgresAddress(url))
        try other.run("SELECT pg_advisory_lock(6072326742)")
        for isPending in [false, true] {
            if isPending {
                #expect(await server.send("DELETE", "/tables/Customer/gone").status == 204)
            }
            let before = tap.transactions.count
            await insert("Visit", numbers.map { ("v\($0)\(isPending)", ["jobID": "j\($0)"]) })
            await insert("Note", numbers.map { ("n\($0)\(isPending)", ["customerID": "c\($0)"]) })
            // The server also tries to continue the cascade, in transactions that it rolls back.
            let counts = tap.transactions.dropFirst(before)
                .filter { $0.last?.contains("ROLLBACK") == false }.map(\.count)
            // The customers of all jobs are read at once, and notes have no ancestors.
            #expect(counts == (isPending ? [3, 2] : [2, 2]))
        }
        try other.run("SELECT pg_advisory_unlock(6072326742)")
        await store.stop()
        tap.stop()
    }
}
