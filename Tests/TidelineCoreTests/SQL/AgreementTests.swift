// Goal: a filter has the same result in memory, in SQLite and after a round trip as OData text.
// Method: random filters over random rows; the seed determines the run. In memory, dates have the
// milliseconds of the wire; a server's tables keep microseconds.

import Foundation
import Testing
import TidelineCore
import TidelineSQLite
import TidelineTestKit

@Suite struct AgreementTests {
    /// The seeds to run; `TIDELINE_SEEDS=250` runs for hours.
    static let seeds: Range<UInt64> = {
        let text = ProcessInfo.processInfo.environment["TIDELINE_SEEDS"] ?? ""
        return 0..<(UInt64(text) ?? 4)
    }()

    /// Three microseconds after one of the generator's times.
    static let now = Timestamp(microseconds: 1_614_928_089_120_003).date

    /// 4 seeds x 2 dialects x 2 units x 200 filters, each on 24 rows.
    @Test(
        "Random filters find the same rows in memory and in SQLite",
        arguments: seeds,
        ODataDialect.allCases
    )
    func filtersAgree(seed: UInt64, dialect: ODataDialect) throws {
        for unit in FilterRenderer.DateUnit.allCases {
            var generator = FilterGenerator(
                random: SeededGenerator(seed: seed),
                dialect: dialect,
                unit: unit
            )
            let stored = (10..<34).map { generator.row($0) }
            let table = try TestTable(FilterGenerator.schema, stored, unit: unit)
            let rows = stored.map(\.onWire)
            var telling = 0
            for _ in 0..<200 {
                let found = try expectAgreement(generator.condition(4), rows, table, dialect)
                if found > 0 && found < rows.count { telling += 1 }
            }
            #expect(telling > 60, "most filters find all rows or none, and prove little")
        }
    }

    /// 4 seeds x 2 units x 400 filters that read JSON documents, each on 24 rows.
    @Test(
        "Random filters on JSON documents find the same rows in memory and in SQLite",
        arguments: seeds
    )
    func conditionsOnDocumentsAgree(seed: UInt64) throws {
        for unit in FilterRenderer.DateUnit.allCases {
            var generator = FilterGenerator(
                random: SeededGenerator(seed: seed),
                dialect: .v4,
                unit: unit,
                readsDocuments: true
            )
            let stored = (10..<34).map { generator.row($0) }
            let table = try TestTable(FilterGenerator.schema, stored, unit: unit)
            let rows = stored.map(\.onWire)
            var telling = 0
            for number in 0..<400 {
                let filter =
                    number.isMultiple(of: 2)
                    ? generator.documentCondition(3) : generator.condition(4)
                let found = try expectAgreement(filter, rows, table, .v4)
                if found > 0 && found < rows.count { telling += 1 }
            }
            #expect(telling > 120, "most filters find all rows or none, and prove little")
        }
    }

    private func expectAgreement(
        _ filter: QueryExpression,
        _ rows: [Row],
        _ table: TestTable,
        _ dialect: ODataDialect
    ) throws -> Int {
        let checker = FilterChecker(schema: table.schema, now: Self.now)
        let text = try ODataWriter(dialect).filter(filter)
        #expect(try ODataParser.filter(text, dialect: dialect) == filter, "\(text)")
        let typed = try ODataWriter(dialect, schema: table.schema).filter(filter)
        #expect(try ODataParser.filter(typed, dialect: dialect) == filter, "\(typed)")

        let checked = try checker.filter(filter)
        let evaluated = rows.filter(Filter(checked).matches).map(\.id)
        let loose = try table.ids(table.renderer.condition(checked))
        #expect(loose == evaluated, "\(text)")
        let strict = try table.ids(table.renderer.strictCondition(checked))
        #expect(strict == evaluated, "\(text)")
        return evaluated.count
    }

    /// A request has no default values for null, because only the device knows them.
    @Test("A column with a default for null is written as the column alone")
    func aColumnWithADefaultIsTheColumnInText() throws {
        let filled = QueryExpression(.orElse(QueryExpression(.field("i1")), 7))
        let low = QueryExpression(.compare(.lt, filled, QueryExpression(.value(9))))
        #expect(try ODataWriter(.v4).filter(low) == "i1 lt 9")
        let high = QueryExpression(.compare(.gt, QueryExpression(.negate(filled)), filled))
        let text = try ODataWriter(.v4).filter(QueryExpression(.not(high)))
        #expect(text == "not(-(i1) gt i1)")
    }

    @Test(
        "Columns with a default for null give the same results in memory and in SQLite",
        arguments: seeds
    )
    func columnsWithADefaultAgree(seed: UInt64) throws {
        for unit in FilterRenderer.DateUnit.allCases {
            var generator = FilterGenerator(
                random: SeededGenerator(seed: seed),
                dialect: .v4,
                unit: unit
            )
            let stored = (10..<34).map { generator.row($0) }
            let table = try TestTable(FilterGenerator.schema, stored, unit: unit)
            let rows = stored.map(\.onWire)
            let checker = FilterChecker(schema: table.schema, now: Self.now)
            let values = table.schema.columns.compactMap { column -> (String, Value)? in
                let value = rows.compactMap { $0[column.name] }.first { !$0.isNull }
                return value.map { (column.name, $0) }
            }
            let defaults = Dictionary(uniqueKeysWithValues: values)
            func filled(_ expression: QueryExpression) -> QueryExpression {
                expression.replacing { kind in
                    guard case .field(let name) = kind, let value = defaults[name] else {
                        return nil
                    }
                    return .orElse(QueryExpression(kind), value)
                }
            }
            let whole = rows.map { row in
                var row = row
                for (name, value) in defaults where row[name]?.isNull != false {
                    row[name] = value
                }
                return row
            }
            for _ in 0..<200 {
                let filter = try checker.filter(generator.condition(3))
                let evaluated = whole.filter(Filter(filter).matches).map(\.id)
                let asked = try checker.filter(filled(filter))
                #expect(rows.filter(Filter(asked).matches).map(\.id) == evaluated)
                let condition = table.renderer.condition(asked)
                #expect(try table.ids(condition) == evaluated, "\(condition.text(for: .sqlite))")
                let strict = table.renderer.strictCondition(asked)
                #expect(try table.ids(strict) == evaluated, "\(strict.text(for: .sqlite))")
                let keys = generator.order()
                let sorted = RowOrder(try checker.order(keys)).sorted(whole).map(\.id)
                let filledKeys = try checker.order(
                    keys.map { SortKey(filled($0.expression), ascending: $0.isAscending) }
                )
                #expect(RowOrder(filledKeys).sorted(rows).map(\.id) == sorted)
                let order = table.renderer.orderBy(filledKeys)
                #expect(
                    try table.ids("1", orderBy: order) == sorted,
                    "\(order.text(for: .sqlite))"
                )
            }
        }
    }

    @Test("Random orders and keysets give the same rows in memory and in SQLite", arguments: seeds)
    func ordersAndKeysetsAgree(seed: UInt64) throws {
        for unit in FilterRenderer.DateUnit.allCases {
            var generator = FilterGenerator(
                random: SeededGenerator(seed: seed),
                dialect: .v4,
                unit: unit
            )
            let stored = (10..<34).map { generator.row($0) }.shuffled(using: &generator.random)
            let table = try TestTable(FilterGenerator.schema, stored, unit: unit)
            let rows = stored.map(\.onWire)
            for _ in 0..<60 {
                let checker = FilterChecker(schema: table.schema, now: Self.now)
                let keys = try checker.order(generator.order())
                let sorted = RowOrder(keys).sorted(rows).map(\.id)
                let order = table.renderer.orderBy(keys)
                #expect(try table.ids("1", orderBy: order) == sorted, "\(order.text(for: .sqlite))")
                let place = generator.random.below(rows.count)
                let row = rows.first { $0.id == sorted[place] }!
                let keyset = KeysetRenderer(table.renderer, order: keys)
                let values = keyset.values(of: row)
                let rest = Array(sorted[(place + 1)...])
                let condition = keyset.condition(after: values)
                let found = try table.ids(condition, orderBy: order)
                #expect(found == rest, "\(condition.text(for: .sqlite))")
                let after = Filter(keyset.expression(after: values))
                #expect(Set(rows.filter(after.matches).map(\.id)) == Set(rest))
            }
        }
    }
}
