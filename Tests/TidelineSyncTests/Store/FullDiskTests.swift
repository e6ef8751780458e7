// A disk that is full: nothing is lost, and what is freed helps at once, also after a restart.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit

#if os(Linux)
import Glibc
#endif

@Suite(.enabled(if: SmallDisk.mayMount, "mounting a small disk needs rights"))
struct FullDiskTests {
    /// Inserts until the disk is full; how many rows went in.
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
                #expect(error.message.contains("no space"))
                return index
            }
        }
        return most
    }

    @Test(arguments: [false, true])
    func whatIsFreedHelps(afterRestart: Bool) async throws {
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

    /// A purge needs room for the log that it writes; where that is not there, what was freed is
    /// free again behind it.
    @Test func aPurgeThatDoesNotFitTakesNothing() async throws {
        try await SmallDisk.with { folder in
            let (path, ballast) = (folder + "/store.sqlite", folder + "/ballast")
            #expect(
                FileManager.default.createFile(atPath: ballast, contents: Data(count: 2 << 20))
            )
            let device = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
            let before = try await fill(device, "a")
            #expect(truncate(ballast, 1 << 20) == 0)
            await #expect(throws: SyncError.self) {
                try await device.todos().purge(where: { !$0.complete }, force: true)
            }
            #expect(try await device.todos().count() == before)
            let after = try await fill(device, "b", most: 300)
            #expect(after == 300)
            #expect(try await device.context.pendingOperationCount == before + after)
            try await device.store.close()
        }
    }

    /// A slice is no larger than the disk has room for, however large the changes are.
    @Test(arguments: [1, 2, 5], [false, true])
    func aPushTakesWhatThereIsRoomFor(freed: Int, afterRestart: Bool) async throws {
        try await SmallDisk.with(size: "\(3 + freed)m") { folder in
            let (path, ballast) = (folder + "/store.sqlite", folder + "/ballast")
            let isMade = FileManager.default
                .createFile(atPath: ballast, contents: Data(count: freed << 20))
            #expect(isMade)
            let server = try await makeServer()
            var device = try await Device(server.transport, store: SQLiteStore(path: path))
            let count = try await fill(device, "a", bytes: 20_000)
            #expect(count > 20)
            // What these take of the disk they give back.
            for _ in 0..<3 { #expect(try await device.push()?.status == .storeFailure) }
            try FileManager.default.removeItem(atPath: ballast)
            if afterRestart {
                try await device.store.close()
                device = try await Device(server.transport, store: SQLiteStore(path: path))
            }
            #expect(try await device.push() == nil)
            #expect(try await device.context.pendingOperationCount == 0)
            #expect(try await device.client.table(Todo.self).count() == count)
            try await device.store.close()
        }
    }
}

struct NoRoomTests {
    /// Where the room is not told, slices are halved until they fit, down to one operation.
    @Test(arguments: [3, 4])
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
