// SQLiteStore.check(): an intact file, and damaged files.

import Foundation
import Testing
import Tideline
import TidelineSQLite
import TidelineTestSupport

@Suite struct StoreCheckTests {
    private func store(_ path: String) async throws -> SQLiteStore {
        let store = try SQLiteStore(path: path)
        let device = try await Device(ScriptedTransport(), store: store)
        let text = String(repeating: "x", count: 200)
        try await device.todos().insert((0..<300).map { Todo(id: "r\($0)", text: text) })
        return store
    }

    @Test("A check of an intact file reports no problems") func anIntactFileIsSound() async throws {
        try await withTemporaryFile { path in
            let report = try await store(path).check()
            #expect(report == StoreReport())
            // Tables that were not opened are not checked.
            let unopened = try await SQLiteStore(path: path).check()
            #expect(unopened.isSound)
        }
    }

    @Test("A check reports changes by another program without their values")
    func changesOfAnotherProgramAreReported() async throws {
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

    /// The ways to damage a file.
    enum Damage: CaseIterable {
        /// Pages in the middle, without the first pages, which are read when the file is opened.
        case middle
        /// The second half of the pages.
        case end
        /// The second half is missing.
        case cut
    }

    private func damage(_ path: String, _ damage: Damage) throws {
        let file = try FileHandle(forUpdating: URL(filePath: path))
        let end = try file.seekToEnd()
        let half = end / 2 / 4096 * 4096
        switch damage {
        case .middle:
            for page in stride(from: UInt64(8 * 4096), to: half, by: 4096) {
                try file.seek(toOffset: page)
                try file.write(contentsOf: Data(repeating: 0xA5, count: 512))
            }
        case .end:
            for page in stride(from: half, to: end, by: 4096) {
                try file.seek(toOffset: page)
                try file.write(contentsOf: Data(repeating: 0xA5, count: 4096))
            }
        case .cut:
            try file.truncate(atOffset: half)
        }
        try file.close()
    }

    /// The error says that the file is damaged, and what to do.
    private func expectClear(_ error: any Error, _ path: String) {
        let error = error as? SyncError
        #expect(error?.code == .storeFailure)
        let message = error?.message ?? ""
        #expect(message.contains("The store at \(path) is damaged"))
        #expect(message.contains("Restore a copy of it, or use another path and pull again"))
    }

    @Test("A check reports damaged pages", arguments: Damage.allCases)
    func damagedPagesAreReported(_ damage: Damage) async throws {
        try await withTemporaryFile { path in
            try await store(path).close()
            try self.damage(path, damage)
            let store: SQLiteStore
            do {
                store = try SQLiteStore(path: path)
            } catch {
                return expectClear(error, path)
            }
            let report = try await store.check()
            #expect(!report.problems.isEmpty)
            #expect(report.problems.allSatisfy { $0.hasPrefix("The file is damaged: ") })
        }
    }

    @Test(
        "A read of a damaged file returns rows as they were stored or reports the damage",
        arguments: Damage.allCases
    )
    func damagedRowsAreNotReturned(_ damage: Damage) async throws {
        try await withTemporaryFile { path in
            try await store(path).close()
            try self.damage(path, damage)
            let todos: SyncTable<Todo>
            do {
                let store = try SQLiteStore(path: path)
                todos = try await Device(ScriptedTransport(), store: store).todos()
            } catch {
                return expectClear(error, path)
            }
            let text = String(repeating: "x", count: 200)
            let error = await #expect(throws: SyncError.self) { try await todos.read() }
            if let error { expectClear(error, path) }
            var (whole, damaged) = (0, 0)
            for number in 0..<300 {
                do {
                    let row = try #require(try await todos.read(id: "r\(number)"))
                    #expect(row == Todo(id: "r\(number)", text: text))
                    whole += 1
                } catch let error as SyncError {
                    expectClear(error, path)
                    damaged += 1
                }
            }
            #expect(damaged > 0, "\(whole) rows are whole")
        }
    }
}
