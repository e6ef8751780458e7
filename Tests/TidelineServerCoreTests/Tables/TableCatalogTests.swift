// The catalog of tables, and the value of `Tideline-Schema` that is derived from it.

import Testing
import TidelineCore
import TidelineServerCore

@Suite struct TableCatalogTests {
    private static func definition(_ name: String, _ columns: [String]) -> TableDefinition {
        TableDefinition(name, columns: columns.map { ColumnDefinition($0, .string) })
    }

    private static func fingerprint(_ definitions: [TableDefinition]) -> String {
        let catalog = TableCatalog()
        for definition in definitions { catalog.put(definition) }
        return catalog.fingerprint
    }

    @Test("The order in which tables are added does not change the fingerprint")
    func sameTables() {
        let (a, b) = (Self.definition("a", ["x"]), Self.definition("b", ["x", "y"]))
        let narrow = Self.definition("b", ["y"])
        #expect(Self.fingerprint([a, b]) == Self.fingerprint([b, a]))
        #expect(Self.fingerprint([a, narrow, b]) == Self.fingerprint([a, b]))
        #expect(Self.fingerprint([a, b, narrow]) == Self.fingerprint([a, b]))
    }

    @Test("Different tables, columns or permissions have a different fingerprint")
    func otherTables() {
        let (a, b) = (Self.definition("a", ["x"]), Self.definition("b", ["x"]))
        var closed = a
        closed.permissions.delete = .disabled
        let others = [["y"], ["x", "y"]].map { [Self.definition("a", $0)] }
        let texts = ([[], [a], [b], [a, b], [closed]] + others).map(Self.fingerprint)
        #expect(Set(texts).count == texts.count)
    }

    /// All requests wait for the catalog while it computes its fingerprint.
    @Test(
        "Adding a table costs the same in a catalog of one table and in one of thousands",
        .timeLimit(.minutes(1))
    )
    func manyTables() {
        let catalog = TableCatalog()
        var texts: Set<String> = []
        for number in 0..<3000 {
            catalog.put(Self.definition("t\(number)", ["a", "b", "c"]))
            texts.insert(catalog.fingerprint)
        }
        #expect(texts.count == 3000)
    }
}
