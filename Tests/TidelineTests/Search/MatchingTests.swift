// Searches for words: what they find, in every way in which rows change.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct MatchingTests {
    private static let sample = [
        Ticket(id: "a", title: "Boiler Müller", notes: "Jährliche Wartung, Kiel"),
        Ticket(id: "b", title: "Wartungsvertrag", notes: nil),
        Ticket(id: "c", title: "MULLER & Söhne", notes: "kein Boiler", isOpen: false),
        Ticket(id: "d", title: "cafe\u{301} \"Zur Post\"", notes: "don't * wait-list हिन्दी"),
        Ticket(id: "e", title: "", notes: "Straße 12"),
    ]

    @Test(
        "A search finds the rows with all its words",
        arguments: [
            ("müller", "ac"), ("MULLER boiler", "ac"), ("wart*", "ab"), ("wart", ""),
            ("wartung", "a"),
            ("\"muller sohne\"", "c"), ("\"sohne muller\"", ""), ("\"boiler mul\"*", "a"),
            ("boiler -kein", "a"), ("-boiler", "bde"), ("-boiler -straße", "bd"),
            ("boiler -müller", ""),
            ("café", "d"), ("cafe", "d"), ("strasse", ""), ("STRASSE", ""), ("straße", "e"),
            ("12", "e"),
            ("don't", "d"), ("t don", "d"), ("\"t don\"", ""), ("dont", ""), ("wait-list", "d"),
            ("wait", "d"),
            ("हिन्दी", "d"), ("हिन्*", "d"),
            ("", "abcde"), ("  ", "abcde"), ("*", "abcde"), ("&", "abcde"), ("- \" \"", "abcde"),
            ("\"\" müller", "ac"),
            ("\"zur post", "d"), ("post\"", "d"), ("zur AND post", ""), ("NOT", ""),
            ("c0:boiler", ""),
            ("NEAR(boiler muller)", ""), ("{c0}:x", ""), ("a\0b", ""), ("boiler\0müller", "ac"),
            ("^boiler", "ac"),
            ("--boiler", "bde"), ("boiler-müller", "a"), ("+boiler", "ac"), ("'; DROP TABLE", ""),
        ]
    )
    func finds(text: String, ids: String) async throws {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            try await SearchScene.tickets(device).insert(Self.sample)
            #expect(try await SearchScene.ids(text, device) == ids.map(String.init))
            let count = try await SearchScene.tickets(device).count(where: { $0.matching(text) })
            #expect(count == ids.count)
            let hits = try await SearchScene.tickets(device).search(text)
            #expect(hits.map(\.record.id).sorted() == ids.map(String.init))
        }
    }

    @Test("A search can be combined with other conditions")
    func composes() async throws {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            let tickets = try SearchScene.tickets(device)
            try await tickets.insert(Self.sample)
            let order: [SortTerm<Ticket>] = [.ascending(\.id)]
            let open = try await tickets.read(
                where: { $0.matching("muller") && $0.isOpen },
                sortedBy: order
            )
            #expect(open.map(\.id) == ["a"])
            let either = try await tickets.read(
                where: { $0.matching("muller") || $0.title == "Wartungsvertrag" },
                sortedBy: order
            )
            #expect(either.map(\.id) == ["a", "b", "c"])
            let none = try await tickets.read(where: { !$0.matching("boiler") }, sortedBy: order)
            #expect(none.map(\.id) == ["b", "d", "e"])
            let both = try await tickets.read(
                where: { $0.matching("boiler") && $0.matching("-kein") },
                sortedBy: order
            )
            #expect(both.map(\.id) == ["a"])
            let query = try Query<Ticket>(where: { !$0.isOpen }).matching("boiler")
            #expect(try await tickets.read(query).items.map(\.id) == ["c"])
            var counted = Query<Ticket>().matching("boiler").limited(to: 1)
            counted.includesTotalCount = true
            #expect(try await tickets.read(counted).totalCount == 2)
            let rows = try device.client.syncTable(named: "Ticket")
            #expect(try await rows.read(where: { $0.matching("kiel") }).map(\.id) == ["a"])
        }
    }

    @Test("A search that is nested too deep is an error, not a wrong result")
    func nests() async throws {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            let tickets = try SearchScene.tickets(device)
            try await tickets.insert(Self.sample)
            let code = await code {
                _ = try await tickets.read(where: { columns in
                    var condition = columns.matching("boiler")
                    for number in 0..<30 {
                        condition = !(condition && columns.title != "\(number)")
                    }
                    return condition
                })
            }
            #expect(code == .unsupportedQuery)
        }
    }

    @Test("Local changes reach the index in their transaction")
    func localChanges() async throws {
        struct Stop: Error {}
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            let tickets = try SearchScene.tickets(device)
            try await tickets.insert(Self.sample)
            try await tickets.update(id: "a") { $0.title = "Pumpe" }
            try await tickets.update(id: "b") { $0.isOpen = false }
            try await tickets.delete(id: "c")
            #expect(try await SearchScene.ids("muller", device) == [])
            #expect(try await SearchScene.ids("pumpe", device) == ["a"])
            #expect(try await SearchScene.ids("wartungsvertrag", device) == ["b"])
            await #expect(throws: Stop.self) {
                try await device.context.transaction { transaction in
                    let tickets = try transaction.table(Ticket.self)
                    try tickets.update(id: "a") { $0.title = "Ventil" }
                    try tickets.insert(Ticket(id: "f", title: "Ventil"))
                    let found = try tickets.read(
                        where: { $0.matching("ventil") },
                        sortedBy: [.ascending(\.id)]
                    )
                    #expect(found.map(\.id) == ["a", "f"])
                    try tickets.delete(id: "f")
                    #expect(try tickets.read(where: { $0.matching("ventil") }).map(\.id) == ["a"])
                    throw Stop()
                }
            }
            #expect(try await SearchScene.ids("ventil", device) == [])
            #expect(try await SearchScene.ids("pumpe", device) == ["a"])
            try SearchScene.checkIndex(path)
        }
    }

    @Test("Pulled rows, changed rows and tombstones reach the index")
    func pulls() async throws {
        try await withTemporaryFile { path in
            let transport = ScriptedTransport()
            let device = try await SearchScene.device(path, transport)
            func row(_ id: String, _ version: Int, _ title: String, deleted: Bool = false) -> String
            {
                """
                {"id":"\(id)","title":"\(title)","notes":null,"isOpen":true,"version":"v\(version)",\
                "createdAt":"2026-01-01T00:00:00.000Z","updatedAt":"\(timestamp(version))","deleted":\(deleted)}
                """
            }
            transport.add(
                page([row("a", 1, "red lamp"), row("b", 2, "blue lamp")]),
                page([row("a", 3, "green lamp"), row("b", 4, "", deleted: true)])
            )
            try await SearchScene.tickets(device).pull(queryID: "all")
            #expect(try await SearchScene.ids("lamp", device) == ["a", "b"])
            try await SearchScene.tickets(device).pull(queryID: "all")
            #expect(try await SearchScene.ids("lamp", device) == ["a"])
            #expect(try await SearchScene.ids("red", device) == [])
            #expect(try await SearchScene.ids("green", device) == ["a"])
            try SearchScene.checkIndex(path)
        }
    }

    @Test("The best matches come first, and pages by offset return each record once")
    func ranks() async throws {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            let tickets = try SearchScene.tickets(device)
            let filler = String(repeating: "lorem ", count: 30)
            try await tickets.insert(
                [Ticket(id: "far", title: "x", notes: filler + "lamp")]
                    + (0..<40).map {
                        Ticket(id: "n\(100 + $0)", title: "number", notes: "lamp \($0)")
                    }
                    + [Ticket(id: "best", title: "lamp lamp", notes: "lamp")]
            )
            let all = try await tickets.read(where: { $0.matching("lamp") })
            #expect(all.count == 42)
            #expect(all.first?.id == "best")
            #expect(all.last?.id == "far")
            var paged: [String] = []
            for offset in stride(from: 0, to: 50, by: 7) {
                let query = Query<Ticket>().matching("lamp").limited(to: 7, offset: offset)
                paged += try await tickets.read(query).items.map(\.id)
            }
            #expect(paged == all.map(\.id))
            let byState = try await tickets.read(
                where: { $0.matching("lamp") && $0.title != "x" },
                sortedBy: [.descending(\.title), .rank]
            )
            #expect(byState.count == 41)
            #expect(byState.last?.id == "best")
            let explicit = try await tickets.read(where: { $0.matching("lamp") }, sortedBy: [.rank])
            #expect(explicit == all)
            #expect(
                try await tickets.read(where: { $0.matching("") }, sortedBy: [.rank]).count == 42
            )
            let without = await code { _ = try await tickets.read(sortedBy: [.rank]) }
            #expect(without == .unsupportedQuery)
        }
    }

    @Test("If there are very many matches, those that were stored last come first")
    func manyMatches() async throws {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            let tickets = try SearchScene.tickets(device)
            try await device.seed(
                (0..<3100).map {
                    ["id": .string("n\($0)"), "title": "lamp", "isOpen": .bool($0 < 50)]
                },
                "Ticket"
            )
            let query = Query<Ticket>().matching("lamp").limited(to: 3)
            #expect(try await tickets.read(query).items.map(\.id) == ["n3099", "n3098", "n3097"])
            let open = try await tickets.read(where: { $0.matching("lamp") && $0.isOpen }, limit: 2)
            #expect(open.map(\.id) == ["n49", "n48"])
            #expect(try await tickets.search("lamp", limit: 1).first?.rank == 0)
        }
    }

    @Test("An observed search follows every change of its table")
    func observes() async throws {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            let tickets = try SearchScene.tickets(device)
            var lists = tickets.observe(where: { $0.matching("lamp") }).makeAsyncIterator()
            #expect(try await lists.next() == [])
            var counts = tickets.observeCount(where: { $0.matching("lamp") }).makeAsyncIterator()
            #expect(try await counts.next() == 0)
            var hits = tickets.observeSearch("lamp").makeAsyncIterator()
            #expect(try await hits.next()?.isEmpty == true)
            try await tickets.insert(Ticket(id: "a", title: "Lamp"))
            #expect(try await lists.next()?.map(\.id) == ["a"])
            #expect(try await counts.next() == 1)
            #expect(try await hits.next()?.first?.highlight(\.title)?.matches.count == 1)
            try await tickets.update(id: "a") { $0.title = "Torch" }
            #expect(try await lists.next() == [])
            #expect(try await counts.next() == 0)
            #expect(try await hits.next()?.isEmpty == true)
        }
    }

    @Test("A search that cannot be executed throws an error that states the reason")
    func rejects() async throws {
        let transport = ScriptedTransport()
        let memory = try await Device(transport, tables: [Ticket.self])
        let tickets = try memory.client.syncTable(Ticket.self)
        func message(_ body: () async throws -> Void) async -> String {
            do {
                try await body()
                return ""
            } catch let error as SyncError {
                #expect(error.code == .unsupportedQuery)
                return error.message
            } catch {
                return "\(error)"
            }
        }
        #expect(
            await message { _ = try await tickets.read(where: { $0.matching("x") }) }.contains(
                "SQLiteStore"
            )
        )
        #expect(
            await message { _ = try await tickets.count(where: { $0.matching("x") }) }.contains(
                "SQLiteStore"
            )
        )
        #expect(await message { _ = try await tickets.search("x") }.contains("SQLiteStore"))
        #expect(
            await message { try await tickets.pull(queryID: "q", where: { $0.matching("x") }) }
                .contains("matching")
        )
        let remote = memory.client.table(Ticket.self)
        #expect(
            await message { _ = try await remote.read(where: { $0.matching("x") }) }.contains(
                "matching"
            )
        )
        #expect(transport.sent.isEmpty)
        try await withTemporaryFile { path in
            let device = try await Device(
                transport,
                store: SearchScene.store(path),
                tables: [Todo.self, Ticket.self]
            )
            let todos = try device.todos()
            let missing = await message { _ = try await todos.read(where: { $0.matching("x") }) }
            #expect(missing.contains("static let search"))
            #expect(missing.contains("Todo"))
            let own = try SearchScene.tickets(device)
            let long = String(repeating: "x", count: 1001)
            #expect(
                await message { _ = try await own.read(where: { $0.matching(long) }) }.contains(
                    "1000 bytes"
                )
            )
            let words = String(repeating: "x ", count: 33)
            #expect(
                await message { _ = try await own.read(where: { $0.matching(words) }) }.contains(
                    "32 words"
                )
            )
        }
    }

    private struct Wrong: SyncRecord {
        static let search = SearchIndex(\Wrong.count)
        var id = ""
        var count = 0
    }

    private struct Weighted: SyncRecord {
        static let search = SearchIndex(\Weighted.text, weights: [1, 2])
        var id = ""
        var text = ""
    }

    @Test("A search index of a column that is not text is rejected")
    func wrongModels() throws {
        for type in [Wrong.self, Weighted.self] as [any SyncRecord.Type] {
            let error = #expect(throws: SyncError.self) { try RecordSchema.of(type) }
            #expect(error?.code == .invalidModel)
        }
    }
}
