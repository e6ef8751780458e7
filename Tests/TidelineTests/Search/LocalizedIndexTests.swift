// The localized indexes of a store file: how they stay correct, and when they are rebuilt.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct LocalizedIndexTests {
    private static let german = TextOrder.localized(Locale(identifier: "de_DE"))
    private static let swedish = TextOrder.localized(Locale(identifier: "sv_SE"))

    private struct Person: SyncRecord, Hashable {
        var id = ""
        var name: String?
        var city = ""
        var age = 0
        var updatedAt: Date?

        static let localizedIndexes = [
            LocalizedIndex(\Person.name, order: german),
            LocalizedIndex(\.city, \.name, order: german),
        ]
    }

    /// The same table with an index for another language.
    private struct Swede: SyncRecord, Hashable {
        static let tableName = "Person"
        var id = ""
        var name: String?
        var city = ""
        var updatedAt: Date?

        static let localizedIndexes = [LocalizedIndex(\Swede.name, order: swedish)]
    }

    private struct Plain: SyncRecord {
        static let tableName = "Person"
        var id = ""
        var name: String?
    }

    private struct Former: SyncRecord {
        static let tableName = "Person"
        var id = ""
        var name = 0
        var city = ""
    }

    private static func text(_ random: inout SeededGenerator) -> String {
        let letters =
            "aAäÄåoÖzZcChHiIıİsSß012 -é".map { String($0) } + ["e\u{301}", "ae", "ch", "ij", "の"]
        return (0..<Int.random(in: 0...4, using: &random))
            .map { _ in letters.randomElement(using: &random) ?? "a" }.joined()
    }

    private func device(
        _ path: String,
        _ table: any SyncRecord.Type = Person.self
    ) async throws -> Device {
        try await Device(ScriptedTransport(), store: SQLiteStore(path: path), tables: [table])
    }

    private func people(_ device: Device) throws -> SyncTable<Person> {
        try device.client.syncTable(Person.self)
    }

    /// Returns records in the order that Swift's sort finds.
    private static func sorted(_ people: [Person], _ locale: String = "de_DE") -> [Person] {
        let order = LocalizedOrder(Locale(identifier: locale))
        return people.sorted { one, two in
            guard let first = one.name, let second = two.name else {
                return one.name == nil && (two.name != nil || one.id < two.id)
            }
            let result = order.compare(first, second)
            return result == 0 ? one.id < two.id : result < 0
        }
    }

    /// Checks that the copy in the file has exactly the values of the rows, and that SQLite finds its index in order.
    private func checkCopy(_ path: String) throws {
        let database = try Database(path: path)
        #expect(try database.integer("SELECT count(*) FROM \"tideline.Person.__orderlog\"") == 0)
        let difference = """
            SELECT count(*) FROM (SELECT id, name, city FROM Person EXCEPT
            SELECT __id, __c0, __c1 FROM "tideline.Person.__order")
            """
        #expect(try database.integer(difference) == 0)
        let counts = """
            SELECT (SELECT count(*) FROM Person) - (SELECT count(*) FROM "tideline.Person.__order")
            """
        #expect(try database.integer(counts) == 0)
        let check = try database.prepare("PRAGMA integrity_check")
        #expect(try check.step())
        #expect(check.text(0) == "ok")
        check.reset()
    }

    private func objects(_ path: String) throws -> Int64? {
        try Database(path: path).integer(
            "SELECT count(*) FROM sqlite_master WHERE name LIKE 'tideline.Person.\\_\\_order%' ESCAPE '\\'"
        )
    }

    @Test(
        "The index stays correct after random changes, also by other programs",
        arguments: 0..<20 as Range<UInt64>
    )
    func changes(seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        try await withTemporaryFile { path in
            let device = try await device(path)
            let table = try people(device)
            try await table.insert((0..<5).map { Person(id: "\($0)", name: Self.text(&random)) })
            for _ in 0..<6 {
                try Self.write(path, &random)
                let id = "\(Int.random(in: 0..<12, using: &random))"
                let person = Person(id: id, name: Self.text(&random), city: "Kiel")
                if try await table.read(id: id) == nil {
                    let row: Row = ["id": .string(id), "name": .string(person.name ?? "")]
                    try await device.seed([row], "Person")
                } else if Bool.random(using: &random) {
                    try await table.update(id: id) { ($0.name, $0.city) = (person.name, "Kiel") }
                } else {
                    try await device.seed([["id": .string(id), "name": .null]], "Person")
                }
                let all = try await table.read()
                let found = try await table.read(sortedBy: [.ascending(\.name, Self.german)])
                #expect(found == Self.sorted(all), "seed \(seed)")
                let some = try await table.read(
                    where: { $0.city == "Kiel" && $0.age < 5 },
                    sortedBy: [.ascending(\.name, Self.german)],
                    limit: 3
                )
                let inKiel = Self.sorted(all.filter { $0.city == "Kiel" && $0.age < 5 })
                #expect(some == Array(inKiel.prefix(3)), "seed \(seed)")
                try checkCopy(path)
            }
            let report = try await (device.store as? SQLiteStore)?.check()
            // Only the rows that the other program wrote have no checksum.
            #expect(
                report?.problems.allSatisfy { $0.contains("differ from what the store wrote") }
                    == true
            )
        }
    }

    /// Writes to the table like a program that knows nothing of the index.
    private static func write(_ path: String, _ random: inout SeededGenerator) throws {
        let other = try Database(path: path)
        try other.execute(
            "PRAGMA recursive_triggers = \(Bool.random(using: &random) ? "ON" : "OFF")"
        )
        for _ in 0..<Int.random(in: 1...8, using: &random) {
            let id = "\(Int.random(in: 0..<12, using: &random))"
            let name = text(&random)
            let sql =
                switch Int.random(in: 0..<9, using: &random) {
                case 0: "DELETE FROM Person WHERE id = '\(id)'"
                case 1: "UPDATE Person SET name = '\(name)' WHERE id = '\(id)'"
                case 2: "UPDATE Person SET age = 7"
                case 3: "UPDATE OR REPLACE Person SET id = 'x\(id)' WHERE id = '\(id)'"
                case 4: "INSERT OR IGNORE INTO Person (id, name) VALUES ('\(id)', '\(name)')"
                case 5, 6:
                    "INSERT OR REPLACE INTO Person (id, name, city) VALUES ('\(id)', '\(name)', 'Kiel')"
                case 7: "DELETE FROM Person WHERE rowid = (SELECT max(rowid) FROM Person)"
                default: "VACUUM"
                }
            try other.execute(sql)
        }
    }

    @Test("A program without the collation can write to the table")
    func onlyPlainTables() async throws {
        try await withTemporaryFile { path in
            _ = try await device(path)
            let statement = try Database(path: path).prepare(
                """
                SELECT sql FROM sqlite_master
                WHERE type = 'trigger' OR tbl_name IN ('Person', 'tideline.Person.__orderlog')
                """
            )
            var count = 0
            while try statement.step() {
                #expect(!statement.text(0).contains("COLLATE"))
                #expect(!statement.text(0).contains("INTO \"tideline.Person.__order\""))
                count += 1
            }
            #expect(count >= 5)
        }
    }

    @Test("A query with a limit reads only the rows of the result, from the index, in its order")
    func plan() async throws {
        try await withTemporaryFile { path in
            let device = try await device(path)
            let table = try people(device)
            try await table.insert(
                (0..<300).map { Person(id: "p\($0)", name: "n\($0 % 50)", city: "Kiel") }
            )
            let collation = LocalizedOrder(Locale(identifier: "de_DE")).collation
            let rows = "\"tideline.Person.__order\" JOIN Person ON Person.id = __id"
            for (rest, index) in [
                ("ORDER BY __c0 COLLATE \"\(collation)\", __id", 0),
                ("ORDER BY __c0 COLLATE \"\(collation)\" DESC, __id DESC", 0),
                ("WHERE age > 3 ORDER BY __c0 COLLATE \"\(collation)\", __id", 0),
                (
                    """
                    WHERE __c0 COLLATE "\(collation)" >= 'n' AND (__c0 COLLATE "\(collation)" > 'n' OR
                    (__c0 COLLATE "\(collation)" = 'n' AND __id > 'p'))
                    ORDER BY __c0 COLLATE "\(collation)", __id
                    """, 0
                ),
                ("WHERE __c1 = 'Kiel' ORDER BY __c0 COLLATE \"\(collation)\", __id", 1),
            ] {
                let statement = try Database(path: path).prepare(
                    "EXPLAIN QUERY PLAN SELECT name FROM \(rows) \(rest) LIMIT 20"
                )
                var steps: [String] = []
                while try statement.step() { steps.append(statement.text(3)) }
                #expect(
                    steps.first?.contains("tideline.Person.__order.\(index)") == true,
                    "\(steps)"
                )
                #expect(!steps.contains { $0.contains("TEMP B-TREE") }, "\(steps)")
            }
            // The store's own statement reads from the copy: a row that is missing there is not found.
            let first = try await table.read(
                sortedBy: [.ascending(\.name, Self.german)],
                limit: 2
            )
            try Database(path: path).execute(
                "DELETE FROM \"tideline.Person.__order\" WHERE __id = '\(first[0].id)'"
            )
            let next = try await table.read(sortedBy: [.ascending(\.name, Self.german)], limit: 1)
            #expect(next == [first[1]])
            let inKiel = try await table.read(
                where: { $0.city == "Kiel" },
                sortedBy: [.ascending(\.city), .ascending(\.name, Self.german)],
                limit: 1
            )
            #expect(inKiel == [first[1]])
            // A query in another order does not use it.
            let other = try await table.read(sortedBy: [.ascending(\.name, Self.swedish)], limit: 1)
            #expect(other == [first[0]])
        }
    }

    @Test("An index in the order of another system is rebuilt, and no row is misplaced")
    func otherSystem() async throws {
        try await withTemporaryFile { path in
            let names = ["zeta", "Ärger", "apfel", "ähre", "Öl", "ol"]
            let first = try await device(path)
            try await people(first).insert(names.map { Person(id: $0, name: $0) })
            try await (first.store as? SQLiteStore)?.close()
            let version = LocalizedOrder(Locale(identifier: "de_DE")).version
            // The file looks as if a system with another order had written it.
            let database = try Database(path: path)
            try database.execute(
                """
                UPDATE "tideline.Person.__order" SET __c0 = CASE __id WHEN 'zeta' THEN 'a' ELSE 'y' || __c0 END;
                PRAGMA writable_schema = ON;
                UPDATE sqlite_master SET sql = replace(sql, '\(version)', '0123456789abcdef');
                PRAGMA writable_schema = OFF;
                """
            )
            let device = try await device(path)
            let table = try people(device)
            let found = try await table.read(sortedBy: [.ascending(\.name, Self.german)], limit: 6)
            #expect(found.compactMap(\.name) == ["ähre", "apfel", "Ärger", "ol", "Öl", "zeta"])
            try checkCopy(path)
            try await table.update(id: "zeta") { $0.name = "alpha" }
            try checkCopy(path)
        }
    }

    @Test("An index of another system does not stop a program that uses other tables of the file")
    func otherTables() async throws {
        try await withTemporaryFile { path in
            _ = try await device(path)
            let version = LocalizedOrder(Locale(identifier: "de_DE")).version
            try Database(path: path).execute(
                """
                PRAGMA writable_schema = ON;
                UPDATE sqlite_master SET sql = replace(sql, '\(version)', '0123456789abcdef');
                PRAGMA writable_schema = OFF;
                """
            )
            let other = try await device(path, Todo.self)
            #expect(try objects(path) == 0)
            #expect(try await (other.store as? SQLiteStore)?.check().problems == [])
            let table = try people(try await device(path))
            try await table.insert(Person(id: "a", name: "b"))
            try checkCopy(path)
        }
    }

    @Test("Each of two programs with different languages finds the rows in its order")
    func languages() async throws {
        try await withTemporaryFile { path in
            let one = try people(try await device(path))
            try await one.insert(["Ärger", "zeta"].map { Person(id: $0, name: $0) })
            let two = try (try await device(path, Swede.self)).client.syncTable(Swede.self)
            for _ in 0..<2 {
                let german = try await one.read(sortedBy: [.ascending(\.name, Self.german)])
                #expect(german.compactMap(\.name) == ["Ärger", "zeta"])
                let swedish = try await two.read(sortedBy: [.ascending(\.name, Self.swedish)])
                #expect(swedish.compactMap(\.name) == ["zeta", "Ärger"])
                try await two.update(id: "zeta") { $0.city += "!" }
                try await one.update(id: "Ärger") { $0.age += 1 }
            }
            try await one.insert(Person(id: "o", name: "öl"))
            let all = try await two.read(sortedBy: [.descending(\.name, Self.swedish)], limit: 9)
            #expect(all.compactMap(\.name) == ["öl", "Ärger", "zeta"])
        }
    }

    @Test("A model without the index removes it, and an indexed column can change its type")
    func otherModels() async throws {
        try await withTemporaryFile { path in
            let former = try await device(path, Former.self)
            try await former.client.syncTable(Former.self).insert(Former(id: "a", name: 12))
            for _ in 0..<2 {
                let table = try people(try await device(path))
                let found = try await table.read(sortedBy: [.ascending(\.name, Self.german)])
                #expect(found.map(\.name) == ["12"])
                try checkCopy(path)
                let back = try await device(path, Former.self)
                #expect(try await back.client.syncTable(Former.self).read(id: "a")?.name == 12)
                #expect(try objects(path) == 0)
            }
            _ = try await device(path)
            #expect(try objects(path) != 0)
            _ = try await device(path, Plain.self)
            #expect(try objects(path) == 0)
        }
    }

    @Test("A damaged index is rebuilt")
    func damage() async throws {
        try await withTemporaryFile { path in
            let table = try people(try await device(path))
            try await table.insert((0..<20).map { Person(id: "p\($0)", name: "n\($0)") })
            try Database(path: path).execute("DROP TABLE \"tideline.Person.__order\"")
            let found = try await table.read(sortedBy: [.ascending(\.name, Self.german)], limit: 3)
            #expect(found.compactMap(\.name) == ["n0", "n1", "n2"])
            try await table.insert(Person(id: "q", name: "m"))
            let again = try people(try await device(path))
            let first = try await again.read(sortedBy: [.ascending(\.name, Self.german)], limit: 1)
            #expect(first.map(\.name) == ["m"])
            try checkCopy(path)
        }
    }

    @Test("A transaction reads its changes in order, and a failed one leaves none in the index")
    func transactions() async throws {
        struct Stop: Error {}
        try await withTemporaryFile { path in
            let device = try await device(path)
            let table = try people(device)
            try await table.insert(["b", "d"].map { Person(id: $0, name: $0) })
            let names = try await device.client.syncContext.transaction { transaction in
                let people = try transaction.table(Person.self)
                try people.insert(Person(id: "c", name: "C"))
                try people.delete(id: "d")
                return try people.read(sortedBy: [.descending(\.name, Self.german)], limit: 2)
                    .compactMap(\.name)
            }
            #expect(names == ["C", "b"])
            await #expect(throws: Stop.self) {
                try await device.client.syncContext.transaction { transaction in
                    let people = try transaction.table(Person.self)
                    try people.insert(Person(id: "x", name: "a"))
                    _ = try people.read(sortedBy: [.ascending(\.name, Self.german)])
                    throw Stop()
                }
            }
            let found = try await table.read(sortedBy: [.ascending(\.name, Self.german)])
            #expect(found.compactMap(\.name) == ["b", "C"])
            try checkCopy(path)
        }
    }

    @Test(
        "The localized order is consistent for random texts",
        arguments: ["en_US", "de_DE", "sv_SE", "cs_CZ", "tr_TR", "hu_HU"]
    )
    func consistent(name: String) {
        let locale = Locale(identifier: name)
        let order = LocalizedOrder(locale)
        #expect(LocalizedOrder.isConsistent)
        var random = SeededGenerator(seed: 7)
        let texts = (0..<40).map { _ in Self.text(&random) }
        for one in texts {
            for two in texts {
                let between = order.compare(one, two)
                #expect(between == -order.compare(two, one))
                let whole = ("\u{1}" + one).compare(
                    "\u{2}" + two,
                    options: .numeric,
                    range: nil,
                    locale: locale
                )
                if whole != .orderedSame { #expect(between == whole.rawValue, "\(one), \(two)") }
                #expect((between == 0) == (one == two))
                guard between < 0 else { continue }
                for three in texts where order.compare(two, three) <= 0 {
                    #expect(order.compare(one, three) < 0, "\(one), \(two), \(three)")
                }
            }
        }
    }

    @Test("A localized index without a final text or with a repeated property is rejected")
    func invalid() async throws {
        struct NoText: SyncRecord {
            var id = ""
            var age = 0
            static let localizedIndexes = [LocalizedIndex(\NoText.age)]
        }
        struct Twice: SyncRecord {
            var id = ""
            var name = ""
            static let localizedIndexes = [LocalizedIndex(\Twice.name, \.name)]
        }
        struct Scalars: SyncRecord {
            var id = ""
            var name = ""
            static let localizedIndexes = [LocalizedIndex(\Scalars.name, order: .scalars)]
        }
        for model in [NoText.self, Twice.self, Scalars.self] as [any SyncRecord.Type] {
            let code = await code {
                _ = try await Device(ScriptedTransport(), tables: [model])
            }
            #expect(code == .invalidModel)
        }
    }
}
