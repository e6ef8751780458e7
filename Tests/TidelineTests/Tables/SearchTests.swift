// Searches as users expect them: localizedStandardContains, and UUIDs in either letter case.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct SearchTests {
    private static let texts = [
        "Müller", "muller", "MÜLLER & Söhne", "Mueller", "Straße", "café", "cafe\u{301}",
        "İstanbul", "",
        "ﬁne", "Ａｂｃ", "日本", "naïve",
    ]

    @Test(
        "A predicate finds the records that Foundation finds",
        arguments: [
            "muller", "MULLER", "Ü", "strasse", "cafe", "istanbul", "", "abc", "naive", "fine",
        ]
    )
    func localized(part: String) async throws {
        try await withTemporaryFile { path in
            for store in [MemoryStore(), try SQLiteStore(path: path)] as [any LocalStore] {
                let device = try await Device(ScriptedTransport(), store: store)
                let todos = try device.todos()
                for (index, text) in Self.texts.enumerated() {
                    try await todos.insert(Todo(id: "\(index)", text: text))
                }
                let wanted = Set(Self.texts.filter { $0.localizedStandardContains(part) })
                let predicate = #Predicate<Todo> { $0.text.localizedStandardContains(part) }
                let found = try await todos.read(where: predicate)
                // Two forms of a text that Unicode considers equal are one member of the set.
                let count = Self.texts.count { $0.localizedStandardContains(part) }
                #expect(found.count == count)
                #expect(Set(found.map(\.text)) == wanted)
                let closure = try await todos.read(where: {
                    $0.text.localizedStandardContains(part)
                })
                #expect(closure == found)
                let others = try await todos.count(
                    where: #Predicate<Todo> {
                        !$0.text.localizedStandardContains(part)
                    }
                )
                #expect(others + found.count == Self.texts.count)
            }
        }
    }

    @Test("A localized search is not sent to a server, and the error names it")
    func pulls() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport)
        let predicate = #Predicate<Todo> { $0.text.localizedStandardContains("x") }
        let error = await #expect(throws: SyncError.self) {
            try await device.todos().pull(queryID: "a", where: predicate)
        }
        #expect(error?.code == .unsupportedQuery)
        #expect(error?.message.contains("localizedStandardContains") == true)
        #expect(transport.sent.isEmpty)
    }

    /// The former version of the table, with a text column.
    private struct Before: SyncRecord, Hashable {
        static let tableName = "Task"
        var id = ""
        var list = ""
    }

    private struct After: SyncRecord, Hashable {
        static let tableName = "Task"
        var id = ""
        var list: UUID?
    }

    @Test("A condition on a UUID column finds texts in either letter case")
    func uuids() async throws {
        try await withTemporaryFile { path in
            let (one, two) = (UUID(), UUID())
            let before = try await Device(
                ScriptedTransport(),
                store: SQLiteStore(path: path),
                tables: [Before.self]
            )
            let old = try before.client.syncTable(Before.self)
            try await old.insert(Before(id: "a", list: one.uuidString))
            try await old.insert(Before(id: "b", list: one.uuidString.lowercased()))
            try await old.insert(Before(id: "c", list: two.uuidString))
            let after = try await Device(
                ScriptedTransport(),
                store: SQLiteStore(path: path),
                tables: [After.self]
            )
            let tasks = try after.client.syncTable(After.self)
            let order: [SortTerm<After>] = [.ascending(\.id)]
            #expect(
                try await tasks.read(where: { $0.list == one }, sortedBy: order).map(\.id) == [
                    "a", "b",
                ]
            )
            #expect(try await tasks.read(where: { $0.list != one }).map(\.id) == ["c"])
            #expect(try await tasks.read(where: { $0.list.isIn([one, two]) }).count == 3)
            #expect(try await tasks.read(where: { !$0.list.isIn([two]) }).count == 2)
            let same = try await tasks.read(where: #Predicate { $0.list == one }, sortedBy: order)
            #expect(same.map(\.id) == ["a", "b"])
            var lists = tasks.observe(where: { $0.list == two }).makeAsyncIterator()
            #expect(try await lists.next()?.map(\.id) == ["c"])
            try await tasks.delete(id: "c")
            #expect(try await lists.next()?.isEmpty == true)
            let rows = try after.client.syncTable(named: "Task")
            let found = try await rows.read(where: { $0["list"] == .string(one.uuidString) })
            #expect(found.count == 2)
        }
    }
}
