// Compaction: the pages of purged rows are returned to the disk.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct CompactionTests {
    private static let rows = 8_000

    private func bytes(of path: String) throws -> Int64 {
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        return (attributes[.size] as? NSNumber)?.int64Value ?? -1
    }

    /// Makes a device whose table has about 16 MB of rows from the server.
    ///
    /// If `isOld`, the file cannot return pages by itself, like files of earlier versions.
    private func filledDevice(_ path: String, isOld: Bool = false) async throws -> Device {
        if isOld {
            _ = try Database(path: path)
        }
        let device = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
        for start in stride(from: 0, to: Self.rows, by: 1000) {
            try await device.seed(
                (start..<start + 1000).map { number in
                    [
                        "id": .string("row-\(number)"), "rank": .integer(Int64(number)),
                        "text": .string(String(repeating: "x", count: 2000)),
                    ]
                }
            )
        }
        await device.store.suspend()
        device.store.resume()
        _ = try await device.rows("Note")
        return device
    }

    @Test("A purge of all rows shrinks the file by itself", arguments: [false, true])
    func aPurgeOfEverything(isOld: Bool) async throws {
        try await withTemporaryFile { path in
            let device = try await filledDevice(path, isOld: isOld)
            try await device.todos().purge(force: true)
            #expect(try bytes(of: path) < 1 << 20)
            let report = try await (device.store as? SQLiteStore)?.check()
            #expect(report?.isSound == true)
        }
    }

    @Test(
        "A purge of most rows shrinks the file and keeps the other rows",
        arguments: [false, true]
    )
    func aPurgeOfMost(isOld: Bool) async throws {
        try await withTemporaryFile { path in
            let device = try await filledDevice(path, isOld: isOld)
            try await device.todos().purge(where: { $0.rank >= 1000 })
            #expect(try bytes(of: path) < 4 << 20)
            #expect(try await device.todos().count() == 1000)
            let report = try await (device.store as? SQLiteStore)?.check()
            #expect(report?.isSound == true)
            // Another store on the same file can read it, too.
            let other = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
            #expect(try await other.todos().read(id: "row-7")?.rank == 7)
        }
    }

    @Test("A purge of a few rows does not shrink the file, but compact() does")
    func aPurgeOfFew() async throws {
        try await withTemporaryFile { path in
            let device = try await filledDevice(path)
            let store = try #require(device.store as? SQLiteStore)
            try await device.todos().purge(where: { $0.rank < 1000 })
            let before = try bytes(of: path)
            #expect(before > 12 << 20)
            // With a time limit of zero nothing happens.
            #expect(try await store.compact(deadline: .zero).isComplete == false)
            let result = try await store.compact(deadline: .seconds(60))
            #expect(result.isComplete && result.freedBytes > 1 << 20)
            #expect(try bytes(of: path) <= before - (1 << 20))
            #expect(try await store.compact(deadline: .seconds(60)) == CompactionResult())
            #expect(try await device.todos().count() == Self.rows - 1000)
        }
    }

    @Test("Changes and reads continue while space is returned")
    func changesContinue() async throws {
        try await withTemporaryFile { path in
            let device = try await filledDevice(path)
            let store = try #require(device.store as? SQLiteStore)
            let other = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
            try await device.todos().purge(where: { $0.rank < 3000 })
            async let result = store.compact(deadline: .seconds(60))
            for number in 0..<50 {
                try await device.todos().insert(Todo(id: "new-\(number)"))
                try await other.todos().insert(Todo(id: "other-\(number)"))
                #expect(try await other.todos().read(id: "new-\(number)") != nil)
            }
            #expect(try await result.freedBytes > 0)
            #expect(try await device.todos().count() == Self.rows - 3000 + 100)
            #expect(try await store.check().isSound)
        }
    }
}
