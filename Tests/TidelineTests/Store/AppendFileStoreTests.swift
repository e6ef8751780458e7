// AppendFileStore: a store without SQL meets all requirements, also if it is interrupted anywhere.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct AppendFileStoreTests {
    @Test("AppendFileStore passes each conformance check", arguments: LocalStoreConformance.all)
    func theStoreConforms(check: LocalStoreConformance.Check) async throws {
        try await withTemporaryFile { path in
            try await check.run { name in try AppendFileStore(path: path + "-" + name) }
        }
    }

    @Test("The queue of an AppendFileStore survives a restart and is pushed")
    func aDeviceWorksWithTheStore() async throws {
        try await withTemporaryFile { path in
            let server = try await makeServer()
            let device = try await Device(server.transport, store: AppendFileStore(path: path))
            try await device.context.transaction { transaction in
                try transaction.table(Todo.self).insert(Todo(id: "a", text: "one"))
                try transaction.table(Note.self).insert(Note(id: "n", body: "two"))
            }
            try await device.store.close()
            let again = try await Device(server.transport, store: AppendFileStore(path: path))
            #expect(try await again.queue() == ["insert a", "insert n"])
            #expect(try await again.push() == nil)
            try await again.todos().pull(queryID: "all")
            #expect(try await again.todos().read().map(\.text) == ["one"])
        }
    }

    @Test("A truncated file has the state after one of its transactions")
    func aTruncatedFileHasCompleteTransactions() async throws {
        try await withTemporaryFile { path in
            let schema = TableSchema(name: "T", columns: [ColumnDefinition("text", .string)])
            let store = try AppendFileStore(path: path)
            try await store.open(tables: [schema])
            var ends: [Int] = [0]
            for number in 1...3 {
                try await store.write { writer in
                    try writer.put([["id": "a", "text": .string("\(number)")]], in: "T")
                    try writer.put([["id": "b", "text": .string("\(number)")]], in: "T")
                }
                ends.append(try Data(contentsOf: URL(filePath: path)).count)
            }
            try await store.close()
            let whole = try Data(contentsOf: URL(filePath: path))
            for length in stride(from: 0, through: whole.count, by: 3) + [whole.count] {
                let copy = path + "-cut"
                try whole.prefix(length).write(to: URL(filePath: copy))
                let cut = try AppendFileStore(path: copy)
                try await cut.open(tables: [schema])
                let texts = try await cut.read { reader in
                    try reader.rows(TableQuery(), in: "T").map { $0["text"]?.text ?? "" }
                }
                let number = try #require(ends.lastIndex { $0 <= length })
                #expect(texts == (number == 0 ? [] : ["\(number)", "\(number)"]))
                // The truncated rest does not prevent the next line.
                try await cut.write { try $0.put([["id": "c"]], in: "T") }
                try await cut.close()
                let again = try AppendFileStore(path: copy)
                try await again.open(tables: [schema])
                #expect(try await again.read { try $0.count(nil, in: "T") } == texts.count + 1)
                try await again.close()
            }
        }
    }

    @Test("A damaged file is rejected and not changed")
    func aDamagedFileIsRejectedAndNotChanged() async throws {
        try await withTemporaryFile { path in
            let store = try AppendFileStore(path: path)
            try await store.open(tables: [TableSchema(name: "T", columns: [])])
            for id in ["a", "b"] {
                try await store.write { try $0.put([["id": .string(id)]], in: "T") }
            }
            try await store.close()
            #expect(await code { _ = try await store.read { try $0.count(nil, in: "T") } } != nil)
            var bytes = try Data(contentsOf: URL(filePath: path))
            bytes[20] ^= 1
            try bytes.write(to: URL(filePath: path))
            #expect(await code { _ = try AppendFileStore(path: path) } == .storeFailure)
            #expect(try Data(contentsOf: URL(filePath: path)) == bytes)
        }
    }

    @Test("A file with mostly outdated lines is rewritten when it is opened")
    func outdatedLinesAreRemovedWhenTheFileIsOpened() async throws {
        try await withTemporaryFile { path in
            let schema = TableSchema(name: "T", columns: [ColumnDefinition("text", .string)])
            let store = try AppendFileStore(path: path)
            try await store.open(tables: [schema])
            for number in 0..<30 {
                try await store.write { writer in
                    for _ in 0..<50 {
                        try writer.put([["id": "a", "text": .string("\(number)")]], in: "T")
                    }
                }
            }
            try await store.close()
            let before = try Data(contentsOf: URL(filePath: path)).count
            let again = try AppendFileStore(path: path)
            try await again.open(tables: [schema])
            #expect(try Data(contentsOf: URL(filePath: path)).count < before / 100)
            try await again.write { try $0.put([["id": "b"]], in: "T") }
            try await again.close()
            let last = try AppendFileStore(path: path)
            try await last.open(tables: [schema])
            #expect(
                try await last.read { try $0.rows(TableQuery(), in: "T").map(\.id) } == ["a", "b"]
            )
        }
    }
}
