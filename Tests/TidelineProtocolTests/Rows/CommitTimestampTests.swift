// Commit timestamps: updatedAt and version with clocks, deletes, restarts and many concurrent writers.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit

@Suite struct CommitTimestampTests {
    @Test("Commit timestamps grow when the wall clock steps back")
    func updatedAtGrowsWhenTheClockStepsBack() async throws {
        let clock = TestClock()
        let server = try await TestServer(clock: clock)
        var timestamps: [Int64] = []
        for index in 0..<20 {
            if index % 5 == 4 { clock.move(by: -3_600_000_000) }
            let answer = await server.send("POST", "/tables/TodoItem", "{}")
            timestamps.append(RowVersion.timestamp(answer.row["version"] as? String ?? "") ?? 0)
        }
        #expect(zip(timestamps, timestamps.dropFirst()).allSatisfy { $1 - $0 >= 25 })
    }

    @Test("Versions are not reused after deletes and restarts")
    func versionsAreNotReused() async throws {
        try await withTemporaryDirectory { directory in
            var table = TestServer.todo
            table.softDelete = false
            let clock = TestClock(step: 0)
            var versions: [String] = []
            for _ in 0..<3 {
                let server = try await TestServer([table], path: directory + "/a.db", clock: clock)
                for _ in 0..<3 {
                    let created = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
                    #expect(created.status == 201)
                    versions.append(created.row["version"] as? String ?? "")
                    #expect(await server.send("DELETE", "/tables/TodoItem/a").status == 204)
                    #expect(await server.send("GET", "/tables/TodoItem/a").status == 404)
                }
                await server.store.stop()
                clock.move(by: -1_000_000)
            }
            #expect(Set(versions).count == 9)
        }
    }

    @Test("Concurrent writes are all stored, each with its own version")
    func concurrentWritesAreAllStoredInOneOrder() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/a.db"
            let server = try await TestServer(path: path, clock: TestClock(step: 1))
            _ = await server.send("POST", "/tables/TodoItem", #"{"id":"shared","rank":0}"#)
            let statuses = await withTaskGroup(of: [Int].self) { group in
                for writer in 0..<16 {
                    group.addTask {
                        var statuses: [Int] = []
                        for index in 0..<25 {
                            let body = #"{"id":"\#(writer)-\#(index)","rank":\#(index)}"#
                            let created = await server.send("POST", "/tables/TodoItem", body)
                            let id = created.row["id"] as? String ?? ""
                            let read = await server.send("GET", "/tables/TodoItem/\(id)")
                            let twice = await server.send("POST", "/tables/TodoItem", body)
                            statuses += [created.status, read.status, twice.status]
                            _ = await server.send("PATCH", "/tables/TodoItem/shared", "{}")
                        }
                        return statuses
                    }
                }
                var all: [Int] = []
                for await statuses in group { all += statuses }
                return all
            }
            #expect(statuses.filter { $0 == 201 }.count == 400)
            #expect(statuses.filter { $0 == 200 }.count == 400)
            #expect(statuses.filter { $0 == 409 }.count == 400)
            await server.store.stop()
            let again = try await TestServer(path: path)
            let all = await again.send("GET", "/tables/TodoItem?$top=1000", classic: true)
            #expect(Set(all.rows.compactMap { $0["version"] as? String }).count == 401)
            await again.store.stop()
        }
    }

    @Test("Only one of many concurrent conditional writes succeeds")
    func onlyOneOfManyConditionalWritesWins() async throws {
        try await withTemporaryDirectory { directory in
            let server = try await TestServer(path: directory + "/a.db")
            let created = await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
            let tag = created.headers["ETag"] ?? ""
            let won = await withTaskGroup(of: Int.self) { group in
                for _ in 0..<32 {
                    group.addTask {
                        await server.send(
                            "PATCH",
                            "/tables/TodoItem/a",
                            "{}",
                            headers: ["If-Match": tag]
                        ).status
                    }
                }
                return await group.reduce(into: [Int: Int]()) { $0[$1, default: 0] += 1 }
            }
            #expect(won == [200: 1, 412: 31])
            await server.store.stop()
        }
    }

    @Test("A write is rejected with 503 when the write queue is full")
    func aFullQueueReturns503() async throws {
        try await withTemporaryDirectory { directory in
            var limits = ServerLimits()
            limits.writeQueue = 1
            let server = try await TestServer(path: directory + "/a.db", limits: limits)
            // The report of the first commit blocks the writer.
            let (blocks, isBlocked, gate) = (Flag(), Flag(), Flag())
            try await server.store.watch { _ in
                guard blocks.isSet else { return }
                isBlocked.set()
                try? blockingUntil { gate.isSet }
            }
            blocks.set()
            let first = Task { await server.send("POST", "/tables/TodoItem", "{}").status }
            try await until { isBlocked.isSet }
            let second = Task { await server.send("POST", "/tables/TodoItem", "{}").status }
            try await until { server.store.writeQueueLength == 1 }
            for _ in 0..<64 {
                let answer = await server.send("POST", "/tables/TodoItem", "{}")
                #expect(answer.status == 503, "\(answer.text)")
                #expect(answer.error == ServerError.tooManyWrites.message)
                #expect(answer.headers["Retry-After"] == "1")
            }
            gate.set()
            #expect(await first.value == 201)
            #expect(await second.value == 201)
            #expect(await server.send("POST", "/tables/TodoItem", "{}").status == 201)
            await server.store.stop()
        }
    }

    /// A time limit counts the steps of all runs of a statement, including the one that ends a transaction.
    @Test("A read transaction ends when its time limit interrupts it")
    func aSnapshotIsReleasedAfterTheTimeLimit() throws {
        let database = try Database(path: ":memory:", mode: .readWrite)
        for _ in 0..<100_000 {
            do {
                try database.limitTime(.zero) { try database.snapshot {} }
            } catch let error as SQLiteError where error.isInterrupt {
                continue
            }
            try #require(!database.isInTransaction)
        }
        #expect(!database.isInTransaction)
    }

    @Test("A slow query is interrupted at the time limit")
    func aSlowQueryIsInterrupted() async throws {
        try await withTemporaryDirectory { directory in
            var limits = ServerLimits()
            limits.queryTime = .nanoseconds(1)
            let server = try await TestServer(path: directory + "/a.db", limits: limits)
            for index in 0..<400 {
                _ = await server.send("POST", "/tables/TodoItem", #"{"text":"\#(index)"}"#)
            }
            let filter = (0..<40).map { "indexof(text,'\($0)') eq 77" }.joined(separator: " or ")
            let answer = await server.send("GET", "/tables/TodoItem?$filter=\(filter)")
            // The query cannot have waited for most of a nanosecond.
            #expect(answer.status == 400, "\(answer.text)")
            #expect(answer.error == ServerError.queryTooExpensive.message)
            await server.store.stop()
            #expect(await server.send("GET", "/tables/TodoItem").status == 503)
            #expect(await server.send("POST", "/tables/TodoItem", "{}").status == 503)
        }
    }

    @Test(
        "A slow query on the writer's connection in memory is interrupted",
        .enabled(if: TestServer.usesSQLite, "The connection is one of SQLite")
    )
    func aSlowQueryInMemoryIsInterrupted() async throws {
        var limits = ServerLimits()
        limits.queryTime = .nanoseconds(1)
        let server = try await TestServer(limits: limits)
        for index in 0..<400 {
            _ = await server.send("POST", "/tables/TodoItem", #"{"text":"\#(index)"}"#)
        }
        let filter = (0..<40).map { "indexof(text,'\($0)') eq 77" }.joined(separator: " or ")
        let answer = await server.send("GET", "/tables/TodoItem?$filter=\(filter)")
        // The query cannot have waited for most of a nanosecond.
        #expect(answer.status == 400, "\(answer.text)")
        #expect(answer.error == ServerError.queryTooExpensive.message)
        #expect(await server.send("POST", "/tables/TodoItem", "{}").status == 201)
    }

    @Test("Statements that are in use stay prepared when the statement cache is full")
    func statementsInUseStayPrepared() throws {
        let database = try Database(path: ":memory:")
        let kept = try database.prepare("SELECT 1")
        let running = try database.prepare(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n"
        )
        #expect(try running.step())
        for number in 0..<2000 {
            _ = try database.prepare("SELECT \(number) + 1")
            if number % 100 == 0 { #expect(try database.prepare("SELECT 1") === kept) }
            #expect(database.statementsKept <= 256)
        }
        #expect(try running.step() && running.integer(0) == 2)
        #expect(try running.step() && running.integer(0) == 3)
        #expect(try !running.step())
    }

    /// A row is one step for the database, so the functions check the time limit themselves.
    @Test("A slow function is interrupted at the time limit")
    func aSlowFunctionIsInterrupted() async throws {
        try await withTemporaryDirectory { directory in
            var limits = ServerLimits()
            limits.queryTime = .milliseconds(100)
            let server = try await TestServer(path: directory + "/a.db", limits: limits)
            let text = String(repeating: "a", count: 100_000)
            _ = await server.send("POST", "/tables/TodoItem", #"{"text":"\#(text)"}"#)
            let call = "length(replace(text,'a','bbbbbbbb')) eq 7"
            let filter = Array(repeating: call, count: 150).joined(separator: " or ")
            // A filter that is not interrupted gets an answer, however long it takes.
            let answer = await server.getWhileBusy("/tables/TodoItem?$filter=\(filter)")
            #expect(answer.status == 400, "\(answer.text)")
            #expect(answer.error == ServerError.queryTooExpensive.message)
            await server.store.stop()
        }
    }

    @Test("The text of a version converts to a commit timestamp and back")
    func versionTextsRoundTrip() {
        for timestamp in [0, 1, 25, 1_800_000_000_000_000, Int64.max, -1] {
            #expect(RowVersion.timestamp(RowVersion.text(timestamp)) == timestamp)
        }
        #expect(RowVersion.timestamp("AAZlGEfjo+h=") == nil)
        #expect(RowVersion.timestamp("x") == nil)
    }

    @Test("A write that fails because of its content does not fail other writes in its group")
    func aGroupSurvivesAWriteThatFails() async throws {
        try await withTemporaryDirectory { directory in
            var limits = ServerLimits()
            limits.rowBytes = 100_000
            let columns = (0..<4).map { ColumnDefinition("c\($0)", .string) }
            let server = try await TestServer(
                [TableDefinition("Wide", columns: columns)],
                path: directory + "/a.db",
                limits: limits
            )
            let long = String(repeating: "x", count: 90_000)
            _ = await server.send("POST", "/tables/Wide", #"{"id":"w","c0":"\#(long)"}"#)
            for round in 0..<10 {
                let statuses = await withTaskGroup(of: Int.self) { group in
                    for index in 0..<20 {
                        group.addTask {
                            if index == 7 {
                                return await server.send(
                                    "PATCH",
                                    "/tables/Wide/w",
                                    #"{"c1":"\#(long)"}"#
                                ).status
                            }
                            let id = "r\(round)-\(index)"
                            return await server.send("POST", "/tables/Wide", #"{"id":"\#(id)"}"#)
                                .status
                        }
                    }
                    return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
                }
                #expect(statuses == [201: 19, 413: 1])
            }
            let rows = await server.send(
                "GET",
                "/tables/Wide?$select=id,updatedAt,version&$top=500"
            )
            #expect(rows.rows.count == 100)
            let count = await server.send("GET", "/tables/Wide?$count=true&$top=1")
            #expect(count.row["count"] as? Int == 191)
            #expect(await server.send("GET", "/tables/Wide/w").row["c1"] is NSNull)
            await server.store.stop()
        }
    }
}
