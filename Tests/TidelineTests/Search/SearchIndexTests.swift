// The search index of a store file: what keeps it right when other programs write.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct SearchIndexTests {
    private static let words = ["lamp", "pump", "red", "blue", "green", "oak", "elm", "ash"]

    private static func text(_ random: inout SeededGenerator) -> String {
        (0..<Int.random(in: 0...4, using: &random))
            .map { _ in words.randomElement(using: &random) ?? "" }.joined(separator: " ")
    }

    /// The ids of the rows in the file that have a word.
    private func expected(_ word: String, _ path: String) throws -> [String] {
        let statement = try SearchScene.database(path).prepare(
            "SELECT id FROM Ticket WHERE ' ' || title || ' ' || ifnull(notes, '') || ' ' LIKE '% \(word) %' ORDER BY id"
        )
        var ids: [String] = []
        while try statement.step() { ids.append(statement.text(0)) }
        return ids
    }

    @Test(
        "The index stays correct after random writes by other programs",
        arguments: 0..<20 as Range<UInt64>
    )
    func otherPrograms(seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            let tickets = try SearchScene.tickets(device)
            try await tickets.insert((0..<5).map { Ticket(id: "\($0)", title: Self.text(&random)) })
            for _ in 0..<6 {
                try Self.write(path, &random)
                if Bool.random(using: &random) {
                    let id = Value.string("\(Int.random(in: 0..<12, using: &random))")
                    try await device.seed(
                        [["id": id, "title": .string(Self.text(&random))]],
                        "Ticket"
                    )
                }
                for word in Self.words {
                    #expect(
                        try await SearchScene.ids(word, device) == expected(word, path),
                        "seed \(seed)"
                    )
                }
                try SearchScene.checkIndex(path)
            }
        }
    }

    /// Writes to the table like a program that knows nothing of the search index.
    private static func write(_ path: String, _ random: inout SeededGenerator) throws {
        let other = try SearchScene.database(path)
        try other.execute(
            "PRAGMA recursive_triggers = \(Bool.random(using: &random) ? "ON" : "OFF")"
        )
        for _ in 0..<Int.random(in: 1...8, using: &random) {
            let id = "\(Int.random(in: 0..<12, using: &random))"
            let (title, notes) = (text(&random), text(&random))
            let sql =
                switch Int.random(in: 0..<9, using: &random) {
                case 0: "DELETE FROM Ticket WHERE id = '\(id)'"
                case 1: "UPDATE Ticket SET title = '\(title)' WHERE id = '\(id)'"
                case 2: "UPDATE Ticket SET isOpen = 0"
                case 3: "UPDATE OR IGNORE Ticket SET id = 'x\(id)' WHERE id = '\(id)'"
                case 4: "INSERT OR IGNORE INTO Ticket (id, title) VALUES ('\(id)', '\(title)')"
                case 5, 6:
                    "INSERT OR REPLACE INTO Ticket (id, title, notes) VALUES ('\(id)', '\(title)', '\(notes)')"
                case 7: "DELETE FROM Ticket WHERE rowid = (SELECT max(rowid) FROM Ticket)"
                default: "VACUUM"
                }
            try other.execute(sql)
        }
    }

    @Test("A program without full-text search can write to the table")
    func onlyPlainTables() async throws {
        try await withTemporaryFile { path in
            _ = try await SearchScene.device(path)
            let database = try SearchScene.database(path)
            let statement = try database.prepare(
                "SELECT sql FROM sqlite_master WHERE type = 'trigger'"
            )
            var count = 0
            while try statement.step() {
                #expect(!statement.text(0).contains("\"tideline.Ticket.search\""))
                count += 1
            }
            #expect(count == 4)
        }
    }

    @Test("Two stores on one file find each other's changes")
    func twoStores() async throws {
        try await withTemporaryFile { path in
            let one = try await SearchScene.device(path)
            let two = try await SearchScene.device(path)
            try await SearchScene.tickets(one).insert(Ticket(id: "a", title: "lamp"))
            #expect(try await SearchScene.ids("lamp", two) == ["a"])
            try await SearchScene.tickets(two).update(id: "a") { $0.title = "pump" }
            #expect(try await SearchScene.ids("lamp", one) == [])
            #expect(try await SearchScene.ids("pump", one) == ["a"])
        }
    }

    private struct Plain: SyncRecord {
        static let tableName = "Ticket"
        var id = ""
        var title = ""
        var notes: String?
    }

    private struct TitleOnly: SyncRecord {
        static let tableName = "ticket"
        static let search = SearchIndex(\TitleOnly.title, prefixLengths: [2, 3])
        var id = ""
        var title = ""
        var notes: String?
    }

    /// A model in which an indexed column had another type.
    private struct Former: SyncRecord {
        static let tableName = "Ticket"
        var id = ""
        var title = 0
        var rank: String?
    }

    private struct Later: SyncRecord {
        static let tableName = "Ticket"
        static let search = SearchIndex(\Later.title, \Later.rank)
        var id = ""
        var title = ""
        var rank: String?
    }

    @Test("The index changes with the declaration of the model")
    func definitions() async throws {
        try await withTemporaryFile { path in
            func objects() throws -> Int64? {
                try SearchScene.database(path).integer(
                    "SELECT count(*) FROM sqlite_master WHERE name LIKE 'tideline.%'"
                )
            }
            let plain = try await SearchScene.device(path, ScriptedTransport(), Plain.self)
            try await plain.client.syncTable(Plain.self).insert([
                Plain(id: "a", title: "lamp", notes: "oak"), Plain(id: "b", title: "pump"),
            ])
            #expect(try objects() == 0)
            let full = try await SearchScene.device(path)
            #expect(try await SearchScene.ids("oak", full) == ["a"])
            let device = try await SearchScene.device(path, ScriptedTransport(), TitleOnly.self)
            let titles = try device.client.syncTable(TitleOnly.self)
            #expect(try await titles.read(where: { $0.matching("la*") }).map(\.id) == ["a"])
            #expect(try await titles.read(where: { $0.matching("oak") }).isEmpty)
            // The former version of the app is still running.
            let code = await code { _ = try await SearchScene.ids("oak", full) }
            #expect(code == .unsupportedQuery)
            try await SearchScene.tickets(full).insert(Ticket(id: "c", title: "lamp"))
            #expect(try await titles.count(where: { $0.matching("lamp") }) == 2)
            _ = try await SearchScene.device(path, ScriptedTransport(), Plain.self)
            #expect(try objects() == 0)
        }
    }

    @Test("A column whose type changes is moved, and indexed afterwards")
    func movedColumns() async throws {
        try await withTemporaryFile { path in
            let former = try await SearchScene.device(path, ScriptedTransport(), Former.self)
            try await former.client.syncTable(Former.self).insert(
                Former(id: "a", title: 12, rank: "oak")
            )
            for _ in 0..<2 {
                let device = try await SearchScene.device(path, ScriptedTransport(), Later.self)
                let table = try device.client.syncTable(Later.self)
                #expect(try await table.read(where: { $0.matching("12 oak") }).map(\.id) == ["a"])
                try SearchScene.checkIndex(path)
                // An indexed column is moved to another type and back.
                let back = try await SearchScene.device(path, ScriptedTransport(), Former.self)
                #expect(try await back.client.syncTable(Former.self).read(id: "a")?.title == 12)
            }
        }
    }

    @Test("A value that its column cannot hold is not found, and does not damage the index")
    func otherValues() async throws {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            try await device.seed([["id": "a", "title": .integer(12), "notes": "oak"]], "Ticket")
            let tickets = try SearchScene.tickets(device)
            #expect(try await tickets.count(where: { $0.matching("oak") }) == 1)
            #expect(try await SearchScene.ids("12", device) == [])
            try SearchScene.database(path)
                .execute("UPDATE Ticket SET title = x'00ff41', notes = 7.5")
            #expect(try await SearchScene.ids("oak", device) == [])
            try await device.seed([["id": "a", "title": "elm"]], "Ticket")
            #expect(try await SearchScene.ids("elm", device) == ["a"])
            try SearchScene.checkIndex(path)
        }
    }

    @Test("A damaged index is rebuilt by a change and by a search")
    func damage() async throws {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            let tickets = try SearchScene.tickets(device)
            try await tickets.insert((0..<50).map { Ticket(id: "t\($0)", title: "lamp \($0)") })
            let pages = "UPDATE \"tideline.Ticket.search_data\" SET block = "
            for (number, damage) in ["zeroblob(3) WHERE id > 10", "x'ffffffffffffffffffff'"]
                .enumerated()
            {
                try SearchScene.database(path).execute(pages + damage)
                #expect(try await SearchScene.ids("lamp", device).count == 50 + number)
                try SearchScene.database(path).execute(pages + damage)
                try await tickets.insert(Ticket(id: "new\(number)", title: "lamp"))
                #expect(try await SearchScene.ids("lamp", device).count == 51 + number)
            }
            try SearchScene.checkIndex(path)
        }
    }

    @Test(
        "A transaction that finds a damaged index stores all of its changes, or none",
        arguments: [false, true]
    )
    func damageInTransaction(isHidden: Bool) async throws {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            let tickets = try SearchScene.tickets(device)
            try await tickets.insert((0..<50).map { Ticket(id: "t\($0)", title: "lamp \($0)") })
            try SearchScene.database(path).execute(
                "UPDATE \"tideline.Ticket.search_data\" SET block = x'ffffffffffffffffffff'"
            )
            let isStored =
                await code {
                    try await device.context.transaction { transaction in
                        let table = try transaction.table(Ticket.self)
                        try table.insert(Ticket(id: "first", title: "lamp"))
                        if isHidden {
                            _ = try? table.count(where: { $0.matching("lamp") })
                        } else {
                            #expect(try table.count(where: { $0.matching("lamp") }) == 51)
                        }
                        try table.insert(Ticket(id: "second", title: "lamp"))
                    }
                } == nil
            let found = try await SearchScene.ids("lamp", device).filter { !$0.hasPrefix("t") }
            #expect(found == (isStored ? ["first", "second"] : []))
            #expect(isHidden || isStored)
            try SearchScene.checkIndex(path)
        }
    }

    @Test("A report of changes does not contain a table of the index")
    func reportsOnlyTables() async throws {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            var changes = device.store.changes().makeAsyncIterator()
            try await device.seed([["id": "a", "title": "lamp"]], "Ticket")
            #expect(await changes.next() == ["Ticket"])
        }
    }

    // MARK: - Purge

    private static let secret = "zyzzogetonix"

    /// Returns whether any file of the store has the beginning of the secret, as the index shortens common beginnings.
    private func isInFile(_ path: String) throws -> Bool {
        let part = Data(Self.secret.dropFirst(2).utf8)
        return try ["", "-wal", "-shm"].contains { suffix in
            guard FileManager.default.fileExists(atPath: path + suffix) else { return false }
            return try Data(contentsOf: URL(filePath: path + suffix)).range(of: part) != nil
        }
    }

    /// Returns the words of the index that begin as the secret, each with the number of its rows.
    private func wordsInIndex(_ path: String) throws -> [String: Int64] {
        let database = try SearchScene.database(path)
        try database.execute(
            "CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, 'tideline.Ticket.search', 'row')"
        )
        let statement = try database.prepare(
            "SELECT term, doc FROM words WHERE term LIKE 'zyzz%'"
        )
        defer { statement.reset() }
        var words: [String: Int64] = [:]
        while try statement.step() { words[statement.text(0)] = statement.integer(1) }
        return words
    }

    @Test("Purged text is erased from every page of the index", arguments: [false, true])
    func purges(all: Bool) async throws {
        try await withTemporaryFile { path in
            let device = try await SearchScene.device(path)
            let tickets = try SearchScene.tickets(device)
            var rows: [Row] = (0..<3000).map {
                ["id": .string("t\($0)"), "title": .string("lamp \($0)"), "notes": "zyzzyva"]
            }
            for number in stride(from: 5, to: 3000, by: 100) {
                rows[number]["notes"] = .string("\(Self.secret) \(Self.secret)\(number)")
                rows[number]["isOpen"] = .bool(false)
            }
            for start in stride(from: 0, to: 3000, by: 250) {
                try await device.seed(Array(rows[start..<start + 250]), "Ticket")
            }
            // The words of a former state of a row that stays are purged, too.
            try await device.seed(
                [["id": "t7", "title": .string("once " + Self.secret)]],
                "Ticket"
            )
            try await device.seed([["id": "t7", "title": "now"]], "Ticket")
            #expect(try await tickets.count(where: { $0.matching("zyzzog*") }) == 30)
            if all {
                try await tickets.purge(force: true)
            } else {
                try await tickets.purge(where: { !$0.isOpen })
            }
            #expect(try await SearchScene.ids("zyzzog*", device) == [])
            #expect(try await tickets.count(where: { $0.matching("zyzzyva") }) == (all ? 0 : 2969))
            #expect(try wordsInIndex(path) == (all ? [:] : ["zyzzyva": 2969]))
            try await (device.store as? SQLiteStore)?.close()
            #expect(try !isInFile(path))
            try SearchScene.checkIndex(path)
        }
    }

    @Test("Words of unsent rows are erased by a purge of their account")
    func purgesAccount() async throws {
        try await withTemporaryFile { path in
            let device = try await Device(
                ScriptedTransport(),
                store: SearchScene.store(path),
                tables: [Ticket.self],
                authentication: SignIn("anna")
            )
            try await SearchScene.tickets(device).insert(
                (0..<50).map { Ticket(id: "t\($0)", title: "lamp", notes: Self.secret) }
            )
            #expect(try wordsInIndex(path) == [Self.secret: 50])
            try await device.context.purge(account: "anna", force: true)
            #expect(try wordsInIndex(path) == [:])
            try await (device.store as? SQLiteStore)?.close()
            #expect(try !isInFile(path))
        }
    }
}
