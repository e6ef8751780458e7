// Merging compared with a model: several writers with old versions, random columns, printed seeds.

import Foundation
import ServerTestSupport
import Testing
import TidelineCore
import TidelineServerCore

@Suite struct MergeModelTests {
    private static let columns = 5

    private static let table = TableDefinition(
        "T",
        columns: (0..<columns).map { ColumnDefinition("c\($0)", .integer, default: 0) },
        conflict: .merge
    )

    private struct Version {
        var tag: String
        var values: [Int]
    }

    /// The expected outcome of a write, computed in another way: sets of changed columns.
    private static func merged(_ mine: [Int?], _ base: [Int], _ theirs: [Int]) -> [Int]? {
        let ours = Set(mine.indices.filter { mine[$0] != nil && mine[$0] != base[$0] })
        let others = Set(theirs.indices.filter { theirs[$0] != base[$0] })
        guard ours.intersection(others).allSatisfy({ mine[$0] == theirs[$0] }) else { return nil }
        return theirs.indices.map { index in
            ours.contains(index) ? mine[index] ?? theirs[index] : theirs[index]
        }
    }

    @Test("A merge has the outcome that the model predicts", arguments: 1...40)
    func agreesWithTheModel(_ seed: Int) async throws {
        var dice = Dice(UInt64(seed))
        var limits = ServerLimits()
        limits.mergeBases = 6
        let server = try await TestServer([Self.table], limits: limits)
        let created = await server.send("POST", "/tables/T", #"{"id":"a"}"#)
        var history = [
            Version(
                tag: created.headers["ETag"] ?? "",
                values: Array(repeating: 0, count: Self.columns)
            )
        ]
        for step in 0..<60 {
            let begun = history[max(0, history.count - 1 - dice.roll(9))]
            let isPut = dice.roll(3) == 0
            var mine: [Int?] = begun.values.map { isPut || dice.roll(3) == 0 ? $0 : nil }
            for _ in 0..<dice.roll(3) { mine[dice.roll(Self.columns)] = dice.roll(3) }
            let members = mine.enumerated().compactMap { index, value in
                value.map { #""c\#(index)":\#($0)"# }
            }
            let answer = await server.send(
                isPut ? "PUT" : "PATCH",
                "/tables/T/a",
                "{" + members.joined(separator: ",") + "}",
                classic: dice.roll(2) == 0,
                headers: ["If-Match": begun.tag]
            )
            let last = history[history.count - 1]
            let age = history.count - 1 - (history.firstIndex { $0.tag == begun.tag } ?? 0)
            let expected = age > 6 ? nil : Self.merged(mine, begun.values, last.values)
            let values = (0..<Self.columns).map { answer.row["c\($0)"] as? Int ?? -1 }
            let context = "seed \(seed), step \(step): \(answer.text)"
            #expect(answer.status == (expected == nil ? 412 : 200), "\(context)")
            #expect(values == expected ?? last.values, "\(context)")
            let tag = answer.headers["ETag"] ?? ""
            if age > 0, values == last.values { #expect(tag == last.tag, "\(context)") }
            if tag != last.tag { history.append(Version(tag: tag, values: values)) }
        }
    }
}
