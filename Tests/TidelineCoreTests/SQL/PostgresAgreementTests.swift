// Goal: a filter, an order and a keyset have the same result in memory, in SQLite and in PostgreSQL.
// Method: random filters over random rows; like the server, the evaluator handles the parts that
// PostgreSQL does not evaluate exactly. The seed determines the run.

#if !ONLY_CLIENT
import Foundation
import Testing
import TidelineCore
import TidelineTestKit

@Suite(.enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed"))
struct PostgresAgreementTests {
    @Test(
        "Random filters find the same rows in memory, SQLite and PostgreSQL",
        arguments: AgreementTests.seeds
    )
    func filtersAgree(seed: UInt64) throws {
        var generator = FilterGenerator(
            random: SeededGenerator(seed: seed),
            dialect: .v4,
            unit: .microseconds
        )
        let stored = (10..<34).map { storable(generator.row($0)) }
        let sqlite = try TestTable(FilterGenerator.schema, stored, unit: .microseconds)
        let postgres = try PostgresTestTable(FilterGenerator.schema, stored)
        let rows = stored.map(\.onWire)
        let split = FilterSplit(schema: FilterGenerator.schema)
        let checker = FilterChecker(schema: FilterGenerator.schema, now: AgreementTests.now)
        var wholly = 0
        var partly = 0
        for number in 0..<400 {
            // SQL evaluates shallow filters.
            let filter = try checker.filter(generator.condition(1 + number % 4))
            let (exact, rest) = split.split(filter)
            if exact != nil { if rest == nil { wholly += 1 } else { partly += 1 } }
            let evaluated = rows.filter(Filter(filter).matches).map(\.id)
            #expect(try sqlite.ids(sqlite.renderer.condition(filter)) == evaluated)
            #expect(try postgres.ids(filter) == evaluated)
            #expect(try postgres.ids(filter, strict: true) == evaluated)
        }
        generator.readsDocuments = true
        for _ in 0..<200 {
            let filter = try checker.filter(generator.documentCondition(3))
            let evaluated = rows.filter(Filter(filter).matches).map(\.id)
            #expect(try postgres.ids(filter) == evaluated)
        }
        #expect(wholly > 100 && partly > 5, "\(wholly) in SQL, \(partly) in part")
    }

    @Test(
        "Random orders and keysets give the same rows in memory and in PostgreSQL",
        arguments: AgreementTests.seeds
    )
    func ordersAndKeysetsAgree(seed: UInt64) throws {
        var generator = FilterGenerator(
            random: SeededGenerator(seed: seed),
            dialect: .v4,
            unit: .microseconds
        )
        let stored = (10..<34).map { storable(generator.row($0)) }
            .shuffled(using: &generator.random)
        let table = try PostgresTestTable(FilterGenerator.schema, stored)
        let rows = stored.map(\.onWire)
        let checker = FilterChecker(schema: FilterGenerator.schema, now: AgreementTests.now)
        let split = FilterSplit(schema: FilterGenerator.schema)
        var tried = 0
        while tried < 60 {
            let keys = try checker.order(generator.order())
            guard split.isExact(keys) else { continue }
            tried += 1
            let sorted = RowOrder(keys).sorted(rows).map(\.id)
            let order = table.renderer.orderBy(keys)
            #expect(try table.query("SELECT \"id\" FROM t ORDER BY \(order)") == sorted)
            let place = generator.random.below(rows.count)
            let row = rows.first { $0.id == sorted[place] }!
            let keyset = KeysetRenderer(table.renderer, order: keys)
            let condition = keyset.condition(after: keyset.values(of: row))
            let found = try table.query(
                "SELECT \"id\" FROM t WHERE \(condition) ORDER BY \(order)"
            )
            #expect(found == Array(sorted[(place + 1)...]), "\(condition.text(for: .postgres))")
        }
    }

    @Test("A filter and its negation find the expected rows in PostgreSQL", arguments: Fact.all)
    func factsHold(_ fact: Fact) throws {
        let parsed = try ODataParser.filter(fact.filter, dialect: .v3)
        let schemas = fact.number == 45 ? [Fixture.real] : [Fixture.exact, Fixture.real]
        for schema in schemas {
            let filter = try FilterChecker(schema: schema).filter(parsed)
            let rest = Fixture.rows(schema).map(\.id).filter { !fact.ids.contains($0) }
            let found = try PostgresFactTables.shared.withTable(schema) { table in
                [
                    try table.ids(filter), try table.ids(filter, strict: true),
                    try table.ids(QueryExpression(.not(filter))),
                ]
            }
            #expect(found == [fact.ids, fact.ids, rest])
        }
    }

    /// Returns the row without values that PostgreSQL cannot store.
    private func storable(_ row: Row) -> Row {
        var row = row
        for column in FilterGenerator.schema.columns {
            if let text = row[column.name]?.text, text.utf8.contains(0) {
                row[column.name] = .string("a\u{1}b")
            }
        }
        return row
    }
}
#endif
