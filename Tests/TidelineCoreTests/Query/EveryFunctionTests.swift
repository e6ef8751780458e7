// EveryFunctionTests: each function of the query language works everywhere, and is documented.

import Foundation
import Testing
import TidelineCore
import TidelineTestKit

@Suite struct EveryFunctionTests {
    /// A condition that calls a function, and the ids of the rows of `FunctionFactTests` that it matches.
    struct Example {
        var filter: QueryExpression
        var ids: [String]
        /// The dialects that have the function.
        var dialects: [ODataDialect] = [.v3, .v4]
    }

    /// Returns the example of a function, without which a new function does not compile.
    static func example(of function: Function) throws -> Example {
        switch function {
        case .contains: try example("contains(s1,'pha')", "1")
        case .localizedContains:
            Example(
                filter: QueryExpression(
                    .call(
                        .localizedContains,
                        [QueryExpression(.field("s1")), QueryExpression(.value("ÁLPHA"))]
                    )
                ),
                ids: ["1"],
                dialects: []
            )
        case .localizedCaseInsensitiveContains:
            Example(
                filter: QueryExpression(
                    .call(
                        .localizedCaseInsensitiveContains,
                        [QueryExpression(.field("s1")), QueryExpression(.value("ALPHA"))]
                    )
                ),
                ids: ["1"],
                dialects: []
            )
        case .startswith: try example("startswith(s1,'Al')", "1")
        case .endswith: try example("endswith(s1,'A')", "2")
        case .matchesPattern: try example("matchesPattern(s1,'^Al')", "1")
        case .length: try example("length(s1) eq 7", "1")
        case .indexof: try example("indexof(s1,'a') eq 3", "2")
        case .substring: try example("substring(s1,1,2) eq 'lp'", "1")
        case .replace: try example("replace(s1,'a','o') eq 'Alpho 7'", "1")
        case .tolower: try example("tolower(s1) eq 'alpha 7'", "1")
        case .toupper: try example("toupper(s1) eq 'ALPHA 7'", "1")
        case .trim: try example("trim(concat(s1,' ')) eq 'Alpha 7'", "1")
        case .concat: try example("concat(s1,'!') eq 'Alpha 7!'", "1")
        case .year: try example("year(t1) eq 2021", "1")
        case .month: try example("month(t1) eq 3", "1")
        case .day: try example("day(t1) eq 20", "2 4")
        case .hour: try example("hour(t1) eq 20", "2 4")
        case .minute: try example("minute(t1) eq 17", "2")
        case .second: try example("second(t1) eq 22", "4")
        case .totaloffsetminutes: try example("totaloffsetminutes(t1) eq 0", "1 2 4")
        case .fractionalseconds: try example("fractionalseconds(t1) eq 0.12", "1")
        case .date: try example("date(t1) eq 2021-03-05", "1")
        case .time: try example("time(t1) eq 20:17:40", "2")
        case .floor: try example("floor(n1) eq -3", "2")
        case .ceiling: try example("ceiling(n1) eq 3", "1")
        case .round: try example("round(n1) eq 2", "1", [.v4])
        case .roundAway: try example("round(n1) eq 3", "1", [.v3])
        case .now: try example("t1 lt now()", "1 2")
        case .cast: try example("cast(i1,Edm.String) eq '5'", "1")
        case .isof: try example("isof(i1,Edm.Byte)", "1")
        case .has: try example("e1 has 'low'", "1")
        }
    }

    private static func example(
        _ text: String,
        _ ids: String,
        _ dialects: [ODataDialect] = [.v3, .v4]
    ) throws -> Example {
        Example(
            filter: try ODataParser.filter(text, dialect: dialects[dialects.count - 1]),
            ids: ids.split(separator: " ").map(String.init),
            dialects: dialects
        )
    }

    private static func checked(_ example: Example) throws -> QueryExpression {
        let checker = FilterChecker(schema: FilterGenerator.schema, now: FunctionFactTests.now)
        return try checker.filter(example.filter)
    }

    @Test(
        "A function has the same result in memory, in SQLite and as text",
        arguments: Function.allCases
    )
    func formsAgree(function: Function) throws {
        let example = try Self.example(of: function)
        try #require(example.filter.calls(function))
        for dialect in [ODataDialect.v3, .v4] {
            guard example.dialects.contains(dialect) else {
                #expect(throws: ODataError.self) {
                    try ODataWriter(dialect).filter(example.filter)
                }
                continue
            }
            let text = try ODataWriter(dialect).filter(example.filter)
            #expect(try ODataParser.filter(text, dialect: dialect) == example.filter, "\(text)")
        }
        let filter = try Self.checked(example)
        let rows = FunctionFactTests.rows
        #expect(rows.filter(Filter(filter).matches).map(\.id) == example.ids)
        for unit in FilterRenderer.DateUnit.allCases {
            let table = try TestTable(FilterGenerator.schema, rows, unit: unit)
            #expect(try table.ids(table.renderer.condition(filter)) == example.ids)
            #expect(try table.ids(table.renderer.strictCondition(filter)) == example.ids)
        }
    }

    @Test(
        "A condition on null is false, and any other function of null is null",
        arguments: Function.allCases
    )
    func nulls(function: Function) throws {
        var arguments = [Value](repeating: .null, count: function.arity.upperBound)
        if function == .cast || function == .isof { arguments[1] = "Edm.String" }
        let wanted: Value = function.isCondition ? false : .null
        #expect(ScalarFunctions.apply(function, arguments) == wanted)
    }

    #if !ONLY_CLIENT
    @Test(
        "PostgreSQL and the evaluator together find the same rows",
        .enabled(if: PostgresCluster.reasonToSkip == nil, "PostgreSQL is not installed")
    )
    func postgresAgrees() throws {
        let table = try PostgresTestTable(FilterGenerator.schema, FunctionFactTests.rows)
        for function in Function.allCases {
            let example = try Self.example(of: function)
            let filter = try Self.checked(example)
            #expect(try table.ids(filter) == example.ids, "\(function)")
            #expect(try table.ids(filter, strict: true) == example.ids, "\(function)")
        }
    }
    #endif

    @Test("Random filters use every function that a request can contain")
    func generatorIsComplete() {
        var called: Set<Function> = []
        for (dialect, seed) in [(ODataDialect.v3, UInt64(1)), (.v4, 2)] {
            var generator = FilterGenerator(
                random: SeededGenerator(seed: seed),
                dialect: dialect,
                unit: .microseconds
            )
            for number in 0..<1000 {
                let filter = generator.condition(1 + number % 4)
                called.formUnion(Function.allCases.filter(filter.calls))
            }
        }
        #expect(Set(Function.allCases).subtracting(called) == Self.onDevices)
    }

    // MARK: - Lists by name

    /// The functions that only a device evaluates.
    private static let onDevices: Set<Function> = [
        .localizedContains, .localizedCaseInsensitiveContains,
    ]

    /// The names in a request of OData v4.
    private static let names = Function.allCases
        .filter { !onDevices.contains($0) && $0 != .roundAway }.map(\.rawValue)

    private static let operators =
        Comparison.allCases.map(\.rawValue) + Arithmetic.allCases.map(\.rawValue)

    /// Whether the parser knows a function of this name.
    private static func isKnown(_ name: String) -> Bool {
        do {
            _ = try ODataParser.filter("\(name)()", dialect: .v4)
            return true
        } catch {
            return !error.message.contains("unknown function")
        }
    }

    @Test("protocol.md lists each function and operator, and no other function")
    func protocolIsComplete() throws {
        let lines = try ProjectFile.text("docs/protocol.md").split(separator: "\n")
        let start = try #require(lines.firstIndex { $0.hasPrefix("| operators | ") })
        let rows = lines[start...].prefix { $0.hasPrefix("|") }
        var words: Set<Substring> = []
        for row in rows {
            let code = row.split(separator: "`", omittingEmptySubsequences: false).enumerated()
                .filter { !$0.offset.isMultiple(of: 2) }.map(\.element)
            for piece in code { words.formUnion(piece.split { !$0.isLetter }) }
            guard ["| text |", "| time |", "| numbers |"].contains(where: row.hasPrefix) else {
                continue
            }
            for name in code.map({ $0.prefix(while: \.isLetter) }) {
                #expect(Self.isKnown(String(name)), "protocol.md lists \(name)")
            }
        }
        for name in Self.names + Self.operators {
            #expect(words.contains(name[...]), "\(name) is missing in protocol.md")
        }
    }

    @Test("The dashboard completes each function and operator, and no other function")
    func completionIsComplete() throws {
        let script = try ProjectFile.text("Sources/TidelineDashboard/Page/filter.js")
        func list(_ name: String) throws -> [String] {
            let start = try #require(script.range(of: "const \(name) = [")).upperBound
            let end = try #require(script[start...].range(of: "];")).lowerBound
            return script[start..<end].split(separator: "'", omittingEmptySubsequences: false)
                .enumerated().filter { !$0.offset.isMultiple(of: 2) }.map { String($0.element) }
        }
        let functions = try list("functions").map { String($0.prefix(while: \.isLetter)) }
        let words = try list("words")
        for name in Self.names + Self.operators {
            #expect(functions.contains(name) || words.contains(name), "\(name) is not completed")
        }
        for name in functions { #expect(Self.isKnown(name), "\(name) is completed") }
    }
}
