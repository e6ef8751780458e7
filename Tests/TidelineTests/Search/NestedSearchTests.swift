// Searches for words together with conditions on nested values and arrays, and localized orders by nested values.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite struct NestedSearchTests {
    private struct Call: SyncRecord, Hashable {
        struct Address: Codable, Hashable {
            var city = ""
            var isOpen = false
        }

        var id = ""
        var title = ""
        var isOpen = true
        var address = Address()
        var tags: [String] = []

        static let search = SearchIndex(\Call.title)
    }

    private static let sample = [
        Call(id: "a", title: "boiler boiler", address: .init(city: "Öhe"), tags: ["urgent"]),
        Call(id: "b", title: "boiler in the cellar", address: .init(city: "Zell"), tags: []),
        Call(id: "c", title: "roof", address: .init(city: "Öhe", isOpen: true), tags: ["urgent"]),
        Call(id: "d", title: "a boiler", address: .init(city: "Oberau"), tags: ["urgent"]),
    ]

    private let transport = ScriptedTransport()

    private func table(
        _ path: String,
        inserting records: [Call] = Self.sample
    ) async throws -> SyncTable<Call> {
        let device = try await SearchScene.device(path, transport, Call.self)
        let calls = try device.client.syncTable(Call.self)
        try await calls.insert(records)
        return calls
    }

    @Test("A search can be combined with a condition on a nested value or an array")
    func joins() async throws {
        try await withTemporaryFile { path in
            let calls = try await table(path)
            func ids(_ condition: (Columns<Call>) throws -> Condition) async throws -> [String] {
                let query = try Query<Call>(where: condition)
                return try await calls.read(query.sorted(by: .ascending(\.id))).items.map(\.id)
            }
            #expect(try await ids { $0.matching("boiler") && $0.address.city == "Öhe" } == ["a"])
            #expect(
                try await ids { $0.matching("boiler") && $0.tags.contains("urgent") } == ["a", "d"]
            )
            #expect(
                try await ids { $0.matching("roof") || $0.tags.isEmpty } == ["b", "c"]
            )
            #expect(
                try await ids { !($0.matching("boiler") && $0.address.city == "Öhe") }
                    == ["b", "c", "d"]
            )
            #expect(try await ids { $0.matching("-roof") && $0.tags.count == 1 } == ["a", "d"])
            #expect(try await ids { $0.isOpen == $0.matching("boiler") } == ["a", "b", "d"])
            #expect(try await ids { $0.isOpen != $0.matching("-roof") } == ["c"])
        }
    }

    @Test("Matches that meet a condition on an array are ranked, counted and observed")
    func ranks() async throws {
        try await withTemporaryFile { path in
            let calls = try await table(path)
            let isUrgent: @Sendable (Columns<Call>) -> Condition = { $0.tags.contains("urgent") }
            let hits = try await calls.search("boiler", where: isUrgent)
            #expect(hits.map(\.record.id) == ["a", "d"])
            let query = try Query<Call>(where: isUrgent).matching("boiler")
            #expect(try await calls.read(query).items.map(\.id) == ["a", "d"])
            #expect(try await calls.count(where: { isUrgent($0) && $0.matching("boiler") }) == 2)
            var lists = calls.observe(query).makeAsyncIterator()
            #expect(try await lists.next()?.map(\.id) == ["a", "d"])
            try await calls.update(id: "a") { $0.tags = [] }
            #expect(try await lists.next()?.map(\.id) == ["d"])
        }
    }

    @Test("The rows that a store reads for records are the matches of the search")
    func recordRows() async throws {
        try await withTemporaryFile { path in
            let store = try SearchScene.store(path)
            let device = try await Device(transport, store: store, tables: [Call.self])
            try await device.client.syncTable(Call.self).insert(Self.sample)
            let query = try Query<Call>(where: { $0.matching("boiler") }).table
            let ids = try await store.read { reader in
                try reader.recordRows(query, in: "Call", omitting: "__queries").compactMap {
                    $0["id"]?.text
                }
            }
            #expect(ids == ["a", "d", "b"])
        }
    }

    @Test("A search within a condition on documents is an error, not a wrong result")
    func withinDocuments() async throws {
        try await withTemporaryFile { path in
            let calls = try await table(path)
            let conditions: [@Sendable (Columns<Call>) -> Condition] = [
                { call in call.tags.contains { call.matching("boiler") && $0 == "urgent" } },
                { call in !call.tags.contains { !call.matching("boiler") && $0 == "urgent" } },
                { $0.matching("boiler") == $0.address.isOpen },
                { $0.isOpen && $0.matching("boiler") == $0.address.isOpen },
                { $0.isOpen || !($0.address.isOpen == $0.matching("boiler")) },
            ]
            for condition in conditions {
                #expect(
                    await code { _ = try await calls.read(where: condition) } == .unsupportedQuery
                )
                #expect(
                    await code { _ = try await calls.count(where: condition) } == .unsupportedQuery
                )
            }
        }
    }

    @Test("A search that is compared with a property uses the property's default")
    func defaults() async throws {
        try await withTemporaryFile { path in
            let calls = try await table(path, inserting: [])
            transport.add(
                page([
                    #"{"id":"e","version":"1","title":"old boiler","updatedAt":"2026-01-01T00:00:00Z"}"#
                ])
            )
            try await calls.pull(queryID: "all")
            let found = try await calls.read(
                where: { $0.id == "e" && $0.matching("boiler") == $0.isOpen }
            )
            #expect(found.map(\.isOpen) == [true])
        }
    }

    @Test("Records are ordered by a text in a nested value by a language")
    func nestedOrder() async throws {
        try await withTemporaryFile { path in
            let order = TextOrder.localized(Locale(identifier: "de_DE"))
            for store in [MemoryStore(), try SearchScene.store(path)] as [any LocalStore] {
                let device = try await Device(transport, store: store, tables: [Call.self])
                let calls = try device.client.syncTable(Call.self)
                try await calls.insert(Self.sample)
                let up = try await calls.read(sortedBy: [.ascending(\.address.city, order)])
                #expect(up.map(\.id) == ["d", "a", "c", "b"])
                let down = try await calls.read(sortedBy: [.descending(\.address.city, order)])
                #expect(down.map(\.id) == ["b", "a", "c", "d"])
            }
        }
    }
}
