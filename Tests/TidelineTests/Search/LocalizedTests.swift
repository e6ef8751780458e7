// Texts as users read them: the order by a language, and searches that ignore letter case, compared with Foundation.

import Foundation
import Testing
import Tideline
import TidelineCore
import TidelineSQLite
import TidelineTestKit
import TidelineTestSupport

@Suite struct LocalizedTests {
    private struct Person: SyncRecord, Hashable {
        var id = ""
        var name: String?
        var group = ""
        var age = 0
    }

    private static let names = [
        "zeta", "Ärger", "apfel", "Zebra", "ähre", "Öl", "ol", "Straße", "Strasse", "strasze",
        "Job 10",
        "Job 2", "job 2", "Åse", "ase", "ı", "i", "I", "İ", "h", "ch", "c", "d", "cz", "", "-a",
        "a b",
        "ab", "日本", "にほん", "e\u{301}", "é", "\u{1F600}", "Ａ", "ﬁ", "ss", "ß",
    ]

    /// Locales in which Foundation orders ``names`` consistently on every system.
    private static let locales = ["en_US", "de_DE", "cs_CZ"]

    /// Random texts of letters that languages treat differently.
    private static func texts(_ seed: UInt64) -> [String] {
        var random = SeededGenerator(seed: seed)
        let letters =
            "aAäÄåÅoOöÖzZcChHiIıİsSß0123 -é".map { String($0) } + ["e\u{301}", "ae", "ss"]
        return (0..<60).map { _ in
            (0..<Int.random(in: 0...5, using: &random))
                .map { _ in letters.randomElement(using: &random) ?? "a" }.joined()
        }
    }

    private func devices(_ path: String) async throws -> [Device] {
        var devices: [Device] = []
        for store in [MemoryStore(), try SQLiteStore(path: path)] as [any LocalStore] {
            devices.append(
                try await Device(ScriptedTransport(), store: store, tables: [Person.self])
            )
        }
        return devices
    }

    @Test("Texts are ordered as Foundation orders them", arguments: locales)
    func orders(name: String) async throws {
        let locale = Locale(identifier: name)
        let options: String.CompareOptions = [
            .caseInsensitive, .numeric, .widthInsensitive, .forcedOrdering,
        ]
        try await withTemporaryFile { path in
            for device in try await devices(path) {
                let table = try device.client.syncTable(Person.self)
                let texts = Self.names
                try await table.insert(
                    texts.enumerated().map { Person(id: "p\(100 + $0)", name: $1) } + [
                        Person(id: "nil")
                    ]
                )
                let people = try await table.read()
                let expected = people.sorted { one, two in
                    guard let first = one.name, let second = two.name else {
                        return one.name == nil && two.name != nil
                    }
                    let order = first.compare(second, options: options, range: nil, locale: locale)
                    return order == .orderedSame ? one.id < two.id : order == .orderedAscending
                }
                let found = try await table.read(sortedBy: [.ascending(\.name, .localized(locale))])
                #expect(found == expected)
                let query = try Query<Person>().sorted(by: .descending(\.name, .localized(locale)))
                var paged: [Person] = []
                for offset in stride(from: 0, to: people.count, by: 9) {
                    paged += try await table.read(query.limited(to: 9, offset: offset)).items
                }
                #expect(Set(paged) == Set(expected))
                #expect(paged.compactMap(\.name).count == texts.count)
                #expect(paged == (try await table.read(query).items))
                let rows = try device.client.syncTable(named: "Person")
                let byName = try await rows.read(sortedBy: [.ascending("name", .localized(locale))])
                #expect(byName.map(\.id) == expected.map(\.id))
            }
        }
    }

    @Test("The order of the user's language is that of localizedStandardCompare")
    func userOrder() async throws {
        try await withTemporaryFile { path in
            for device in try await devices(path) {
                let table = try device.client.syncTable(Person.self)
                try await table.insert(
                    ["b10", "B2", "ä", "a", "z"].map { Person(id: $0, name: $0) }
                )
                let found = try await table.read(sortedBy: [.ascending(\.name, .localized)])
                let names = found.compactMap(\.name)
                #expect(
                    zip(names, names.dropFirst()).allSatisfy {
                        $0.localizedStandardCompare($1) == .orderedAscending
                    }
                )
                var lists = table.observe(sortedBy: [.ascending(\.name, .localized)])
                    .makeAsyncIterator()
                #expect(try await lists.next() == found)
            }
        }
    }

    @Test("The order of the same texts depends on the language")
    func languages() async throws {
        try await withTemporaryFile { path in
            for device in try await devices(path) {
                let table = try device.client.syncTable(Person.self)
                try await table.insert(
                    ["Ärger", "apfel", "zeta"].map { Person(id: $0, name: $0) }
                )
                let german = TextOrder.localized(Locale(identifier: "de_DE"))
                let names = try await table.read(sortedBy: [.ascending(\.name, german)])
                #expect(names.map(\.name) == ["apfel", "Ärger", "zeta"])
                let swedish = TextOrder.localized(Locale(identifier: "sv_SE"))
                let others = try await table.read(sortedBy: [.descending(\.name, swedish)])
                #expect(others.map(\.name) == ["Ärger", "zeta", "apfel"])
            }
        }
    }

    @Test("A localized order is not sent to a server, and is rejected for a number")
    func rejects() async throws {
        let transport = ScriptedTransport()
        let device = try await Device(transport, tables: [Person.self])
        let remote = device.client.table(Person.self)
        #expect(
            await code { _ = try await remote.read(sortedBy: [.ascending(\.name, .localized)]) }
                == .unsupportedQuery
        )
        #expect(transport.sent.isEmpty)
        let table = try device.client.syncTable(Person.self)
        #expect(
            await code { _ = try await table.read(sortedBy: [.ascending(\.age, .localized)]) }
                == .unsupportedQuery
        )
    }

    /// Texts and parts that folding, normalization and languages treat in special ways.
    private static let hardTexts = [
        "Straße", "STRASSE", "strasse", "ẞ", "ﬁsh", "FISH", "İstanbul", "ISTANBUL", "ıstanbul",
        "istanbul",
        "Ａｂｃ", "abc", "e\u{301}te\u{301}", "été", "ete", "a\u{323}\u{307}", "a\u{307}\u{323}", "ạ̇",
        "\u{212B}ngström", "Ångström", "angstrom", "각", "\u{1100}\u{1161}\u{11A8}", "가", "ガ", "ｶﾞ",
        "カ", "が",
        "ΣΊΣΥΦΟΣ", "σίσυφος", "σίσυφοσ", "👩‍👩‍👧", "👩", "🇩🇪🇫🇷", "🇪🇫", "soft\u{AD}hyphen", "softhyphen",
        "a\u{200B}b", "ab", "a\u{1}b", "\u{1}", "e", "\u{301}", "", " ", "مـرحبا", "مرحبا", "مُرَحَّب",
        "कि", "क",
        "œuvre", "OEUVRE", "Æ", "ae", "ø", "o", "đ", "d", "ł", "ǆ", "ǅ", "Ǆ", "ŉ", "ʼn", "½", "1⁄2",
        "²", "2",
        "100%", "a_b", "a%b", "\\", "'", "\"",
    ]

    @Test(
        "Texts with difficult folding and normalization are found as Foundation finds them"
    )
    func hardCases() async throws {
        try await withTemporaryFile { path in
            for device in try await devices(path) {
                let table = try device.client.syncTable(Person.self)
                let texts = Self.hardTexts
                try await table.insert(
                    texts.enumerated().map { Person(id: "p\(100 + $0)", name: $1, group: $1) }
                )
                try await table.insert(Person(id: "nil"))
                func names(_ query: Query<Person>) async throws -> [String] {
                    try await table.read(query.sorted(by: .ascending(\.id))).items.compactMap(
                        \.name
                    )
                }
                for part in texts {
                    let standard = texts.filter { $0.localizedStandardContains(part) }
                    let closure = try Query<Person> { $0.name.localizedStandardContains(part) }
                    #expect(try await names(closure) == standard, "\(part.unicodeScalars)")
                    let predicate = #Predicate<Person> { $0.group.localizedStandardContains(part) }
                    #expect(
                        try await names(Query(where: predicate)) == standard,
                        "\(part.unicodeScalars)"
                    )
                    let other = try Query<Person> { $0.name.localizedCaseInsensitiveContains(part) }
                    let found = texts.filter { $0.localizedCaseInsensitiveContains(part) }
                    #expect(try await names(other) == found, "\(part.unicodeScalars)")
                    let negated = try await table.count(where: {
                        !$0.name.localizedStandardContains(part)
                    })
                    #expect(negated == texts.count + 1 - standard.count)
                }
            }
        }
    }

    @Test(
        "localizedCaseInsensitiveContains finds the texts that Foundation finds",
        arguments: 0..<6 as Range<UInt64>
    )
    func contains(seed: UInt64) async throws {
        try await withTemporaryFile { path in
            for device in try await devices(path) {
                let table = try device.client.syncTable(Person.self)
                let texts = Self.names + Self.texts(seed)
                try await table.insert(texts.enumerated().map { Person(id: "p\($0)", name: $1) })
                try await table.insert(Person(id: "nil"))
                for part in Self.texts(seed + 100) + ["STRASSE", "ß", "i", "İ", ""] {
                    let found = try await table.count(where: {
                        $0.name.localizedCaseInsensitiveContains(part)
                    })
                    #expect(
                        found == texts.count { $0.localizedCaseInsensitiveContains(part) },
                        "\(part)"
                    )
                    let standard = try await table.count(where: {
                        $0.name.localizedStandardContains(part)
                    })
                    #expect(
                        standard == texts.count { $0.localizedStandardContains(part) },
                        "\(part)"
                    )
                }
            }
        }
        let code = await code {
            let device = try await Device(ScriptedTransport(), tables: [Person.self])
            try await device.client.syncTable(Person.self).pull(
                queryID: "q",
                where: { $0.name.localizedCaseInsensitiveContains("x") }
            )
        }
        #expect(code == .unsupportedQuery)
    }
}
