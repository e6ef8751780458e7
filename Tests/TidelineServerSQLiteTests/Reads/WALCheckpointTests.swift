// The write-ahead log: the action at each size, and its size during overlapping reads.

import Foundation
import ServerTestSupport
import Testing
import TidelineServerCore
import TidelineServerSQLite

@Suite struct WALCheckpointTests {
    /// 300 pages of 1000 bytes: copied from 100 on, long reads wait from 150 on.
    private final class Keeper {
        private var keeper = WALCheckpointer(bytesMax: 300_000, pageBytes: 976)

        init(pages: Int) { committed(pages: pages) }

        var isCopyDue: Bool { keeper.isCopyDue }
        var hasExternalReader: Bool { keeper.hasExternalReader }
        var interruptions: Int { keeper.interruptions }
        var bytes: Int { keeper.bytes }

        func committed(pages: Int) { keeper.committed(pages: pages) }
        func longReadBegins() -> Bool { keeper.longReadBegins() }
        func longReadEnded() { keeper.longReadEnded() }
        func next() -> WALCheckpointer.Step { keeper.next() }
        func restarted(_ isDone: Bool) { keeper.restarted(isDone) }
    }

    @Test("A small write-ahead log needs no checkpoint") func aSmallLogIsNotCopied() {
        let keeper = Keeper(pages: 99)
        #expect(!keeper.isCopyDue)
        #expect(keeper.next() == .rest)
        #expect(keeper.longReadBegins())
    }

    @Test("A large write-ahead log is copied and restarted") func aLogIsCopiedAndRestarted() {
        let keeper = Keeper(pages: 100)
        #expect(keeper.isCopyDue)
        #expect(keeper.next() == .copy)
        #expect(keeper.next() == .restart)
        keeper.restarted(true)
        #expect(keeper.next() == .rest)
        #expect(keeper.bytes == 0)
        keeper.committed(pages: 3)
        #expect(keeper.next() == .rest)
    }

    @Test("A restart of the log waits for running long reads and delays new ones")
    func longReadsMayFinishFirst() {
        let keeper = Keeper(pages: 120)
        #expect(keeper.longReadBegins())
        #expect(keeper.next() == .copy)
        #expect(keeper.next() == .rest)
        #expect(keeper.longReadBegins())
        // From half the limit on, new long reads wait, and running ones continue.
        keeper.committed(pages: 150)
        #expect(keeper.next() == .copy)
        #expect(keeper.next() == .rest)
        #expect(!keeper.longReadBegins())
        keeper.longReadEnded()
        #expect(keeper.next() == .rest)
        keeper.longReadEnded()
        #expect(keeper.next() == .restart)
        keeper.restarted(true)
        #expect(keeper.longReadBegins())
    }

    @Test("Long reads are interrupted when the log reaches its limit")
    func atTheLimitLongReadsAreInterrupted() {
        let keeper = Keeper(pages: 149)
        #expect(keeper.longReadBegins())
        #expect(keeper.next() == .copy)
        keeper.committed(pages: 300)
        #expect(keeper.next() == .copy)
        #expect(keeper.next() == .interrupt)
        #expect(keeper.interruptions == 1)
        #expect(!keeper.longReadBegins())
        keeper.longReadEnded()
        #expect(keeper.next() == .restart)
        keeper.restarted(true)
        #expect(keeper.longReadBegins())
    }

    /// A backup may read for any length of time: the server's own reads must not wait for it.
    @Test("A long read of another program delays no read of the server")
    func aProgramWithALongReadDelaysNoCaller() {
        let keeper = Keeper(pages: 200)
        #expect(keeper.next() == .copy)
        for _ in 0..<3 {
            #expect(!keeper.longReadBegins())
            #expect(keeper.next() == .restart)
            keeper.restarted(false)
        }
        #expect(keeper.hasExternalReader)
        #expect(keeper.longReadBegins())
        #expect(keeper.next() == .rest)
        // The checkpoint is retried when the log has grown by a quarter.
        keeper.committed(pages: 249)
        #expect(keeper.next() == .copy)
        #expect(keeper.next() == .rest)
        #expect(keeper.longReadBegins())
        keeper.committed(pages: 250)
        #expect(keeper.next() == .rest)
        #expect(!keeper.longReadBegins())
        keeper.longReadEnded()
        keeper.longReadEnded()
        #expect(keeper.next() == .restart)
        keeper.restarted(true)
        #expect(keeper.longReadBegins())
    }

    @Test("A long read that started meanwhile does not count as another program")
    func aReadThatStartedMeanwhileIsNotAnotherProgram() {
        let keeper = Keeper(pages: 120)
        #expect(keeper.next() == .copy)
        for _ in 0..<10 {
            #expect(keeper.next() == .restart)
            #expect(keeper.longReadBegins())
            keeper.restarted(false)
            keeper.longReadEnded()
        }
        #expect(!keeper.hasExternalReader)
    }

    @Test("The write-ahead log stays small during writes and overlapping slow reads")
    func theLogStaysSmallDuringSlowReads() async throws {
        try await withTemporaryDirectory { directory in
            var limits = ServerLimits()
            limits.logBytes = 3 << 20
            // A read restarts when the log does, and ends in time nevertheless.
            limits.queryTime = .seconds(120)
            let path = directory + "/a.db"
            let server = try await TestServer(path: path, limits: limits, readers: 4)
            let text = String(repeating: "abcde", count: 10_000)
            func write(_ id: Int) async -> Int {
                let body = #"{"id":"\#(id)","text":"\#(text)","rank":\#(id)}"#
                return await server.send("POST", "/tables/TodoItem", body).status
            }
            for id in 0..<40 { #expect(await write(id) == 201) }
            let isDone = Flag()
            let readers = (0..<3).map { number in
                Task {
                    var statuses: Set<Int> = []
                    while !isDone.isSet {
                        let filter = "rank lt 40 and matchesPattern(text,'(a|b)*\(number)$')"
                        let list = await server.send("GET", "/tables/TodoItem?$filter=\(filter)")
                        statuses.insert(list.status)
                    }
                    return statuses
                }
            }
            var largest = 0
            for id in 40..<400 {
                #expect(await write(id) == 201)
                largest = max(largest, server.store.logBytes)
            }
            isDone.set()
            for reader in readers { #expect(await reader.value.isSubset(of: [200])) }
            // 18 MB were written; a checkpoint may be under way when the log is measured.
            #expect(largest < 16 << 20, "\(largest)")
            let count = await server.send("GET", "/tables/TodoItem?$count=true&$top=0")
            #expect(count.row["count"] as? Int == 400)
            await server.store.stop()
            let again = try await TestServer(path: path)
            let later = await again.send("GET", "/tables/TodoItem?$count=true&$top=0")
            #expect(later.row["count"] as? Int == 400)
            await again.store.stop()
        }
    }
}
