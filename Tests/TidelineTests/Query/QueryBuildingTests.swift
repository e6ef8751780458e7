// QueryBuildingTests: closures and predicates build the same tree.

import Foundation
import Testing
import Tideline
import TidelineCore

/// A condition as a closure and as a predicate, and the tree that both have to build.
struct BothForms: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var closure: @Sendable (Columns<Chore>) throws -> Condition
    var predicate: Predicate<Chore>

    init(
        _ name: String,
        _ closure: @escaping @Sendable (Columns<Chore>) throws -> Condition,
        _ predicate: Predicate<Chore>
    ) {
        testDescription = name
        self.closure = closure
        self.predicate = predicate
    }
}

private let noon = Date(timeIntervalSince1970: 1_700_000_000)
private let key = UUID()
private let names = ["ann", "bob"]

private let forms: [BothForms] = [
    BothForms("bare", { $0.complete }, #Predicate { $0.complete }),
    BothForms(
        "and",
        { !$0.complete && $0.text.contains("milk") },
        #Predicate { !$0.complete && $0.text.contains("milk") }
    ),
    BothForms(
        "flat",
        { $0.complete && $0.rank > 1 && $0.rank < 9 },
        #Predicate { $0.complete && $0.rank > 1 && $0.rank < 9 }
    ),
    BothForms(
        "or",
        { $0.complete || $0.rank >= 1 || $0.rank <= -9 },
        #Predicate { $0.complete || $0.rank >= 1 || $0.rank <= -9 }
    ),
    BothForms("eq", { $0.text == "x" }, #Predicate { $0.text == "x" }),
    BothForms("ne", { $0.rank != 3 }, #Predicate { $0.rank != 3 }),
    BothForms("nil", { $0.owner == nil }, #Predicate { $0.owner == nil }),
    BothForms("not nil", { $0.due != nil }, #Predicate { $0.due != nil }),
    BothForms("optional", { $0.owner == "me" }, #Predicate { $0.owner == "me" }),
    BothForms("false", { $0.complete == false }, #Predicate { $0.complete == false }),
    BothForms("columns", { $0.text == $0.id }, #Predicate { $0.text == $0.id }),
    BothForms("date", { $0.start < noon }, #Predicate { $0.start < noon }),
    BothForms("uuid", { $0.key == key }, #Predicate { $0.key == key }),
    BothForms("prefix", { $0.text.hasPrefix("m") }, #Predicate { $0.text.starts(with: "m") }),
    BothForms("in", { $0.text.isIn(names) }, #Predicate { names.contains($0.text) }),
    BothForms("in 2", { names.contains($0.text) }, #Predicate { names.contains($0.text) }),
    BothForms("range", { (1...5).contains($0.rank) }, #Predicate { (1...5).contains($0.rank) }),
    BothForms(
        "open range",
        { (1..<5).contains($0.rank) },
        #Predicate { (1..<5).contains($0.rank) }
    ),
    BothForms("count", { $0.text.count > 3 }, #Predicate { $0.text.count > 3 }),
    BothForms("empty", { $0.text.isEmpty }, #Predicate { $0.text.isEmpty }),
    BothForms("sum", { $0.rank + 1 > 3 }, #Predicate { $0.rank + 1 > 3 }),
    BothForms("product", { $0.price * 2.5 - 1 >= 3 }, #Predicate { $0.price * 2.5 - 1 >= 3 }),
    BothForms("quotient", { $0.rank / 2 == 3 }, #Predicate { $0.rank / 2 == 3 }),
    BothForms("real quotient", { $0.price / 2 == 3 }, #Predicate { $0.price / 2 == 3 }),
    BothForms("rest", { $0.rank % 2 == 0 }, #Predicate { $0.rank % 2 == 0 }),
    BothForms("negative", { -$0.rank > 3 }, #Predicate { -$0.rank > 3 }),
    BothForms(
        "localized",
        { $0.text.localizedStandardContains("Milk") },
        #Predicate { $0.text.localizedStandardContains("Milk") }
    ),
    BothForms("instead", { ($0.owner ?? "x") == "me" }, #Predicate { ($0.owner ?? "x") == "me" }),
    BothForms("flag", { $0.flag ?? true }, #Predicate { $0.flag ?? true }),
    BothForms("false flag", { $0.flag ?? false }, #Predicate { $0.flag ?? false }),
    BothForms(
        "other column",
        { ($0.owner ?? $0.text).hasPrefix("m") || $0.complete },
        #Predicate { ($0.owner ?? $0.text).starts(with: "m") || $0.complete }
    ),
    BothForms(
        "optional chain",
        { $0.owner != nil && $0.owner.contains("a") },
        #Predicate { $0.owner?.contains("a") == true }
    ),
    BothForms(
        "optional chain or false",
        { $0.owner != nil && $0.owner.contains("a") },
        #Predicate { $0.owner?.contains("a") ?? false }
    ),
    BothForms(
        "if let",
        { $0.due != nil && $0.due < noon },
        #Predicate { if let due = $0.due { due < noon } else { false } }
    ),
    BothForms(
        "default",
        { ($0.score != nil && $0.score > 3) || ($0.score == nil && Column.literal(1.0) > 3) },
        #Predicate { ($0.score ?? 1) > 3 }
    ),
    BothForms("flag or false", { $0.flag.asCondition }, #Predicate { $0.flag ?? false }),
    BothForms(
        "conditional",
        { ($0.complete && $0.rank > 1) || (!$0.complete && $0.rank > 5) },
        #Predicate { $0.complete ? $0.rank > 1 : $0.rank > 5 }
    ),
]

extension Column where Content == Bool? {
    var asCondition: Condition { map { $0 } }
}

@Test("A closure and a predicate give the same filter tree", arguments: forms)
func bothFormsGiveTheSameTree(_ form: BothForms) throws {
    let coder = try RecordCoder.model(for: Chore.self)
    let fromClosure = try coder.filter(form.closure)
    let fromPredicate = try coder.filter(form.predicate)
    #expect(fromPredicate == fromClosure)
    #expect(fromClosure != nil)
}

private func field(_ name: String) -> QueryExpression { QueryExpression(.field(name)) }
private func value(_ value: Value) -> QueryExpression { QueryExpression(.value(value)) }

private func tree(_ closure: (Columns<Chore>) throws -> Condition) throws -> QueryExpression.Kind? {
    try RecordCoder.model(for: Chore.self).filter(closure)?.expression.kind
}

@Test("Each kind of condition gives its filter tree") func treesAreWhatTheySay() throws {
    #expect(try tree { $0.rank >= 3 } == .compare(.ge, field("rank"), value(3)))
    #expect(try tree { $0.owner == nil } == .compare(.eq, field("owner"), value(.null)))
    #expect(try tree { $0.priority == .high } == .compare(.eq, field("priority"), value("high")))
    #expect(try tree { $0.amount < 3 } == .compare(.lt, field("amount"), value(.decimal(3))))
    #expect(
        try tree { $0.key == key }
            == .compare(.eq, field("key"), value(.string(key.uuidString.lowercased())))
    )
    #expect(
        try tree { $0.due.year == 2026 }
            == .compare(.eq, QueryExpression(.call(.year, [field("due")])), value(2026))
    )
    #expect(
        try tree { $0.owner.isIn(["a", "b"]) } == .isIn(field("owner"), [value("a"), value("b")])
    )
    #expect(
        try tree { $0.text + "!" == "x" }
            == .compare(
                .eq,
                QueryExpression(.call(.concat, [field("text"), value("!")])),
                value("x")
            )
    )
    #expect(
        try tree { $0["other"].hasSuffix("x") } == .call(.endswith, [field("other"), value("x")])
    )
    #expect(
        try tree { $0.score.rounded() > 1 && $0.price.floor() == 2 }
            == .all([
                QueryExpression(
                    .compare(.gt, QueryExpression(.call(.roundAway, [field("score")])), value(1.0))
                ),
                QueryExpression(
                    .compare(.eq, QueryExpression(.call(.floor, [field("price")])), value(2.0))
                ),
            ])
    )
    #expect(
        try tree { $0.text.trimmed().substring(from: 1, length: 2).uppercased() == "AB" } != nil
    )
}

@Test("Constant conditions are folded") func constantsAreFoldedAway() throws {
    let showAll = true
    let hidden = false
    #expect(try tree { _ in .always() } == nil)
    #expect(try tree { showAll || $0.complete } == nil)
    #expect(try tree { hidden || $0.complete } == .field("complete"))
    #expect(try tree { $0.complete && showAll } == .field("complete"))
    #expect(try tree { $0.complete && hidden } == .value(.bool(false)))
    #expect(
        try RecordCoder.model(for: Chore.self).filter(#Predicate { showAll || $0.complete }) == nil
    )
}

@Test("Optional values and columns are compared without unwrapping")
func optionalsAreWrittenAsTheyCome() throws {
    let name: String? = "me"
    let nobody: String? = nil
    #expect(try tree { $0.text == name } == .compare(.eq, field("text"), value("me")))
    #expect(try tree { $0.text == nobody } == .compare(.eq, field("text"), value(.null)))
    #expect(try tree { $0.text != nobody } == .compare(.ne, field("text"), value(.null)))
    #expect(try tree { $0.owner == name } == .compare(.eq, field("owner"), value("me")))
    let (flag, complete) = (field("flag"), field("complete"))
    #expect(try tree { $0.flag && $0.flag } == .all([flag, flag]))
    #expect(try tree { $0.flag && $0.complete } == .all([flag, complete]))
    #expect(try tree { $0.complete && $0.flag } == .all([complete, flag]))
    #expect(try tree { $0.flag || $0.flag } == .any([flag, flag]))
    #expect(try tree { $0.flag || $0.complete } == .any([flag, complete]))
    #expect(try tree { $0.complete || $0.flag } == .any([complete, flag]))
    #expect(try tree { !$0.flag } == .not(flag))
    #expect(try tree { _ in true } == nil)
    #expect(try tree { _ in false } == .value(.bool(false)))
    #expect(try tree { $0.complete == true } == .compare(.eq, complete, value(true)))
}

@Test("A force-unwrapped column in a predicate is the column itself")
func unwrappingIsTheColumnItself() throws {
    let coder = try RecordCoder.model(for: Chore.self)
    #expect(
        try coder.filter(#Predicate { $0.owner! == "me" }) == coder.filter { $0.owner == "me" }
    )
}

@Test("A predicate reads a property of a captured value")
func predicatesReadMembersOfCapturedValues() throws {
    struct Settings: Codable, Sendable { var name = "me" }
    let settings = Settings()
    let coder = try RecordCoder.model(for: Chore.self)
    #expect(
        try coder.filter(#Predicate { $0.text == settings.name })
            == coder.filter { $0.text == "me" }
    )
}

@Test("A filter for a renamed property uses its column name") func renamedColumnsAreFound() throws {
    let filter = try Filter(for: Renamed.self) { $0.title == "x" }
    #expect(filter.expression.kind == .compare(.eq, field("t"), value("x")))
    #expect(try Filter(#Predicate<Renamed> { $0.title == "x" }) == filter)
}

@Test("An error names the part of a query that cannot be expressed")
func whatCannotBeExpressedIsNamed() throws {
    let coder = try RecordCoder.model(for: Chore.self)
    func message(_ body: () throws -> Void) -> String {
        let error = #expect(throws: SyncError.self) { try body() }
        #expect(error?.code == .unsupportedQuery)
        return error?.message ?? ""
    }
    #expect(message { _ = try coder.filter { $0.computed > 1 } }.contains("computed"))
    #expect(message { _ = try coder.filter { $0.price > .nan } }.contains("finite"))
    #expect(
        message { _ = try coder.filter { $0.price.rounded(.towardZero) > 1 } }.contains("round")
    )
    #expect(message { _ = try coder.filter(#Predicate { $0.computed > 1 }) }.contains("computed"))
    #expect(
        message { _ = try coder.filter(#Predicate { $0.text.caseInsensitiveName > "a" }) }
            .contains("computed")
    )
    #expect(
        message { _ = try coder.filter(#Predicate { $0.text.allSatisfy { _ in true } }) }
            .contains("'allSatisfy'")
    )
    #expect(message { _ = try coder.order([.ascending(\.computed)]) }.contains("computed"))
}

extension String {
    var caseInsensitiveName: String { self }
}

@Test("Sort descriptors and sort terms give the same order")
func ordersComeFromDescriptorsAndTerms() async throws {
    let table = try tasks()
    let ascending = SortKey(column: "text")
    let descending = SortKey(column: "rank", ascending: false)
    let one = try await table.read(
        where: { $0.complete },
        sortedBy: [SortDescriptor(\.text), SortDescriptor(\.rank, order: .reverse)]
    )
    #expect(one.order == [ascending, descending])
    let two = try await table.read(
        where: #Predicate { $0.complete },
        sortedBy: [.ascending(\.text), .descending(\.rank)]
    )
    #expect(two.order == one.order && two.filter == one.filter)
    #expect(try await table.read(sortedBy: [.descending(\.flag)]).order.count == 1)
    #expect(try await table.read(sortedBy: [SortDescriptor(\.due)]).order.count == 1)
    #expect(try await table.read().filter == nil)
    #expect(try await table.read { $0.complete }.filter == one.filter)
}

@Test("A query has its filter, order, limit, fields and parameters as values")
func queriesAreValues() throws {
    var query = try Query<Chore>(where: { !$0.complete })
        .sorted(by: .descending(\.rank), .ascending("text"))
        .limited(to: 20, offset: 40)
        .selecting(\.text, \.rank)
    query.parameters["scope"] = "mine"
    query.includesTotalCount = true
    #expect(query.fields == ["id", "text", "rank"])
    #expect(query.limit == 20 && query.offset == 40 && query.order.count == 2)
    #expect(query.table.includesTotalCount && query.parameters == ["scope": "mine"])
    #expect(try Query<Chore>(where: #Predicate { !$0.complete }).filter == query.filter)
    #expect(try Query<Row>(where: { $0["a"] == 1 }).filter != nil)
    #expect(Query<Chore>().filter == nil)
}

/// The limit for the depth of conditions, which recursive functions process.
@Suite struct ConditionDepthTests {
    private func nested(
        _ count: Int,
        _ step: (Column<Int>, Int, Condition) -> Condition
    ) throws -> Filter {
        try Filter(for: Chore.self) { columns in
            var condition = columns.rank == 1
            for index in 0..<count { condition = step(columns.rank, index, condition) }
            return condition
        }
    }

    @Test("A condition with too many nested levels is rejected")
    func aConditionThatIsTooDeepIsRejected() {
        let steps: [(Column<Int>, Int, Condition) -> Condition] = [
            { !$2 },
            { $1.isMultiple(of: 2) ? $0 == $1 || $2 : $0 > -5 && $2 },
            { $1.isMultiple(of: 2) ? $2 || $0 == $1 : $2 && $0 > -5 },
        ]
        for step in steps {
            let error = #expect(throws: SyncError.self) { try nested(100_000, step) }
            #expect(error?.code == .unsupportedQuery)
            #expect(error?.message.contains("levels") == true)
            #expect(throws: Never.self) { try nested(150, step) }
        }
    }

    @Test("A long chain of one operator is one level") func aChainIsOneLevel() throws {
        #expect(try nested(5000) { $2 || $0 == $1 }.parts.count == 5001)
        #expect(throws: Never.self) { try nested(5000) { $0 == $1 && $2 } }
    }
}

extension Filter {
    fileprivate var parts: [QueryExpression] {
        if case .any(let parts) = expression.kind { parts } else { [] }
    }
}
