// EpochMemoryTests: stores whose reads return the table clock and the epoch that they read.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct EpochMemoryTests {
    private static let tracks: HTTPFields = ["Prefer": "odata.track-changes"]

    private static func server() async throws -> (TestServer, RelayedStore) {
        let server = try await TestServer(relay: { RelayedStore($0) })
        #expect(await server.send("POST", "/tables/TodoItem", #"{"id":"a"}"#).status == 201)
        return (server, try #require(server.store as? RelayedStore))
    }

    @Test("The last reported epoch applies") func theLastReportedEpochApplies() {
        let memory = EpochMemory("one")
        let first = memory.current
        #expect(memory.learn(TableClock()) == first)
        #expect(memory.learn(TableClock(epoch: "one")) == first)
        #expect(memory.learn(TableClock(epoch: "two")) == memory.current)
        #expect(memory.current.name == "two")
        #expect(memory.current.fingerprint != first.fingerprint)
    }

    @Test("A page and a digest have the table clock of the state that they read")
    func aPageHasTheClockOfItsState() async throws {
        let (server, store) = try await Self.server()
        store.clock = TableClock(timestamp: 5_000_000, horizon: 1_000_000, epoch: "read")
        let asked = store.clocksAsked
        for path in ["/tables/TodoItem", "/tables/TodoItem/$digest"] {
            let answer = await server.send("GET", path)
            #expect(answer.headers["Tideline-Horizon"] == "1970-01-01T00:00:01.001Z")
            #expect(answer.headers["Tideline-Epoch"] == "read")
        }
        #expect(store.clocksAsked == asked)
    }

    @Test("A new epoch is reported with the first read that finds it")
    func aNewEpochIsReportedAtOnce() async throws {
        let (server, store) = try await Self.server()
        let clock = try await store.clock(of: Table(TestServer.todo))
        let before = await server.send("GET", "/tables/TodoItem", headers: Self.tracks)
        let link = try #require(before.deltaLink)
        #expect(await server.send("GET", "/tables/TodoItem?" + link).status == 200)
        for path in ["/tables/TodoItem", "/tables/TodoItem/$digest"] {
            let name = "restored for " + path
            store.clock = TableClock(timestamp: clock.timestamp, epoch: name)
            let answer = await server.send("GET", path)
            #expect(answer.headers["Tideline-Epoch"] == name)
        }
        let over = await server.send("GET", "/tables/TodoItem?" + link)
        #expect(over.status == 410 && over.row["code"] as? String == "epochChanged")
        let list = await server.send("GET", "/tables/TodoItem", headers: Self.tracks)
        let next = try #require(list.deltaLink)
        #expect(await server.send("GET", "/tables/TodoItem?" + next).status == 200)
    }

    /// A write may be older than an epoch that the server learns from a later read, and then it is lost.
    @Test("The response to a write has the epoch from before the write")
    func responsesToWritesHaveTheEpochFromBeforeTheWrite() async throws {
        let (server, store) = try await Self.server()
        let name = try await store.epoch()
        let clock = try await store.clock(of: Table(TestServer.todo))
        store.clock = TableClock(timestamp: clock.timestamp, epoch: "restored")
        let created = await server.send("POST", "/tables/TodoItem", #"{"id":"b"}"#)
        #expect(created.status == 201 && created.headers["Tideline-Epoch"] == name)
        let missing = await server.send("PATCH", "/tables/TodoItem/x", #"{"text":"b"}"#)
        #expect(missing.status == 404 && missing.headers["Tideline-Epoch"] == name)
        let batch = await server.send("POST", "/$batch", #"{"requests":[]}"#)
        #expect(batch.headers["Tideline-Epoch"] == name)
        #expect(
            await server.send("GET", "/tables/TodoItem").headers["Tideline-Epoch"] == "restored"
        )
        let next = await server.send("POST", "/tables/TodoItem", #"{"id":"c"}"#)
        #expect(next.headers["Tideline-Epoch"] == "restored")
    }

    @Test(
        "The first request that finds a new epoch rejects a delta link of the old one",
        arguments: [0, 1]
    )
    func aLinkOfAnotherEpochIsRejected(_ later: Int64) async throws {
        let (server, store) = try await Self.server()
        let list = await server.send("GET", "/tables/TodoItem", headers: Self.tracks)
        let link = try #require(list.deltaLink)
        let clock = try await store.clock(of: Table(TestServer.todo))
        store.clock = TableClock(timestamp: clock.timestamp + later, epoch: "another")
        let over = await server.send("GET", "/tables/TodoItem?" + link)
        #expect(over.status == 410 && over.row["code"] as? String == "epochChanged")
    }
}
