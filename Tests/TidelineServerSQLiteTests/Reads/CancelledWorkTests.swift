// CancelledWorkTests: work that the store does for cancelled callers.

import Foundation
import ServerTestSupport
import Synchronization
import Testing
import TidelineCore
import TidelineSQLite
import TidelineServerCore
import TidelineServerSQLite
import TidelineTestKit

@Suite struct CancelledWorkTests {
    /// A filter that runs for about a minute on the rows below, and matches none.
    static let slow: String = {
        let patterns = (0..<60).map { "matchesPattern(text,'(a|b)*c\($0)')" }
        return "/tables/TodoItem?$filter=" + patterns.joined(separator: " or ")
    }()

    @Test("A query ends when its caller is cancelled, and its reader serves the next one")
    func queriesEndWithTheirCallers() async throws {
        try await withTemporaryDirectory { directory in
            var limits = ServerLimits()
            limits.queryTime = .seconds(600)
            let traffic = ServerTraffic()
            let server = try await TestServer(
                path: directory + "/a.db",
                limits: limits,
                traffic: traffic
            )
            let text = String(repeating: "ab", count: 5000)
            for number in 0..<200 {
                let row = #"{"id":"\#(number)","text":"\#(text)"}"#
                #expect(await server.send("POST", "/tables/TodoItem", row).status == 201)
            }
            let begun = traffic.store.readWaits.reading.total
            let reads = (0..<8).map { _ in Task { await server.send("GET", Self.slow) } }
            // At least one of them has begun.
            try await until { traffic.store.readWaits.reading.total > begun }
            for read in reads { read.cancel() }
            for read in reads { #expect(await read.value.status == 503) }
            #expect(await server.send("GET", "/tables/TodoItem?$top=1").status == 200)
            await server.store.stop()
        }
    }

    /// A large row is read on a reader, so that it delays no other connection of the loop, and never for a cancelled
    /// caller; a small row is read directly.
    @Test("A large row is read on a reader, and a small one on the event loop")
    func largeRowsAreNotReadOnTheLoop() async throws {
        try await withTemporaryDirectory { directory in
            let server = try await TestServer(path: directory + "/a.db")
            for (id, count) in [("small", 60_000), ("large", 70_000)] {
                let text = String(repeating: "x", count: count)
                let row = #"{"id":"\#(id)","text":"\#(text)"}"#
                #expect(await server.send("POST", "/tables/TodoItem", row).status == 201)
                #expect(await server.send("GET", "/tables/TodoItem/" + id).status == 200)
            }
            let left = Task {
                while !Task.isCancelled { await Task.yield() }
                let small = await server.send("GET", "/tables/TodoItem/small").status
                let large = await server.send("GET", "/tables/TodoItem/large").status
                return [small, large]
            }
            left.cancel()
            #expect(await left.value == [200, 503])
            await server.store.stop()
        }
    }

    @Test(
        "A page of large rows is read on a reader, and a small page on the event loop",
        arguments: ["$filter=id eq '%'", "$top=1&$filter=id eq '%'", "changes"]
    )
    func largePagesAreNotReadOnTheLoop(query: String) async throws {
        try await withTemporaryDirectory { directory in
            let server = try await TestServer(path: directory + "/a.db")
            let track: HTTPFields = ["Prefer": "odata.track-changes"]
            let first = await server.send("GET", "/tables/TodoItem", headers: track)
            func write(_ id: String, bytes: Int) async -> Int {
                let text = String(repeating: "x", count: bytes)
                let row = #"{"id":"\#(id)","text":"\#(text)"}"#
                return await server.send("POST", "/tables/TodoItem", row).status
            }
            func readCancelled(_ id: String) async -> Int {
                let address =
                    query == "changes"
                    ? first.deltaLink ?? ""
                    : query.replacing("%", with: id).replacing(" ", with: "%20")
                let read = Task {
                    while !Task.isCancelled { await Task.yield() }
                    return await server.send("GET", "/tables/TodoItem?" + address).status
                }
                read.cancel()
                return await read.value
            }
            #expect(await write("small", bytes: 40_000) == 201)
            #expect(await readCancelled("small") == 200)
            #expect(await write("large", bytes: 70_000) == 201)
            #expect(await readCancelled("large") == 503)
            await server.store.stop()
        }
    }

    @Test("A write whose caller is cancelled before it starts is not executed")
    func cancelledWritesThatHaveNotStartedAreDropped() async throws {
        try await withTemporaryDirectory { directory in
            let server = try await TestServer(path: directory + "/a.db")
            let write = Task {
                // Cancelled before it reaches the store.
                while !Task.isCancelled { await Task.yield() }
                return await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#)
            }
            write.cancel()
            #expect(await write.value.status == 503)
            #expect(await server.send("GET", "/tables/TodoItem/a").status == 404)
            #expect(await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#).status == 201)
            await server.store.stop()
        }
    }

    @Test("Writes of cancelled callers free their slots in the queue", .timeLimit(.minutes(10)))
    func cancelledWritesFreeTheirSlotsInTheQueue() async throws {
        try await withTemporaryDirectory { directory in
            var limits = ServerLimits()
            limits.writeQueue = 10
            let server = try await TestServer(path: directory + "/a.db", limits: limits)
            let holder = try Database(path: directory + "/a.db", mode: .existing)
            try holder.execute("BEGIN IMMEDIATE")
            var writes: [Task<Int, Never>] = []
            // The writer takes the first writes, and waits for the lock with them.
            try await until {
                guard server.store.writeQueueLength < 10 else { return true }
                writes.append(
                    Task {
                        await server.send("POST", "/tables/TodoItem", #"{"text":"left"}"#).status
                    }
                )
                return false
            }
            #expect(await server.send("POST", "/tables/TodoItem", "{}").status == 503)
            for write in writes { write.cancel() }
            #expect(server.store.writeQueueLength == 0)
            try holder.execute("ROLLBACK")
            #expect(await server.send("POST", "/tables/TodoItem", "{}").status == 201)
            var dropped = 0
            for write in writes where await write.value == 503 { dropped += 1 }
            #expect(dropped >= 10)
            await server.store.stop()
        }
    }
}
