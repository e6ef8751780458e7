// A full disk: nothing is lost, and freed space is used at once, also after a restart.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit

#if os(Linux)
import Glibc
import TidelineTestSupport
#endif

@Suite(.slow, .enabled(if: SmallDisk.mayMount, "mounting a small disk needs rights"))
struct FullDiskTests {
    /// Inserts rows until the disk is full; returns their number.
    private func fill(
        _ device: Device,
        _ mark: String,
        most: Int = 20_000,
        bytes: Int = 500
    ) async throws -> Int {
        let text = String(repeating: "x", count: bytes)
        for index in 0..<most {
            do {
                try await device.todos().insert(Todo(id: "\(mark)\(index)", text: text))
            } catch let error as SyncError {
                #expect(error.code == .storeFailure)
                #expect(error.message.contains("no disk space"))
                return index
            }
        }
        return most
    }

    /// Fills the disk with a file, except for some bytes.
    private func leave(_ bytes: Int, by path: String) throws {
        let file = open(path, O_WRONLY | O_CREAT, 0o600)
        try #require(file >= 0)
        defer { close(file) }
        let chunk = [UInt8](repeating: 0, count: 16 << 10)
        var size = 0
        while true {
            let count = write(file, chunk, chunk.count)
            guard count > 0 else { break }
            size += count
        }
        try #require(ftruncate(file, max(0, size - bytes)) == 0)
    }

    @Test("A store on a full disk uses the space that is freed later", arguments: [false, true])
    func freedSpaceIsUsed(afterRestart: Bool) async throws {
        try await SmallDisk.with { folder in
            let (path, ballast) = (folder + "/store.sqlite", folder + "/ballast")
            #expect(
                FileManager.default.createFile(atPath: ballast, contents: Data(count: 2 << 20))
            )
            var device = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
            let before = try await fill(device, "a")
            #expect(before > 100)
            try FileManager.default.removeItem(atPath: ballast)
            if afterRestart {
                try await device.store.close()
                device = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
            }
            let after = try await fill(device, "b", most: 500)
            #expect(after > 150)
            #expect(try await device.todos().count() == before + after)
            #expect(try await device.context.pendingOperationCount == before + after)
            try await device.store.close()
        }
    }

    /// A purge needs space for its log; if the disk has none, the space that is freed later can be used.
    @Test("A purge that does not fit on the disk removes nothing")
    func aPurgeThatDoesNotFitRemovesNothing() async throws {
        try await SmallDisk.with { folder in
            let (path, ballast) = (folder + "/store.sqlite", folder + "/ballast")
            #expect(
                FileManager.default.createFile(atPath: ballast, contents: Data(count: 2 << 20))
            )
            let device = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
            let before = try await fill(device, "a")
            let rest = folder + "/rest"
            try leave(128 << 10, by: rest)
            await #expect(throws: SyncError.self) {
                try await device.todos().purge(where: { !$0.complete }, force: true)
            }
            #expect(try await device.todos().count() == before)
            for file in [rest, ballast] { try FileManager.default.removeItem(atPath: file) }
            let after = try await fill(device, "b", most: 300)
            #expect(after == 300)
            #expect(try await device.context.pendingOperationCount == before + after)
            try await device.store.close()
        }
    }

    @Test(
        "A pull that filled the disk continues after the last stored page",
        arguments: [false, true]
    )
    func aPullContinuesAfterTheLastStoredPage(afterRestart: Bool) async throws {
        try await SmallDisk.with(size: "12m") { folder in
            let (path, ballast) = (folder + "/store.sqlite", folder + "/ballast")
            let isMade = FileManager.default
                .createFile(atPath: ballast, contents: Data(count: 9 << 20))
            #expect(isMade)
            let (count, page) = (1500, 50)
            let server = try await makeServer()
            let writer = try await Device(server.transport)
            let text = String(repeating: "x", count: 2000)
            try await writer.todos().insert((0..<count).map { Todo(id: "r\($0)", text: text) })
            #expect(try await writer.push() == nil)
            var limits = SyncLimits()
            (limits.pageRowsFirst, limits.pageRowsMax) = (page, page)
            // Each page is a separate transaction.
            limits.storedRowsMax = 1
            var device = try await Device(
                server.transport,
                store: SQLiteStore(path: path),
                limits: limits
            )
            for _ in 0..<2 {
                let error = await #expect(throws: SyncError.self) {
                    try await device.todos().pull(queryID: "all")
                }
                #expect(error?.code == .storeFailure)
                #expect(
                    error?.message.contains("There is no disk space left for the store at") == true
                )
            }
            let kept = try await device.todos().read()
            #expect(kept.count > 0 && kept.count < count && kept.count % page == 0, "\(kept.count)")
            #expect(kept.allSatisfy { $0.text == text && $0.version != nil })
            try FileManager.default.removeItem(atPath: ballast)
            if afterRestart {
                try await device.store.close()
                device = try await Device(server.transport, store: SQLiteStore(path: path))
            }
            let result = try await device.todos().pull(queryID: "all")
            #expect(result.applied == count - kept.count)
            #expect(try await device.todos().count() == count)
            let found = try await device.todos().verify(queryID: "all")
            #expect(found.isEqual)
            try await device.store.close()
        }
    }

    enum Change: CaseIterable { case array, closure, closureThatContinues }

    /// SQLite may have ended the transaction long before the closure ends.
    @Test(
        "A transaction that does not fit on the disk throws an error and changes nothing",
        arguments: Change.allCases
    )
    func aTransactionThatDoesNotFitIsAClearError(_ change: Change) async throws {
        try await SmallDisk.with { folder in
            let path = folder + "/store.sqlite"
            var limits = SyncLimits()
            limits.transactionBytesMax = 1 << 30
            let device = try await Device(
                ScriptedTransport(),
                store: SQLiteStore(path: path),
                limits: limits
            )
            // More data than SQLite keeps in memory until the end of a transaction.
            let text = String(repeating: "x", count: 50_000)
            try await device.todos().insert((0..<300).map { Todo(id: "r\($0)", text: "short") })
            let all = try await device.todos().read()
            let error = await #expect(throws: SyncError.self) {
                guard change != .array else {
                    let long = all.map { Todo(id: $0.id, text: text) }
                    try await device.todos().update(long)
                    return
                }
                try await device.context.transaction { transaction in
                    let todos = try transaction.table(Todo.self)
                    for number in 0..<300 {
                        do {
                            try todos.insert(Todo(id: "n\(number)", text: text))
                        } catch {
                            guard change == .closureThatContinues else { throw error }
                        }
                    }
                    _ = try? todos.insert(Todo(id: "last"))
                }
            }
            #expect(error?.code == .storeFailure)
            #expect(error?.message.contains("There is no disk space left") == true)
            #expect(try await device.todos().read() == all)
            #expect(try await device.context.pendingOperationCount == 300)
            try await device.store.close()
        }
    }

    @Test(
        "A large row on an almost full disk is not lost and is sent when there is space",
        arguments: [64 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20],
        [false, true]
    )
    func aLargeRowWaitsForSpace(left: Int, afterRestart: Bool) async throws {
        try await SmallDisk.with(size: "16m") { folder in
            let (path, rest) = (folder + "/store.sqlite", folder + "/rest")
            let server = try await makeServer()
            var device = try await Device(server.transport, store: SQLiteStore(path: path))
            let text = String(repeating: "x", count: 1_000_000)
            try await device.todos().insert(Todo(id: "large", text: text))
            try await device.todos().insert(Todo(id: "small", text: "x"))
            try leave(left, by: rest)
            for _ in 0..<3 {
                guard let error = try await device.push() else { break }
                #expect(error.status == .storeFailure)
            }
            #expect(try await device.todos().read(id: "large")?.text == text)
            try FileManager.default.removeItem(atPath: rest)
            if afterRestart {
                try await device.store.close()
                device = try await Device(server.transport, store: SQLiteStore(path: path))
            }
            let error = try await device.push()
            #expect(error == nil, "\(String(describing: error?.cause))")
            #expect(try await device.client.table(Todo.self).read(id: "large")?.text == text)
            #expect(try await device.client.table(Todo.self).count() == 2)
            #expect(try await device.queue().isEmpty)
            try await device.store.close()
        }
    }

    /// A slice is not larger than the space on the disk, for changes of any size.
    @Test(
        "A push that failed on a full disk completes when space is freed",
        arguments: [2, 5],
        [false, true]
    )
    func aPushUsesTheAvailableSpace(freed: Int, afterRestart: Bool) async throws {
        try await SmallDisk.with(size: "\(3 + freed)m") { folder in
            let (path, ballast) = (folder + "/store.sqlite", folder + "/ballast")
            let isMade = FileManager.default
                .createFile(atPath: ballast, contents: Data(count: freed << 20))
            #expect(isMade)
            let server = try await makeServer()
            var device = try await Device(server.transport, store: SQLiteStore(path: path))
            let count = try await fill(device, "a", bytes: 20_000)
            #expect(count > 20)
            // These operations return the space that they take.
            for _ in 0..<3 { #expect(try await device.push()?.status == .storeFailure) }
            try FileManager.default.removeItem(atPath: ballast)
            if afterRestart {
                try await device.store.close()
                device = try await Device(server.transport, store: SQLiteStore(path: path))
            }
            let left = try await device.push()
            #expect(left == nil, "\(String(describing: left)) \(String(describing: left?.cause))")
            #expect(try await device.context.pendingOperationCount == 0)
            #expect(try await device.client.table(Todo.self).count() == count)
            try await device.store.close()
        }
    }
}

struct UnknownDiskSpaceTests {
    /// The free space is unknown.
    @Test(
        "A slice that does not fit on the disk is halved, down to one operation",
        arguments: [3, 4]
    )
    func aSliceThatDoesNotFitIsHalved(failures: Int) async throws {
        let (server, store) = (try await makeServer(), TroubledStore())
        let device = try await Device(server.transport, store: store)
        for id in 0..<8 { try await device.todos().insert(Todo(id: "\(id)", text: "x")) }
        var limits = SyncLimits()
        limits.batchRowsFirst = 8
        let pusher = try await Device(server.transport, store: store, limits: limits)
        for _ in 0..<failures { store.add(.fillDisk) }
        let error = try await pusher.push()
        #expect(error?.status == (failures == 3 ? nil : .storeFailure))
        #expect(try await pusher.context.pendingOperationCount == (failures == 3 ? 0 : 8))
        #expect(try await pusher.push() == nil)
        #expect(try await pusher.client.table(Todo.self).count() == 8)
    }
}
