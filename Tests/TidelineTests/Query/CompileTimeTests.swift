// CompileTimeTests: a dozen queries of six terms, written like those of an app. The test is that this
// file compiles quickly.

import Foundation
import Testing
import Tideline
import TidelineCore

private func filter(_ condition: (Columns<Chore>) throws -> Condition) throws -> Filter {
    try Filter(for: Chore.self, where: condition)
}

@Test("Filters with six terms compile and give distinct trees") func sixTermsCompileFast() throws {
    let day = Date(timeIntervalSince1970: 0)
    let owner: String? = "me"
    let all = [
        try filter {
            !$0.complete && $0.text.contains("milk") && $0.rank >= 3 && $0.owner == nil
                && $0.price < 9.5 && $0.due != nil
        },
        try filter {
            $0.rank == 1 || $0.rank == 2 || $0.rank == 3 || $0.rank == 4 || $0.rank == 5
                || $0.rank == 6
        },
        try filter {
            $0.rank > 1 && $0.rank < 20 && $0.price > 1.5 && $0.price < 20 && $0.score >= 1
                && $0.score <= 3
        },
        try filter {
            $0.text == "a" || $0.text == "b" || $0.owner == "c" || $0.owner == "d"
                || $0.text.hasPrefix("e") || $0.text.hasSuffix("f")
        },
        try filter {
            ($0.rank + 1) * 2 > 10 && $0.rank % 3 == 0 && -$0.rank < 4 && $0.price / 2 > 1
                && $0.price - 1 < 8 && $0.rank - 2 > 0
        },
        try filter {
            $0.due > day && $0.start < day && $0.start.year == 2026 && $0.due.month == 11
                && $0.due.day >= 20 && $0.start.hour < 12
        },
        try filter {
            ($0.complete || $0.rank > 3) && ($0.flag == true || $0.owner != nil)
                && (!$0.complete || $0.price == 0)
        },
        try filter {
            $0.text.lowercased().contains("x") && $0.text.count > 3 && $0.text.uppercased() == "Y"
                && $0.owner.isIn(["a", "b"]) && $0.rank.isIn([1, 2, 3]) && !$0.text.isEmpty
        },
        try filter {
            $0.priority == .high && $0.rank > 0 && $0.amount >= 1 && $0.key != nil
                && $0.complete == false && $0.flag != true
        },
        try filter { $0.flag }, try filter { ($0.flag) },
        try filter {
            $0.text + "!" == "milk!" && $0.text == $0.id && $0.start == $0.start && $0.rank > 1
                && $0.rank < 2 && $0.complete
        },
        try filter {
            $0["a"] == 1 && $0["b"] == "x" && $0["c"] == nil && $0["d"].contains("x")
                && $0["e"] > 2.5 && $0["f"] == true
        },
        try filter {
            $0.score.rounded() > 1 && $0.price.floor() < 3 && $0.price.ceil() > 1
                && $0.text.trimmed() == "x" && $0.owner.count > 1 && $0.rank != 4
        },
        try filter {
            3 < $0.rank && day > $0.start && "x" == $0.text && $0.due < $0.start
                && $0.start >= $0.due && $0.owner == $0.text
        },
        try filter {
            $0.flag && $0.complete && $0.text == owner && !$0.flag && $0.rank > 1
                && ($0.flag || $0.owner == owner)
        },
        try filter {
            ($0.flag ?? true) && ($0.owner ?? "x") == "x" && ($0.due ?? day) < day
                && ($0["rank"] ?? 0) > 3 && ($0.owner ?? $0.text).hasPrefix("m") && $0.rank > 1
        },
    ]
    #expect(Set(all).count == 16)
}

@MainActor
final class Screen {
    var search = "milk"
    let table: SampleTable<Chore>

    init() throws { table = try tasks() }

    func load() async throws -> [TableQuery] {
        let limit = 3
        return [
            try await table.read(where: { $0.text.contains(self.search) && $0.rank < limit }),
            try await table.read { $0.text.contains(self.search) },
            try await table.read(where: { [search] in $0.text == search }),
            try await table.read(
                where: { $0.text == self.search },
                sortedBy: [SortDescriptor(\.text)]
            ),
        ]
    }
}

@Test("The closure of a query captures values of the main actor")
func closuresCaptureWhatIsOnTheMainActor() async throws {
    let queries = try await Screen().load()
    #expect(queries.count == 4)
}
