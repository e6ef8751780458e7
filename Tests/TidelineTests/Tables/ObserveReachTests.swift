// The changes that run an observed query again: those that may change its result, and no other ones.

import Foundation
import Synchronization
import Testing
import Tideline
import TidelineCore
import TidelineTestKit
import TidelineTestSupport

@Suite(.timeLimit(.minutes(10))) struct ObserveReachTests {
    private static let low = Row(["id": "a", "rank": 1])
    private static let high = Row(["id": "b", "rank": 9])

    private func query(_ odata: String) throws -> TableQuery { try Query<Row>(odata: odata).table }

    private func change(_ rows: [(String, Row?)]) -> StoreChange {
        StoreChange([
            "T": .rows(rows.map { StoreChange.ChangedRow(id: $0.0, row: $0.1) })
        ])
    }

    @Test("Only relevant changes run an observed query again")
    func onlyRelevantChangesRunTheQuery() throws {
        let shown: Set = [ItemKey("a")]
        let few = try query("$filter=rank lt 5")
        let put = change([("b", Self.high)])
        #expect(!put.reaches(few, of: "T", shown: shown))
        #expect(!put.reaches(few, of: "U", shown: shown))
        #expect(put.reaches(try query(""), of: "T", shown: shown))
        #expect(put.reaches(try query("$filter=rank gt 5"), of: "T", shown: shown))
        // A shown row has left the result, or is deleted.
        #expect(change([("a", Self.high)]).reaches(few, of: "T", shown: shown))
        #expect(change([("a", nil)]).reaches(few, of: "T", shown: shown))
        #expect(!change([("b", nil)]).reaches(few, of: "T", shown: shown))
        // A row before the window moves the window.
        let window = try query("$filter=rank lt 5&$skip=1&$top=1")
        #expect(change([("b", nil)]).reaches(window, of: "T", shown: shown))
        #expect(StoreChange(all: ["T"]).reaches(few, of: "T", shown: []))
        #expect(!change([]).reaches(few, of: "T", shown: shown))
    }

    @Test("Joined changes cover each other's rows, and too many cover the whole table")
    func changesAreJoined() throws {
        let all = try query("")
        var first = change([("a", Self.low)])
        let second = change([("b", Self.high)])
        #expect(!first.covers(second))
        first.join(second)
        #expect(first.covers(second))
        let few = try query("$filter=rank lt 5")
        #expect(first.reaches(few, of: "T", shown: []))
        var many = change((0..<200).map { ("x\($0)", Self.high) })
        #expect(!many.reaches(few, of: "T", shown: []))
        // Too many changes to be reported one by one.
        many.join(change((0..<200).map { ("y\($0)", Self.high) }))
        #expect(many.reaches(few, of: "T", shown: []) && many.reaches(all, of: "T", shown: []))
    }

    /// The last value of each observer.
    private final class Shown: Sendable {
        let items = Mutex<[Int: [Todo]]>([:])
    }

    @Test(
        "After random changes each observer shows the result of its query",
        arguments: [1, 2, 3] as [UInt64]
    )
    func eachObserverEndsWithTheResultOfItsQuery(seed: UInt64) async throws {
        try await withTemporaryFile { path in
            let device = try await Device(ScriptedTransport(), store: SQLiteStore(path: path))
            let todos = try device.todos()
            let texts = [
                "", "$filter=rank lt 5", "$filter=rank ge 5 and complete eq false",
                "$filter=rank eq null", "$filter=contains(text,'3')&$top=2",
                "$orderby=rank desc,id&$top=3", "$orderby=text&$skip=2&$top=2",
                "$filter=not complete&$orderby=rank", "$filter=updatedAt gt now()",
            ]
            let queries = try texts.map { try Query<Todo>(odata: $0) }
            let shown = Shown()
            let watching = Task {
                await withTaskGroup { group in
                    for (index, query) in queries.enumerated() {
                        group.addTask {
                            do {
                                for try await items in todos.observe(query) {
                                    shown.items.withLock { $0[index] = items }
                                }
                            } catch {
                                Issue.record(error)
                            }
                        }
                    }
                }
            }
            defer { watching.cancel() }
            var random = SeededGenerator(seed: seed)
            for step in 0..<150 {
                let id = "r\(Int.random(in: 0..<12, using: &random))"
                var todo = Todo(id: id, text: "t\(step)")
                todo.complete = Bool.random(using: &random)
                todo.rank =
                    Bool.random(using: &random) ? Int.random(in: 0..<10, using: &random) : nil
                switch Int.random(in: 0..<4, using: &random) {
                case 0: try await todos.delete(id: id)
                case 1 where step % 10 == 0:
                    try await todos.purge(where: { $0.rank == 3 }, force: true)
                default:
                    if try await todos.read(id: id) == nil {
                        try await todos.insert(todo)
                    } else {
                        try await todos.update(id: id) {
                            ($0.text, $0.rank, $0.complete) = (todo.text, todo.rank, todo.complete)
                        }
                    }
                }
            }
            for (index, query) in queries.enumerated() {
                let wanted = try await todos.read(query).items
                try await until { shown.items.withLock { $0[index] } == wanted }
            }
        }
    }
}
