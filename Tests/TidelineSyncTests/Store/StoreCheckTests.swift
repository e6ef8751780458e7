// SQLiteStore.check(): a file that is whole, and files that are not.

import Foundation
import Testing
import Tideline
import TidelineSQLite

@Suite struct StoreCheckTests {
    private func store(_ path: String) async throws -> SQLiteStore {
        let store = try SQLiteStore(path: path)
        let device = try await Device(ScriptedTransport(), store: store)
        let text = String(repeating: "x", count: 200)
        try await device.todos().insert((0..<300).map { Todo(id: "r\($0)", text: text) })
        return store
    }

    @Test func aWholeFileIsSound() async throws {
        try await withTemporaryFile { path in
            let report = try await store(path).check()
            #expect(report == StoreReport())
            // Tables that were not opened are not looked at.
            let unopened = try await SQLiteStore(path: path).check()
            #expect(unopened.isSound)
        }
    }

    @Test func whatSomethingElseChangedIsTold() async throws {
        try await withTemporaryFile { path in
            let store = try await store(path)
            do {
                let database = try Database(path: path)
                try database.execute("UPDATE Todo SET text = 'secret' WHERE id IN ('r1', 'r2')")
                try database.execute("UPDATE MS_TableOperations SET kind = 9 WHERE id = 7")
            }
            let report = try await store.check()
            #expect(report.problems.count == 2)
            #expect(
                report.problems.contains { $0.contains("Operation 7") && $0.contains("'kind'") }
            )
            #expect(report.problems.contains { $0.hasPrefix("2 row(s) of 'Todo'") })
            #expect(!report.problems.joined().contains("secret"))
        }
    }

    @Test func damagedPagesAreTold() async throws {
        try await withTemporaryFile { path in
            try await store(path).close()
            let file = try FileHandle(forUpdating: URL(filePath: path))
            let end = try file.seekToEnd()
            // The pages in the middle, without the first one, which opening reads.
            for page in stride(from: UInt64(8 * 4096), to: end / 2, by: 4096) {
                try file.seek(toOffset: page)
                try file.write(contentsOf: Data(repeating: 0xA5, count: 512))
            }
            try file.close()
            let report = try? await SQLiteStore(path: path).check()
            // A file that cannot even be read is refused with a text; else it is told.
            #expect(report?.isSound != true)
            if let report { #expect(report.problems[0].hasPrefix("The file is damaged")) }
        }
    }
}
